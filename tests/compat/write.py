"""Writes the checkpoints that a commit leaves to all later ones. With the code of that commit, and these files beside it:

    git worktree add /tmp/old COMMIT && mkdir -p /tmp/old/tests/compat && cp tests/compat/*.py /tmp/old/tests/compat/
    cd /tmp/old && PYTHONPATH=. python -m tests.compat.write [case ...]
    cp -r /tmp/old/tests/compat/*/ <here>/tests/compat/

Each lands in ``tests/compat/<commit>/<case>.tar.gz``. What is kept is never written anew.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

from tests.compat import kafka, values
from tests.compat.cases import CASES, Case
from tests.compat.kept import HERE, Visible, pack, place_of, write_manifest
from tests.compat.outline import Outline
from tests.servers.kafka_broker import KafkaBroker
from tests.servers.kafka_reading import read_topic
from tests.unit.taskmanager.runtime.collecting import committed, worlds
from tests.unit.taskmanager.runtime.in_process import Completed, InProcessJob
from tidegate.model.checkpoint import Alignment, OperatorSnapshot
from tidegate.store.segments import open_segment_source
from tidegate.taskmanager.state.files.segments import read_elements

PARALLELISM, RATE = 2, 1_500.0
UNCONFIRMED = 10
"""So many checkpoints are enough for a commit to be over."""


def write(name: str, case: Case, archive: Path, place: Path, servers: str = "") -> None:
    with tempfile.TemporaryDirectory(prefix="tg-") as path:
        directory = Path(path)
        shared = directory / "attempt-0" / "shared"
        case.prepare(place)
        outline = Outline(f"written-{name}", PARALLELISM, RATE, place, case.configuration, servers)
        alignment = Alignment.UNALIGNED if case.is_unaligned else Alignment.ALIGNED
        job = InProcessJob(case.build(outline).build(), directory, alignment=alignment)
        if case.incremental:
            shared.mkdir(parents=True)
            job.shared_location = str(shared)
        job.start()
        job.checkpoint_until(lambda: case.is_ready(outline))
        latest = _kept(case, job)
        job.cut_off()
        write_manifest(job.built.graph, latest, case.snapshot)
        named = _shared_files(latest)
        for file in shared.glob("*"):
            if str(file) not in named:
                file.unlink()
        pack(archive, Path(latest.location), shared, place, _visible(outline))
    sys.stdout.write(f"{archive.relative_to(HERE)}: {archive.stat().st_size} bytes\n")


def _kept(case: Case, job: InProcessJob) -> Completed:
    """Not confirmed, so that what a sink has pending waits for its commit; what is visible is not among it."""
    while not all(task.ended for task in job.tasks.values()):
        confirmed = job.checkpoint().checkpoint_id
        for _ in range(UNCONFIRMED):
            latest = job.checkpoint(confirm=False)
            if _is_wanted(case, latest, confirmed):
                return latest
    raise AssertionError("the job came to its end before there was such a checkpoint")


def _is_wanted(case: Case, completed: Completed, confirmed: int) -> bool:
    parts = _parts(completed)
    source = open_segment_source(completed.location)
    pending = [
        msgspec.msgpack.decode(element)[0]
        for part in parts
        for state in part.operator
        if state.state_name == "committables"
        for element in read_elements(source, state, 0, state.elements)
    ]
    return (
        min(pending, default=confirmed + 1) > confirmed
        and (not case.incremental or any(segment.level for part in parts for segment in part.keyed))
        and (not case.is_unaligned or any(part.input_channels for part in parts))
    )


def _visible(outline: Outline) -> Visible:
    prefix = f"{outline.world}-"
    found = {world.removeprefix(prefix): committed(world) for world in worlds() if world.startswith(prefix)}
    if outline.servers:
        found[kafka.TOPIC] = [message.value for message in read_topic(outline.servers, kafka.OUTPUT)]
    return found


def _parts(completed: Completed) -> list[OperatorSnapshot]:
    return [part for ack in completed.acks.values() for part in ack.snapshot.operators.values()]


def _shared_files(completed: Completed) -> set[str]:
    return {handle.path for part in _parts(completed) for handle in part.handles if handle.is_shared}


def main(names: list[str]) -> None:
    commit = subprocess.run(
        ["git", "rev-parse", "--short=7", "HEAD"], capture_output=True, text=True, check=True, cwd=HERE
    ).stdout.strip()
    if not names:
        (HERE / commit).mkdir(exist_ok=True)
        values.write(HERE / commit)
    for name in names or CASES:
        archive = HERE / commit / f"{name}.tar.gz"
        if archive.exists():
            sys.exit(f"{archive} is kept already")
        case = CASES[name]
        with place_of(name) as place:
            if not case.needs_broker:
                write(name, case, archive, place)
                continue
            with KafkaBroker() as broker:
                kafka.fill(broker)
                write(name, case, archive, place, broker.servers)


if __name__ == "__main__":
    main(sys.argv[1:])
