"""A watched directory: one reader finds what is new, and the one that is free reads it. A real job in this process, with the real coordinator."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest

from tests.unit.taskmanager.runtime.collecting import CollectingSink, committed
from tests.unit.taskmanager.runtime.in_process import Completed, InProcessJob
from tests.unit.tidegate.connectors.test_file_monitoring import arrive
from tidegate.common import Types, WatermarkStrategy
from tidegate.connectors.base import Source
from tidegate.connectors.file_source import FileSource
from tidegate.connectors.throttle import ThrottledSource
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.functions.interfaces import MapFunction

INTERVAL_MS = 20
LATER = [f"later {number:02}" for number in range(12)]
LIMIT_S = 60
_SEEN: set[str] = set()
_FIRST_IS_HELD = threading.Event()
_OTHERS_ARE_READ = threading.Event()
BY_LINE = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda line, _: int(line[-2:]))


class HoldTheFirst(MapFunction):
    """Lets the first line pass when every later one was seen: half of those would be behind it if paths said who reads them."""

    def map(self, value: str) -> str:
        if value == "first":
            _FIRST_IS_HELD.set()
            assert _OTHERS_ARE_READ.wait(LIMIT_S), "the reader that stands still was given others"
            return value
        _SEEN.add(value)
        if set(LATER) <= _SEEN:
            _OTHERS_ARE_READ.set()
        return value


def directory_of(tmp_path: Path) -> Path:
    directory = tmp_path / "data"
    directory.mkdir()
    return directory


def watching(directory: Path) -> FileSource:
    return FileSource.for_text(str(directory)).monitor_continuously(INTERVAL_MS)


def of_before(directory: Path) -> Source:
    """As it was before one reader looked for all: each looks for its own, and the state names no subtask."""
    source = ThrottledSource(watching(directory), 1e9)
    source.takes_splits, source.discovery_ms = False, None
    return source


def job_of(
    source: Source,
    tmp_path: Path,
    parallelism: int,
    strategy: WatermarkStrategy | None = None,
    function: MapFunction | None = None,
    restore: Completed | None = None,
) -> InProcessJob:
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(parallelism)
    lines = env.from_source(source, strategy or WatermarkStrategy.no_watermarks(), "lines").uid("lines")
    if function is not None:
        lines = lines.map(function, Types.STRING())
    lines.sink_to(CollectingSink(str(tmp_path))).uid("sink")
    again = restore is not None
    job = InProcessJob(env.build(), tmp_path, restore=restore, attempt=int(again), first_checkpoint=100 if again else 1)
    job.start()
    return job


def lines_of(tmp_path: Path) -> list[str]:
    return sorted(row[0] for row in committed(str(tmp_path)))


def test_new_files_go_past_a_reader_that_stands_still(tmp_path: Path) -> None:
    """Also when that is the one that looks for them."""
    directory = directory_of(tmp_path)
    (directory / "first.txt").write_text("first\n")
    job = job_of(watching(directory), tmp_path, 2, function=HoldTheFirst())
    job.until(_FIRST_IS_HELD.is_set, "one reader stands still: until then it may take more than the first file")
    for line in LATER:
        arrive(directory / f"{line}.txt", f"{line}\n")
    job.until(_OTHERS_ARE_READ.is_set, "the other reader has read what came later")
    job.checkpoint_until(lambda: len(lines_of(tmp_path)) > len(LATER))
    job.cancel()
    assert lines_of(tmp_path) == ["first", *LATER]


@pytest.mark.parametrize("strategy", [None, BY_LINE], ids=["handed out", "with watermarks"])
@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_every_file_is_read_once_across_a_restart(
    parallelism: int, strategy: WatermarkStrategy | None, tmp_path: Path
) -> None:
    directory = directory_of(tmp_path)
    job = job_of(watching(directory), tmp_path, 2, strategy)
    for line in LATER[:6]:
        arrive(directory / f"{line}.txt", f"{line}\n")
    job.checkpoint_until(lambda: len(lines_of(tmp_path)) >= 6)
    for line in LATER[6:9]:
        arrive(directory / f"{line}.txt", f"{line}\n")
    kept = job.checkpoint()
    job.cut_off()
    for line in LATER[9:]:
        arrive(directory / f"{line}.txt", f"{line}\n")
    again = job_of(watching(directory), tmp_path, parallelism, strategy, restore=kept)
    again.checkpoint_until(lambda: len(lines_of(tmp_path)) >= len(LATER))
    again.checkpoint()
    again.cancel()
    assert lines_of(tmp_path) == LATER


@pytest.mark.parametrize("parallelism", [2, 3])
def test_a_savepoint_of_before_one_reader_looked_for_all_goes_on(parallelism: int, tmp_path: Path) -> None:
    directory = directory_of(tmp_path)
    job = job_of(of_before(directory), tmp_path, 2)
    for line in LATER[:6]:
        arrive(directory / f"{line}.txt", f"{line}\n")
    job.checkpoint_until(lambda: len(lines_of(tmp_path)) >= 6)
    kept = job.checkpoint()
    job.cut_off()
    for line in LATER[6:]:
        arrive(directory / f"{line}.txt", f"{line}\n")
    again = job_of(watching(directory), tmp_path, parallelism, restore=kept)
    again.checkpoint_until(lambda: len(lines_of(tmp_path)) >= len(LATER))
    again.checkpoint()
    again.cancel()
    assert lines_of(tmp_path) == LATER


def test_a_directory_that_is_away_for_a_while_is_looked_for_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = directory_of(tmp_path)
    job = job_of(watching(directory), tmp_path, 2)
    arrive(directory / "a.txt", f"{LATER[0]}\n")
    job.checkpoint_until(lambda: lines_of(tmp_path) == LATER[:1])
    with caplog.at_level(logging.WARNING):
        directory.rename(tmp_path / "away")
        job.checkpoint_until(lambda: "could not look for new splits (tried again" in caplog.text)
    (tmp_path / "away").rename(directory)
    arrive(directory / "b.txt", f"{LATER[1]}\n")
    job.checkpoint_until(lambda: len(lines_of(tmp_path)) > 1)
    job.cancel()
    assert lines_of(tmp_path) == LATER[:2]


def test_a_new_file_that_cannot_be_read_fails_the_subtask(tmp_path: Path) -> None:
    """It would not be over when it is tried again, and all others would wait behind it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    directory = directory_of(tmp_path)
    pq.write_table(pa.table({"n": [1]}), directory / "good.parquet")
    job = job_of(FileSource.for_parquet(str(directory)).monitor_continuously(INTERVAL_MS), tmp_path, 1)
    arrive(directory / "bad.parquet", "this is no Parquet")
    job.until(lambda: bool(job.errors), "the subtask fails", failing=True)
    assert "bad.parquet" in job.errors[0].message + job.errors[0].details
    job.join()
