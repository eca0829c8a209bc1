"""Finds which rows of a batch can be the first of their partition, by arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.plan.specs import SortField
from tidegate.taskmanager.operators.relational.replacements import Places, RowsByKey, find_earlier_or_later


def leading_rows(data: pa.RecordBatch, order: Sequence[SortField], key_of: Places) -> Places | None:
    """Returns the places of the rows that precede in an order all rows of their partition that came before them, in the order of the batch.

    ``key_of``: the number of each row's partition. ``None``: the order is by a column that is neither of whole numbers nor of times, or has nulls.
    """
    ranks = _ranks(data, order)
    if ranks is None:
        return None
    nothing_held = np.zeros(int(key_of.max()) + 1, np.int64)
    rows = RowsByKey(key_of, nothing_held.astype(np.bool_))
    return np.sort(rows.order[find_earlier_or_later(rows, ranks, nothing_held, is_later=False)])


def _ranks(data: pa.RecordBatch, order: Sequence[SortField]) -> npt.NDArray[np.int64] | None:
    """Returns a number for each row: rows have the order of their numbers, and those with equal numbers have none."""
    columns: list[npt.NDArray[np.int64]] = []
    for field in order:
        column = data.column(field.index)
        if column.null_count or not (pa.types.is_signed_integer(column.type) or pa.types.is_temporal(column.type)):
            return None
        if pa.types.is_temporal(column.type):
            column = column.view(pa.int32() if column.type.bit_width == 32 else pa.int64())
        numbers = np.asarray(column).astype(np.int64, copy=False)
        columns.append(numbers if field.is_ascending else ~numbers)
    if len(columns) == 1:
        return columns[0]
    places = np.lexsort(columns[::-1])
    differs = np.zeros(len(places), np.bool_)
    for ordered in (column[places] for column in columns):
        differs[1:] |= ordered[1:] != ordered[:-1]
    ranks = np.empty(len(places), np.int64)
    ranks[places] = np.cumsum(differs)
    return ranks


__all__ = ["leading_rows"]
