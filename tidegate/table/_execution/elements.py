"""Conversion of rows that a program gives (``from_elements``) to Arrow tables, with PyFlink's type inference."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tidegate.common.row import Row
from tidegate.model.errors import InvalidJob, SchemaMismatch
from tidegate.records.data_types import DataType, RowType


def table_of(elements: Sequence[object], schema: RowType | Sequence[str] | None) -> pa.Table:
    """Converts rows to an Arrow table. Raises ``SchemaMismatch`` for a value that does not fit its type, ``InvalidJob`` for rows without columns."""
    if isinstance(schema, DataType) and not isinstance(schema, RowType):
        elements, names, types = [(element,) for element in elements], ["f0"], [schema.arrow]
    else:
        first = elements[0] if elements else ()
        if isinstance(schema, RowType):
            names, types = schema.field_names(), [kind.arrow for kind in schema.field_types()]
        else:
            names = list(schema) if schema is not None else _names(first)
            types = [None] * len(names)
    if not names:
        raise InvalidJob("from_elements() needs rows with columns, or a schema: DataTypes.ROW([...])")
    columns = [[_part(element, i, name, len(names)) for element in elements] for i, name in enumerate(names)]
    arrays = [_array(name, values, kind) for name, values, kind in zip(names, columns, types, strict=True)]
    return pa.table(dict(zip(names, arrays, strict=True)))


def sql_type(field: pa.Field) -> str:
    """Returns the SQL type of a column. Raises ``InvalidJob`` for a type that tables do not have."""
    return _sql_type(field.type, field.name)


def _names(first: object) -> list[str]:
    if isinstance(first, dict):
        return sorted(map(str, first))
    given = first.given_names if isinstance(first, Row) else None
    if given:
        return list(given)
    return [f"_{number}" for number in range(1, len(first) + 1)] if isinstance(first, (tuple, list, Row)) else ["_1"]


def _part(element: object, index: int, name: str, width: int) -> object:
    if isinstance(element, dict):
        return _plain(element.get(name))
    parts = list(element) if isinstance(element, (tuple, list, Row)) else [element]
    if len(parts) != width:
        raise SchemaMismatch(f"from_elements(): {element!r} has {len(parts)} values, and there are {width} columns")
    return _plain(parts[index])


def _plain(value: Any) -> Any:
    """Converts nested ``Row`` objects to dicts, which Arrow accepts."""
    if isinstance(value, Row):
        names = value.given_names or [f"_{number}" for number in range(1, len(value) + 1)]
        return {name: _plain(part) for name, part in zip(names, value, strict=True)}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return value


def _array(name: str, values: list[Any], kind: pa.DataType | None) -> pa.Array:
    if kind is None:
        kind = _inferred([value for value in values if value is not None])
    try:
        if kind is not None and pa.types.is_map(kind):
            values = [list(value.items()) if isinstance(value, dict) else value for value in values]
        elif kind is not None and pa.types.is_struct(kind):
            names = [field.name for field in kind]
            values = [_struct(value, names) for value in values]
        elif kind is not None and pa.types.is_decimal(kind):
            scale = decimal.Decimal(1).scaleb(-kind.scale)
            rounding = decimal.ROUND_HALF_UP
            values = [
                None if value is None else decimal.Decimal(str(value)).quantize(scale, rounding) for value in values
            ]
        return pa.array(values, kind)
    except (pa.ArrowException, TypeError, ValueError, decimal.InvalidOperation, OverflowError) as error:
        raise SchemaMismatch(f"from_elements(): column {name!r}: {error}") from error


def _struct(value: Any, names: list[str]) -> Any:
    if isinstance(value, dict) and set(value) != set(names):
        value = tuple(value.values())
    return dict(zip(names, value, strict=True)) if isinstance(value, (tuple, list)) else value


def _inferred(values: list[Any]) -> pa.DataType | None:
    """Infers the type of a column from its values as PyFlink does: BIGINT, DOUBLE, STRING, DECIMAL(38, 18), TIMESTAMP(6) and so on; ``None``: Arrow
    infers it."""
    for value in values:
        match value:
            case bool():
                return pa.bool_()
            case int():
                return pa.int64()
            case float():
                return pa.float64()
            case decimal.Decimal():
                return pa.decimal128(38, 18)
            case datetime.datetime():
                return pa.timestamp("us", "UTC" if value.tzinfo else None)
            case dict() if all(isinstance(key, str) for key in value):
                return None
    return None if values else pa.string()


def _sql_type(kind: pa.DataType, name: str) -> str:
    types = pa.types
    simple = {
        pa.bool_(): "BOOLEAN", pa.int8(): "TINYINT", pa.int16(): "SMALLINT", pa.int32(): "INT", pa.int64(): "BIGINT",
        pa.float32(): "FLOAT", pa.float64(): "DOUBLE", pa.string(): "STRING", pa.large_string(): "STRING",
        pa.binary(): "BYTES", pa.date32(): "DATE", pa.time32("s"): "TIME", pa.time32("ms"): "TIME(3)",
        pa.time64("us"): "TIME(6)", pa.null(): "STRING",
    }  # fmt: skip
    if kind in simple:
        return simple[kind]
    if types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if types.is_timestamp(kind):
        digits = {"s": 0, "ms": 3, "us": 6, "ns": 9}[kind.unit]
        return f"TIMESTAMP{'_LTZ' if kind.tz else ''}({digits})"
    if types.is_map(kind):
        return f"MAP<{_sql_type(kind.key_type, name)}, {_sql_type(kind.item_type, name)}>"
    if types.is_list(kind):
        return f"ARRAY<{_sql_type(kind.value_type, name)}>"
    if types.is_struct(kind):
        return f"ROW<{', '.join(f'`{field.name}` {_sql_type(field.type, name)}' for field in kind)}>"
    raise InvalidJob(f"column {name!r}: tables do not have the type {kind}")
