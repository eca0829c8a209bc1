"""Results of many merged accumulators at once, by arrays.

accumulators, those of one result next to each other ─▶ totals of each ─▶ sums and best ranks of each result ─▶ columns
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.functions.sql.aggregates.running import Places, Results, RunningAggregates, RunningTotals, Totals


def merge_all(
    running: RunningAggregates, accumulators: Sequence[Any], begins: Places, types: Sequence[pa.DataType]
) -> tuple[Totals, list[Results]]:
    """Returns for each result its number of rows, and by call the results. ``begins``: where the accumulators of each result begin; ``types``: of the calls'
    results. A result of a distinct call must have one accumulator.
    """
    totals = running.held(accumulators, _without_rows(running, types))
    if len(begins) < len(accumulators):
        parts = zip(totals.sums, totals.ranked, strict=True)
        sums = [
            np.add.reduceat(sums, begins) if ranked is None else np.maximum.reduceat(sums, begins)
            for sums, ranked in parts
        ]
        counts = [np.add.reduceat(found, begins) for found in totals.counts]
        totals = RunningTotals(np.add.reduceat(totals.rows, begins), sums, counts, totals.ranked, totals.seen)
    return totals.rows, running.results(totals)


def _without_rows(running: RunningAggregates, types: Sequence[pa.DataType]) -> pa.RecordBatch:
    """Returns a batch without rows whose columns have the types of the arguments that extremes are among."""
    type_of = {call.argument: type for call, type in zip(running.calls, types, strict=True) if call.is_extreme}
    width = max(running.positions, default=-1) + 1
    columns = [pa.nulls(0, type_of.get(position, pa.null())) for position in range(width)]
    return pa.RecordBatch.from_arrays(columns, names=[str(position) for position in range(width)])


__all__ = ["merge_all"]
