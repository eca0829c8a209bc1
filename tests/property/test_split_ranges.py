"""Ranges of generated sources: every number exactly once, whatever the cut and wherever a reader was restored."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tidegate.connectors.base import ReaderContext, SourceReader, SplitState
from tidegate.connectors.number_sequence import NumberSequenceSource, ranges
from tidegate.records.batch import ArrowBatch

CONTEXT = ReaderContext(0, 1, 128, "job", "attempt", "operator")


@given(start=st.integers(-(2**40), 2**40), size=st.integers(1, 10**7), parts=st.integers(1, 300))
def test_splits_cover_the_range_once_and_evenly(start: int, size: int, parts: int) -> None:
    splits = ranges(start, start + size - 1, parts)
    assert [splits[0].payload[0], splits[-1].payload[1]] == [start, start + size]
    assert all(a.payload[1] == b.payload[0] for a, b in pairwise(splits))
    sizes = [after - first for first, after in (s.payload for s in splits)]
    assert len(splits) == min(parts, size)
    assert max(sizes) - min(sizes) <= 1
    assert len({s.split_id for s in splits}) == len(splits)


@given(
    size=st.integers(1, 500),
    parts=st.integers(1, 8),
    steps=st.lists(st.integers(1, 70), max_size=20),
    restores=st.sets(st.integers(0, 19), max_size=5),
)
def test_replay_from_any_position_loses_and_repeats_nothing(
    size: int, parts: int, steps: list[int], restores: set[int]
) -> None:
    source = NumberSequenceSource(1, size)
    states = [SplitState(split) for split in source.list_splits(parts)]
    reader = opened(source, states)
    seen: list[int] = []
    for step, wanted in enumerate(steps):
        polled = reader.poll()
        if polled is None:
            break
        seen += emit(reader, polled.batch, 0, min(wanted, len(polled.batch)))
        if step in restores:
            reader = opened(source, reader.snapshot_state())  # the rest of the batch is read again
        else:
            seen += emit(reader, polled.batch, wanted, len(polled.batch))
    while (polled := reader.poll()) is not None:
        seen += emit(reader, polled.batch, 0, len(polled.batch))
    assert seen == list(range(1, size + 1))
    assert reader.is_finished()


def opened(source: NumberSequenceSource, states: list[SplitState]) -> SourceReader:
    reader = source.make_reader(CONTEXT)
    reader.open(states)
    return reader


def emit(reader: SourceReader, batch: object, first: int, after: int) -> list[int]:
    assert isinstance(batch, ArrowBatch)
    values: list[int] = batch.data.column(0).to_pylist()[first:after]
    reader.advance(len(values))
    return values
