"""Checkpoints that earlier commits wrote: the present code continues their jobs from another directory, at the same and at
another parallelism, to the exact end."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat import kafka, values
from tests.compat.cases import CASES
from tests.compat.kept import HERE, Kept, archives, place_of, unpack
from tests.compat.outline import RELEASED, Outline
from tests.servers.kafka_broker import KafkaBroker
from tests.unit.taskmanager.runtime.in_process import InProcessJob
from tidegate.connectors.kafka import publisher

KEPT = {f"{path.parent.name}-{path.name.removesuffix('.tar.gz')}": path for path in archives()}
PLAIN = [name for name, path in KEPT.items() if not CASES[path.name.removesuffix(".tar.gz")].needs_broker]
WITH_BROKER = sorted(set(KEPT) - set(PLAIN))


@pytest.fixture(autouse=True)
def free() -> Iterator[None]:
    """Nothing holds the restored job back."""
    RELEASED.set()
    yield
    RELEASED.clear()


def restored(
    name: str, directory: Path, place: Path, parallelism: int, servers: str = ""
) -> tuple[InProcessJob, Outline]:
    case = CASES[KEPT[name].name.removesuffix(".tar.gz")]
    location, visible = unpack(KEPT[name], directory, place)
    outline = Outline(f"{name}-{parallelism}", parallelism, None, place, case.configuration, servers, visible)
    built = case.build(outline).build()
    kept = Kept.read(location, built)
    job = InProcessJob(built, directory, kept, 1, first_checkpoint=1000)
    if case.incremental:
        job.shared_location = str(directory / "shared")
    return job, outline


@pytest.mark.parametrize("parallelism", [2, 3, 1])
@pytest.mark.parametrize("name", PLAIN)
def test_a_kept_checkpoint_goes_on_to_the_exact_end(name: str, parallelism: int) -> None:
    case = KEPT[name].name.removesuffix(".tar.gz")
    with place_of(case) as place, tempfile.TemporaryDirectory(prefix="tg-") as path:
        job, outline = restored(name, Path(path), place, parallelism)
        job.start()
        job.finish()
        CASES[case].check(outline)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", WITH_BROKER)
def test_a_kept_checkpoint_of_kafka_goes_on_while_its_markers_would_be_there_and_is_refused_afterwards(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with KafkaBroker() as broker, place_of("kafka") as place, tempfile.TemporaryDirectory(prefix="tg-") as path:
        kafka.fill(broker)
        monkeypatch.setattr(publisher, "is_too_old", lambda epoch, now_ms: True)
        job, outline = restored(name, Path(path) / "old", place, 2, broker.servers)
        job.start_failing()
        job.until(lambda: job.is_over, "the job fails", failing=True)
        refusals = [error.message for error in job.errors if error.code == "corrupt-data"]
        assert refusals
        assert all("markers are kept for" in text and "without this operator's state" in text for text in refusals)
        monkeypatch.setattr(publisher, "is_too_old", lambda epoch, now_ms: False)
        job, outline = restored(name, Path(path), place, 3, broker.servers)
        job.start()
        job.finish()
        kafka.check(outline)


@pytest.mark.parametrize("path", sorted(HERE.glob(f"*/{values.FILE}")), ids=lambda path: path.parent.name)
def test_values_in_pickled_state_are_found_where_they_are_now(path: Path) -> None:
    assert {name: repr(value) for name, value in values.read(path).items()} == {
        name: repr(value) for name, value in values.VALUES.items()
    }


def test_every_case_is_kept_since_some_commit() -> None:
    assert {path.name.removesuffix(".tar.gz") for path in KEPT.values()} == set(CASES)
    assert sum(path.stat().st_size for path in KEPT.values()) < 1_000_000, "small ones are enough"
