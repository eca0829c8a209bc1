"""ORDER BY a time attribute (Flink: ``RowTimeSortOperator.java``, ``ProcTimeSortOperator.java``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tidegate.functions.sql.changelog import INSERT
from tidegate.functions.sql.rows import Change, Row
from tidegate.model.channel_events import NO_WATERMARK
from tidegate.plan.specs import SortField
from tidegate.taskmanager.operators.relational.ranks import sort_key
from tidegate.taskmanager.operators.relational.relational_operator import KEEP
from tidegate.taskmanager.operators.relational.timed import TimedOperator


class TemporalSort(TimedOperator):
    """Sorts rows by time: emits them once the watermark shows that no earlier ones follow.

    ``time``: the field of event time; ``None``: the rows of each ms of processing time are sorted. ``order``: the order of rows with the same time. State:
    ``[last emitted time, {time: rows}]``. A row whose time is not after the last emitted one is dropped.
    """

    def __init__(self, name: str, schema: pa.Schema, *, time: int | None, order: Sequence[SortField]) -> None:
        super().__init__(name, [()], schema, is_event_time=time is not None)
        self._time = time
        self._order = sort_key(order) if order else None

    def change(self, state: Any, kind: int, row: Row, input_index: int, out: list[Change]) -> Any:
        if self._time is None and self._order is None:
            out.append((INSERT, row))
            return KEEP
        state = state or [NO_WATERMARK, {}]
        if self._time is None:
            time = self.now() + 1
        else:
            time = row[self._time]
            if time is None or time <= state[0]:
                return state
        waiting = state[1].get(time)
        if waiting is None:
            state[1][time] = [row]
            self.register(time)
        else:
            waiting.append(row)
        return state

    def fire(self, state: Any, time_ms: int, out: list[Change]) -> Any:
        rows = state[1].pop(time_ms, [])
        if self._order is not None:
            rows.sort(key=self._order)
        out.extend((INSERT, row) for row in rows)
        if self._time is not None:
            state[0] = time_ms
        return state


__all__ = ["TemporalSort"]
