"""Converts tables to operator state (Flink: ``OperatorTransformation.java``, ``StateBootstrapTransformation.java``).

OperatorTransformation.bootstrap_with(tables) ─┬─ key_by(column, type) ─┬─ transform(descriptor)      keyed state
                                               │                        └─ timers(domain)             timers
                                               ├─ list_state, union_state, broadcast_state            of the operator itself
                                               └─ like(reader, operator, state)                       as it was read: any kind
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from tidegate.columnar.keys.hashing import hash_columns, key_groups
from tidegate.common.typeinfo import RowTypeInfo, TypeInformation, Types
from tidegate.functions.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from tidegate.functions.time_domain import TimeDomain
from tidegate.model.checkpoint import StateRedistribution
from tidegate.model.errors import Misuse, SchemaMismatch
from tidegate.records.keys import hash_keys
from tidegate.records.pickling import foreign_pickles
from tidegate.records.record_codec import decode_column, encode_column
from tidegate.state_processor.identifier import OperatorIdentifier
from tidegate.state_processor.placing import SUBTASK
from tidegate.state_processor.reader import TIMERS, SavepointReader
from tidegate.taskmanager.state.files.segments import Groups, metadata_of
from tidegate.wire.state_columns import DELETED, ELEMENT, KEY_GROUP, is_identity

__all__ = [
    "KeyedOperatorTransformation",
    "OneInputOperatorTransformation",
    "OperatorTransformation",
    "StateBootstrapTransformation",
]

Tables = Iterable[pa.Table]
KEY, VALUE, TIMESTAMP = "key", "value", "timestamp"
KEY_PREFIX = "key."
PICKLED = b"tidegate.pickled"
HOW_TO_TRUST = (
    "OperatorTransformation.bootstrap_with(tables, trusts_pickles=True) reads it, if you trust who wrote the savepoint"
)
_KINDS: dict[type[StateDescriptor], str] = {
    ValueStateDescriptor: "value",
    ListStateDescriptor: "list",
    MapStateDescriptor: "map",
    ReducingStateDescriptor: "reducing",
    AggregatingStateDescriptor: "aggregating",
}


@dataclass(frozen=True, slots=True)
class StateBootstrapTransformation:
    """One state to be written. ``batches``: with the columns of a state file, without key groups; ``groups_of``: computes the key groups of keyed
    state; ``redistribution``: that of operator state, whose batches may have the column ``subtask`` after the elements."""

    state_name: str
    kind: str
    types: dict[str, str]
    batches: Callable[[], Iterator[pa.RecordBatch]]
    groups_of: Callable[[pa.RecordBatch, int], Groups] | None = None
    redistribution: StateRedistribution | None = None


class OperatorTransformation:
    """Starts the conversion of tables to state."""

    @staticmethod
    def bootstrap_with(tables: pa.Table | Tables, *, trusts_pickles: bool = False) -> OneInputOperatorTransformation:
        """Converts tables to state. ``tables``: one, or any number of them one after the other, which are read when the savepoint is written, and never
        held together.

        ``trusts_pickles``: keys that a savepoint has as pickled objects of classes are read to know their key groups, which lets who wrote the savepoint run
        code here; without it they are ``Misuse``."""
        return OneInputOperatorTransformation([tables] if isinstance(tables, pa.Table) else tables, trusts_pickles)


class OneInputOperatorTransformation:
    """Tables that become state of a savepoint, whose kind is not chosen yet: the result of ``OperatorTransformation.bootstrap_with``.

    ``key_by`` leads to keyed state and timers; ``list_state``, ``union_state`` and ``broadcast_state`` make operator state;
    ``like`` makes the same kind as a state that was read.
    """

    def __init__(self, tables: Tables, trusts_pickles: bool = False) -> None:
        self._tables = tables
        self._trusts_pickles = trusts_pickles

    def key_by(self, column: str, key_type: TypeInformation) -> KeyedOperatorTransformation:
        """Groups rows by a key column. ``key_type``: as in the program's ``key_by``; ``Types.PICKLED_BYTE_ARRAY()`` where that declares none."""
        return KeyedOperatorTransformation(self._tables, column, key_type, self._trusts_pickles)

    def list_state(self, descriptor: ListStateDescriptor, column: str = ELEMENT) -> StateBootstrapTransformation:
        """Writes a column as list state, whose elements are distributed over the subtasks."""
        return self._elements(descriptor.name, descriptor.elem_type_info, StateRedistribution.SPLIT, "list", column)

    def union_state(self, descriptor: ListStateDescriptor, column: str = ELEMENT) -> StateBootstrapTransformation:
        """Writes a column as union list state, all of whose elements each subtask gets."""
        return self._elements(descriptor.name, descriptor.elem_type_info, StateRedistribution.UNION, "union", column)

    def broadcast_state(
        self, descriptor: MapStateDescriptor, key_column: str = KEY, value_column: str = VALUE
    ) -> StateBootstrapTransformation:
        """Writes two columns as broadcast state, of which every subtask gets a copy."""
        entry = RowTypeInfo([descriptor.key_type_info, descriptor.value_type_info], ["key", "value"])

        def batches() -> Iterator[pa.RecordBatch]:
            for table in self._tables:
                keys = _as_type(table, key_column, descriptor.key_type_info, descriptor.name)
                values = _as_type(table, value_column, descriptor.value_type_info, descriptor.name)
                field = entry.arrow_field(ELEMENT)
                rows = pa.StructArray.from_arrays([keys, values], fields=list(field.type))
                yield pa.RecordBatch.from_arrays([rows], schema=pa.schema([field]))

        types, mode = {ELEMENT: repr(entry)}, StateRedistribution.BROADCAST
        return StateBootstrapTransformation(descriptor.name, "broadcast", types, batches, redistribution=mode)

    def like(
        self, reader: SavepointReader, identifier: OperatorIdentifier, state_name: str
    ) -> StateBootstrapTransformation:
        """Writes tables as a state of a savepoint: with its name, kind and types. The tables have the columns of that state when it is read; values and
        rows may differ.

        ``key_group`` is not looked at. Elements stay with their ``subtask``; without that column list state is dealt evenly. Broadcast state is written once.
        """
        state, schema = reader.state(identifier, state_name), reader.schema_of(identifier, state_name)
        about = metadata_of(schema)
        if state.channels:
            raise Misuse(f"{state_name!r} is data in flight, which cannot be written: take a savepoint")
        wanted = schema.remove_metadata()
        if KEY_GROUP in wanted.names:
            wanted = wanted.remove(wanted.get_field_index(KEY_GROUP))
        if DELETED in wanted.names:
            wanted = wanted.remove(wanted.get_field_index(DELETED))

        left_out = {KEY_GROUP, *wanted.names}
        if not state.is_keyed:
            wanted = wanted.append(pa.field(SUBTASK, pa.int32()))

        def batches() -> Iterator[pa.RecordBatch]:
            for table in self._tables:
                names = [field for field in wanted if field.name in table.schema.names]
                names += [field for field in table.schema if is_identity(field.name) and field.name not in left_out]
                yield _batch([_cast(table, field.name, field, state_name) for field in names], names)

        kind, types = str(about.get("kind", "")), dict(about.get("types", {}))
        if state.is_keyed:
            return StateBootstrapTransformation(
                state_name, kind, types, batches, partial(_groups_of_columns, self._trusts_pickles)
            )
        mode = StateRedistribution(state.redistribution)
        return StateBootstrapTransformation(state_name, kind, types, batches, redistribution=mode)

    def _elements(
        self, name: str, type_info: TypeInformation, mode: StateRedistribution, kind: str, column: str
    ) -> StateBootstrapTransformation:
        def batches() -> Iterator[pa.RecordBatch]:
            for table in self._tables:
                field = type_info.arrow_field(ELEMENT)
                yield _batch([_as_type(table, column, type_info, name)], [field])

        types = {ELEMENT: repr(type_info)}
        return StateBootstrapTransformation(name, kind, types, batches, redistribution=mode)


class KeyedOperatorTransformation:
    """Tables with a key column."""

    def __init__(self, tables: Tables, column: str, key_type: TypeInformation, trusts_pickles: bool) -> None:
        self._tables = tables
        self._trusts_pickles = trusts_pickles
        self._column = column
        self._key_type = key_type

    def transform(self, descriptor: StateDescriptor, column: str = VALUE) -> StateBootstrapTransformation:
        """Writes a column as keyed state. ``column``: the value for each key, in the descriptor's type: the list of a list state, the accumulator of an
        aggregating one."""
        kind = next((kind for of, kind in _KINDS.items() if isinstance(descriptor, of)), None)
        if kind is None or descriptor.ttl_config is not None:
            raise Misuse(
                f"{descriptor!r} cannot be written from a table"
                + ("" if kind is None else ": its values have a time-to-live")
            )

        def batches() -> Iterator[pa.RecordBatch]:
            for table in self._tables:
                fields = [self._key_type.arrow_field(KEY), descriptor.type_info.arrow_field(VALUE)]
                values = _as_type(table, column, descriptor.type_info, descriptor.name)
                yield _batch([self._keys(table, descriptor.name), values], fields)

        types = {KEY: repr(self._key_type), VALUE: repr(descriptor.type_info)}
        return StateBootstrapTransformation(descriptor.name, kind, types, batches, self._groups)

    def timers(
        self, domain: TimeDomain = TimeDomain.EVENT_TIME, column: str = TIMESTAMP
    ) -> StateBootstrapTransformation:
        """Writes timers. ``column``: when each timer fires, milliseconds since 1970."""
        name = TIMERS[domain]

        def batches() -> Iterator[pa.RecordBatch]:
            for table in self._tables:
                fields = [self._key_type.arrow_field(KEY), pa.field(TIMESTAMP, pa.int64())]
                yield _batch([self._keys(table, name), _as_type(table, column, Types.LONG(), name)], fields)

        return StateBootstrapTransformation(name, "timers", {KEY: repr(self._key_type)}, batches, self._groups)

    def _keys(self, table: pa.Table, name: str) -> pa.Array:
        keys = _as_type(table, self._column, self._key_type, name)
        if _is_pickled(table, self._column) and not self._trusts_pickles:
            with foreign_pickles(HOW_TO_TRUST, trusted=False):
                decode_column(self._key_type, keys)
        return keys

    def _groups(self, batch: pa.RecordBatch, max_parallelism: int) -> Groups:
        field = batch.schema.field(KEY)
        if pa.types.is_nested(field.type) or PICKLED in (field.metadata or {}):
            hashes = hash_keys(decode_column(self._key_type, batch.column(KEY)))
        else:
            hashes = hash_columns([batch.column(KEY)])
        return key_groups(hashes, max_parallelism)


def _groups_of_columns(trusts_pickles: bool, batch: pa.RecordBatch, max_parallelism: int) -> Groups:
    """Returns the key groups of a state that was read: its key is one column, or several for columnar aggregates. Pickled keys are unpickled."""
    names = [name for name in batch.schema.names if name == KEY or name.startswith(KEY_PREFIX)]
    fields = [batch.schema.field(name) for name in names]
    if names != [KEY]:
        return key_groups(hash_columns([batch.column(name) for name in names]), max_parallelism)
    if PICKLED in (fields[0].metadata or {}):
        with foreign_pickles(HOW_TO_TRUST, trusted=trusts_pickles):
            keys = decode_column(Types.PICKLED_BYTE_ARRAY(), batch.column(KEY))
        return key_groups(hash_keys(keys), max_parallelism)
    if pa.types.is_struct(fields[0].type):  # a tuple or row, whose hash is that of its fields
        column = batch.column(KEY)
        return key_groups(hash_columns(column.flatten()), max_parallelism)
    return key_groups(hash_columns([batch.column(KEY)]), max_parallelism)


def _batch(arrays: list[pa.Array], fields: list[pa.Field]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _as_type(table: pa.Table, column: str, type_info: TypeInformation, state: str) -> pa.Array:
    """Converts a column to the form of a state file."""
    field = type_info.arrow_field(column)
    if PICKLED in (field.metadata or {}) and not _is_pickled(table, column):
        return encode_column(type_info, _column(table, column, state).to_pylist(), f"state '{state}'")
    return _cast(table, column, field, state)


def _cast(table: pa.Table, column: str, field: pa.Field, state: str) -> pa.Array:
    found = _column(table, column, state)
    if found.type == field.type:
        return found
    try:
        return found.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise SchemaMismatch(
            f"state '{state}': column '{column}' of the table is of type {found.type}, and the state takes {field.type} ({error}): cast the column"
        ) from error


def _column(table: pa.Table, column: str, state: str) -> pa.Array:
    if column not in table.schema.names:
        raise SchemaMismatch(
            f"state '{state}': the table to write has the columns {table.schema.names}, and the state needs '{column}' too: add it to the table"
        )
    chunked = table.column(column).combine_chunks()
    if isinstance(chunked, pa.ChunkedArray):
        return pa.concat_arrays(chunked.chunks) if chunked.num_chunks else pa.array([], chunked.type)
    return chunked


def _is_pickled(table: pa.Table, column: str) -> bool:
    return column in table.schema.names and PICKLED in (table.schema.field(column).metadata or {})
