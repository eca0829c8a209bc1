"""The interval join: joins rows whose times are near each other (Flink: ``TimeIntervalJoin.java``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from tidegate.functions.sql.changelog import INSERT
from tidegate.functions.sql.rows import Change, Row
from tidegate.model.channel_events import END_OF_TIME, NO_WATERMARK
from tidegate.taskmanager.operators.operator import Operator
from tidegate.taskmanager.operators.relational.matching import Matcher
from tidegate.taskmanager.operators.relational.relational_operator import KEEP, EntriesOfKey, Name, listed
from tidegate.taskmanager.operators.relational.timed import TimedOperator

Sides: TypeAlias = tuple[EntriesOfKey, EntriesOfKey]
_TIMER = ("timer",)


class TableIntervalJoin(TimedOperator):
    """Joins rows whose times differ by a bounded interval: left time >= right time - ``before``, and left time <= right time + ``after``, in ms.

    State, for each side: by ``(time,)`` a list of ``(row, whether it has joined)``, and by ``("timer",)`` the time at which its rows are checked for removal.

    A row is removed once no row can join with it, and emitted with nulls in an outer join. That happens at the timer, which each side of a key has for its
    first row, or earlier, when a row of the other side arrives. A row is not stored if nothing can join with it on arrival, and a row older than the removed
    ones joins with nothing, as in Flink (where that time is one for all keys of a subtask, and is lost at a restart). ``min_cleanup_ms``: delays the timer.
    Watermarks are delayed by the larger bound, since emitted rows may be that old.
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
        min_cleanup_ms: int = 0,
    ) -> None:
        super().__init__(name, keys, schema, is_event_time=is_event_time)
        self._is_outer = (join_type in ("LEFT", "FULL"), join_type in ("RIGHT", "FULL"))
        self._matcher = matcher
        self._times = times
        self._kept = (before, after)
        """For each side: how long after its time, in ms, a row may join with rows that arrive."""
        self._can_join = before + after >= 0
        self._min_cleanup = min_cleanup_ms
        self._delay = max(before, after) if self._can_join else 0
        self._nothing = [(None,) * width for width in widths]
        self._gone = [0, 0]
        """For each side: the time up to which its rows were removed."""

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

    def now(self) -> int:
        """Returns the time in ms. Event time begins in 1970."""
        return max(super().now(), 0)

    def change(self, state: Sides, kind: int, row: Row, input_index: int, out: list[Change]) -> Any:
        now = self.now()
        time = row[self._times[input_index]] if self.is_event_time else now
        last = time + self._kept[input_index]
        has_joined = False
        if self._can_join and self._gone[1 - input_index] < last:
            has_joined = self._join(state[1 - input_index], row, time, input_index, out)
        if self._can_join and now < last:
            own = state[input_index]
            own.append((time,), (row, has_joined))
            if own.get(_TIMER) is None:
                self._register(own, time, input_index)
        elif not has_joined and self._is_outer[input_index]:
            out.append((INSERT, self._pair(row, self._nothing[1 - input_index], input_index)))
        return KEEP

    def fire(self, state: Sides, time_ms: int, out: list[Change]) -> Any:
        for index in (1, 0):
            side = state[index]
            due = side.get(_TIMER)
            if due is not None and due != time_ms:
                continue  # without a timer there are no rows, or those of a version before, which kept none
            self._remove(side, index, self._expired(side.all(), index), out)
            left = min((name[0] for name in side.all() if _is_time(name)), default=0)
            if left > 0:
                self._register(side, left, index)
            else:
                for name in list(side.all()):
                    side.put(name, None)
        return KEEP

    def on_watermark(self, timestamp_ms: int) -> None:
        held = timestamp_ms if timestamp_ms in (END_OF_TIME, NO_WATERMARK) else timestamp_ms - self._delay
        self.advance(timestamp_ms)
        Operator.on_watermark(self, held)

    def _join(self, others: EntriesOfKey, row: Row, time: int, index: int, out: list[Change]) -> bool:
        """Emits the pairs of a row with stored rows of the other side, and removes the stored rows with which nothing can join. Returns whether there was a
        pair.
        """
        first, last = time - self._kept[1 - index], time + self._kept[index]
        held = others.all()
        near = [(name, entry) for name, entry in held.items() if len(name) == 2 and first <= name[0] <= last]
        expired = self._expired(held, 1 - index)
        found = self._matcher.positions(row, [entry[0] for _, entry in near], index)
        for at in found:
            name, (other, has_joined) = near[at]
            if not has_joined:
                others.put(name, (other, True))
            out.append((INSERT, self._pair(row, other, index)))
        self._remove(others, 1 - index, expired, out)
        return bool(found)

    def _expired(self, held: Mapping[Name, Any], index: int) -> list[Name]:
        """Returns the lists of a side with which nothing can join from now on."""
        now = self.now()
        self._gone[index] = gone = now if now == END_OF_TIME else now - self._kept[index] - 1
        return [name for name in held if _is_time(name) and name[0] <= gone]

    def _remove(self, side: EntriesOfKey, index: int, expired: Sequence[Name], out: list[Change]) -> None:
        for name in expired:
            if self._is_outer[index]:
                nothing = self._nothing[1 - index]
                rows = [row for row, has_joined in side.listed(name) if not has_joined]
                out.extend((INSERT, self._pair(row, nothing, index)) for row in rows)
            side.remove_list(name)

    def _register(self, side: EntriesOfKey, time: int, index: int) -> None:
        """Registers the timer at which rows of that time on a side can be removed."""
        due = time + self._kept[index] + self._min_cleanup + 1
        side.put(_TIMER, due)
        self.register(due)

    def _pair(self, row: Row, other: Row, index: int) -> Row:
        return row + other if index == 0 else other + row


def _is_time(name: Name) -> bool:
    """Tells whether a name is the time of a list of rows."""
    return len(name) == 1 and name != _TIMER


def _by_time(side: Sequence[Sequence[Any]]) -> Iterator[tuple[Name, Any, int | None]]:
    """Converts the state of earlier versions, ``[time, row, whether it has joined]`` of each row, into entries."""
    rows: dict[int, list[tuple[Row, bool]]] = {}
    for time, row, has_joined in side:
        rows.setdefault(time, []).append((row, has_joined))
    for time, found in rows.items():
        yield from listed((time,), found)
