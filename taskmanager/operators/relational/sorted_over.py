"""OVER aggregates of a changelog in an order that is not time (Flink: ``NonTimeRangeUnboundedPrecedingFunction.java``,
``NonTimeRowsUnboundedPrecedingFunction.java``).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tidegate.functions.sql.aggregates import CompiledAggregates
from tidegate.functions.sql.changelog import DELETE, UPDATE_AFTER, UPDATE_BEFORE, adds
from tidegate.functions.sql.rows import Change, Row
from tidegate.plan.specs import SortField
from tidegate.taskmanager.operators.relational.ranks import sort_key
from tidegate.taskmanager.operators.relational.relational_operator import KEEP, RelationalOperator


class SortedOver(RelationalOperator):
    """Emits each row with the aggregates over the rows up to it. An added or removed row changes the results of the rows after it.

    State: ``[row, results]`` for each row of a partition in its order, rows of equal rank in the order of arrival. ``is_rows``: ROWS; otherwise RANGE, where
    rows of equal rank have the same results. ``constants``: arguments of the aggregates, appended to the fields of a row.
    """

    def __init__(
        self,
        name: str,
        partition: Sequence[int],
        aggregates: CompiledAggregates,
        schema: pa.Schema,
        *,
        order: Sequence[SortField],
        is_rows: bool,
        constants: Row,
        ttl_ms: int,
    ) -> None:
        super().__init__(name, [partition], schema, ttl_ms)
        self._aggregates = aggregates
        self._sort_key = sort_key(order)
        self._is_rows = is_rows
        self._constants = constants

    def change(self, state: Any, kind: int, row: Row, input_index: int, out: list[Change]) -> Any:
        entries: list[list[Any]] = state or []
        key = self._sort_key(row)
        end = bisect_right(entries, key, key=self._key_of)
        if adds(kind):
            entries.insert(end, [row, None])
            self._revalue(entries, out, new=(end, kind))
            return entries
        at = next((at for at in range(end) if entries[at][0] == row), None)
        if at is None:
            return KEEP
        gone = entries.pop(at)
        self._revalue(entries, out, gone=(at, (DELETE, row + gone[1])))
        return entries or None

    def _key_of(self, entry: list[Any]) -> Any:
        return self._sort_key(entry[0])

    def _revalue(
        self,
        entries: list[list[Any]],
        out: list[Change],
        *,
        new: tuple[int, int] | None = None,
        gone: tuple[int, Change] | None = None,
    ) -> None:
        """Computes the aggregates again and emits the changes. ``new``: position and kind of an added row. ``gone``: position of a removed row, and the change
        to emit for it.
        """
        values = self._values(entries)
        for at, (entry, now) in enumerate(zip(entries, values, strict=True)):
            if gone is not None and at == gone[0]:
                out.append(gone[1])
            row, before = entry
            entry[1] = now
            if new is not None and at == new[0]:
                out.append((new[1], row + now))
            elif before != now:
                out += [(UPDATE_BEFORE, row + before), (UPDATE_AFTER, row + now)]
        if gone is not None and gone[0] >= len(entries):
            out.append(gone[1])

    def _values(self, entries: Sequence[list[Any]]) -> list[tuple[Any, ...]]:
        aggregates = self._aggregates
        acc = aggregates.create()
        made: list[tuple[Any, ...]] = []
        start = 0
        while start < len(entries):
            key = self._key_of(entries[start])
            end = start + 1 if self._is_rows else bisect_right(entries, key, start, key=self._key_of)
            for row, _ in entries[start:end]:
                aggregates.change(acc, row + self._constants, True)
            made += [aggregates.values(acc)] * (end - start)
            start = end
        return made


__all__ = ["SortedOver"]
