"""OVER aggregates of a stream, over the rows up to the current one (Flink: ``RowTimeRangeUnboundedPrecedingFunction.java`` and the like)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from tidegate.functions.sql.aggregates import CompiledAggregates
from tidegate.functions.sql.changelog import INSERT
from tidegate.functions.sql.rows import Change, Row
from tidegate.taskmanager.operators.relational.relational_operator import (
    KEEP,
    EntriesOfKey,
    EntriesOperator,
    Name,
    listed,
)
from tidegate.taskmanager.operators.relational.timed import TimedOperator

_TOTAL = ("total",)
_INSIDE, _WAITING = "inside", "waiting"
_FIRED = ("fired",)
_FORGOTTEN = ("forgotten",)


class OverAggregate(EntriesOperator, TimedOperator):
    """Emits each row with the aggregates over the rows up to it.

    State: by ``("waiting", time)`` a list of rows that wait for the watermark; by ``("total",)`` ``[accumulator, number of the first row in it, number of the
    next one]``; by ``("inside", number)`` ``(time, row)`` of a row in it, if rows leave it; for a bounded range of event time by ``("fired",)`` the time of the
    last timer, and if that is a span of time by ``("forgotten",)`` when the key is removed.

    A row is late if its time is not after the watermark, or, where rows leave the accumulator, if a later row of its key was processed. As in Flink, the latter
    are always late before 1970.

    ``time``: the field of event time; ``None``: rows are processed on arrival, for a span of processing time those of one ms together. ``is_rows``: ROWS;
    otherwise RANGE, where rows of the same time are processed together. ``preceding``: how many rows, or ms, before the current row; ``None``: all.
    ``constants``: arguments of the aggregates, appended to the fields of a row. ``ttl_ms``: without event time, the total expires so long after its last row;
    with event time or a number of rows, the key is removed as by ``TimedOperator``; a span of time needs neither, as in Flink.
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
        ttl_ms: int = 0,
    ) -> None:
        is_span = not is_rows and preceding is not None
        is_total = time is None and preceding is None
        super().__init__(
            name,
            [partition],
            schema,
            is_event_time=time is not None,
            ttl_ms=ttl_ms if is_total else 0,
            retention_ms=0 if is_total or is_span else ttl_ms,
        )
        self._aggregates = aggregates
        self._time = time
        self._is_rows = is_rows
        self._preceding = preceding
        self._constants = constants
        self._is_span = is_span
        self._wait = 1 if time is None else 0
        """Milliseconds in which more rows of the same time may come."""

    def open_states(self) -> None:
        self.open_cleanups()
        super().open_states()

    def change(self, state: EntriesOfKey, kind: int, row: Row, input_index: int, out: list[Change]) -> Any:
        self.keep_alive()
        if self._time is None and not self._is_span:
            self._add(state, self.now(), [row], out)
            return state
        time = self.now() if self._time is None else row[self._time]
        if time is None or (self._time is not None and time <= self._taken_until(state)):
            return KEEP  # too late
        name = (_WAITING, time)
        if state.get(name) is None:
            self.register(time + self._wait)
        state.append(name, row)
        if self._time is not None and self._is_span:
            self._forget_later(state, time)
        return state

    def fire(self, state: EntriesOfKey, time_ms: int, out: list[Change]) -> Any:
        if self._time is not None and self._preceding is not None:
            if (forgotten := state.get(_FORGOTTEN)) is not None and forgotten <= time_ms:
                _forget(state)
                return KEEP
            state.put(_FIRED, time_ms)
        time = time_ms - self._wait
        name = (_WAITING, time)
        rows = state.listed(name)
        state.remove_list(name)
        for part in [[row] for row in rows] if self._is_rows else [rows] if rows else []:
            self._add(state, time, part, out)
        self.keep_alive()
        return state

    def expire(self, state: EntriesOfKey) -> Any:
        """Removes a key, unless rows of it wait for a watermark."""
        if any(name[0] == _WAITING for name in state.all()):
            self.keep_alive()
            return KEEP
        _forget(state)
        return KEEP

    def split(self, whole: Any) -> Iterator[tuple[Name, Any, int | None]]:
        waiting, acc, inside = whole
        for time, rows in waiting.items():
            yield from listed((_WAITING, time), rows)
        yield _TOTAL, [acc, 0, len(inside)], None
        for at, entry in enumerate(inside):
            yield (_INSIDE, at), entry, None

    def _add(self, state: EntriesOfKey, time: int, rows: list[Row], out: list[Change]) -> None:
        """Adds rows that are processed together to the accumulator, removes those that leave it, and emits the rows."""
        aggregates, total = self._aggregates, state.take(_TOTAL)
        if total is None:
            total = state.begin(_TOTAL, [aggregates.create(), 0, 0])
        acc = total[0]
        for row in rows:
            aggregates.change(acc, row + self._constants, True)
        if self._preceding is not None:
            for row in rows:
                state.put((_INSIDE, total[2]), (time, row))
                total[2] += 1
            while self._leaves(state, total, time):
                _, row = state.get((_INSIDE, total[1]))
                aggregates.change(acc, row + self._constants, False)
                state.put((_INSIDE, total[1]), None)
                total[1] += 1
        values = aggregates.values(acc)
        out.extend((INSERT, row + values) for row in rows)

    def _taken_until(self, state: EntriesOfKey) -> int:
        """Returns the time up to which rows of the current key are late."""
        if self._preceding is None:
            return self.now()
        if (fired := state.get(_FIRED)) is not None:
            return int(fired)
        total = state.get(_TOTAL)  # of a version before, which kept no time of timers
        return 0 if total is None or total[1] == total[2] else int(state.get((_INSIDE, total[2] - 1))[0])

    def _forget_later(self, state: EntriesOfKey, time: int) -> None:
        """Registers when the key is removed: when the aggregates of later rows include none of its rows, and at most half as long after that (Flink:
        ``registerCleanupTimer``).
        """
        assert self._preceding is not None
        forgotten = state.get(_FORGOTTEN)
        if forgotten is None or forgotten < time + self._preceding + 1:
            forgotten = time + self._preceding * 3 // 2 + 1
            self.register(forgotten)
            state.put(_FORGOTTEN, forgotten)

    def _leaves(self, state: EntriesOfKey, total: list[Any], time: int) -> bool:
        """Tells whether the first row in the accumulator is too far before the current one."""
        assert self._preceding is not None
        if self._is_rows:
            return bool(total[2] - total[1] > self._preceding + 1)
        return bool(state.get((_INSIDE, total[1]))[0] < time - self._preceding)


def _forget(state: EntriesOfKey) -> None:
    for name in list(state.all()):
        state.put(name, None)
