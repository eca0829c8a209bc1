"""Events of functions through ``kill -9`` of the TaskManager that hears of them, with unaligned checkpoints."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.cluster import JOBS, Cluster
from tests.e2e.counts_run import QUICK_RESTART
from tests.e2e.jobs.announcements import EVERY, HEARERS
from tests.e2e.waiting import wait_until

ROWS, RATE = 4_000, 250


def test_events_are_exact_along_the_stream_and_come_against_it_in_every_attempt(
    cluster: Cluster, run_directory: Path
) -> None:
    output, trace = run_directory / "output", run_directory / "trace"
    trace.mkdir()
    arguments = {"rows": ROWS, "rate": RATE, "output": output, "trace": trace}
    watch = cluster.submit(
        JOBS / "announcements.py",
        *[f"--{name}={value}" for name, value in arguments.items()],
        parallelism=HEARERS,
        settings={
            "execution.checkpointing.dir": str(run_directory / "checkpoints"),
            "execution.checkpointing.unaligned.enabled": "true",
            **QUICK_RESTART,
        },
    )

    def have_answered(first_attempt: int) -> bool:
        named = [path.name.split(", subtask ") for path in trace.iterdir()]
        subtasks = {by for attempt, by in named if int(attempt.removeprefix("attempt ")) >= first_attempt}
        return len(subtasks) == HEARERS

    watch.wait_checkpoints(3)
    wait_until(lambda: have_answered(0), 60, "answers of both subtasks")
    killed = watch.wait_running()
    at = cluster.kill9(cluster.task_manager_of(watch, "hear", 0))
    watch.wait_running_again(killed.status.restarts, at, 60)
    wait_until(lambda: have_answered(1), 60, "answers of both subtasks behind the restart")
    watch.wait_finished(120)
    files = [path for path in output.rglob("*") if path.is_file() and not path.name.startswith(".")]
    lines = sorted(line for path in files for line in path.read_text().splitlines())
    values = [f"value {value} {value // EVERY}" for value in range(ROWS)]
    events = [f"event {version} {subtask}" for version in range(ROWS // EVERY) for subtask in range(HEARERS)]
    assert lines == sorted([*values, *events])
