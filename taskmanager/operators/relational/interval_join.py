"""A join of rows whose times are near (Flink: ``TimeIntervalJoin.java``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tidegate.functions.sql.changelog import INSERT
from tidegate.functions.sql.rows import Change, Row
from tidegate.model.channel_events import END_OF_TIME, NO_WATERMARK
from tidegate.taskmanager.operators.base import Operator
from tidegate.taskmanager.operators.relational.matching import Matcher
from tidegate.taskmanager.operators.relational.timed import TimedOperator


class TableIntervalJoin(TimedOperator):
    """``before`` and ``after``, in ms: the time of a left row is at least that of the right one minus ``before``, and at most it plus ``after``.

    State: for each side ``[time, row, whether it has joined]``. A row goes, with nulls on the other side in an outer join, when nothing can join with it
    any longer. Watermarks are held back by the larger bound, since what is emitted may be so old.
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

    def change(self, state: Any, kind: int, row: Row, input_index: int, out: list[Change]) -> Any:
        sides: list[list[list[Any]]] = state or [[], []]
        now = self.now()
        time = row[self._times[input_index]] if self.is_event_time else now
        if time is None:
            return state
        earlier, later = self._reach[input_index]
        near = [entry for entry in sides[1 - input_index] if time - earlier <= entry[0] <= time + later]
        found = self._matcher.positions(row, [entry[1] for entry in near], input_index)
        for at in found:
            near[at][2] = True
            out.append((INSERT, self._pair(row, near[at][1], input_index)))
        if now < time + later:
            sides[input_index].append([time, row, bool(found)])
            self.register(self._ends(time, input_index))
        elif not found and self._is_outer[input_index]:
            out.append((INSERT, self._pair(row, self._nothing[1 - input_index], input_index)))
        return sides if sides[0] or sides[1] else None

    def fire(self, state: Any, time_ms: int, out: list[Change]) -> Any:
        for index, side in enumerate(state):
            gone = [entry for entry in side if self._ends(entry[0], index) <= time_ms]
            side[:] = [entry for entry in side if self._ends(entry[0], index) > time_ms]
            if self._is_outer[index]:
                nothing = self._nothing[1 - index]
                out.extend((INSERT, self._pair(row, nothing, index)) for _, row, has_joined in gone if not has_joined)
        return state if state[0] or state[1] else None

    def on_watermark(self, timestamp_ms: int) -> None:
        held = timestamp_ms if timestamp_ms in (END_OF_TIME, NO_WATERMARK) else timestamp_ms - self._delay
        self.advance(timestamp_ms)
        Operator.on_watermark(self, held)

    def _ends(self, time: int, index: int) -> int:
        return time + self._reach[index][1] + self._slack + 1

    def _pair(self, row: Row, other: Row, index: int) -> Row:
        return row + other if index == 0 else other + row
