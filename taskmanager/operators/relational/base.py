"""Operators of compiled plans with state by key, which look at one row after another.

    batch ─▶ rows with their kinds ─▶ the state of each key, read once ─▶ ``change`` for each row ─▶ states written once, one batch out

docs/state-format.md has the layout of each state.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from tidegate.columnar.keys.hashing import hash_columns, key_groups
from tidegate.common.typeinfo import Types
from tidegate.functions.sql.rows import Change, Row, batch_of, changes_of
from tidegate.model.program import KeySpec
from tidegate.records.batch import ArrowBatch, Batch
from tidegate.records.canonical.forms import canonical_keys
from tidegate.taskmanager.keyed_state.backend import KeyedTable
from tidegate.taskmanager.keyed_state.ttl import Sweep, Ttl
from tidegate.taskmanager.operators.rows.keyed import KeyedOperator

KEEP: Final = object()
"""What ``change`` returns when the state is as it was, and its time to live goes on."""
_UNREAD: Final = object()
SWEPT_FOR_EACH_ROW = 5
"""Entries that are looked at for having expired, for each row (as Flink's incremental cleanup for each access)."""


class StateOfKey:
    """One value for each key, with or without a time to live, which counts from its last write."""

    def __init__(self, table: KeyedTable, ttl: Ttl | None, sweep: Sweep | None) -> None:
        self._table, self._ttl, self._sweep = table, ttl, sweep

    def read(self, group: int, key: Any, now_ms: int) -> Any:
        """``None``: there is none, or it has expired. It may be changed in place, and has to be written then."""
        found = self._table.read(group, (key, None))
        if found is None or self._ttl is None:
            return found
        value, stamp = found
        return None if self._ttl.is_expired(stamp, now_ms) else value

    def write(self, group: int, key: Any, value: Any, now_ms: int) -> None:
        """``None`` removes it."""
        if value is None:
            self._table.delete(group, (key, None))
        else:
            self._table.write(group, (key, None), value if self._ttl is None else (value, now_ms))

    def entries(self) -> Iterator[tuple[int, Any, Any]]:
        """Group, key and value of all that is there; for states without a time to live."""
        for group, (key, _namespace), value in self._table.entries():
            yield group, key, value

    def clean(self, rows: int, now_ms: int) -> None:
        """Removes some of what has expired."""
        if self._sweep is not None:
            self._sweep(SWEPT_FOR_EACH_ROW * rows, now_ms)


class RelationalOperator(KeyedOperator):
    """``keys``: for each input the positions of its key; none: all rows have one key. ``schema``: of what is emitted."""

    works_on = "arrow"

    def __init__(self, name: str, keys: Sequence[Sequence[int]], schema: pa.Schema, ttl_ms: int = 0) -> None:
        super().__init__(name, [KeySpec() for _ in keys])
        self._positions = keys
        self._schema = schema
        self._ttl_ms = ttl_ms

    def open(self) -> None:
        self._state = self.state_of_key("state", self._ttl_ms)
        super().open()

    def state_of_key(self, name: str, ttl_ms: int) -> StateOfKey:
        ttl = Ttl(ttl_ms, in_full_snapshot=True, sweep_size=SWEPT_FOR_EACH_ROW) if ttl_ms else None
        table = self._backend.table(name, "value", Types.PICKLED_BYTE_ARRAY(), ttl)
        return StateOfKey(table, ttl, None if ttl is None else self._backend.sweep(name))

    def process(self, batch: Batch, input_index: int) -> None:
        assert isinstance(batch, ArrowBatch)
        data = batch.data
        if not data.num_rows:
            return
        self._backend.merge_some()
        changes = changes_of(data)
        keys, groups = self._places(data, changes, self._positions[input_index])
        now_ms = self.context.clock.now_ms()
        states: dict[Any, Any] = {}
        changed: dict[Any, int] = {}
        out: list[Change] = []
        self.begin_batch()
        backend = self._backend
        for (kind, row), key, group in zip(changes, keys, groups, strict=True):
            backend.key, backend.group = key, group
            state = states.get(key, _UNREAD)
            if state is _UNREAD:
                state = states[key] = self.read(group, key, now_ms)
            found = self.change(state, kind, row, input_index, out)
            if found is not KEEP:
                states[key] = found
                changed[key] = group
        for key, group in changed.items():
            self.write(group, key, states[key], now_ms)
        self.clean(len(changes), now_ms)
        self.end_batch(out)
        self.emit(out)

    def emit(self, out: Sequence[Change]) -> None:
        if out:
            self.context.output.emit(ArrowBatch(batch_of(out, self._schema)))

    def read(self, group: int, key: Any, now_ms: int) -> Any:
        return self._state.read(group, key, now_ms)

    def write(self, group: int, key: Any, state: Any, now_ms: int) -> None:
        self._state.write(group, key, state, now_ms)

    def clean(self, rows: int, now_ms: int) -> None:
        """Removes some of what has expired."""
        self._state.clean(rows, now_ms)

    def begin_batch(self) -> None:
        """Called before the rows of a batch."""

    def end_batch(self, out: list[Change]) -> None:
        """Called behind the rows of a batch, when states are written. What is emitted is added to ``out``."""

    @abstractmethod
    def change(self, state: Any, kind: int, row: Row, input_index: int, out: list[Change]) -> Any:
        """Takes one row into the state of its key, ``None`` where there is none, and returns the new state, or ``KEEP``. What is emitted
        is added to ``out``."""

    def _places(
        self, data: pa.RecordBatch, changes: Sequence[Change], positions: Sequence[int]
    ) -> tuple[list[Any], list[int]]:
        """The key of each row, and its key group."""
        if not positions:
            return [()] * len(changes), [self._backend.owned.start] * len(changes)
        only = positions[0] if len(positions) == 1 else None
        keys = canonical_keys(
            [row[only] for _, row in changes]
            if only is not None
            else [tuple([row[position] for position in positions]) for _, row in changes]
        )
        groups = key_groups(
            hash_columns([data.column(position) for position in positions]), self.context.max_parallelism
        )
        self._check(keys, groups)
        return keys, groups.tolist()


__all__ = ["KEEP", "RelationalOperator", "StateOfKey"]
