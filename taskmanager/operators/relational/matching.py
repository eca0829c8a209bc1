"""Finds the rows that join: equal keys, and a condition."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tidegate.functions.sql.changelog import INSERT
from tidegate.functions.sql.rows import Row, batch_of
from tidegate.functions.sql.scalar import CompiledFilter


class Matcher:
    """Finds the rows of one side that join with a row of the other. ``join_keys``: pairs of positions that must be equal, of which those in ``routed`` are
    equal already; ``filter_nulls``: for each pair, whether null equals nothing. ``condition``: a further condition over rows of ``joined``.
    """

    def __init__(
        self,
        join_keys: Sequence[tuple[int, int]],
        routed: Sequence[tuple[int, int]],
        filter_nulls: Sequence[bool],
        condition: CompiledFilter | None,
        joined: pa.Schema,
    ) -> None:
        strict = [pair for pair, is_strict in zip(join_keys, filter_nulls, strict=True) if is_strict]
        self._strict = [[pair[side] for pair in strict] for side in (0, 1)]
        self._beyond = [pair for pair in join_keys if pair not in routed]
        self._condition = condition
        self._joined = joined

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
