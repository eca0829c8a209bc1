"""What the methods of streams are told of types: hints of output types, and columns that are to be event time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidegate.common.typeinfo import RowTypeInfo, TypeInformation, Types
from tidegate.common.watermark_strategy import WatermarkStrategy, check_timestamp_type
from tidegate.functions.adapters import FieldTimestamp
from tidegate.model.errors import InvalidJob, SchemaMismatch

__all__ = ["TypeHint", "bind_strategy", "type_of"]

TypeHint = TypeInformation | Sequence[TypeInformation] | None
"""What ``output_type`` takes; a list of types is a row of them; ``None`` means pickled objects."""


def type_of(hint: TypeHint) -> TypeInformation:
    """The type that ``output_type`` means."""
    if hint is None:
        return Types.PICKLED_BYTE_ARRAY()
    if isinstance(hint, TypeInformation):
        return hint
    if isinstance(hint, (list, tuple)) and all(isinstance(part, TypeInformation) for part in hint):
        return RowTypeInfo(hint)
    raise InvalidJob(f"not a type: {hint!r}; use one of Types, such as Types.LONG()")


def bind_strategy(strategy: WatermarkStrategy, stream_type: TypeInformation) -> WatermarkStrategy:
    """Checks that a timestamp column is there and can be event time. On a stream of records that have names, the column
    becomes an assigner."""
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
