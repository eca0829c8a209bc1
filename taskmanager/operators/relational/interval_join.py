"""A join of rows whose times are near (Flink: ``TimeIntervalJoin.java``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from tidegate.functions.sql.changelog import INSERT
from tidegate.functions.sql.rows import Change, Row
from tidegate.model.channel_events import END_OF_TIME, NO_WATERMARK
from tidegate.taskmanager.operators.base import Operator
from tidegate.taskmanager.operators.relational.base import KEEP, EntriesOfKey, Name, listed
from tidegate.taskmanager.operators.relational.matching import Matcher
from tidegate.taskmanager.operators.relational.timed import TimedOperator

Sides: TypeAlias = tuple[EntriesOfKey, EntriesOfKey]


class TableIntervalJoin(TimedOperator):
    """``before`` and ``after``, in ms: the time of a left row is at least that of the right one minus ``before``, and at most it plus ``after``.

    State: for each side by ``(time,)`` a list of ``(row, whether it has joined)``. A row goes, with nulls on the other side in an outer join, when nothing
    can join with it any longer. Watermarks are held back by the larger bound, since what is emitted may be so old.
    """

    def __init__(
        self,
        name: str,
        keys: Sequence[Sequence[int]],
        schema: pa.Schema,
        *,
        join_type: str,
        matcher: Matcher,
        times: tuple[int, int],
        before: int,
        after: int,
        widths: tuple[int, int],
        is_event_time: bool,
    ) -> None:
        super().__init__(name, keys, schema, is_event_time=is_event_time)
        self._is_outer = (join_type in ("LEFT", "FULL"), join_type in ("RIGHT", "FULL"))
        self._matcher = matcher
        self._times = times
        self._reach = ((after, before), (before, after))
        """By side: so much earlier and later the other row may be."""
        self._slack = (before + after) // 2
        self._delay = max(before, after, 0)
        self._nothing = [(None,) * width for width in widths]

    def open_states(self) -> None:
        self._left = self.entries_of_keys("state", 0, lambda whole: _by_time(whole[0]))
        self._right = self.entries_of_keys("right", 0, _by_time)

    def read(self, group: int, key: Any, now_ms: int) -> Sides:
        right = self._right.of(group, key, now_ms)
        whole = self._left.undivided(group, key)
        if whole is not None:
            for name, value, _ in _by_time(whole[1]):
                right.put(name, value)
        return self._left.of(group, key, now_ms), right

    def change(self, state: Sides, kind: int, row: Row, input_index: int, out: list[Change]) -> Any:
        now = self.now()
        time = row[self._times[input_index]] if self.is_event_time else now
        if time is None:
            return KEEP
        earlier, later = self._reach[input_index]
        first, last = time - earlier, time + later
        others = state[1 - input_index]
        near = [(name, held) for name, held in others.all().items() if len(name) == 2 and first <= name[0] <= last]
        found = self._matcher.positions(row, [held[0] for _, held in near], input_index)
        for at in found:
            name, (other, has_joined) = near[at]
            if not has_joined:
                others.put(name, (other, True))
            out.append((INSERT, self._pair(row, other, input_index)))
        if now < last:
            state[input_index].append((time,), (row, bool(found)))
            self.register(self._ends(time, input_index))
        elif not found and self._is_outer[input_index]:
            out.append((INSERT, self._pair(row, self._nothing[1 - input_index], input_index)))
        return KEEP

    def fire(self, state: Sides, time_ms: int, out: list[Change]) -> Any:
        for index, side in enumerate(state):
            name = (time_ms - self._ends(0, index),)
            if self._is_outer[index]:
                nothing = self._nothing[1 - index]
                rows = [row for row, has_joined in side.listed(name) if not has_joined]
                out.extend((INSERT, self._pair(row, nothing, index)) for row in rows)
            side.remove_list(name)
        return KEEP

    def on_watermark(self, timestamp_ms: int) -> None:
        held = timestamp_ms if timestamp_ms in (END_OF_TIME, NO_WATERMARK) else timestamp_ms - self._delay
        self.advance(timestamp_ms)
        Operator.on_watermark(self, held)

    def _ends(self, time: int, index: int) -> int:
        return time + self._reach[index][1] + self._slack + 1

    def _pair(self, row: Row, other: Row, index: int) -> Row:
        return row + other if index == 0 else other + row


def _by_time(side: Sequence[Sequence[Any]]) -> Iterator[tuple[Name, Any, int | None]]:
    """From ``[time, row, whether it has joined]`` of each row."""
    rows: dict[int, list[tuple[Row, bool]]] = {}
    for time, row, has_joined in side:
        rows.setdefault(time, []).append((row, has_joined))
    for time, found in rows.items():
        yield from listed((time,), found)
