"""The Arrow type of each of Flink's logical types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from tidegate.plan.errors import UnsupportedPlan
from tidegate.plan.logical_types import LogicalType, TypeRoot

RowType = LogicalType
"""A ``LogicalType`` whose root is ROW."""


def arrow_type(type: LogicalType) -> pa.DataType:
    """Returns the Arrow type of columns of a logical type. Raises ``UnsupportedPlan`` for a type without one.

    Timestamps have the unit that their precision needs (ms up to 3 digits, us up to 6, else ns), with UTC for those with a local time
    zone; TIME is in ms; intervals are a duration in ms or a number of months; RAW is what streams have of its class.
    """
    simple = _SIMPLE.get(type.root)
    if simple is not None:
        return simple
    match type.root:
        case TypeRoot.DECIMAL:
            return pa.decimal128(type.precision, type.scale)
        case TypeRoot.TIMESTAMP:
            return pa.timestamp(time_unit(type))
        case TypeRoot.TIMESTAMP_LTZ:
            return pa.timestamp(time_unit(type), tz="UTC")
        case TypeRoot.ARRAY:
            return pa.list_(arrow_type(type.element))
        case TypeRoot.MAP:
            key, value = type.children
            return pa.map_(arrow_type(key), arrow_type(value))
        case TypeRoot.MULTISET:
            return pa.map_(arrow_type(type.element), pa.int32())
        case TypeRoot.ROW:
            return pa.struct([pa.field(field.name, arrow_type(field.type)) for field in type.fields])
        case TypeRoot.STRUCTURED if type.attributes:
            return pa.struct([pa.field(field.name, arrow_type(field.type)) for field in type.attributes])
        case TypeRoot.RAW if type.class_name in _RAW:
            return _RAW[type.class_name]
        case _:
            raise UnsupportedPlan(f"values of the type {type} cannot be held in a column; cast them to another type")


def arrow_schema(type: RowType) -> pa.Schema:
    """Returns a schema with a field for each field of a row. Every field is nullable: NOT NULL is checked by those who promise it.
    Raises ``UnsupportedPlan`` as ``arrow_type`` does."""
    return pa.schema([pa.field(field.name, arrow_type(field.type)) for field in type.fields])


def batch_of(columns: Sequence[pa.Array], schema: pa.Schema, count: int) -> pa.RecordBatch:
    """Makes a batch of ``count`` rows, also without columns."""
    if columns:
        return pa.RecordBatch.from_arrays(columns, schema=schema)
    return pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))


def time_unit(type: LogicalType) -> str:
    """Returns the unit of a timestamp's column: ``ms``, ``us`` or ``ns``."""
    precision = 6 if type.precision is None else type.precision
    return "ms" if precision <= 3 else "us" if precision <= 6 else "ns"


_SIMPLE: Final = {
    TypeRoot.CHAR: pa.string(),
    TypeRoot.VARCHAR: pa.string(),
    TypeRoot.BOOLEAN: pa.bool_(),
    TypeRoot.BINARY: pa.binary(),
    TypeRoot.VARBINARY: pa.binary(),
    TypeRoot.TINYINT: pa.int8(),
    TypeRoot.SMALLINT: pa.int16(),
    TypeRoot.INTEGER: pa.int32(),
    TypeRoot.BIGINT: pa.int64(),
    TypeRoot.FLOAT: pa.float32(),
    TypeRoot.DOUBLE: pa.float64(),
    TypeRoot.DATE: pa.date32(),
    TypeRoot.TIME: pa.time32("ms"),
    TypeRoot.INTERVAL_YEAR_MONTH: pa.int32(),
    TypeRoot.INTERVAL_DAY_TIME: pa.duration("ms"),
    TypeRoot.NULL: pa.null(),
}
_RAW: Final = {
    "[B": pa.binary(),
    "java.lang.Character": pa.string(),
    "java.math.BigInteger": pa.decimal256(76, 0),
}
"""The Arrow types of RAW by class: pickled objects, ``Types.CHAR()`` and ``Types.BIG_INT()``."""
