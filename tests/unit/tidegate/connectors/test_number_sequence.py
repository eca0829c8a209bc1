"""Generated rows: positions follow what was emitted, a replay gives the same, a rate is kept."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidegate.common import Types
from tidegate.connectors.base import ReaderContext, SourceReader, Split, SplitState
from tidegate.connectors.number_sequence import DataGeneratorSource, NumberSequenceSource, RangeReader, ranges
from tidegate.model.errors import InvalidJob, SchemaMismatch
from tidegate.records.batch import ArrowBatch

CONTEXT = ReaderContext(0, 2, 128, "job", "attempt", "operator")


def rows(first: int, count: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(first, first + count), pa.int64())})


def drain(reader: SourceReader) -> list[int]:
    found: list[int] = []
    while not reader.is_finished():
        polled = reader.poll()
        assert polled is not None
        assert isinstance(polled.batch, ArrowBatch)
        found += polled.batch.data.column(0).to_pylist()
        reader.advance(len(polled.batch))
    return found


def test_splits_are_even_ranges_named_by_themselves() -> None:
    assert ranges(1, 10, 3) == [Split("1-3", [1, 4]), Split("4-6", [4, 7]), Split("7-10", [7, 11])]
    assert [s.split_id for s in ranges(5, 6, 8)] == ["5-5", "6-6"]


def test_reads_all_numbers_in_order() -> None:
    source = NumberSequenceSource(-3, 200_000)
    assert source.produced_type() == Types.LONG()
    reader = source.make_reader(CONTEXT)
    reader.open([SplitState(split) for split in source.list_splits(3)])
    assert drain(reader) == list(range(-3, 200_001))
    assert all(state.done for state in reader.snapshot_state())
    assert reader.poll() is None


def test_position_is_of_what_was_emitted_not_of_what_was_polled() -> None:
    source = NumberSequenceSource(1, 100)
    reader = source.make_reader(CONTEXT)
    reader.open([SplitState(split) for split in source.list_splits(2)])
    polled = reader.poll()
    assert polled is not None
    assert [(s.position, s.done) for s in reader.snapshot_state()] == [(1, False), (51, False)]
    reader.advance(20)
    reader.advance(15)
    states = reader.snapshot_state()
    assert [(s.position, s.done) for s in states] == [(36, False), (51, False)]

    restored = source.make_reader(CONTEXT)
    restored.open(states)
    assert drain(restored) == list(range(36, 101))


def test_finished_splits_stay_and_are_not_read_again() -> None:
    source = NumberSequenceSource(1, 4)
    first, second = source.list_splits(2)
    reader = source.make_reader(CONTEXT)
    reader.open([SplitState(first, 3, True), SplitState(second)])
    assert drain(reader) == [3, 4]
    assert [s.split.split_id for s in reader.snapshot_state()] == ["1-2", "3-4"]


def test_no_splits_is_the_end() -> None:
    reader = NumberSequenceSource(1, 4).make_reader(CONTEXT)
    reader.open([])
    assert reader.is_finished()
    assert reader.poll() is None


def test_generator_makes_batches_of_the_given_size() -> None:
    source = DataGeneratorSource(rows, 10, batch_rows=4)
    assert source.produced_type() == Types.SCHEMA(pa.schema([("n", pa.int64())]))
    reader = source.make_reader(CONTEXT)
    reader.open([SplitState(split) for split in source.list_splits(1)])
    polled = reader.poll()
    assert polled is not None
    assert len(polled.batch) == 4
    reader.advance(4)
    assert drain(reader) == list(range(4, 10))


def test_generator_that_breaks_its_schema_is_named() -> None:
    source = DataGeneratorSource(lambda first, count: rows(first, min(count, 2)), 10, batch_rows=4)
    reader = source.make_reader(CONTEXT)
    reader.open([SplitState(split) for split in source.list_splits(1)])
    with pytest.raises(SchemaMismatch, match="returned 2 rows"):
        reader.poll()


def test_rate_is_kept_by_the_clock() -> None:
    now = [0.0]
    reader = RangeReader(rows, 1000.0, 65536, clock=lambda: now[0])
    reader.open([SplitState(split) for split in ranges(0, 99_999, 1)])
    emitted = 0
    for _ in range(1000):  # 1 ms steps: one second
        while (polled := reader.poll()) is not None:
            emitted += len(polled.batch)
            reader.advance(len(polled.batch))
        now[0] += 0.001
    assert emitted == pytest.approx(1000, abs=2)


@pytest.mark.parametrize(("start", "end"), [(5, 4), (0, 2**63)])
def test_impossible_sequences(start: int, end: int) -> None:
    with pytest.raises(InvalidJob):
        NumberSequenceSource(start, end)
