"""Sources with an enumerator of the user's: real subtasks in threads, over real sockets, and a JobManager that passes events on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.enumerated_numbers import NumbersSource, RangeReader, RangeSplit
from tests.unit.taskmanager.runtime.collecting import CollectingSink, committed
from tests.unit.taskmanager.runtime.in_process import Completed, InProcessJob
from tidegate.common import Time, Types, WatermarkStrategy
from tidegate.common.watermark_strategy import TimestampAssigner
from tidegate.connectors.source import InputStatus, ReaderOutput, SourceOutput, SourceReaderContext
from tidegate.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from tidegate.datastream._graph.job_graph_builder import BuiltJob
from tidegate.datastream.window import TumblingEventTimeWindows
from tidegate.model.checkpoint import Alignment

COUNT, FEW = 1_000, 100


class Unlistable(NumbersSource):
    def ranges(self) -> list[RangeSplit]:
        raise OSError("no such table")


class NumberAsTime(TimestampAssigner):
    def extract_timestamp(self, value: int, record_timestamp: int) -> int:
        return value


def built(world: str, parallelism: int, pause_s: float = 0.0, count: int = COUNT) -> BuiltJob:
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(parallelism)
    numbers = env.from_source(NumbersSource(count, 7, pause_s), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.uid("numbers").sink_to(CollectingSink(world)).uid("sink")
    return env.build()


def numbers_in(world: str) -> list[int]:
    return sorted(row[0] for row in committed(world))


def run_on(world: str, tmp_path: Path, restored: Completed, parallelism: int) -> None:
    job = InProcessJob(built(world, parallelism), tmp_path, restored, attempt=1, first_checkpoint=10)
    job.start()
    job.finish()


def test_every_number_is_read_once(tmp_path: Path) -> None:
    job = InProcessJob(built(str(tmp_path), 3), tmp_path)
    job.start()
    job.finish()
    assert numbers_in(str(tmp_path)) == list(range(COUNT))


def test_a_restart_from_any_checkpoint_reads_every_number_once(tmp_path: Path) -> None:
    job = InProcessJob(built(str(tmp_path), 2, pause_s=0.001), tmp_path)
    job.start()
    completed = job.checkpoint()
    job.checkpoint_until(lambda: len(numbers_in(str(tmp_path))) >= COUNT // 4)
    completed = job.checkpoint()
    job.cut_off()
    run_on(str(tmp_path), tmp_path, completed, 2)
    assert numbers_in(str(tmp_path)) == list(range(COUNT))


def test_at_another_parallelism_too(tmp_path: Path) -> None:
    job = InProcessJob(built(str(tmp_path), 3, pause_s=0.001), tmp_path)
    job.start()
    job.checkpoint_until(lambda: len(numbers_in(str(tmp_path))) >= COUNT // 4)
    completed = job.checkpoint()
    job.cut_off()
    run_on(str(tmp_path), tmp_path, completed, 1)
    assert numbers_in(str(tmp_path)) == list(range(COUNT))


def test_the_readers_are_the_source_and_their_enumerator_is_not(tmp_path: Path) -> None:
    """What a client counts as read is what readers emit."""
    vertices = {vertex.name: vertex.is_source for vertex in built(str(tmp_path), 2).graph.vertices}
    assert vertices == {"Source: numbers (enumerator)": False, "Source: numbers -> Sink: Sink": True}


def test_in_batch_mode_every_number_is_read_once(tmp_path: Path) -> None:
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    numbers = env.from_source(NumbersSource(COUNT, 7), WatermarkStrategy.no_watermarks(), "numbers")
    totals = numbers.key_by(lambda number: number % 2, Types.LONG()).reduce(lambda left, right: left + right)
    totals.sink_to(CollectingSink(str(tmp_path)))
    job = InProcessJob(env.build(), tmp_path)
    job.start()
    job.finish()
    assert numbers_in(str(tmp_path)) == [sum(range(0, COUNT, 2)), sum(range(1, COUNT, 2))]


def test_unaligned_checkpoints_leave_the_edge_of_the_enumerator_aligned(tmp_path: Path) -> None:
    job = InProcessJob(built(str(tmp_path), 2, pause_s=0.001), tmp_path, alignment=Alignment.UNALIGNED)
    job.start()
    job.checkpoint_until(lambda: len(numbers_in(str(tmp_path))) >= COUNT // 4)
    completed = job.checkpoint()
    job.cut_off()
    run_on(str(tmp_path), tmp_path, completed, 3)
    assert numbers_in(str(tmp_path)) == list(range(COUNT))


def test_an_enumerator_that_raises_fails_the_job_with_its_own_words(tmp_path: Path) -> None:
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    numbers = env.from_source(Unlistable(COUNT, 7), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.sink_to(CollectingSink(str(tmp_path)))
    job = InProcessJob(env.build(), tmp_path)
    job.start_failing()
    wanted = "operator 'Source: numbers (enumerator)': OSError: no such table"
    job.until(lambda: wanted in [error.message for error in job.errors], wanted, failing=True)
    job.cut_off()


def test_event_time_is_that_of_the_readers(tmp_path: Path) -> None:
    """Each window has all of its numbers, although ranges are read by whoever asks: a reader without a split holds event time back."""
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    strategy: WatermarkStrategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(NumberAsTime())
    numbers = env.from_source(NumbersSource(COUNT, 7), strategy, "numbers")
    windows = numbers.key_by(lambda number: 0, Types.LONG()).window(TumblingEventTimeWindows.of(Time.milliseconds(100)))
    windows.reduce(lambda left, right: left + right).sink_to(CollectingSink(str(tmp_path)))
    job = InProcessJob(env.build(), tmp_path)
    job.start()
    job.finish()
    assert numbers_in(str(tmp_path)) == [sum(range(first, first + 100)) for first in range(0, COUNT, 100)]


class TwoAtOnce(RangeReader):
    """Reads two splits in turns, the second of which is far ahead, each with a watermark of its own."""

    def __init__(self, context: SourceReaderContext) -> None:
        super().__init__(context, 0)
        self._outputs: dict[str, SourceOutput] = {}
        self._turn = 0

    def start(self) -> None:
        self._context.send_split_request()
        self._context.send_split_request()

    def poll_next(self, output: ReaderOutput) -> InputStatus:
        if not self._no_more and len(self._splits) < 2:
            return InputStatus.NOTHING_AVAILABLE
        if not self._splits:
            return InputStatus.END_OF_INPUT
        for split in self._splits:
            if split.split_id() not in self._outputs:
                self._outputs[split.split_id()] = output.create_output_for_split(split.split_id())
        self._turn = (self._turn + 1) % len(self._splits)
        split = self._splits[self._turn]
        self._outputs[split.split_id()].collect(split.at)
        self._splits[self._turn] = replace(split, at=split.at + 1)
        if split.at + 1 == split.after:
            output.release_output_for_split(split.split_id())
            del self._splits[self._turn]
            self._context.send_split_request()
        return InputStatus.MORE_AVAILABLE


class InTurns(NumbersSource):
    def create_reader(self, reader_context: SourceReaderContext) -> RangeReader:
        return TwoAtOnce(reader_context)


@pytest.mark.parametrize("is_restarted", [False, True])
def test_each_split_that_has_an_output_has_a_watermark(tmp_path: Path, is_restarted: bool) -> None:
    """Nothing is late, although a reader is at 500 in one split while it is at 0 in the other."""

    def made() -> BuiltJob:
        env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        env.get_config().set_auto_watermark_interval(1)
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(NumberAsTime())
        numbers = env.from_source(InTurns(COUNT, COUNT // 2), strategy, "numbers").uid("numbers")
        windows = numbers.key_by(lambda number: 0, Types.LONG())
        sums = (
            windows.window(TumblingEventTimeWindows.of(Time.milliseconds(100))).reduce(lambda a, b: a + b).uid("sums")
        )
        sums.sink_to(CollectingSink(str(tmp_path))).uid("sink")
        return env.build()

    job = InProcessJob(made(), tmp_path)
    job.start()
    if is_restarted:
        completed = job.checkpoint()
        job.cut_off()
        job = InProcessJob(made(), tmp_path, completed, attempt=1, first_checkpoint=10)
        job.start()
    job.finish()
    assert numbers_in(str(tmp_path)) == [sum(range(first, first + 100)) for first in range(0, COUNT, 100)]


def test_events_of_readers_that_get_lost_or_come_twice_change_nothing(tmp_path: Path) -> None:
    job = InProcessJob(built(str(tmp_path), 2, count=FEW), tmp_path)
    job.loses_reader_events = True
    job.start()
    job.finish()
    assert numbers_in(str(tmp_path)) == list(range(FEW))
