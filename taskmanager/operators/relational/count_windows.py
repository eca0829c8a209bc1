"""Windows of a number of rows (Flink: ``WindowOperator.java`` with ``CountTumblingWindowAssigner`` or ``CountSlidingWindowAssigner``).

The rows of a key are numbered from 0 in their order of arrival, retractions included. Window ``i`` has the ``size`` rows from number ``i * slide`` on, and is
emitted when the last of them has arrived; windows that are not full are never emitted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from tidegate.functions.sql.aggregates import CompiledAggregates
from tidegate.functions.sql.changelog import INSERT, adds
from tidegate.functions.sql.rows import Change, Row
from tidegate.taskmanager.operators.relational.relational_operator import EntriesOfKey, EntriesOperator, Name

_COUNT = ("count",)


class CountWindowAggregate(EntriesOperator):
    """Emits the aggregates of each full window of a key.

    State: by ``("count",)`` the number of rows so far; by ``("window", number)`` the accumulator of a window, or, for functions that need all rows at once, by
    ``("row", number)`` ``(whether it is added, row)``. ``emits_empty``: also emits windows with as many retracted as added rows.
    """

    def __init__(
        self,
        name: str,
        grouping: Sequence[int],
        aggregates: CompiledAggregates,
        schema: pa.Schema,
        *,
        size: int,
        slide: int,
        emits_empty: bool,
    ) -> None:
        super().__init__(name, [grouping], schema)
        self._grouping = grouping
        self._aggregates = aggregates
        self._size, self._slide = size, slide
        self._emits_empty = emits_empty

    def change(self, state: EntriesOfKey, kind: int, row: Row, input_index: int, out: list[Change]) -> Any:
        number = state.get(_COUNT) or 0
        state.put(_COUNT, number + 1)
        ended = number + 1 - self._size
        is_full = ended >= 0 and ended % self._slide == 0
        windows = range(max(0, -(-ended // self._slide)), number // self._slide + 1)
        if not windows:
            return state  # between two windows
        acc = self._kept(state, number, row, adds(kind), windows, is_full=is_full)
        if acc is not None and (self._emits_empty or acc[0] != 0):
            group = tuple([row[position] for position in self._grouping])
            out.append((INSERT, group + self._aggregates.values(acc)))
        return state

    def split(self, whole: Any) -> Iterable[tuple[Name, Any, int | None]]:
        raise AssertionError("the state of count windows was to be split, and is kept by window, never as one value")

    def _kept(self, state: EntriesOfKey, number: int, row: Row, added: bool, windows: range, *, is_full: bool) -> Any:
        """Adds a row to its windows. If it fills the first of them, removes that window and returns its accumulator; otherwise returns ``None``."""
        if self._aggregates.want_all_rows:
            state.put(("row", number), (added, row))
            return self._of_rows(state, windows[0] * self._slide) if is_full else None
        for window in windows:
            acc = state.take(("window", window))
            if acc is None:
                acc = state.begin(("window", window), self._aggregates.create())
            self._aggregates.change(acc, row, added)
        if not is_full:
            return None
        full = state.take(("window", windows[0]))
        state.put(("window", windows[0]), None)
        return full

    def _of_rows(self, state: EntriesOfKey, start: int) -> Any:
        acc = self._aggregates.create()
        for number in range(start, start + self._size):
            added, row = state.get(("row", number))
            self._aggregates.change(acc, row, added)
        for number in range(start, start + min(self._size, self._slide)):
            state.put(("row", number), None)
        return acc


__all__ = ["CountWindowAggregate"]
