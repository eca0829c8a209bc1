"""Counts, the least and the largest values, sums and averages of whole numbers after each row of a batch, by arrays.

    rows by key, in their order ─▶ segments ─▶ running totals of each segment, from those of its key before ─▶ results of each row

A segment ends with its key, and where no row of the key is left: what follows begins with nothing. Sums wrap around at 64 bits, which changes no result:
these wrap around in their own type. The least and the largest value are found among ranks (``ranked.py``). Of a distinct call those rows count whose value is
new for their key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.functions.sql.aggregates.ranked import RankedValues, rank_values
from tidegate.functions.sql.distinct_rows import order_of
from tidegate.functions.sql.rows import values_of

Totals: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Places: TypeAlias = npt.NDArray[np.intp]
Kind: TypeAlias = Literal["count", "sum", "sum0", "avg", "min", "max"]
_HALF = 1 << 63
"""Half of the range of 64-bit integers, as they are in Java."""


@dataclass(frozen=True, slots=True)
class RunningCall:
    """A call. ``argument``: the position of its column, ``None``: rows are counted; ``filter``: that of a condition; ``keeps``: rows that are retracted still
    count; ``bits``: of the result's type; ``distinct``: each value of a key counts once.
    """

    kind: Kind
    argument: int | None
    filter: int | None
    keeps: bool
    bits: int
    distinct: bool = False

    @property
    def is_extreme(self) -> bool:
        """Whether the result is one of the values."""
        return self.kind in ("min", "max")


@dataclass(frozen=True, slots=True)
class Results:
    """The results of a call, of which some are null. ``of``: the values that results are places in; ``None``: they are values themselves."""

    values: Totals
    nulls: Mask
    of: pa.Array | None = None

    def column(self, type: pa.DataType) -> pa.Array:
        """Returns the results as a column."""
        found = pa.array(self.values, mask=self.nulls)
        return found.cast(type, safe=False) if self.of is None else self.of.take(found).cast(type)

    def differs(self, other: Results) -> Mask:
        """Tells for each row whether the results differ."""
        is_same = np.where(self.nulls, other.nulls, ~other.nulls & (self.values == other.values))
        return ~is_same


@dataclass(frozen=True, slots=True)
class RunningTotals:
    """Totals after each row. ``rows``: of its key; by call ``sums``, or ranks of the best value, -1 for none, and ``counts`` of values that are not null;
    instead of ranks the best values themselves, with the count 1, or 0 for none, if there are no ``ranked``.
    Of all keys, by call: ``ranked``, the values of the batch and of the accumulators, and ``seen``, the counts of each value by key.
    """

    rows: Totals
    sums: Sequence[Totals]
    counts: Sequence[Totals]
    ranked: Sequence[RankedValues | None]
    seen: Sequence[Sequence[Any] | None]

    def at(self, places: Places) -> RunningTotals:
        """Returns the totals after some rows."""
        sums, counts = ([each[places] for each in found] for found in (self.sums, self.counts))
        return RunningTotals(self.rows[places], sums, counts, self.ranked, self.seen)


class Segments:
    """The order in which rows are added up. ``key_of``: the number of each row's key; ``adds``: whether it is added or retracted; ``before``: the number of
    rows of each key.
    """

    def __init__(self, key_of: Places, adds: Mask, before: Totals) -> None:
        self.key_of = key_of
        self.order = order_of(key_of, len(before))
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

    def largest(self, ranks: Totals, before: Totals) -> Totals:
        """Returns the largest rank after each row. ``ranks``: of each row in its place, -1 where it does not count; ``before``: of each key, -1 for none."""
        mine = ranks[self.order]
        # ranks of later segments are lifted above those of earlier ones
        lift = np.repeat(np.arange(len(self._begins)), self._sizes) * (int(ranks.max()) + 2)
        starts = np.where(self.is_new[self._begins], -1, before[self.keys[self._begins]])
        found: Totals = np.maximum(np.maximum.accumulate(mine + lift) - lift, np.repeat(starts, self._sizes))
        return found


class RunningAggregates:
    """Calls that arrays compute. The accumulators are those of ``CompiledAggregates``."""

    def __init__(self, calls: Sequence[RunningCall]) -> None:
        self.calls: Final = calls
        self.can_retract = not any(call.distinct for call in calls)
        """Whether rows may be retracted."""
        needed = {position for call in calls for position in (call.argument, call.filter)}
        self.positions = frozenset(position for position in needed if position is not None)
        """Of the columns that are read."""

    def held(self, accumulators: Sequence[Any], data: pa.RecordBatch, *, by_value: bool = False) -> RunningTotals:
        """Returns the totals of accumulators before the rows of ``data`` are added; ``None`` stands for an empty one. ``by_value``: the best one of whole
        numbers is no rank, but itself, with the count 1, or 0 if there is none.
        """
        places = [place for place, found in enumerate(accumulators) if found is not None]
        there = [found for found in accumulators if found is not None]

        def spread(values: Sequence[int]) -> Totals:
            found = np.zeros(len(accumulators), np.int64)
            if values:
                found[places] = _totals(values)
            return found

        sums, counts = [], []
        ranked: list[RankedValues | None] = []
        seen: list[list[Any] | None] = []
        for number, call in enumerate(self.calls):
            accs = [found[1][number] for found in there]
            seen.append(None)
            ranked.append(None)
            if call.distinct:
                seen[-1] = [{} if acc is None else acc[1][number][0] for acc in accumulators]
                accs = [acc[1] for acc in accs]
            if call.is_extreme:
                assert call.argument is not None
                column, best = data.column(call.argument), [acc[0] for acc in accs]
                if by_value and pa.types.is_signed_integer(column.type):
                    sums.append(spread([value or 0 for value in best]))
                    counts.append(spread([int(value is not None) for value in best]))
                    continue
                next_best = iter(best)
                of_all = [None if acc is None else next(next_best) for acc in accumulators]
                order = ranked[-1] = rank_values(column, of_all, ascending=call.kind == "max")
                sums.append(order.held)
                counts.append(order.held)
                continue
            counts.append(spread([acc[-1] for acc in accs]))
            sums.append(counts[-1] if call.kind == "count" else spread([acc[0] for acc in accs]))
        return RunningTotals(spread([found[0] for found in there]), sums, counts, ranked, seen)

    def accumulators(self, totals: RunningTotals) -> list[Any]:
        """Returns the totals of keys as accumulators."""
        parts = [self._accumulators_of(number, call, totals) for number, call in enumerate(self.calls)]
        inner = map(list, zip(*parts, strict=True)) if parts else ([] for _ in totals.rows)
        return [[rows, accs] for rows, accs in zip(totals.rows.tolist(), inner, strict=True)]

    def _accumulators_of(self, number: int, call: RunningCall, totals: RunningTotals) -> list[Any]:
        ranked, seen, sums = totals.ranked[number], totals.seen[number], totals.sums[number]
        if ranked is not None:
            best = values_of(ranked.values.take(pa.array(sums, mask=sums < 0)))
            found: list[Any] = [[value] for value in best]
        elif call.is_extreme:
            of_key = zip(sums.tolist(), totals.counts[number].tolist(), strict=True)
            found = [[value] if count else [None] for value, count in of_key]
        elif call.kind == "count":
            found = [[total] for total in totals.counts[number].tolist()]
        else:
            of_key = zip(sums.tolist(), totals.counts[number].tolist(), strict=True)
            found = [[total, count] for total, count in of_key]
        return found if seen is None else [[counts, acc] for counts, acc in zip(seen, found, strict=True)]

    def run(self, data: pa.RecordBatch, segments: Segments, adds: Mask, before: RunningTotals) -> RunningTotals:
        """Returns the totals after each row, in the order of the segments. ``before``: of each key. Counts of values (``seen``) are changed in place."""
        sums, counts = [], []
        for number, call in enumerate(self.calls):
            held, held_counts, ranked = before.sums[number], before.counts[number], before.ranked[number]
            counted = np.ones(data.num_rows, np.bool_)
            if call.filter is not None:
                counted &= np.asarray(pc.fill_null(data.column(call.filter), False))
            if call.keeps:
                counted &= adds
            if (seen := before.seen[number]) is not None:
                assert call.argument is not None
                counted = count_new_values(data.column(call.argument), segments.key_of, counted, seen)
            if ranked is not None:
                best = segments.largest(np.where(counted, ranked.rows, -1), held)
                sums.append(best)
                counts.append(best)
                continue
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
        return RunningTotals(segments.rows, sums, counts, before.ranked, before.seen)

    def results(self, totals: RunningTotals) -> list[Results]:
        """Returns the results for totals."""
        return [
            _result(call, sums, counts) if ranked is None else Results(sums, sums < 0, ranked.values)
            for call, sums, counts, ranked in zip(self.calls, totals.sums, totals.counts, totals.ranked, strict=True)
        ]


def count_new_values(column: pa.Array, key_of: Places, counted: Mask, seen: Sequence[Any]) -> Mask:
    """Counts the values of rows by key. Returns which rows have a value that their key has not had. ``seen``: the counts by key, which are changed."""
    encoded = column.dictionary_encode("encode")
    forms = [(value,) for value in values_of(encoded.dictionary)]
    rows = np.flatnonzero(counted)
    pairs = key_of[rows] * np.int64(len(forms)) + np.asarray(encoded.indices)[rows]
    found, firsts, times = np.unique(pairs, return_index=True, return_counts=True)
    order = np.argsort(firsts)
    keys, codes = np.divmod(found[order], max(len(forms), 1))
    is_new = []
    for key, code, count in zip(keys.tolist(), codes.tolist(), times[order].tolist(), strict=True):
        counts, form = seen[key], forms[code]
        before = counts.get(form, 0)
        counts[form] = before + count
        is_new.append(not before)
    fresh = np.zeros(len(counted), np.bool_)
    fresh[rows[firsts[order[np.array(is_new, np.bool_)]]]] = True
    return fresh


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


def _totals(values: Sequence[int]) -> Totals:
    """Returns numbers as an array, wrapped around at 64 bits."""
    try:
        return np.array(values, np.int64)
    except OverflowError:
        return np.array([(value + _HALF) % (2 * _HALF) - _HALF for value in values], np.int64)


__all__ = [
    "Mask",
    "Places",
    "Results",
    "RunningAggregates",
    "RunningCall",
    "RunningTotals",
    "Segments",
    "Totals",
    "count_new_values",
]
