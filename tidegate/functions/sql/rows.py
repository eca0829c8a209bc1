"""Rows as tuples of plain values, for operators that process one row at a time.

Numbers, texts, bytes and decimals are Python's. Times, dates and durations are whole numbers in the unit of their column. Arrays are
tuples, maps are tuples of pairs, rows are tuples: so every row can be a key of a dict.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from tidegate.functions.sql.changelog import INSERT, has_kinds

Row: TypeAlias = tuple[Any, ...]
Change: TypeAlias = tuple[int, Row]
"""A row kind, and the row without it."""


def changes_of(data: pa.RecordBatch) -> list[Change]:
    """Converts a batch to rows with their kinds, which are inserts where it has none."""
    return list(zip(kinds_of(data), rows_of(data), strict=True))


def kinds_of(data: pa.RecordBatch) -> list[int]:
    """Returns the kinds of a batch's rows, which are inserts where it has none."""
    kinds: list[int] = data.columns[-1].to_pylist() if has_kinds(data.schema) else [INSERT] * data.num_rows
    return kinds


def rows_of(data: pa.RecordBatch) -> list[Row]:
    """Converts a batch to rows without their kinds."""
    columns = data.columns[:-1] if has_kinds(data.schema) else data.columns
    return list(zip(*map(values_of, columns), strict=True)) if columns else [()] * data.num_rows


def batch_of(changes: Sequence[Change], schema: pa.Schema) -> pa.RecordBatch:
    """Converts changes to a batch of ``schema``; kinds are dropped where that has none."""
    fields = list(schema)
    arrays = []
    if has_kinds(schema):
        fields.pop()
        arrays = [pa.array([kind for kind, _ in changes], pa.int8())]
    columns: Iterable[Sequence[Any]] = zip(*[row for _, row in changes], strict=True) if changes else [()] * len(fields)
    return pa.RecordBatch.from_arrays(
        [*[array_of_values(values, field.type) for values, field in zip(columns, fields, strict=True)], *arrays],
        schema=schema,
    )


def batch_of_repeated(
    changes: Sequence[Change], schema: pa.Schema, more: Sequence[Sequence[Any]] = ()
) -> pa.RecordBatch:
    """Converts changes to a batch as ``batch_of`` does, but each row object only once, however often it occurs. ``more``: values of the columns behind those
    of the rows.
    """
    fields = list(schema)
    arrays = []
    if has_kinds(schema):
        fields.pop()
        arrays = [pa.array([kind for kind, _ in changes], pa.int8())]
    after = fields[len(fields) - len(more) :]
    arrays = [*(array_of_values(values, field.type) for values, field in zip(more, after, strict=True)), *arrays]
    rows = [row for _, row in changes]
    numbers = list(map(id, rows))
    distinct = dict(zip(numbers, rows, strict=True))
    place_of = dict(zip(distinct, range(len(distinct)), strict=True))
    places = pa.array([place_of[number] for number in numbers], pa.int64())
    columns = zip(*distinct.values(), strict=True) if rows else [()] * (len(fields) - len(more))
    taken = [array_of_values(values, field.type).take(places) for values, field in zip(columns, fields, strict=False)]
    return pa.RecordBatch.from_arrays([*taken, *arrays], schema=schema)


def values_of(column: pa.Array) -> list[Any]:
    """Converts a column to values as rows hold them."""
    stored = _stored(column.type)
    values: list[Any] = (column if stored is None else column.view(stored)).to_pylist()
    return [_plain(value) for value in values] if pa.types.is_nested(column.type) else values


def array_of_values(values: Sequence[Any], type: pa.DataType) -> pa.Array:
    """Converts values as rows hold them to a column."""
    stored = _stored(type)
    return pa.array(values, type) if stored is None else pa.array(values, stored).view(type)


def typed(column: pa.Array, type: pa.DataType) -> pa.Array:
    """Returns a column with a type that has the same values."""
    if column.type == type:
        return column
    return (column.dictionary_decode() if pa.types.is_dictionary(column.type) else column).cast(type)


def _stored(type: pa.DataType) -> pa.DataType | None:
    """Returns the integer type that a type of time is stored as; ``None`` for other types."""
    if pa.types.is_temporal(type):
        return pa.int32() if type.bit_width == 32 else pa.int64()
    return None


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return tuple([_plain(element) for element in value])
    if isinstance(value, dict):
        return tuple([_plain(element) for element in value.values()])
    return tuple([_plain(element) for element in value]) if isinstance(value, tuple) else value
