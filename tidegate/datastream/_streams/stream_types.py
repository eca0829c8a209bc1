"""Types in the methods of streams: hints of output types, columns as keys, and columns as event time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from tidegate.common.typeinfo import RowTypeInfo, TupleTypeInfo, TypeInformation, Types
from tidegate.common.watermark_strategy import WatermarkStrategy, check_timestamp_type
from tidegate.functions.adapters import FieldTimestamp
from tidegate.model.errors import InvalidJob, SchemaMismatch
from tidegate.model.program import KeySpec
from tidegate.model.values import FieldValue

__all__ = ["TypeHint", "bind_strategy", "column_key", "fields_of", "type_of"]

TypeHint = TypeInformation | Sequence[TypeInformation] | None
"""A hint of an output type; a list of types is a row of them; ``None``: pickled objects."""


def type_of(hint: TypeHint) -> TypeInformation:
    """Converts a hint of an output type to the type."""
    if hint is None:
        return Types.PICKLED_BYTE_ARRAY()
    if isinstance(hint, TypeInformation):
        return hint
    if isinstance(hint, (list, tuple)) and all(isinstance(part, TypeInformation) for part in hint):
        return RowTypeInfo(hint)
    raise InvalidJob(f"{hint!r} is not a type; use one of Types, such as Types.LONG()")


def bind_strategy(strategy: WatermarkStrategy, stream_type: TypeInformation) -> WatermarkStrategy:
    """Checks that a strategy's timestamp column exists and can be event time. For a stream of records with named fields, the column becomes an assigner."""
    column = strategy.timestamp_column
    if column is None:
        return strategy
    schema = stream_type.arrow_schema()
    if column not in schema.names:
        raise SchemaMismatch(f"no timestamp column {column!r}: the stream has {', '.join(schema.names)}")
    check_timestamp_type(column, schema.field(column).type)
    if stream_type.is_columnar:
        return strategy
    position = schema.names.index(column) if hasattr(stream_type, "get_field_types") else None
    return replace(strategy, timestamp_column=None, timestamp_assigner=FieldTimestamp(position))


def column_key(schema: pa.Schema, names: Sequence[FieldValue], *, has_dicts: bool = False) -> KeySpec:
    """Returns the key of ``key_by("column", ...)``. ``has_dicts``: nested rows are dicts, which cannot be keys. Raises ``InvalidJob`` or
    ``SchemaMismatch`` for names that are not columns, and for columns that cannot be keys."""
    for name in names:
        if not isinstance(name, str):
            raise InvalidJob(f"key_by takes a selector and a TypeInformation, or column names; {name!r} is neither")
        if name not in schema.names:
            raise SchemaMismatch(f"key_by: no column {name!r}: the stream has {', '.join(schema.names)}")
    if len(set(names)) != len(names):
        raise InvalidJob(f"key_by: a column is named twice: {list(names)}")
    structs = [name for name in names if has_dicts and pa.types.is_struct(schema.field(name).type)]
    if structs:
        raise SchemaMismatch(
            f"key_by: the column {structs[0]!r} is of type {schema.field(structs[0]).type}, which cannot be a key: select its fields first, such as "
            f"col({structs[0]!r})['name']"
        )
    key_type = _key_type(schema.field(names[0]).type) if len(names) == 1 else None
    return KeySpec(columns=tuple(names), key_type=key_type)


def _key_type(column: pa.DataType) -> TypeInformation | None:
    """Returns the type of keys from one column, so that state stores them unpickled; ``None``: pickled objects. All whole numbers are LONG, so that
    keys of two streams have one type, whatever their columns' widths."""
    if pa.types.is_signed_integer(column):
        return Types.LONG()
    if pa.types.is_string(column) or pa.types.is_large_string(column):
        return Types.STRING()
    return Types.BOOLEAN() if pa.types.is_boolean(column) else None


def fields_of(kind: TypeInformation, method: str) -> tuple[list[str], list[TypeInformation]]:
    """Names and types of the fields of a tuple or row. Raises ``InvalidJob`` for any other type."""
    if not isinstance(kind, (RowTypeInfo, TupleTypeInfo)):
        raise InvalidJob(f"{method} needs a stream of tuples or rows, this one is of {kind!r}")
    return kind.get_field_names(), kind.get_field_types()
