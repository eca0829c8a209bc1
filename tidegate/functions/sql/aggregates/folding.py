"""What the rows of a batch add to the aggregates of each key together, by arrays: for results after the batch, not after each row.

    rows by key ─▶ counts, sums and best values of each key's rows ─▶ with those of its accumulator

All rows are added, and each key has at least one. Whole numbers need no ranks (``ranked.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.functions.sql.aggregates.running import (
    Mask,
    Places,
    RunningAggregates,
    RunningCall,
    RunningTotals,
    Totals,
    count_new_values,
)
from tidegate.functions.sql.distinct_rows import order_of

_LIMITS = np.iinfo(np.int64)


@dataclass(frozen=True, slots=True)
class Folded:
    """The totals of each key before and after its rows. ``lasts``: the last row of each."""

    before: RunningTotals
    after: RunningTotals
    lasts: Places


def fold(running: RunningAggregates, data: pa.RecordBatch, key_of: Places, accumulators: Sequence[Any]) -> Folded:
    """Adds rows to accumulators, of which ``None`` stands for an empty one. ``key_of``: the accumulator of each row. Counts of distinct values are changed in
    place.
    """
    before = running.held(accumulators, data, by_value=True)
    count = len(accumulators)
    sizes = np.bincount(key_of, minlength=count)
    order, ends = order_of(key_of, count), np.cumsum(sizes)
    begins = ends - sizes
    sums: list[Totals] = []
    counts: list[Totals] = []
    for number, call in enumerate(running.calls):
        held, held_counts, ranked, seen = (
            before.sums[number],
            before.counts[number],
            before.ranked[number],
            before.seen[number],
        )
        counted = _counted(data, call)
        if seen is not None:
            column = data.column(call.argument)
            every = np.ones(data.num_rows, np.bool_) if counted is None else counted
            counted = count_new_values(column, key_of, every, seen)
        if ranked is not None:
            ranks = ranked.rows if counted is None else np.where(counted, ranked.rows, -1)
            best = np.maximum(np.maximum.reduceat(ranks[order], begins), held)
            sums.append(best)
            counts.append(best)
            continue
        if call.argument is not None and data.column(call.argument).null_count:
            is_valid = np.asarray(data.column(call.argument).is_valid())
            counted = is_valid if counted is None else counted & is_valid
        times = sizes if counted is None else np.bincount(key_of[counted], minlength=count)
        if call.kind == "count":
            counts.append(held_counts + times)
            sums.append(counts[-1])
            continue
        values = _values(data, call)
        if not call.is_extreme:
            added = values if counted is None else np.where(counted, values, 0)
            sums.append(held + np.add.reduceat(added[order], begins))
            counts.append(held_counts + times)
            continue
        better, worst = (np.maximum, _LIMITS.min) if call.kind == "max" else (np.minimum, _LIMITS.max)
        offered = values if counted is None else np.where(counted, values, worst)
        best = better(better.reduceat(offered[order], begins), np.where(held_counts > 0, held, worst))
        is_there = (times > 0) | (held_counts > 0)
        sums.append(np.where(is_there, best, 0))
        counts.append(is_there.astype(np.int64))
    after = RunningTotals(before.rows + sizes, sums, counts, before.ranked, before.seen)
    return Folded(before, after, order[ends - 1])


def _counted(data: pa.RecordBatch, call: RunningCall) -> Mask | None:
    """Returns the rows that fulfil a call's condition; ``None``: all do."""
    if call.filter is None:
        return None
    condition = data.column(call.filter)
    return np.asarray(pc.fill_null(condition, False) if condition.null_count else condition)


def _values(data: pa.RecordBatch, call: RunningCall) -> Totals:
    """Returns the whole numbers that a call takes, 0 for nulls."""
    column = data.column(call.argument)
    return np.asarray(pc.fill_null(column, 0) if column.null_count else column).astype(np.int64, copy=False)


__all__ = ["Folded", "fold"]
