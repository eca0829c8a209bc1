"""Generators of watermarks, of splits and of streams; idle splits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.taskmanager.operators.harness import Running, spec, start
from tidegate.common import Duration, Row, Types
from tidegate.common.watermark_strategy import Watermark, WatermarkGenerator, WatermarkOutput, WatermarkStrategy
from tidegate.connectors.base import Polled, ReaderContext, Source, SourceReader, Split, SplitState, SplitTimes
from tidegate.model.errors import InvalidJob, UserFunctionError
from tidegate.records.batch import MIN_TIMESTAMP, ArrowBatch, RecordsBatch
from tidegate.taskmanager.operators.sources.source import SourceOperator


class AtMarks(WatermarkGenerator):
    """A watermark behind each record that is a mark (its time ends with 0)."""

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        if event_timestamp % 10 == 0:
            output.emit_watermark(Watermark(event_timestamp))

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Only with records."""


class Counting(WatermarkGenerator):
    """Every interval the number of records so far; idle when there were three."""

    def __init__(self) -> None:
        self.count = 0

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        assert event_timestamp == MIN_TIMESTAMP
        self.count += 1

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        if self.count == 3:
            output.mark_idle()
        else:
            output.emit_watermark(self.count)


def assigning(strategy: WatermarkStrategy, kind: Any = None) -> Running:
    return start(
        spec("timestamps_watermarks", input_types=(kind or Types.LONG(),), options={"strategy": strategy}), now_ms=0
    )


def told(one: Running) -> list[Any]:
    """Batches and watermarks in their order."""
    batches, watermarks = iter(one.out.batches), iter(one.out.watermarks)
    found: list[Any] = []
    for kind in one.out.order:
        if kind == "watermark":
            found.append(next(watermarks))
        else:
            batch = next(batches)
            found.append(batch.values if isinstance(batch, RecordsBatch) else batch.data["x"].to_pylist())
    return found


def test_a_watermark_of_a_record_leaves_right_behind_it() -> None:
    strategy = WatermarkStrategy.for_generator(AtMarks).with_timestamp_assigner(lambda value, old: value)
    one = assigning(strategy)
    one.feed([1, 10, 3, 30, 20, 31])
    one.feed([32, 40])
    assert told(one) == [[1, 10], 10, [3, 30], 30, [20, 31], [32, 40], 40]
    assert one.out.stamps() == [1, 10, 3, 30, 20, 31, 32, 40]


def test_a_generator_works_on_columns_too() -> None:
    kind = Types.SCHEMA(pa.schema([("x", pa.int64())]))
    one = assigning(WatermarkStrategy.for_generator(AtMarks), kind)
    data = pa.record_batch({"x": [1, 2, 3]})
    one.operator.process(ArrowBatch(data, pa.array([5, 10, 12])), 0)
    assert told(one) == [[1, 2], 10, [3]]


def test_periodic_watermarks_of_a_generator_and_its_idleness() -> None:
    one = assigning(WatermarkStrategy.for_generator(Counting))
    one.feed([7, 7])
    one.timers.advance_to(200)
    assert one.out.watermarks == [2]
    one.feed([7])
    one.timers.advance_to(400)
    assert (one.out.watermarks, one.out.idle) == ([2], [True])
    one.feed([7])
    one.timers.advance_to(600)
    assert (one.out.watermarks, one.out.idle) == ([2, 4], [True, False])


def test_what_is_no_generator_is_told() -> None:
    with pytest.raises(InvalidJob, match="each split gets one of its own"):
        WatermarkStrategy.for_generator(Counting())  # type: ignore[arg-type]
    with pytest.raises(InvalidJob, match="which is not a WatermarkGenerator"):
        assigning(WatermarkStrategy.for_generator(dict)).feed([1])  # type: ignore[arg-type]
    with pytest.raises(UserFunctionError, match="AttributeError"):
        assigning(WatermarkStrategy.for_generator(AtMarks).with_timestamp_assigner(lambda v, _: v.at)).feed([1])


class Parts(SourceReader):
    """Emits what the test puts in."""

    times: SplitTimes | None = None

    def __init__(self) -> None:
        self.parts: list[Polled] = []

    def open(self, splits: Sequence[SplitState]) -> None:
        self.splits = list(splits)

    def poll(self) -> Polled | None:
        return self.parts.pop(0) if self.parts else None

    def advance(self, records: int) -> None:
        """Positions do not matter here."""

    def is_finished(self) -> bool:
        return False

    def snapshot_state(self) -> list[SplitState]:
        return self.splits

    def close(self) -> None:
        """Nothing is open."""


class PartsSource(Source):
    def __init__(self) -> None:
        self.reader = Parts()

    def list_splits(self, parallelism: int) -> list[Split]:
        return [Split("a", None), Split("b", None)]

    def make_reader(self, context: ReaderContext) -> SourceReader:
        self.reader.times = context.times
        return self.reader

    def produced_type(self) -> Any:
        return Types.LONG()


def reading(strategy: WatermarkStrategy) -> tuple[Running, Parts]:
    source = PartsSource()
    options = {"source": source, "splits": tuple(source.list_splits(1)), "watermark_strategy": strategy}
    one = start(spec("source", output_type=Types.ROW([Types.LONG()]), options=options), now_ms=0)
    return one, source.reader


def poll(one: Running, reader: Parts, split: str, *values: int) -> None:
    reader.parts.append(Polled(RecordsBatch([Row(value) for value in values]), split))
    assert isinstance(one.operator, SourceOperator)
    one.operator.poll_next(100)


def test_each_split_has_a_generator_of_its_own() -> None:
    strategy = WatermarkStrategy.for_generator(AtMarks).with_timestamp_assigner(lambda row, _: row[0])
    one, reader = reading(strategy)
    poll(one, reader, "a", 20)
    poll(one, reader, "b", 5)
    assert one.out.watermarks == [], "b has been assigned from the start"
    poll(one, reader, "b", 10, 50)
    poll(one, reader, "a", 30)
    assert one.out.watermarks == [10, 20, 30]


def test_an_idle_split_holds_the_others_not_back() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda row, _: row[0])
    one, reader = reading(strategy.with_idleness(Duration.of_seconds(1)))
    poll(one, reader, "b", 5)
    for step in range(1, 9):
        poll(one, reader, "a", 100 * step)
        one.timers.advance_to(200 * step)
    assert one.out.idle == []
    assert one.out.watermarks[0] == 4
    assert one.out.watermarks[-1] == 799
    poll(one, reader, "b", 850)
    poll(one, reader, "a", 900)
    one.timers.advance_to(2000)
    assert one.out.watermarks[-1] == 849


def test_a_source_with_splits_that_it_has_not_begun_is_not_idle() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda row, _: row[0])
    one, reader = reading(strategy.with_idleness(Duration.of_seconds(1)))
    assert reader.times is not None
    assert reader.times.expected("b") is None
    assert reader.times.expected("a", RecordsBatch([Row(7)])) == 7
    assert isinstance(one.operator, SourceOperator)
    one.operator.poll_next(100)
    one.timers.advance_to(5000)
    assert (one.out.idle, one.out.watermarks) == ([], [])
    poll(one, reader, "b", 5)
    one.timers.advance_to(5200)
    assert one.out.watermarks == [4]
    poll(one, reader, "a", 7)
    one.operator.poll_next(100)
    one.timers.advance_to(9000)
    assert one.out.idle == [True]


def test_a_split_that_is_found_later_holds_event_time_from_then_on() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda row, _: row[0])
    one, reader = reading(strategy)
    poll(one, reader, "a", 5)
    poll(one, reader, "b", 5)
    assert reader.times is not None
    reader.times.assigned("c")
    for split in "ab":
        poll(one, reader, split, 50)
    one.timers.advance_to(400)
    assert one.out.watermarks == []
    poll(one, reader, "c", 20)
    one.timers.advance_to(800)
    assert one.out.watermarks[-1] == 19


def test_readers_of_sources_without_watermarks_need_not_tell_of_splits() -> None:
    _, reader = reading(WatermarkStrategy.no_watermarks().with_timestamp_assigner(lambda row, _: row[0]))
    assert reader.times is None
