"""Replaces the values of Arrow columns by stand-ins, so that types, nulls, lengths of lists and names of fields stay.

plain column ─▶ its different values ─▶ a stand-in for each     list, struct, map ─▶ what is inside     pickles, msgpack ─▶ objects
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from tidegate.model.errors import InvalidJob
from tidegate.records.batch import TIMESTAMP_COLUMN
from tidegate.records.column_codec import pickle_column, unpickle_column
from tidegate.records.row_kinds import ROW_KIND
from tidegate.taskmanager.replaying.stand_ins import StandIns
from tidegate.taskmanager.state.files.segments import MSGPACK, PICKLED

OF_RUNTIME = (TIMESTAMP_COLUMN, ROW_KIND)
"""Columns of a batch that are not the user's: event time and kind of change."""
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def replace_batch(batch: pa.RecordBatch, stand_ins: StandIns) -> pa.RecordBatch:
    """Returns a batch of records with stand-ins. Raises ``InvalidJob`` for types that it cannot replace."""
    columns = [
        column if field.name in OF_RUNTIME else replace_column(column, field, stand_ins)
        for column, field in zip(batch.columns, batch.schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def replace_column(column: pa.Array, field: pa.Field, stand_ins: StandIns) -> pa.Array:
    """Returns a column with stand-ins. A field that is kept stays, with everything in it. Raises ``InvalidJob`` for types that it cannot replace."""
    if field.name in stand_ins.keep or column.null_count == len(column):
        return column
    kind = field.type
    if _has(field, PICKLED):
        return pickle_column([stand_ins.value(value) for value in unpickle_column(column)])
    if _has(field, MSGPACK):
        values = [stand_ins.value(msgspec.msgpack.decode(value)) for value in column.to_pylist()]
        return pa.array([msgspec.msgpack.encode(value) for value in values], kind)
    if pa.types.is_nested(kind):
        return _nested(column.take(pa.array(np.arange(len(column)))), kind, stand_ins)
    if pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return column
    if pa.types.is_dictionary(kind):
        values = replace_column(column.dictionary, pa.field(field.name, kind.value_type), stand_ins)
        return pa.DictionaryArray.from_arrays(column.indices, values, ordered=kind.ordered)
    plain, make = _plain(kind, stand_ins, field.name)
    coded = column.view(plain).dictionary_encode() if plain != kind else column.dictionary_encode()
    values = pa.array([make(value) for value in coded.dictionary.to_pylist()], plain)
    found = values.take(coded.indices)
    return found.view(kind) if plain != kind else found


def _plain(kind: pa.DataType, stand_ins: StandIns, name: str) -> tuple[pa.DataType, Callable[[Any], Any]]:
    """Returns the type whose Python values are replaced, as which the column can be viewed, and what replaces them."""
    types = pa.types
    if types.is_string(kind) or types.is_large_string(kind):
        return kind, stand_ins.text
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return kind, stand_ins.octets
    if types.is_integer(kind):
        return kind, stand_ins.integer
    if types.is_floating(kind):
        return kind, stand_ins.real
    if types.is_decimal(kind):
        return kind, stand_ins.decimal
    if types.is_date32(kind):
        return pa.int32(), stand_ins.days
    if types.is_timestamp(kind) or types.is_date64(kind):
        unit = _PER_SECOND[kind.unit] if types.is_timestamp(kind) else 1000
        high = (2**63 - 1) * unit // 10**9  # up to it columns of each unit can be converted to each other
        return pa.int64(), lambda value: stand_ins.integer(value, f"instant {unit}", -high, high)
    if types.is_time(kind):
        day = 86_400 * _PER_SECOND[kind.unit]
        return (pa.int32() if types.is_time32(kind) else pa.int64()), lambda value: stand_ins.of_day(value, day)
    if types.is_duration(kind):
        return pa.int64(), stand_ins.integer
    raise InvalidJob(
        f"the field {name!r} is of type {kind}, which has no stand-ins; keep it with --keep {name}, if others may see it"
    )


def _nested(column: pa.Array, kind: pa.DataType, stand_ins: StandIns) -> pa.Array:
    """``column`` begins at the begin of its buffers, as ``take`` leaves it."""
    mask = column.is_null() if column.null_count else None
    if pa.types.is_struct(kind):
        parts = [replace_column(column.field(i), kind.field(i), stand_ins) for i in range(kind.num_fields)]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=mask)
    if pa.types.is_map(kind):
        keys = replace_column(column.keys, kind.key_field, stand_ins)
        items = replace_column(column.items, kind.item_field, stand_ins)
        return pa.MapArray.from_arrays(column.offsets, keys, items, type=kind, mask=mask)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        values = replace_column(column.values, kind.value_field, stand_ins)
        made = pa.LargeListArray if pa.types.is_large_list(kind) else pa.ListArray
        return made.from_arrays(column.offsets, values, type=kind, mask=mask)
    if pa.types.is_fixed_size_list(kind):
        values = replace_column(column.values, kind.value_field, stand_ins)
        return pa.FixedSizeListArray.from_arrays(values, type=kind, mask=mask)
    raise InvalidJob(f"a field is of type {kind}, which has no stand-ins; keep it with --keep, if others may see it")


def _has(field: pa.Field, mark: dict[bytes, bytes]) -> bool:
    return mark.keys() <= (field.metadata or {}).keys()
