"""Temporal joins: each row joins with the version that a table had at its time (Flink: ``TemporalRowTimeJoinOperator.java``,
``TemporalProcessTimeJoinOperator.java``).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from tidegate.functions.sql.changelog import adds
from tidegate.functions.sql.rows import Change, Row
from tidegate.taskmanager.operators.relational.matching import Matcher
from tidegate.taskmanager.operators.relational.relational_operator import KEEP, EntriesOfKey, EntriesOperator, Name
from tidegate.taskmanager.operators.relational.timed import TimedOperator

_LEFT, _RIGHT = "left", "right"
_NEXT, _TIMER = ("next",), ("timer",)


class Versions:
    """Base class of joins of left rows with versions of the right side. A joined row has the kind of its left row."""

    def __init__(self, matcher: Matcher, *, is_left_join: bool, right_width: int) -> None:
        self._matcher = matcher
        self._is_left_join = is_left_join
        self._nothing = (None,) * right_width

    def join(self, kind: int, row: Row, version: Change | None, out: list[Change]) -> None:
        """Emits the joined row. ``version``: ``None``, or a deleted one, if the table had no row at that time; then a left join emits nulls."""
        if version is not None and adds(version[0]) and self._matcher.positions(row, [version[1]]):
            out.append((kind, row + version[1]))
        elif self._is_left_join:
            out.append((kind, row + self._nothing))


class TemporalJoin(EntriesOperator, TimedOperator):
    """The temporal join by event time: a row of the left side is emitted when the watermark has reached its time, with the newest version that is not later.

    State: by ``("left", number)`` ``(time, kind, row)`` of a left row that waits, in the order of arrival; by ``("right", time)`` ``(kind, row)`` of a version;
    by ``("next",)`` the next number; by ``("timer",)`` when the key is processed.

    A key is processed when its first row or version is due, or at the next watermark if that was late. Then all due left rows are emitted, and each version is
    removed if a later one is not after the watermark. The next time is that of a left row that waits, or of the next arrival, as in Flink. No row is dropped as
    late: it joins with the versions that are still stored.
    """

    def __init__(
        self,
        name: str,
        keys: Sequence[Sequence[int]],
        schema: pa.Schema,
        *,
        versions: Versions,
        times: tuple[int, int],
        retention_ms: int = 0,
    ) -> None:
        super().__init__(name, keys, schema, is_event_time=True, retention_ms=retention_ms)
        self._versions = versions
        self._times = times

    def open_states(self) -> None:
        self.open_cleanups()
        super().open_states()

    def change(self, state: EntriesOfKey, kind: int, row: Row, input_index: int, out: list[Change]) -> Any:
        time = row[self._times[input_index]]
        if input_index == 0:
            number = state.get(_NEXT) or 0
            state.put((_LEFT, number), (time, kind, row))
            state.put(_NEXT, number + 1)
        else:
            state.put((_RIGHT, time), (kind, row))
        registered = state.get(_TIMER)
        if registered is None or time < registered:
            if registered is not None:
                self._timers.event.delete(registered)
            self._register(state, time)
        self.keep_alive()
        return KEEP

    def fire(self, state: EntriesOfKey, time_ms: int, out: list[Change]) -> Any:
        now = self.now()
        held = state.all()
        waiting = sorted((name, entry) for name, entry in held.items() if name[0] == _LEFT)
        versions = {name[1]: entry for name, entry in held.items() if name[0] == _RIGHT}
        times = sorted(versions)
        left: list[int] = []
        for name, (time, kind, row) in waiting:
            if time > now:
                left.append(time)
                continue
            at = bisect_right(times, time)
            self._versions.join(kind, row, versions[times[at - 1]] if at else None, out)
            state.put(name, None)
        for time in times[: max(bisect_right(times, now) - 1, 0)]:
            state.put((_RIGHT, time), None)
        if left:
            self._register(state, min(left))
        else:
            state.put(_TIMER, None)
            state.put(_NEXT, None)
        if left or versions:
            self.keep_alive()
        else:
            self.stop_cleanup()
        return KEEP

    def expire(self, state: EntriesOfKey) -> Any:
        for name in list(state.all()):
            state.put(name, None)
        return KEEP

    def split(self, whole: Any) -> Iterator[tuple[Name, Any, int | None]]:
        waiting, versions = whole
        for number, entry in enumerate(waiting):
            yield (_LEFT, number), tuple(entry), None
        if waiting:
            yield _NEXT, len(waiting), None
        for time, version in versions.items():
            yield (_RIGHT, time), version, None

    def _register(self, state: EntriesOfKey, time: int) -> None:
        self.register(time)
        state.put(_TIMER, time)


class ProcessingTimeTemporalJoin(TimedOperator):
    """The temporal join by processing time, with a temporal table function: a row of the left side is emitted at once, with the current version. State: that
    version.
    """

    def __init__(
        self,
        name: str,
        keys: Sequence[Sequence[int]],
        schema: pa.Schema,
        *,
        versions: Versions,
        retention_ms: int = 0,
    ) -> None:
        super().__init__(name, keys, schema, is_event_time=False, retention_ms=retention_ms)
        self._versions = versions

    def change(self, state: Any, kind: int, row: Row, input_index: int, out: list[Change]) -> Any:
        if input_index == 1:
            if adds(kind):
                self.keep_alive()
                return row
            self.stop_cleanup()
            return None
        self._versions.join(kind, row, None if state is None else (0, state), out)
        if state is not None:
            self.keep_alive()
        return KEEP

    def fire(self, state: Any, time_ms: int, out: list[Change]) -> Any:
        """Does nothing, since no row waits."""
        return KEEP


__all__ = ["ProcessingTimeTemporalJoin", "TemporalJoin", "Versions"]
