"""Aggregates OVER the rows up to the current one (Flink: ``RowTimeRangeUnboundedPrecedingFunction.java`` and its like)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tidegate.functions.sql.aggregates import CompiledAggregates
from tidegate.functions.sql.changelog import INSERT
from tidegate.functions.sql.rows import Change, Row
from tidegate.taskmanager.operators.relational.timed import TimedOperator


class OverAggregate(TimedOperator):
    """State: ``[rows that wait, by their time; accumulator; (time, row) of those in it, where they leave it]``.

    ``time``: the field of event time, ``None``: rows are taken as they come. ``is_rows``: ROWS, otherwise RANGE, where rows of the same time are
    taken together. ``preceding``: so many rows, or ms, before the current row; ``None``: all. ``constants`` stand behind the fields of a row
    for the aggregates.
    """

    def __init__(
        self,
        name: str,
        partition: Sequence[int],
        aggregates: CompiledAggregates,
        schema: pa.Schema,
        *,
        time: int | None,
        is_rows: bool,
        preceding: int | None,
        constants: Row,
    ) -> None:
        super().__init__(name, [partition], schema, is_event_time=time is not None)
        self._aggregates = aggregates
        self._time = time
        self._is_rows = is_rows
        self._preceding = preceding
        self._constants = constants

    def change(self, state: Any, kind: int, row: Row, input_index: int, out: list[Change]) -> Any:
        if self._time is None:
            state = state or self._new()
            self._take(state, self.now(), [row], out)
            return state
        time = row[self._time]
        if time is None or time <= self.now():
            return state  # too late
        state = state or self._new()
        waiting = state[0].get(time)
        if waiting is None:
            state[0][time] = [row]
            self.register(time)
        else:
            waiting.append(row)
        return state

    def fire(self, state: Any, time_ms: int, out: list[Change]) -> Any:
        for time in sorted(time for time in state[0] if time <= time_ms):
            rows = state[0].pop(time)
            for part in [[row] for row in rows] if self._is_rows else [rows]:
                self._take(state, time, part, out)
        return state

    def _new(self) -> list[Any]:
        return [{}, self._aggregates.create(), []]

    def _take(self, state: list[Any], time: int, rows: list[Row], out: list[Change]) -> None:
        """Rows that are taken together come into the accumulator, earlier ones leave it."""
        aggregates, acc, inside = self._aggregates, state[1], state[2]
        for row in rows:
            aggregates.change(acc, row + self._constants, True)
        if self._preceding is not None:
            inside += [(time, row) for row in rows]
            gone = len(inside) - self._preceding - 1 if self._is_rows else 0
            if not self._is_rows:
                while inside[gone][0] < time - self._preceding:
                    gone += 1
            for _, row in inside[: max(gone, 0)]:
                aggregates.change(acc, row + self._constants, False)
            del inside[: max(gone, 0)]
        values = aggregates.values(acc)
        out.extend((INSERT, row + values) for row in rows)
