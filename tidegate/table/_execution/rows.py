"""Conversion of a table's batches to Python rows, and to the texts that Flink prints for them."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from tidegate.common.row import Row, RowKind
from tidegate.plan.logical_types import LogicalType, TypeRoot
from tidegate.records.java_text import double_text, float_text
from tidegate.records.row_kinds import has_kinds


def rows_of(batch: pa.RecordBatch, kind: LogicalType) -> list[Row]:
    """Converts a batch to rows with their kinds, which are read from a further last column; without one all are inserts."""
    width = len(kind.fields)
    columns = [column_values(batch.column(index), field.type) for index, field in enumerate(kind.fields)]
    kinds = batch.column(width).to_pylist() if batch.num_columns > width else [0] * batch.num_rows
    rows: list[Row] = []
    for number, row_kind in enumerate(kinds):
        row = Row(*[column[number] for column in columns])  # without names, as PyFlink gives them
        row.set_row_kind(RowKind(row_kind))
        rows.append(row)
    return rows


def rows_left(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """Applies all changes and returns the remaining rows without their kinds, in order of arrival. As in PyFlink's ``to_pandas`` a retraction removes
    the last equal row; without one it does nothing."""
    table = pa.Table.from_batches(batches)
    if not has_kinds(table.schema):
        return table
    kinds = table.column(table.num_columns - 1).to_pylist()
    table = table.remove_column(table.num_columns - 1)
    if not any(RowKind(kind) in _TAKES_AWAY for kind in kinds):
        return table
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    places: dict[str, list[int]] = {}
    left: dict[int, None] = {}
    for number, (kind, row) in enumerate(zip(kinds, rows, strict=True)):
        equal = places.setdefault(repr(row), [])
        if RowKind(kind) not in _TAKES_AWAY:
            equal.append(number)
            left[number] = None
        elif equal:
            del left[equal.pop()]
    return table.take(pa.array(list(left), pa.int64()))


def column_values(column: pa.Array, type: LogicalType) -> list[Any]:
    """Converts a column to Python values as PyFlink does: nested rows are ``Row``, maps are dicts."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    convert = _converter(type)
    values: list[Any] = column.to_pylist()
    return values if convert is None else [None if value is None else convert(value) for value in values]


def value_text(value: Any, type: LogicalType) -> str:
    """Formats a value as Java does within a ``Row``."""
    if value is None:
        return "null"
    match type.root:
        case TypeRoot.BOOLEAN:
            return "true" if value else "false"
        case TypeRoot.DOUBLE:
            return double_text(value)
        case TypeRoot.FLOAT:
            return float_text(value)
        case TypeRoot.TIMESTAMP:
            return _java_date_time(value)
        case TypeRoot.TIMESTAMP_LTZ:
            moment = value.astimezone(datetime.UTC).replace(tzinfo=None)
            return _java_instant(moment)
        case TypeRoot.TIME:
            return _java_time(value)
        case TypeRoot.DECIMAL:
            return f"{value:f}"
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            return f"[{', '.join(str(byte - 256 if byte > 127 else byte) for byte in value)}]"
        case TypeRoot.ARRAY:
            return f"[{', '.join(value_text(element, type.element) for element in value)}]"
        case TypeRoot.MAP | TypeRoot.MULTISET:
            key, held = (type.element, _INT) if type.root is TypeRoot.MULTISET else type.children
            return "{" + ", ".join(f"{value_text(k, key)}={value_text(v, held)}" for k, v in value.items()) + "}"
        case TypeRoot.ROW:
            texts = [value_text(part, field.type) for part, field in zip(value, type.fields, strict=True)]
            return f"+I[{', '.join(texts)}]"
        case TypeRoot.STRUCTURED:
            kinds = {field.name: field.type for field in type.attributes}
            parts = {name: "NULL" if part is None else value_text(part, kinds[name]) for name, part in value.items()}
            return f"({', '.join(f'{name}={text}' for name, text in parts.items())})"
        case _:
            return str(value)


_INT = LogicalType(TypeRoot.INTEGER)
_TAKES_AWAY = (RowKind.UPDATE_BEFORE, RowKind.DELETE)


def _named(kind: LogicalType, values: Sequence[Any]) -> Row:
    row = Row(*values)
    row.set_field_names(list(kind.field_names))
    return row


def _converter(type: LogicalType) -> Callable[[Any], Any] | None:
    match type.root:
        case TypeRoot.ROW:
            parts = [_converter(field.type) for field in type.fields]

            def to_row(value: dict[str, Any]) -> Row:
                made = [
                    part if convert is None or part is None else convert(part)
                    for part, convert in zip(value.values(), parts, strict=True)
                ]
                return _named(type, made)

            return to_row
        case TypeRoot.ARRAY:
            element = _converter(type.element)
            if element is None:
                return None
            return lambda value: [None if part is None else element(part) for part in value]
        case TypeRoot.MAP | TypeRoot.MULTISET:
            children = (type.element, _INT) if type.root is TypeRoot.MULTISET else type.children
            key, held = (_converter(child) or _same for child in children)
            return lambda value: {key(k): None if v is None else held(v) for k, v in value}
        case _:
            return None


def _same(value: Any) -> Any:
    return value


def _java_time(value: datetime.time) -> str:
    text = f"{value:%H:%M}"
    if value.second or value.microsecond:
        text += f":{value:%S}" + _fraction(value.microsecond)
    return text


def _java_date_time(value: datetime.datetime) -> str:
    return f"{value:%Y-%m-%d}T{_java_time(value.time())}"


def _java_instant(value: datetime.datetime) -> str:
    return f"{value:%Y-%m-%dT%H:%M:%S}{_fraction(value.microsecond)}Z"


def _fraction(microsecond: int) -> str:
    if not microsecond:
        return ""
    return f".{microsecond // 1000:03d}" if microsecond % 1000 == 0 else f".{microsecond:06d}"
