"""Finds the rows that join: their keys are equal, and a condition holds.

each row of a batch ─▶ all rows of the other side with its key ─▶ pairs ─▶ columns by ``take`` ─▶ the condition, for many pairs at once ─▶ pairs that join
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.functions.sql.changelog import INSERT
from tidegate.functions.sql.rows import Row, array_of_values, batch_of, typed
from tidegate.functions.sql.scalar import CompiledFilter

Places: TypeAlias = npt.NDArray[np.intp]
PAIRS_AT_ONCE = 1 << 16
"""Number of pairs for which the condition is evaluated at once. The pairs of one row are never divided."""


@dataclass(frozen=True, slots=True)
class OtherRows:
    """Rows of the other side: ``rows[i]`` with the key ``k`` for each ``i`` from ``ends[k] - sizes[k]`` to ``ends[k]``. ``key_of``: the key of each row of
    the batch.
    """

    rows: Sequence[Row]
    sizes: Places
    key_of: Places


class Matcher:
    """Finds the rows of one side that join with a row of the other.

    ``join_keys``: pairs of columns that must be equal; those in ``routed`` are equal already, since rows are distributed by them. ``filter_nulls``: for each
    pair, whether null is equal to nothing. ``condition``: a further condition over rows of ``joined``, whose first ``left_width`` columns are those of the left
    side.
    """

    def __init__(
        self,
        join_keys: Sequence[tuple[int, int]],
        routed: Sequence[tuple[int, int]],
        filter_nulls: Sequence[bool],
        condition: CompiledFilter | None,
        joined: pa.Schema,
        left_width: int,
    ) -> None:
        strict = [pair for pair, is_strict in zip(join_keys, filter_nulls, strict=True) if is_strict]
        self._strict = [[pair[side] for pair in strict] for side in (0, 1)]
        self._beyond = [pair for pair in join_keys if pair not in routed]
        self.compares_values = bool(self._beyond)
        """Whether ``pairs`` uses the rows of a batch, not only its columns."""
        self._condition = condition
        self.has_condition = condition is not None
        self._joined = joined
        fields = list(joined)
        self.fields = fields[:left_width], fields[left_width:]
        """For each side: the columns of its rows."""

    def positions(self, row: Row, others: Sequence[Row], side: int = 0) -> list[int]:
        """Returns the indices of the other side's rows that join with a row of a side."""
        if any(row[position] is None for position in self._strict[side]):
            return []
        found = list(range(len(others)))
        for pair in self._beyond:
            value = row[pair[side]]
            found = [at for at in found if others[at][pair[1 - side]] == value]
        if self._condition is None or not found:
            return found
        pairs = [(INSERT, row + others[at] if side == 0 else others[at] + row) for at in found]
        mask = self._condition.evaluate(batch_of(pairs, self._joined)).to_pylist()
        return [at for at, matches in zip(found, mask, strict=True) if matches]

    def columns_of_batch(self, data: pa.RecordBatch, side: int) -> list[pa.Array]:
        """Returns the columns of a batch of a side, with the types of the joined rows."""
        fields = self.fields[side]
        return [typed(column, field.type) for column, field in zip(data.columns[: len(fields)], fields, strict=True)]

    def columns_of_rows(self, rows: Sequence[Row], side: int) -> list[pa.Array]:
        """Converts rows of a side to columns, with the types of the joined rows."""
        fields = self.fields[side]
        columns = zip(*rows, strict=True) if rows else [()] * len(fields)
        return [array_of_values(values, field.type) for values, field in zip(columns, fields, strict=True)]

    def pairs(
        self, mine: Sequence[pa.Array], values: Sequence[Row], others: OtherRows, theirs: Sequence[pa.Array], side: int
    ) -> Iterator[tuple[Places, Places]]:
        """Yields the pairs that join, as two arrays of indices: of rows of a side's batch, in their order, and of rows of the other side.

        ``mine``: the batch's columns. ``values``: its rows. ``theirs``: the other rows' columns, which are used only with a condition.
        """
        begins = (np.cumsum(others.sizes) - others.sizes)[others.key_of]
        return self.pairs_in(mine, values, others.rows, theirs, begins, others.sizes[others.key_of], side)

    def pairs_in(
        self,
        mine: Sequence[pa.Array],
        values: Sequence[Row],
        rows: Sequence[Row],
        theirs: Sequence[pa.Array],
        begins: Places,
        sizes: Places,
        side: int,
    ) -> Iterator[tuple[Places, Places]]:
        """Yields pairs as ``pairs`` does. ``begins``, ``sizes``: which of the other side's rows are compared with each row of the batch."""
        for position in self._strict[side]:
            if mine[position].null_count:
                sizes = np.where(np.asarray(mine[position].is_null()), 0, sizes)
        ends = np.cumsum(sizes)
        first = 0
        while first < len(sizes):
            done = int(ends[first - 1]) if first else 0
            last = max(first + 1, int(np.searchsorted(ends, done + PAIRS_AT_ONCE, "right")))
            count = sizes[first:last]
            if ends[last - 1] > done:
                own = np.repeat(np.arange(first, last), count)
                starts = np.repeat(begins[first:last] - (ends[first:last] - count - done), count)
                joining = self._joining(own, starts + np.arange(len(own)), values, rows, mine, theirs, side)
                if len(joining[0]):
                    yield joining
            first = last

    def _joining(
        self,
        own: Places,
        found: Places,
        values: Sequence[Row],
        rows: Sequence[Row],
        mine: Sequence[pa.Array],
        theirs: Sequence[pa.Array],
        side: int,
    ) -> tuple[Places, Places]:
        """Returns the pairs that satisfy the condition."""
        if self._beyond:
            mask = [
                all(values[left][pair[side]] == rows[right][pair[1 - side]] for pair in self._beyond)
                for left, right in zip(own.tolist(), found.tolist(), strict=True)
            ]
            own, found = own[mask], found[mask]
        if self._condition is None or not len(own):
            return own, found
        parts = [column.take(pa.array(own)) for column in mine], [column.take(pa.array(found)) for column in theirs]
        arrays = [*parts[side], *parts[1 - side]]
        joins = np.asarray(self._condition.evaluate(pa.RecordBatch.from_arrays(arrays, schema=self._joined)))
        return own[joins], found[joins]
