"""A hybrid source in real subtasks: part after part, each record once, whatever checkpoint it goes on from."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.unit.taskmanager.runtime.collecting import CollectingSink, committed
from tests.unit.taskmanager.runtime.in_process import InProcessJob
from tidegate.common import Time, Types, WatermarkStrategy
from tidegate.common.watermark_strategy import TimestampAssigner
from tidegate.connectors.base import Source
from tidegate.connectors.collection import CollectionSource
from tidegate.connectors.file_source import FileSource
from tidegate.connectors.throttle import ThrottledSource
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream._graph.job_graph_builder import BuiltJob
from tidegate.datastream.connectors.hybrid_source import HybridSource, SourceSwitchContext
from tidegate.datastream.window import TumblingEventTimeWindows

FILES, LINES = 12, 40
OF_FILES = [f"{number * LINES + line}" for number in range(FILES) for line in range(LINES)]
LATER = [f"{FILES * LINES + number}" for number in range(300)]
ALL = sorted(map(int, [*OF_FILES, *LATER]))


@pytest.fixture
def files(tmp_path: Path) -> FileSource:
    directory = tmp_path / "files"
    directory.mkdir()
    for number in range(FILES):
        lines = OF_FILES[number * LINES : (number + 1) * LINES]
        (directory / f"{number:02}.txt").write_text("".join(f"{line}\n" for line in lines))
    return FileSource.for_text(str(directory))


def later() -> Source:
    return CollectionSource(LATER, Types.STRING())


def built(source: HybridSource, world: str, parallelism: int) -> BuiltJob:
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(parallelism)
    lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "lines").uid("lines")
    lines.sink_to(CollectingSink(world)).uid("sink")
    return env.build()


def lines_in(world: str) -> list[str]:
    return [row[0] for row in committed(world)]


def numbers_in(world: str) -> list[int]:
    return sorted(map(int, lines_in(world)))


def test_one_part_is_read_after_the_other(files: FileSource, tmp_path: Path) -> None:
    source = HybridSource.builder(files).add_source(later()).build()
    job = InProcessJob(built(source, str(tmp_path), 1), tmp_path)
    job.start()
    job.finish()
    assert lines_in(str(tmp_path)) == [*OF_FILES, *LATER]


@pytest.mark.parametrize(("before", "after"), [(2, 2), (3, 1), (1, 3)])
@pytest.mark.parametrize("seen", [FILES * LINES // 3, FILES * LINES + 30], ids=["in the files", "behind them"])
def test_a_job_goes_on_in_the_part_that_its_checkpoint_holds(
    files: FileSource, tmp_path: Path, seen: int, before: int, after: int
) -> None:
    parts = ThrottledSource(files, 600), ThrottledSource(later(), 600)
    slow = HybridSource.builder(parts[0]).add_source(parts[1]).build()
    job = InProcessJob(built(slow, str(tmp_path), before), tmp_path)
    job.start()
    job.checkpoint_until(lambda: len(numbers_in(str(tmp_path))) >= seen)
    completed = job.checkpoint()
    job.cut_off()
    quick = HybridSource.builder(files).add_source(later()).build()
    job = InProcessJob(built(quick, str(tmp_path), after), tmp_path, completed, attempt=1, first_checkpoint=100)
    job.start()
    job.finish()
    assert numbers_in(str(tmp_path)) == ALL


def test_a_function_makes_a_part_when_the_one_before_it_has_ended(files: FileSource, tmp_path: Path) -> None:
    def made(context: SourceSwitchContext) -> Source:
        assert isinstance(context.get_previous_source(), FileSource)
        return later()

    source = HybridSource.builder(files).add_source(made, bounded=True).add_source(later()).build()
    job = InProcessJob(built(source, str(tmp_path), 2), tmp_path)
    job.start()
    job.finish()
    assert Counter(lines_in(str(tmp_path))) == Counter(OF_FILES) + Counter(LATER + LATER)


class LineAsTime(TimestampAssigner):
    def extract_timestamp(self, value: str, record_timestamp: int) -> int:
        return int(value)


def test_event_time_goes_on_across_the_switch_and_nothing_is_late(files: FileSource, tmp_path: Path) -> None:
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    strategy: WatermarkStrategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(LineAsTime())
    source = HybridSource.builder(files).add_source(later()).build()
    numbers = env.from_source(source, strategy, "lines").map(int, Types.LONG())
    windows = numbers.key_by(lambda number: 0, Types.LONG()).window(TumblingEventTimeWindows.of(Time.milliseconds(20)))
    windows.reduce(lambda left, right: left + right).sink_to(CollectingSink(str(tmp_path)))
    job = InProcessJob(env.build(), tmp_path)
    job.start()
    job.finish()
    expected = [sum(range(first, first + 20)) for first in range(0, len(ALL), 20)]
    assert sorted(row[0] for row in committed(str(tmp_path))) == expected
