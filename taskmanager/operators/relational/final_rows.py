"""Emits the rows that a changelog leaves at the end of the input, sorted or not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa

from tidegate.functions.sql.changelog import INSERT, adds
from tidegate.functions.sql.rows import Change, Row
from tidegate.model.channel_events import END_OF_TIME
from tidegate.plan.specs import SortField
from tidegate.records.canonical.forms import canonical_keys
from tidegate.taskmanager.operators.relational.ranks import sort_key
from tidegate.taskmanager.operators.relational.relational_operator import KeyedChanges, RelationalOperator

_BATCH_ROWS = 4096
"""Rows of an emitted batch: few enough that it is passed on while the next one is made."""


class FinalRows(RelationalOperator):
    """Emits the rows that a changelog leaves at the end of the input, as inserts, followed by the watermark at the end of time (otherwise windows downstream
    would treat them as late).

    ``dealt_by``: the columns by which rows were distributed to subtasks. ``order``: the sort order; none: that of arrival. ``first``, ``last``: the range of
    positions to emit, from 0, ``last`` excluded. ``if_none``: the row to emit if there was no input. State: ``[row, number of its occurrences]`` for each row.
    """

    def __init__(
        self,
        name: str,
        dealt_by: Sequence[int],
        schema: pa.Schema,
        *,
        order: Sequence[SortField] = (),
        first: int = 0,
        last: int | None = None,
        if_none: Row | None = None,
    ) -> None:
        super().__init__(name, [dealt_by], schema)
        self._order = order
        self._first, self._last = first, last
        self._if_none = if_none

    def change(self, state: Any, kind: int, row: Row, input_index: int, out: list[Change]) -> Any:
        count = (0 if state is None else state[1]) + (1 if adds(kind) else -1)
        return [row, count] if count else None

    def on_watermark(self, timestamp_ms: int) -> None:
        if timestamp_ms != END_OF_TIME:
            super().on_watermark(timestamp_ms)

    def finish(self) -> None:
        rows = self._rows()
        if self._order:
            rows = iter(sorted(rows, key=sort_key(self._order, parts_zeros=self._last is None)))
        chosen = self.results(islice(rows, self._first, self._last))
        found = False
        while part := [(INSERT, row) for row in islice(chosen, _BATCH_ROWS)]:
            found = True
            self.emit(part)
        if self._if_none is not None and not found:
            self.emit([(INSERT, self._if_none)])
        super().on_watermark(END_OF_TIME)

    def work(self, batch: KeyedChanges, input_index: int) -> None:
        """Processes a batch in which each row is its own key, in the key group by which it was distributed."""
        batch.keys = canonical_keys(batch.values)
        super().work(batch, input_index)

    def results(self, rows: Iterator[Row]) -> Iterator[Row]:
        """Returns the rows to emit, from the rows that are left in their order."""
        return rows

    def _rows(self) -> Iterator[Row]:
        for _group, _entry, (row, count) in self._state.entries():
            for _ in range(count):
                yield row


__all__ = ["FinalRows"]
