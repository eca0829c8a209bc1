"""Joins rows of the same window and key: all keys of the windows that fire join together.

batch ─▶ rows in memory (``HeldRows``) ─▶ the watermark reaches the end of their windows ─▶ pairs of all keys (``match_windows``) ─▶ one batch
              └▶ a snapshot, or many rows: state (``WindowJoinState``), read when its timers fire ─▶ the same pairs
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidegate.columnar.keys.codes import numbers_of
from tidegate.columnar.keys.hashing import Hashes, hash_columns, key_groups
from tidegate.functions.sql.changelog import INSERT, has_kinds
from tidegate.functions.sql.rows import Change, Row, typed
from tidegate.functions.sql.time_shift import TimeShift
from tidegate.functions.time_domain import TimeDomain
from tidegate.taskmanager.keyed_state.timer_queue import KeyedTimerQueue
from tidegate.taskmanager.operators.relational.held_rows import HeldRows, TimedRows, Times, filtered, joined
from tidegate.taskmanager.operators.relational.matching import Matcher
from tidegate.taskmanager.operators.relational.relational_operator import EntriesOfKey, EntriesOperator, Name
from tidegate.taskmanager.operators.relational.timed import TimedOperator
from tidegate.taskmanager.operators.relational.window_join_state import NO_KEY, WindowJoinState, entries_of_windows
from tidegate.taskmanager.operators.relational.window_matching import WindowSide, match_windows

MOST_HELD_ROWS: Final = 1 << 15
"""Rows in memory with which state is written. Chosen: a snapshot has to write what is there while no row is processed, which is some milliseconds."""
MOST_HELD_BYTES: Final = 32 << 20
"""Bytes in memory with which state is written. Chosen: a thousand bytes for each of the rows above."""
ROWS_AT_ONCE: Final = 1 << 18
"""Stored rows that are read before they join, or those of one time, if these are more. Chosen, so that a watermark that passes many windows does not need
the memory of all.
"""


class WindowJoin(EntriesOperator, TimedOperator):
    """Joins rows of the same window and key. ``matcher``: finds the rows of the other side. ``bounds``: for each input the columns of the start and of the end
    of a row's window; without a start (-1) the end distinguishes windows. State: ``WindowJoinState``.
    """

    def __init__(
        self,
        name: str,
        keys: Sequence[Sequence[int]],
        schema: pa.Schema,
        *,
        join_type: str,
        matcher: Matcher,
        bounds: Sequence[tuple[int, int]],
        is_event_time: bool,
        shift: TimeShift,
    ) -> None:
        super().__init__(name, keys, schema, is_event_time=is_event_time)
        self._type = join_type
        self._matcher = matcher
        self._bounds = bounds
        self._has_starts = all(start >= 0 for start, _ in bounds)
        self._shift = shift
        self._sides = [pa.schema(fields) for fields in matcher.fields]
        self._held = (HeldRows(), HeldRows())

    def open_states(self) -> None:
        super().open_states()
        self._stored = WindowJoinState(self._entries, self._sides)

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        super().prepare_snapshot(checkpoint_id)
        self._store()

    def _process(self, data: pa.RecordBatch, input_index: int) -> None:
        self._backend.merge_some()
        self._check_groups(data, input_index)
        dues = self._dues(numbers_of(data.column(self._bounds[input_index][1])))
        columns = self._matcher.columns_of_batch(data, input_index)
        rows = TimedRows(pa.RecordBatch.from_arrays(columns, schema=self._sides[input_index]), dues)
        if self.is_event_time:
            is_open = dues > self.now()
            if not is_open.any():
                return  # too late
            if not is_open.all():
                rows = filtered(rows, is_open)
        self._held[input_index].add(rows)
        if sum(held.rows for held in self._held) >= MOST_HELD_ROWS or sum(h.size for h in self._held) > MOST_HELD_BYTES:
            self._store()
        self._wake()

    def _fire_due(self, timers: KeyedTimerQueue, time_ms: int, domain: TimeDomain) -> None:
        """Joins the rows of all windows that fire. Those of one time are not divided."""
        if (domain is TimeDomain.EVENT_TIME) != self.is_event_time:
            return
        parts: tuple[list[pa.RecordBatch], list[pa.RecordBatch]] = ([], [])
        for due in timers.pop_all_due(time_ms):
            for index, found in enumerate(self._stored.take(due, self.context.clock.now_ms())):
                parts[index].extend(found)
            if sum(batch.num_rows for side in parts for batch in side) >= ROWS_AT_ONCE:
                self._join(parts, due.timestamp)
                parts = ([], [])
        self._join(parts, time_ms)
        self._wake()

    def _wake(self) -> None:
        """Registers a timer for the rows in memory by processing time; by event time each watermark looks at them."""
        if self.is_event_time:
            return
        for held in self._held:
            if held.first_due is not None:
                self.register_all(held.first_due, [NO_KEY], [self._backend.owned.start])
        self._schedule()

    def _check_groups(self, data: pa.RecordBatch, input_index: int) -> None:
        """Raises ``InternalError`` for a row of a key group of another subtask."""
        groups, owned = self._groups(data, input_index), self._backend.owned
        if ((groups < owned.start) | (groups > owned.end)).any():
            self._places(data, self._positions[input_index])

    def _groups(self, data: pa.RecordBatch, input_index: int) -> Hashes:
        """Returns the key group of each row."""
        positions = self._positions[input_index]
        if not positions:
            return np.full(data.num_rows, self._backend.owned.start, np.int32)
        return key_groups(hash_columns([data.column(position) for position in positions]), self.context.max_parallelism)

    def _dues(self, ends: Times) -> Times:
        """Returns when windows fire."""
        if self._shift.is_utc:
            return ends - 1
        distinct, places = np.unique(ends, return_inverse=True)
        return np.array([self._shift.due(end - 1) for end in distinct.tolist()], np.int64)[places]

    def _store(self) -> None:
        """Moves the rows in memory to state."""
        for index, held in enumerate(self._held):
            parts = held.take_all()
            if parts:
                rows = joined(parts)
                for due, groups in self._stored.add(index, rows, self._groups(rows.data, index)):
                    self.register_all(due, [NO_KEY] * len(groups), groups)

    def _join(self, stored: Sequence[list[pa.RecordBatch]], time_ms: int) -> None:
        """Emits what joins of stored rows and of those in memory whose windows fire until ``time_ms``."""
        parts = [
            [*found, *(rows.data for rows in held.take(time_ms))]
            for found, held in zip(stored, self._held, strict=True)
        ]
        if not any(parts):
            return
        left, right = (self._side(found, index) for index, found in enumerate(parts))
        matches = match_windows(self._matcher, self._type, left, right, self._name)
        self.timers_fired += matches.keys
        columns = [self._taken(left.data, matches.own)]
        if self._type not in ("SEMI", "ANTI"):
            columns.append(self._taken(right.data, matches.found))
        self._emit([column for side in columns for column in side], len(matches.own))

    def _side(self, parts: list[pa.RecordBatch], index: int) -> WindowSide:
        schema = self._sides[index]
        data = (
            pa.concat_batches(parts)
            if parts
            else pa.RecordBatch.from_arrays([pa.nulls(0, t) for t in schema.types], schema=schema)
        )
        start, end = self._bounds[index]
        ends = numbers_of(data.column(end))
        bounds = [self._dues(ends), ends]
        if self._has_starts:
            bounds.insert(1, numbers_of(data.column(start)))
        return WindowSide(data, [data.column(position) for position in self._positions[index]], bounds)

    def _taken(self, data: pa.RecordBatch, places: Any) -> list[pa.Array]:
        """Returns the columns of some rows; -1 stands for a row of nulls."""
        missing = places < 0
        chosen = pa.array(places, mask=missing) if missing.any() else pa.array(places)
        return [column.take(chosen) for column in data.columns]

    def _emit(self, columns: Sequence[pa.Array], count: int) -> None:
        if not count:
            return
        made = [typed(column, field.type) for column, field in zip(columns, self._schema, strict=False)]
        if has_kinds(self._schema):
            made.append(pa.repeat(pa.scalar(INSERT, pa.int8()), count))
        self.emit_fired(pa.RecordBatch.from_arrays(made, schema=self._schema))

    def split(self, whole: Any) -> Iterable[tuple[Name, Any, int | None]]:
        return entries_of_windows(whole, lambda end: self._shift.due(end - 1) + 1)

    def change(self, state: EntriesOfKey, kind: int, row: Row, input_index: int, out: list[Change]) -> Any:
        raise AssertionError("a row of a window join was to be processed by itself, and comes with its batch")

    def fire(self, state: EntriesOfKey, time_ms: int, out: list[Change]) -> Any:
        raise AssertionError("a key of a window join was to fire by itself, and fires with all others of its time")


__all__ = ["WindowJoin"]
