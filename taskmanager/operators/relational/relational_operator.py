"""Base classes of operators of compiled plans with state by key, which process one row after another.

    batch ─▶ rows with their kinds ─▶ the state of each key, read once ─▶ ``change`` for each row ─▶ states written once, one batch out

State of a key that can grow without bound is not one value but named entries (``EntriesOfKeys``).

docs/state-format.md has the layout of each state.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.columnar.keys.hashing import hash_columns, key_groups
from tidegate.common.typeinfo import Types
from tidegate.functions.base import UserCode
from tidegate.functions.sql.distinct_rows import number_rows
from tidegate.functions.sql.rows import Change, Row, batch_of, kinds_of, rows_of, values_of
from tidegate.model.channel_events import UserEvent
from tidegate.model.program import KeySpec
from tidegate.records.batch import ArrowBatch, Batch
from tidegate.records.canonical.forms import EncodedKey, canonical_key, canonical_keys
from tidegate.taskmanager.keyed_state.backend import KeyedEntries, KeyedTable
from tidegate.taskmanager.keyed_state.entry import Entry
from tidegate.taskmanager.keyed_state.named_values import NamedValues
from tidegate.taskmanager.keyed_state.ttl import Sweep, Ttl
from tidegate.taskmanager.operators.relational.mini_batches import MiniBatch
from tidegate.taskmanager.operators.rows.keyed import KeyedOperator
from tidegate.taskmanager.operators.user_code.user_function import UserFunction

Name: TypeAlias = Any
"""The name of a value of a key: a tuple of plain values, or bytes."""
Split: TypeAlias = Callable[[Any], Iterable[tuple[Name, Any, int | None]]]
KEEP: Final = object()
"""The result of ``change`` if the state did not change: it is not written, so its time to live is not extended."""
_UNREAD: Final = object()
SWEPT_FOR_EACH_ROW = 5
"""Number of entries that are checked for expiry for each row (Flink's incremental cleanup: for each access)."""


class StateOfKey:
    """State with one value for each key. A time to live is counted from the last write."""

    def __init__(self, table: KeyedTable, ttl: Ttl | None, sweep: Sweep | None) -> None:
        self._table, self._ttl, self._sweep = table, ttl, sweep

    def read(self, group: int, key: Any, now_ms: int) -> Any:
        """Returns the value of a key; ``None`` if there is none or it has expired. It may be changed in place, and has to be written then."""
        found = self._table.read(group, (key, None))
        if found is None or self._ttl is None:
            return found
        value, stamp = found
        return None if self._ttl.is_expired(stamp, now_ms) else value

    def write(self, group: int, key: Any, value: Any, now_ms: int) -> None:
        """Writes the value of a key; ``None`` removes it."""
        if value is None:
            self._table.delete(group, (key, None))
        else:
            self._table.write(group, (key, None), value if self._ttl is None else (value, now_ms))

    def peek_all(self, entries: Sequence[Entry], groups: Sequence[int], now_ms: int) -> list[Any]:
        """Returns the value of each key as ``read`` does. Values must not be changed. ``entries``: each key with ``None``, by which tables find values."""
        found = self._table.peek_all(groups, entries)
        if self._ttl is None:
            return found
        last = now_ms - self._ttl.ms
        return [None if held is None or held[1] <= last else held[0] for held in found]

    def write_all(self, entries: Sequence[Entry], groups: Sequence[int], values: Sequence[Any], now_ms: int) -> None:
        """Writes the value of each key, which must not be ``None``."""
        self._table.write_all(groups, entries, values if self._ttl is None else [(value, now_ms) for value in values])

    def entries(self) -> Iterator[tuple[int, Any, Any]]:
        """Yields group, key and value of all entries, for states without a time to live."""
        for group, (key, _namespace), value in self._table.entries():
            yield group, key, value

    def clean(self, rows: int, now_ms: int) -> None:
        """Removes some of the expired entries."""
        if self._sweep is not None:
            self._sweep(SWEPT_FOR_EACH_ROW * rows, now_ms)


class EntriesOfKey:
    """The named values of one key at one time. A value that is ``put`` is written at once and must not be changed afterwards; a value that is ``take``n may be
    changed in place, and ``flush`` writes it.
    """

    __slots__ = ("_group", "_key", "_now_ms", "_table", "_taken", "_ttl")

    def __init__(self, table: KeyedEntries, ttl: Ttl | None, group: int, key: Any, now_ms: int) -> None:
        self._table, self._ttl, self._group, self._key, self._now_ms = table, ttl, group, key, now_ms
        self._taken: dict[Name, Any] | None = None

    def all(self) -> Mapping[Name, Any]:
        """Returns all values that have not expired. They must not be changed, and are valid until the next ``put``."""
        if self._taken is not None:
            self.flush()
        found = self._table.of_key(self._group, self._key)
        if self._ttl is None:
            return found
        last = self._now_ms - self._ttl.ms
        return {name: value for name, (value, stamp) in found.items() if stamp > last}

    def get(self, name: Name) -> Any:
        """Returns a value; ``None`` if there is none or it has expired."""
        found = self._table.peek(self._group, (self._key, name))
        if found is None or self._ttl is None:
            return found
        value, stamp = found
        return None if self._ttl.is_expired(stamp, self._now_ms) else value

    def take(self, name: Name) -> Any:
        """Returns a value as ``get`` does, which may be changed in place until ``flush`` writes it."""
        if self._taken is not None and (held := self._taken.get(name)) is not None:
            return held
        found = self._table.read(self._group, (self._key, name))
        if found is not None and self._ttl is not None:
            value, stamp = found
            found = None if self._ttl.is_expired(stamp, self._now_ms) else value
        return None if found is None else self.begin(name, found)

    def begin(self, name: Name, value: Any) -> Any:
        """Adds a new value, which may be changed in place until ``flush`` writes it. Returns it."""
        if self._taken is None:
            self._taken = {}
        self._taken[name] = value
        return value

    def flush(self) -> None:
        """Writes the values that were taken."""
        if self._taken is not None:
            taken, self._taken = self._taken, None
            for name, value in taken.items():
                self.put(name, value)

    def put(self, name: Name, value: Any) -> None:
        """Writes a value; ``None`` removes it."""
        if self._taken is not None:
            self._taken.pop(name, None)
        if value is None:
            self._table.delete(self._group, (self._key, name))
        else:
            self._table.write(self._group, (self._key, name), value if self._ttl is None else (value, self._now_ms))

    def append(self, name: Name, value: Any) -> None:
        """Appends a value, which must not be ``None``, to the list ``name``. The entry ``name`` has the list's length, the entry ``(*name, i)`` its value i."""
        count = self.get(name) or 0
        self.put((*name, count), value)
        self.put(name, count + 1)

    def listed(self, name: Name) -> list[Any]:
        """Returns the values of a list."""
        return [self.get((*name, at)) for at in range(self.get(name) or 0)]

    def remove_list(self, name: Name) -> None:
        """Removes a list with its values."""
        for at in range(self.get(name) or 0):
            self.put((*name, at), None)
        self.put(name, None)


class EntriesOfKeys:
    """State with named values for each key. Each is an entry of its own in snapshots, with or without a time to live. ``split``: divides the single value per
    key that earlier versions wrote into entries, each with the time of its last write in ms, or ``None`` if that is the time of the value.
    """

    def __init__(self, table: KeyedEntries, ttl: Ttl | None, sweep: Sweep | None, split: Split) -> None:
        self._table, self._ttl, self._sweep, self._split = table, ttl, sweep, split

    def of(self, group: int, key: Any, now_ms: int) -> EntriesOfKey:
        """Returns the values of a key."""
        if self._table.has_unnamed and (before := self._table.peek(group, (key, None))) is not None:
            self._divide(group, key, before)
        return EntriesOfKey(self._table, self._ttl, group, key, now_ms)

    @property
    def has_undivided(self) -> bool:
        """Whether there may be values of earlier versions, which ``of`` divides into entries."""
        return self._table.has_unnamed

    @property
    def expires(self) -> bool:
        """Whether the state has a time to live."""
        return self._ttl is not None

    def reader(self, now_ms: int) -> Callable[[int, Any], Mapping[Name, Any]]:
        """Returns the fastest function that returns all values of a key group's key as ``EntriesOfKey.all`` does."""
        if self._ttl is None and not self._table.has_unnamed:
            return self._table.of_key
        return lambda group, key: self.of(group, key, now_ms).all()

    def all_of(self, group: int, key: Any) -> Mapping[Name, Any]:
        """Returns all values of a key as ``EntriesOfKey.all`` does, for divided states without a time to live."""
        return self._table.of_key(group, key)

    def peek_all(self, entries: Sequence[Entry], groups: Sequence[int]) -> list[Any]:
        """Returns values as ``EntriesOfKey.get`` does, for divided states without a time to live. ``entries``: the key and the name of each."""
        return self._table.peek_all(groups, entries)

    def write_all(self, entries: Sequence[Entry], groups: Sequence[int], values: Sequence[Any]) -> None:
        """Writes values as ``EntriesOfKey.put`` does, for states without a time to live. ``entries``: the key and the name of each."""
        self._table.write_all(groups, entries, values)

    def named(self, groups: Sequence[int], keys: Sequence[Any], names: Sequence[Name]) -> NamedValues:
        """Returns the values of keys that have some names, as ``EntriesOfKey.get`` does, for divided states without a time to live. ``groups``: the key group
        of each key.
        """
        return self._table.named(groups, keys, names)

    def delete_all(self, entries: Sequence[Entry], groups: Sequence[int]) -> None:
        """Removes values. ``entries``: the key and the name of each."""
        self._table.delete_all(groups, entries)

    def undivided(self, group: int, key: Any) -> Any:
        """Returns the single value of a key that an earlier version wrote, until ``of`` divides it into entries. For states without a time to live."""
        return self._table.peek(group, (key, None)) if self._table.has_unnamed else None

    def clean(self, rows: int, now_ms: int) -> None:
        """Removes some of the expired entries."""
        if self._sweep is not None:
            self._sweep(SWEPT_FOR_EACH_ROW * rows, now_ms)

    def _divide(self, group: int, key: Any, before: Any) -> None:
        whole, stamp = before if self._ttl is not None else (before, 0)
        for name, value, written_ms in self._split(whole):
            stamped = value if self._ttl is None else (value, stamp if written_ms is None else written_ms)
            self._table.write(group, (key, name), stamped)
        self._table.delete(group, (key, None))


def name_of(values: Row) -> Name:
    """Returns values as a name. Equal values have equal names: NaN is equal to itself, and zeros with different signs are different (Flink:
    ``BinaryRowData``).
    """
    form = canonical_key(values)
    return bytes(form) if isinstance(form, EncodedKey) else form


def names_of(rows: Sequence[Row], columns: Sequence[pa.Array]) -> Sequence[Name]:
    """Returns the names of rows, of which ``columns`` are the values."""
    return rows if all(is_plain(column.type) for column in columns) else [name_of(row) for row in rows]


def is_plain(type: pa.DataType) -> bool:
    """Tells whether values of a column in rows are their own canonical forms."""
    return bool(pa.types.is_integer(type) or pa.types.is_string(type) or pa.types.is_temporal(type))


def differs(before: Row, now: Row) -> bool:
    """Tells whether a row that replaces another one has other values. A row with NaN always has, since NaN is not equal to itself in Flink's generated
    equaliser.
    """
    return before != now or any(value != value for value in now)


class KeyedChanges:
    """A batch of an input: its columns, and for each row its key and its key group. ``now_ms``: the processing time of its arrival. Rows are converted to plain
    values when they are first read.
    """

    def __init__(self, data: pa.RecordBatch, keys: Sequence[Any], groups: Sequence[int], now_ms: int) -> None:
        self.data = data
        self.keys = keys
        self.groups = groups
        self.now_ms = now_ms

    @cached_property
    def changes(self) -> list[Change]:
        """Returns the kind of each row with its values."""
        return list(zip(kinds_of(self.data), self.values, strict=True))

    @cached_property
    def values(self) -> list[Row]:
        """Returns the rows without their kinds."""
        return rows_of(self.data)

    def taken(self, places: npt.NDArray[np.intp]) -> KeyedChanges:
        """Returns some of the rows."""
        chosen = places.tolist()
        data = self.data.take(pa.array(places))
        return KeyedChanges(data, [self.keys[at] for at in chosen], [self.groups[at] for at in chosen], self.now_ms)

    def by_key(self) -> tuple[dict[Any, int], npt.NDArray[np.intp]]:
        """Returns the keys of the batch with their key groups, and for each row the number of its key among them."""
        group_of = dict(zip(self.keys, self.groups, strict=True))
        count = len(self.keys)
        if len(group_of) == count:
            return group_of, np.arange(count, dtype=np.intp)
        place_of = dict(zip(group_of, range(count), strict=False))
        return group_of, np.fromiter(map(place_of.__getitem__, self.keys), np.intp, count)


@dataclass(frozen=True, slots=True)
class DistinctKeys:
    """The different keys of a batch with their key groups, in the order in which they come; for each row the number of its key."""

    keys: Sequence[Any]
    groups: Sequence[int]
    key_of: npt.NDArray[np.intp]


class TableOperator(KeyedOperator):
    """Base class of operators of compiled plans with state by key. ``keys``: for each input the columns of its key; none: all rows have one key. ``schema``: of
    the emitted rows.
    """

    works_on = "arrow"

    def __init__(self, name: str, keys: Sequence[Sequence[int]], schema: pa.Schema, ttl_ms: int = 0) -> None:
        super().__init__(name, [KeySpec() for _ in keys])
        self._positions = keys
        self._schema = schema
        self._ttl_ms = ttl_ms
        self._states: list[StateOfKey | EntriesOfKeys] = []
        self._user: UserFunction | None = None
        self._mini_batch: MiniBatch | None = None

    def gather(self, size: int) -> None:
        """Processes rows in mini-batches of so many rows at most (``table.exec.mini-batch.size``)."""
        self._mini_batch = MiniBatch(size)

    def call_functions(self, functions: UserCode) -> None:
        """Registers user functions, which are opened and closed with the operator."""
        self._user = UserFunction(functions, self._name)

    def open(self) -> None:
        self.open_states()
        super().open()
        if self._user is not None:
            self._user.open(self.context)

    def close(self) -> None:
        super().close()
        if self._user is not None:
            self._user.close()

    @abstractmethod
    def open_states(self) -> None:
        """Creates the states of the operator."""

    def state_of_key(self, name: str, ttl_ms: int) -> StateOfKey:
        ttl = Ttl(ttl_ms, in_full_snapshot=True, sweep_size=SWEPT_FOR_EACH_ROW) if ttl_ms else None
        table = self._backend.table(name, "value", Types.PICKLED_BYTE_ARRAY(), ttl)
        made = StateOfKey(table, ttl, None if ttl is None else self._backend.sweep(name))
        self._states.append(made)
        return made

    def entries_of_keys(self, name: str, ttl_ms: int, split: Split) -> EntriesOfKeys:
        ttl = Ttl(ttl_ms, in_full_snapshot=True, sweep_size=SWEPT_FOR_EACH_ROW) if ttl_ms else None
        table = self._backend.entries_by_key(name, Types.PICKLED_BYTE_ARRAY(), ttl)
        made = EntriesOfKeys(table, ttl, None if ttl is None else self._backend.sweep(name), split)
        self._states.append(made)
        return made

    def process(self, batch: Batch, input_index: int) -> None:
        assert isinstance(batch, ArrowBatch)
        data = batch.data
        if not data.num_rows:
            return
        if self._mini_batch is None:
            self._process(data, input_index)
        elif self._mini_batch.add(data, input_index):
            self._end_mini_batch()

    def on_watermark(self, timestamp_ms: int) -> None:
        self._end_mini_batch()
        super().on_watermark(timestamp_ms)

    def on_user_event(self, event: UserEvent, input_index: int) -> None:
        self._end_mini_batch()
        super().on_user_event(event, input_index)

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        self._end_mini_batch()
        super().prepare_snapshot(checkpoint_id)

    def finish(self) -> None:
        self._end_mini_batch()
        super().finish()

    def _end_mini_batch(self) -> None:
        if self._mini_batch is not None:
            for input_index, data in self._mini_batch.take():
                self._process(data, input_index)

    @abstractmethod
    def _process(self, data: pa.RecordBatch, input_index: int) -> None:
        """Processes at least one row of an input."""

    def _places(self, data: pa.RecordBatch, positions: Sequence[int]) -> tuple[list[Any], list[int]]:
        """Returns the key and the key group of each row."""
        if not positions:
            return [()] * data.num_rows, [self._backend.owned.start] * data.num_rows
        columns = [data.column(position) for position in positions]
        values = list(map(values_of, columns))
        keys: list[Any] = values[0] if len(values) == 1 else list(zip(*values, strict=True))
        if not all(is_plain(column.type) for column in columns):
            keys = canonical_keys(keys)
        groups = key_groups(hash_columns(columns), self.context.max_parallelism)
        self._check(keys, groups)
        return keys, groups.tolist()

    def _distinct_keys(self, data: pa.RecordBatch, positions: Sequence[int]) -> DistinctKeys:
        """Returns the keys of a batch, without an object for each row where the columns allow it."""
        columns = [data.column(position) for position in positions]
        if not all(is_plain(column.type) for column in columns):
            group_of, key_of = KeyedChanges(data, *self._places(data, positions), 0).by_key()
            return DistinctKeys(list(group_of), list(group_of.values()), key_of)
        if not columns:
            return DistinctKeys([()], [self._backend.owned.start], np.zeros(data.num_rows, np.intp))
        firsts, key_of = number_rows(columns, data.num_rows)
        chosen = pa.array(firsts)
        found = pa.RecordBatch.from_arrays([column.take(chosen) for column in columns], list(map(str, positions)))
        return DistinctKeys(*self._places(found, range(len(columns))), key_of)


class RelationalOperator(TableOperator):
    """Base class of operators that can process one row after another, each with the state of its key."""

    def open_states(self) -> None:
        self._state = self.state_of_key("state", self._ttl_ms)

    def _process(self, data: pa.RecordBatch, input_index: int) -> None:
        self._backend.merge_some()
        keys, groups = self._places(data, self._positions[input_index])
        self.work(KeyedChanges(data, keys, groups, self.context.clock.now_ms()), input_index)

    def work(self, batch: KeyedChanges, input_index: int) -> None:
        """Processes a batch of at least one row, row by row. An operator that computes something for all rows at once overrides this method."""
        now_ms = batch.now_ms
        states: dict[Any, Any] = {}
        changed: dict[Any, int] = {}
        out: list[Change] = []
        self.begin_batch()
        backend = self._backend
        for (kind, row), key, group in zip(batch.changes, batch.keys, batch.groups, strict=True):
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
        self.clean(len(batch.keys), now_ms)
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
        """Removes some of the expired entries."""
        for state in self._states:
            state.clean(rows, now_ms)

    def begin_batch(self) -> None:
        """Prepares the rows of a batch together, before they are processed one by one; does nothing unless it is overridden."""

    def end_batch(self, out: list[Change]) -> None:
        """Finishes a batch after the states of its keys were written; adds what it emits to ``out``. Does nothing unless it is overridden."""

    @abstractmethod
    def change(self, state: Any, kind: int, row: Row, input_index: int, out: list[Change]) -> Any:
        """Processes one row with the state of its key (``None`` if there is none). Returns the new state, or ``KEEP``, and adds what is emitted to ``out``."""


class EntriesOperator(RelationalOperator):
    """Base class of operators that keep named values for each key, each an entry of its own. The state of a key is an ``EntriesOfKey``."""

    def open_states(self) -> None:
        self._entries = self.entries_of_keys("state", self._ttl_ms, self.split)

    def read(self, group: int, key: Any, now_ms: int) -> EntriesOfKey:
        return self._entries.of(group, key, now_ms)

    def write(self, group: int, key: Any, state: EntriesOfKey, now_ms: int) -> None:
        state.flush()

    @abstractmethod
    def split(self, whole: Any) -> Iterable[tuple[Name, Any, int | None]]:
        """Divides the single value of a key that earlier versions wrote into entries."""


def listed(name: Name, values: Sequence[Any]) -> Iterator[tuple[Name, Any, None]]:
    """Yields the entries of a list, as ``EntriesOfKey.append`` writes them."""
    for at, value in enumerate(values):
        yield (*name, at), value, None
    if values:
        yield name, len(values), None


__all__ = [
    "KEEP",
    "DistinctKeys",
    "EntriesOfKey",
    "EntriesOfKeys",
    "EntriesOperator",
    "KeyedChanges",
    "Name",
    "RelationalOperator",
    "StateOfKey",
    "TableOperator",
    "differs",
    "is_plain",
    "listed",
    "name_of",
    "names_of",
]
