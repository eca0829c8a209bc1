"""Joins with the version that a table had at the time of a row (Flink: ``TemporalRowTimeJoinOperator.java``, ``TemporalProcessTimeJoinOperator.java``)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tidegate.functions.sql.changelog import adds
from tidegate.functions.sql.rows import Change, Row
from tidegate.taskmanager.operators.relational.base import KEEP
from tidegate.taskmanager.operators.relational.matching import Matcher
from tidegate.taskmanager.operators.relational.timed import TimedOperator


class _Versions:
    """What both joins do with a row of the left side and the version it has found. Rows keep their kinds."""

    def __init__(self, matcher: Matcher, *, is_left_join: bool, right_width: int) -> None:
        self._matcher = matcher
        self._is_left_join = is_left_join
        self._nothing = (None,) * right_width

    def join(self, kind: int, row: Row, version: Change | None, out: list[Change]) -> None:
        """``version``: ``None``, or one that is deleted: the table had no row then."""
        if version is not None and adds(version[0]) and self._matcher.positions(row, [version[1]]):
            out.append((kind, row + version[1]))
        elif self._is_left_join:
            out.append((kind, row + self._nothing))


class TemporalJoin(TimedOperator):
    """By event time: a row of the left side goes when the watermark has reached its time, with the newest version that is not later.

    State: ``[rows of the left side that wait, as they came: (time, kind, row); versions of the right side: {time: (kind, row)}]``. Versions go when a later one
    is not behind the watermark. Nothing is dropped as late: such a row joins with the versions that are still there.
    """

    def __init__(
        self,
        name: str,
        keys: Sequence[Sequence[int]],
        schema: pa.Schema,
        *,
        matcher: Matcher,
        is_left_join: bool,
        right_width: int,
        times: tuple[int, int],
        retention_ms: int = 0,
    ) -> None:
        super().__init__(name, keys, schema, is_event_time=True, retention_ms=retention_ms)
        self._versions = _Versions(matcher, is_left_join=is_left_join, right_width=right_width)
        self._times = times

    def change(self, state: Any, kind: int, row: Row, input_index: int, out: list[Change]) -> Any:
        state = state or [[], {}]
        time = row[self._times[input_index]]
        if time is None:
            return state
        if input_index == 0:
            state[0].append((time, kind, row))
        else:
            state[1][time] = (kind, row)
        self.register(time)
        self.keep_alive()
        return state

    def fire(self, state: Any, time_ms: int, out: list[Change]) -> Any:
        waiting, versions = state
        now = self.now()
        times = sorted(versions)
        for time, kind, row in waiting:
            if time <= now:
                at = bisect_right(times, time)
                self._versions.join(kind, row, versions[times[at - 1]] if at else None, out)
        waiting[:] = [entry for entry in waiting if entry[0] > now]
        for time in times[: max(bisect_right(times, now) - 1, 0)]:
            del versions[time]
        if waiting or versions:
            self.keep_alive()
            return state
        self.stop_cleanup()
        return None


class ProcessingTimeTemporalJoin(TimedOperator):
    """By processing time, of a temporal table function: a row of the left side goes at once, with the version that the table has now. State: the version."""

    def __init__(
        self,
        name: str,
        keys: Sequence[Sequence[int]],
        schema: pa.Schema,
        *,
        matcher: Matcher,
        is_left_join: bool,
        right_width: int,
        retention_ms: int = 0,
    ) -> None:
        super().__init__(name, keys, schema, is_event_time=False, retention_ms=retention_ms)
        self._versions = _Versions(matcher, is_left_join=is_left_join, right_width=right_width)

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
        """Nothing waits."""
        return KEEP


__all__ = ["ProcessingTimeTemporalJoin", "TemporalJoin"]
