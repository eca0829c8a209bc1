"""Counts, sums and averages of whole numbers after each row of a batch, by arrays.

    rows by key, in their order ─▶ segments ─▶ running totals of each segment, from those of its key before ─▶ results of each row

A segment ends with its key, and where no row of the key is left: what follows begins with nothing. Sums wrap around at 64 bits, which changes no result:
these wrap around in their own type.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Totals: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Places: TypeAlias = npt.NDArray[np.intp]
Kind: TypeAlias = Literal["count", "sum", "sum0", "avg"]
_HALF = 1 << 63
"""Half of the range of 64-bit integers, as they are in Java."""


@dataclass(frozen=True, slots=True)
class RunningCall:
    """A call. ``argument``: the position of its column, ``None``: rows are counted; ``filter``: that of a condition; ``keeps``: rows that are retracted still
    count; ``bits``: of the result's type.
    """

    kind: Kind
    argument: int | None
    filter: int | None
    keeps: bool
    bits: int


@dataclass(frozen=True, slots=True)
class Results:
    """The results of a call, of which some are null."""

    values: Totals
    nulls: Mask

    def column(self, type: pa.DataType) -> pa.Array:
        """Returns the results as a column."""
        return pa.array(self.values, mask=self.nulls).cast(type, safe=False)

    def differs(self, other: Results) -> Mask:
        """Tells for each row whether the results differ."""
        is_same = np.where(self.nulls, other.nulls, ~other.nulls & (self.values == other.values))
        return ~is_same


@dataclass(frozen=True, slots=True)
class RunningTotals:
    """Totals after each row. ``rows``: of its key; by call ``sums`` and ``counts`` of values that are not null."""

    rows: Totals
    sums: Sequence[Totals]
    counts: Sequence[Totals]

    def at(self, places: Places) -> RunningTotals:
        """Returns the totals after some rows."""
        return RunningTotals(self.rows[places], [s[places] for s in self.sums], [c[places] for c in self.counts])


class Segments:
    """The order in which rows are added up. ``key_of``: the number of each row's key; ``adds``: whether it is added or retracted; ``before``: the number of
    rows of each key.
    """

    def __init__(self, key_of: Places, adds: Mask, before: Totals) -> None:
        self.order = np.argsort(key_of, kind="stable")
        self.keys = key_of[self.order]
        count = len(key_of)
        first = np.ones(count, np.bool_)
        np.not_equal(self.keys[1:], self.keys[:-1], out=first[1:])
        self._signs = np.where(adds[self.order], np.int64(1), np.int64(-1))
        begins = np.flatnonzero(first)
        totals = np.cumsum(self._signs)
        bases = before[self.keys[begins]] - (totals[begins] - self._signs[begins])
        self.rows = totals + np.repeat(bases, np.diff(begins, append=count))
        after_none = first.copy()
        after_none[1:] |= self.rows[:-1] == 0
        self._begins = np.flatnonzero(after_none)
        self._sizes = np.diff(self._begins, append=count)
        self.is_first = first
        """Whether a row is the first one of its key."""
        self.is_new = after_none & np.where(first, before[self.keys] == 0, True)
        """Whether there is no row of the key before a row."""
        self.lasts = np.append(begins[1:], count) - 1
        """The last row of each key, in the order of keys."""

    @property
    def are_consistent(self) -> bool:
        """Whether no row is retracted that was not added."""
        return bool((self.rows >= 0).all())

    def running(self, values: Totals, before: Totals) -> Totals:
        """Returns totals after each row. ``values``: of each row in its place, 0 where it does not count; ``before``: totals of each key."""
        mine = values[self.order] * self._signs
        totals = np.cumsum(mine)
        starts = np.where(self.is_new[self._begins], 0, before[self.keys[self._begins]])
        found: Totals = totals + np.repeat(starts - (totals[self._begins] - mine[self._begins]), self._sizes)
        return found


class RunningAggregates:
    """Calls that arrays compute. The accumulators are those of ``CompiledAggregates``."""

    def __init__(self, calls: Sequence[RunningCall]) -> None:
        self._calls = calls

    def held(self, accumulators: Sequence[Any]) -> RunningTotals:
        """Returns the totals of accumulators; ``None`` stands for an empty one."""
        empty: Any = [0, [[0] if call.kind == "count" else [0, 0] for call in self._calls]]
        held = [empty if found is None else found for found in accumulators]
        each = [[found[1][number] for found in held] for number in range(len(self._calls))]
        return RunningTotals(
            np.array([found[0] for found in held], np.int64),
            [np.array([_wrapped(acc[0]) for acc in accs], np.int64) for accs in each],
            [np.array([acc[-1] for acc in accs], np.int64) for accs in each],
        )

    def accumulators(self, running: RunningTotals) -> list[Any]:
        """Returns totals as accumulators."""
        parts = [
            [[total] for total in counts.tolist()]
            if call.kind == "count"
            else list(map(list, zip(sums.tolist(), counts.tolist(), strict=True)))
            for call, sums, counts in zip(self._calls, running.sums, running.counts, strict=True)
        ]
        inner = map(list, zip(*parts, strict=True)) if parts else ([] for _ in running.rows)
        return [[rows, accs] for rows, accs in zip(running.rows.tolist(), inner, strict=True)]

    def run(self, data: pa.RecordBatch, segments: Segments, adds: Mask, before: RunningTotals) -> RunningTotals:
        """Returns the totals after each row, in the order of the segments. ``before``: of each key."""
        sums, counts = [], []
        for call, held, held_counts in zip(self._calls, before.sums, before.counts, strict=True):
            counted = np.ones(data.num_rows, np.bool_)
            if call.filter is not None:
                counted &= np.asarray(pc.fill_null(data.column(call.filter), False))
            if call.keeps:
                counted &= adds
            if call.argument is not None and data.column(call.argument).null_count:
                counted &= np.asarray(data.column(call.argument).is_valid())
            total = segments.running(counted.astype(np.int64), held_counts)
            counts.append(total)
            if call.kind == "count":
                sums.append(total)
                continue
            assert call.argument is not None
            values = np.asarray(pc.fill_null(data.column(call.argument), 0)).astype(np.int64)
            sums.append(segments.running(np.where(counted, values, 0), held))
        return RunningTotals(segments.rows, sums, counts)

    def results(self, running: RunningTotals) -> list[Results]:
        """Returns the results for totals."""
        return [
            _result(call, sums, counts)
            for call, sums, counts in zip(self._calls, running.sums, running.counts, strict=True)
        ]


def _result(call: RunningCall, sums: Totals, counts: Totals) -> Results:
    if call.kind == "count":
        return Results(counts, np.zeros(len(counts), np.bool_))
    is_empty = counts == 0
    if call.kind == "avg":
        divisors = np.where(is_empty, 1, counts)
        quotients = sums // divisors  # toward minus infinity; Java's is toward zero
        return Results(quotients + ((quotients * divisors != sums) & ((sums < 0) != (divisors < 0))), is_empty)
    wrapped = sums if call.bits == 64 else sums.astype(f"i{call.bits // 8}").astype(np.int64)
    if call.kind == "sum0":
        return Results(np.where(is_empty, 0, wrapped), np.zeros(len(counts), np.bool_))
    return Results(wrapped, is_empty)


def _wrapped(value: int) -> int:
    """Wraps a number around at 64 bits."""
    return value if -_HALF <= value < _HALF else (value + _HALF) % (2 * _HALF) - _HALF


__all__ = ["Results", "RunningAggregates", "RunningCall", "RunningTotals", "Segments"]
