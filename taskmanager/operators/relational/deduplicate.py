"""Deduplication: the first or the last row of each key.

rows by key, in their order ─▶ those that replace the row of their key ─▶ the last one of each key is stored ─▶ changes, taken from columns
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidegate.functions.sql.changelog import INSERT, UPDATE_AFTER, UPDATE_BEFORE, has_kinds
from tidegate.functions.sql.rows import Change, Row, array_of_values, rows_of, typed
from tidegate.records.batch import ArrowBatch
from tidegate.taskmanager.operators.relational.relational_operator import (
    KEEP,
    KeyedChanges,
    RelationalOperator,
    differs,
)
from tidegate.taskmanager.operators.relational.replacements import (
    Mask,
    Places,
    Replacements,
    RowsByKey,
    Times,
    find_earlier_or_later,
    find_replacements,
)
from tidegate.taskmanager.operators.relational.timed import TimedOperator

_EMITTED: Final = object()
"""The state of a key whose first row was emitted."""
ROWS_FOR_ARRAYS = 256
"""The least rows of a batch that is processed by arrays. Fewer cost less one by one."""


class Deduplicate(RelationalOperator):
    """Emits the first or the last row of a key, and stores it. ``time``: the field by which rows are compared; ``None``: the order of arrival."""

    def __init__(
        self,
        name: str,
        keys: Sequence[int],
        schema: pa.Schema,
        *,
        time: int | None,
        keeps_last: bool,
        generates_update_before: bool,
        ttl_ms: int,
    ) -> None:
        super().__init__(name, [keys], schema, ttl_ms)
        self._time = time
        self._keeps_last = keeps_last
        self._generates_update_before = generates_update_before

    def work(self, batch: KeyedChanges, input_index: int) -> None:
        """Processes a batch by arrays. The stored row of a key is read once, and written once if it changes."""
        times = None if self._time is None else _times_of(batch.data.column(self._time))
        if len(batch.keys) < ROWS_FOR_ARRAYS or (times is None and self._time is not None):
            super().work(batch, input_index)
            return
        group_of, key_of = batch.by_key()
        entries, groups = list(zip(group_of, repeat(None), strict=False)), list(group_of.values())
        held: list[Row | None] = self._state.peek_all(entries, groups, batch.now_ms)
        rows = RowsByKey(key_of, np.fromiter((row is not None for row in held), np.bool_, len(held)))
        replaces = self._by_arrival(batch, rows, held) if times is None else self._by_time(times, rows, held)
        found = find_replacements(rows, replaces)
        if len(found.keys) < len(entries):
            changed = found.keys.tolist()
            entries, groups = [entries[key] for key in changed], [groups[key] for key in changed]
        self._state.write_all(entries, groups, _rows_at(batch, found.kept), batch.now_ms)
        self.clean(len(batch.keys), batch.now_ms)
        self._emit_changes(batch.data, found, held)

    def change(self, state: Any, kind: int, row: Row, input_index: int, out: list[Change]) -> Any:
        if state is None:
            out.append((INSERT, row))
            return row
        if self._time is None:
            replaces = self._keeps_last and (self._ttl_ms > 0 or differs(state, row))
        else:
            replaces = row[self._time] >= state[self._time] if self._keeps_last else row[self._time] < state[self._time]
        if not replaces:
            return KEEP
        if self._generates_update_before:
            out.append((UPDATE_BEFORE, state))
        out.append((UPDATE_AFTER, row))
        return row

    def _by_time(self, times: Times, rows: RowsByKey, held: Sequence[Row | None]) -> Mask:
        position = self._time
        assert position is not None
        stored = np.fromiter((0 if row is None else row[position] for row in held), np.int64, len(held))
        return find_earlier_or_later(rows, times, stored, is_later=self._keeps_last)

    def _by_arrival(self, batch: KeyedChanges, rows: RowsByKey, held: Sequence[Row | None]) -> Mask:
        if not self._keeps_last:
            return rows.is_first & ~rows.is_held[rows.keys]
        if self._ttl_ms:
            return np.ones(len(rows.keys), np.bool_)
        values = batch.values
        stored = [*reversed(held), None]  # the row that is numbered as in Replacements
        pairs = zip(rows.order.tolist(), rows.before().tolist(), strict=True)
        return np.fromiter(
            (
                before == -1 or differs(stored[before] if before < 0 else values[before], values[at])
                for at, before in pairs
            ),
            np.bool_,
            len(rows.keys),
        )

    def _emit_changes(self, data: pa.RecordBatch, found: Replacements, held: Sequence[Row | None]) -> None:
        """Emits the changes in the order of the rows, taken from the columns of the batch and of the stored rows."""
        if not len(found.rows):
            return
        in_order = np.argsort(found.rows)
        rows, before = found.rows[in_order], found.before[in_order]
        is_stored = before < -1
        others = [held[key] for key in (-2 - before[is_stored]).tolist()]
        before[is_stored] = np.arange(len(others)) + data.num_rows
        is_update = before >= 0
        shown = np.stack((is_update & self._generates_update_before, np.ones(len(rows), np.bool_)), axis=1)
        places = np.stack((before, rows), axis=1)[shown]
        fields = list(self._schema)
        arrays: list[pa.Array] = []
        if has_kinds(self._schema):
            fields.pop()
            kinds = np.where(is_update, UPDATE_AFTER, INSERT)
            arrays = [pa.array(np.stack((np.full(len(rows), UPDATE_BEFORE), kinds), axis=1)[shown].astype(np.int8))]
        columns = [typed(data.column(at), field.type) for at, field in enumerate(fields)]
        if others and self._generates_update_before:
            stored = [
                array_of_values(values, field.type)
                for values, field in zip(zip(*others, strict=True), fields, strict=True)
            ]
            columns = [pa.concat_arrays(both) for both in zip(columns, stored, strict=True)]
        if not len(rows) == len(places) == data.num_rows:
            columns = [column.take(pa.array(places)) for column in columns]
        self.context.output.emit(ArrowBatch(pa.RecordBatch.from_arrays([*columns, *arrays], schema=self._schema)))


class FirstRow(TimedOperator):
    """Emits the first row of a key by event time, once the watermark shows that no earlier one follows (Flink:
    ``RowTimeDeduplicateKeepFirstRowFunction.java``).

    State: the row that waits; after it was emitted, a mark for ``ttl_ms``.
    """

    def __init__(self, name: str, keys: Sequence[int], schema: pa.Schema, *, time: int, ttl_ms: int = 0) -> None:
        super().__init__(name, [keys], schema, is_event_time=True)
        self._time = time
        self._emitted_ttl_ms = ttl_ms

    def open_states(self) -> None:
        self._emitted = self.state_of_key("emitted", self._emitted_ttl_ms)
        super().open_states()

    def read(self, group: int, key: Any, now_ms: int) -> Any:
        if self._emitted.read(group, key, now_ms) is not None:
            return _EMITTED
        state = self._state.read(group, key, now_ms)
        if state is not None and state[1]:  # versions before kept both in one value
            self.write(group, key, _EMITTED, now_ms)
            return _EMITTED
        return state

    def write(self, group: int, key: Any, state: Any, now_ms: int) -> None:
        if state is _EMITTED:
            self._state.write(group, key, None, now_ms)
            self._emitted.write(group, key, True, now_ms)
        else:
            self._state.write(group, key, state, now_ms)

    def work(self, batch: KeyedChanges, input_index: int) -> None:
        """Processes a batch by arrays, as ``Deduplicate`` does. The states of a key are read once."""
        times = _times_of(batch.data.column(self._time))
        if len(batch.keys) < ROWS_FOR_ARRAYS or times is None:
            super().work(batch, input_index)
            return
        group_of, key_of = batch.by_key()
        entries, groups = list(zip(group_of, repeat(None), strict=False)), list(group_of.values())
        held = self._state.peek_all(entries, groups, batch.now_ms)
        if any(state is not None and state[1] for state in held):  # of a version before
            super().work(batch, input_index)
            return
        was_emitted = self._emitted.peek_all(entries, groups, batch.now_ms)
        may_be_first = np.fromiter((found is None for found in was_emitted), np.bool_, len(held))[key_of]
        in_time = np.flatnonzero(may_be_first & (times >= self.now()))
        rows = RowsByKey(key_of[in_time], np.fromiter((state is not None for state in held), np.bool_, len(held)))
        stored = np.fromiter((0 if state is None else state[0][self._time] for state in held), np.int64, len(held))
        if len(in_time):
            replaces = find_earlier_or_later(rows, times[in_time], stored, is_later=False)
            found = find_replacements(rows, replaces)
            places = np.sort(in_time[found.rows])
            for key, time in zip(key_of[places].tolist(), times[places].tolist(), strict=True):
                self._backend.key, self._backend.group = entries[key][0], groups[key]
                self.register(time)
            changed = found.keys.tolist()
            self._state.write_all(
                [entries[key] for key in changed],
                [groups[key] for key in changed],
                [[row, False] for row in _rows_at(batch, in_time[found.kept])],
                batch.now_ms,
            )
        self.clean(len(batch.keys), batch.now_ms)
        self.end_batch([])

    def change(self, state: Any, kind: int, row: Row, input_index: int, out: list[Change]) -> Any:
        time = row[self._time]
        if time is None or time < self.now() or state is _EMITTED:  # one of the watermark's own time is not late here
            return KEEP
        if state is not None and state[0][self._time] <= time:
            return KEEP
        self.register(time)
        return [row, False]

    def fire(self, state: Any, time_ms: int, out: list[Change]) -> Any:
        if state is _EMITTED or state[0][self._time] > time_ms:
            return KEEP
        out.append((INSERT, state[0]))
        return _EMITTED


def _times_of(column: pa.Array) -> Times | None:
    """Returns a column of times as numbers; ``None`` if there is a null among them."""
    return None if column.null_count else np.asarray(column.view(pa.int64()))


def _rows_at(batch: KeyedChanges, places: Places) -> list[Row]:
    """Returns some rows of a batch, as plain values."""
    return rows_of(batch.data if len(places) == len(batch.keys) else batch.data.take(pa.array(places)))


__all__ = ["Deduplicate", "FirstRow"]
