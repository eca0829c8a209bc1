"""Sources of generated rows: `NumberSequenceSource` and `DataGeneratorSource`.

A split is a range of numbers, cut evenly; the position is the next number. What a number generates depends on it alone, so
a replay gives the same rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.common.typeinfo import ArrowTypeInfo, TypeInformation, Types
from tidegate.connectors.base import Polled, ReaderContext, Source, SourceReader, Split, SplitState, SplitTimes
from tidegate.model.errors import InvalidJob, SchemaMismatch
from tidegate.model.whole_numbers import whole_number
from tidegate.records.batch import ArrowBatch, Batch

BATCH_ROWS = 65536
"""How many rows a batch has: the most of a frame."""

Generate = Callable[[int, int], pa.RecordBatch]
"""Generates rows: ``generate(first, count)`` returns those of the numbers ``first`` to ``first + count - 1``."""


def ranges(start: int, end: int, parts: int) -> list[Split]:
    """Splits the numbers from ``start`` to ``end`` (both inclusive) into at most ``parts`` ranges, whose sizes differ by one at most. The id of a split
    is its range, so it means the same in every listing."""
    total = end - start + 1
    parts = min(parts, max(total, 1))
    cuts = [start + total * index // parts for index in range(parts + 1)]
    return [Split(f"{first}-{after - 1}", [first, after]) for first, after in pairwise(cuts) if after > first]


class NumberSequenceSource(Source):
    """A source of the whole numbers from ``start`` to ``end``, both inclusive, as int64; several splits in parallel, each in order. Its batches are
    Arrow, with one column ``value``."""

    bounded = True

    def __init__(self, start: int, end: int) -> None:
        start, end = (whole_number(bound, "a bound of a number sequence") for bound in (start, end))
        if end < start:
            raise InvalidJob(f"a number sequence must not end ({end}) before it starts ({start})")
        self._start = start
        self._end = end

    def list_splits(self, parallelism: int) -> list[Split]:
        return ranges(self._start, self._end, parallelism)

    def make_reader(self, context: ReaderContext) -> SourceReader:
        return RangeReader(_numbers, None, BATCH_ROWS, times=context.times)

    def produced_type(self) -> TypeInformation:
        return Types.LONG()


class DataGeneratorSource(Source):
    """A source of ``count`` generated rows: ``generate(first, count) -> pa.RecordBatch`` makes those of the numbers ``first`` to ``first + count - 1``,
    which must depend on the numbers alone. ``rows_per_second`` limits the total rate, divided among the subtasks."""

    bounded = True

    def __init__(
        self,
        generate: Generate,
        count: int,
        rows_per_second: float | None = None,
        schema: pa.Schema | None = None,
        batch_rows: int = BATCH_ROWS,
    ) -> None:
        count, batch_rows = (
            whole_number(count, "the rows of a generator"),
            whole_number(batch_rows, "the rows of a batch"),
        )
        if count < 1 or batch_rows < 1:
            raise InvalidJob(
                f"a generator needs at least one row, and at least one row per batch (count {count}, batch {batch_rows})"
            )
        if rows_per_second is not None and rows_per_second <= 0:
            raise InvalidJob(f"rows_per_second must be positive: {rows_per_second}")
        self._generate = generate
        self._count = count
        self._rows_per_second = rows_per_second
        self._schema = schema if schema is not None else generate(0, 1).schema
        self._batch_rows = batch_rows

    def list_splits(self, parallelism: int) -> list[Split]:
        return ranges(0, self._count - 1, parallelism)

    def make_reader(self, context: ReaderContext) -> SourceReader:
        share = None if self._rows_per_second is None else self._rows_per_second / context.parallelism
        return RangeReader(_checked(self._generate, self._schema), share, self._batch_rows, times=context.times)

    def produced_type(self) -> TypeInformation:
        return ArrowTypeInfo(self._schema)


class RangeReader(SourceReader):
    """Reads ranges one after the other, ordered by the event time of their first rows."""

    def __init__(
        self,
        generate: Generate,
        rows_per_second: float | None,
        batch_rows: int,
        clock: Callable[[], float] = time.monotonic,
        times: SplitTimes | None = None,
    ) -> None:
        self._generate = generate
        self._rate = rows_per_second
        self._batch_rows = batch_rows
        self._clock = clock
        self._times = times
        self._splits: list[Split] = []
        self._emitted: list[int] = []  # next number to emit, by split
        self._polled: list[int] = []  # next number to generate
        self._reading = 0
        self._started: float | None = None
        self._rows = 0

    def open(self, states: Sequence[SplitState]) -> None:
        for state in self._in_time(states):
            first, after = state.split.payload
            position = after if state.done else first if state.position is None else int(state.position)
            self._splits.append(state.split)
            self._emitted.append(position)
            self._polled.append(position)

    def poll(self) -> Polled | None:
        self._skip_finished()
        if self._reading == len(self._splits):
            return None
        index = self._reading
        _, after = self._splits[index].payload
        rows = min(self._batch_rows, after - self._polled[index], self._allowed_rows())
        if rows <= 0:
            return None
        data = self._generate(self._polled[index], rows)
        self._polled[index] += rows
        self._rows += rows
        return Polled(ArrowBatch(data), self._splits[index].split_id)

    def advance(self, records: int) -> None:
        self._emitted[self._reading] += records

    def is_finished(self) -> bool:
        return all(at >= split.payload[1] for at, split in zip(self._emitted, self._splits, strict=True))

    def snapshot_state(self) -> list[SplitState]:
        return [
            SplitState(split, at, at >= split.payload[1]) for at, split in zip(self._emitted, self._splits, strict=True)
        ]

    def _in_time(self, states: Sequence[SplitState]) -> list[SplitState]:
        """Sorts several splits of a subtask, as after a restore at a lower parallelism, by the event time of their first rows."""
        times, todo = self._times, [state for state in states if not state.done]
        if times is None or len(todo) < 2:
            return list(states)
        at = {state.split.split_id: times.expected(state.split.split_id, self._first_row(state)) or 0 for state in todo}
        return sorted(states, key=lambda state: at.get(state.split.split_id, 0))

    def _first_row(self, state: SplitState) -> Batch:
        first, _ = state.split.payload
        return ArrowBatch(self._generate(first if state.position is None else int(state.position), 1))

    def _skip_finished(self) -> None:
        while (
            self._reading < len(self._splits) and self._emitted[self._reading] >= self._splits[self._reading].payload[1]
        ):
            self._reading += 1

    def _allowed_rows(self) -> int:
        """Returns how many rows the rate allows by now. Fewer than two milliseconds' worth wait for more, since each batch has a cost of its own."""
        if self._rate is None:
            return self._batch_rows
        now = self._clock()
        if self._started is None:
            self._started = now
        due = int((now - self._started) * self._rate) + 1 - self._rows
        return min(due, max(1, int(self._rate / 100))) if due >= self._rate / 500 or not self._rows else 0


def _numbers(first: int, count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(np.arange(first, first + count, dtype=np.int64))], names=["value"])


def _listed(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)


def _checked(generate: Generate, schema: pa.Schema) -> Generate:
    def checked(first: int, count: int) -> pa.RecordBatch:
        data: Any = generate(first, count)
        if not isinstance(data, pa.RecordBatch):
            raise SchemaMismatch(
                f"generator: the function returned a {type(data).__name__} for rows {first} to {first + count - 1}; it must return a pyarrow.RecordBatch"
            )
        if data.num_rows != count or not data.schema.equals(schema):
            raise SchemaMismatch(
                f"generator: the function returned {data.num_rows} rows ({_listed(data.schema)}) for the {count} rows from {first} on; it must return "
                f"{count} rows ({_listed(schema)})"
            )
        return data

    return checked
