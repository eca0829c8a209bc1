"""The border between formats and the runtime: what the content of a file, of a message or of a record causes, with whatever exception of
Arrow or Python, is one error that says where. No restart would help, so it is not recoverable.

    format ─ our own errors, and those of the operating system ─▶ as they are: these decide themselves whether a restart may help
        └─── any other exception ─▶ SchemaMismatch with file, block, row, column and value, as far as they are known
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.model.errors import SchemaMismatch, TidegateError
from tidegate.records.shown_values import SHOWN_CHARACTERS, shown_value

NOT_OF_CONTENT = (TidegateError, OSError, MemoryError)


@contextmanager
def content_errors(where: str) -> Iterator[None]:
    """Raises exceptions caused by content as ``SchemaMismatch``, whose message begins with ``where``."""
    try:
        yield
    except NOT_OF_CONTENT:
        raise
    except Exception as error:
        raise SchemaMismatch(f"{where}: {named(error)}") from error


def named(error: Exception) -> str:
    """Returns an exception's type and text in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")


def misfit(data: pa.RecordBatch, attempt: Callable[[pa.RecordBatch], object]) -> str:
    """Finds the first row of ``data`` for which ``attempt`` raises; returns its number from 0, with column and value if one column alone raises the
    same. Empty when no row alone raises."""
    begin, end = 0, data.num_rows
    while end - begin > 1:
        middle = (begin + end) // 2
        if _failure(data.slice(begin, middle - begin), attempt):
            end = middle
        else:
            begin = middle
    row = data.slice(begin, 1)
    kind = _failure(row, attempt)
    if kind is None:
        return ""
    for place, name in enumerate(data.schema.names):
        if _failure(row.select([place]), attempt) is kind:
            return f"row {begin}, column {name!r}, value {shown_value(row.column(place)[0])}"
    values = ", ".join(f"{name}={shown_value(row.column(place)[0])}" for place, name in enumerate(data.schema.names))
    return f"row {begin} ({values[:SHOWN_CHARACTERS]})"


def _failure(data: pa.RecordBatch, attempt: Callable[[pa.RecordBatch], object]) -> type[Exception] | None:
    try:
        attempt(data)
    except Exception as error:  # noqa: BLE001  which one it is is the answer
        return type(error)
    return None


def check_content(data: pa.RecordBatch, where: str) -> None:
    """Raises ``SchemaMismatch`` for a null in a field that is not nullable, at any depth."""
    for field, column in zip(data.schema, data.columns, strict=True):
        if _has_required(field) and (found := _null_of(field, column)):
            row, name = found
            raise SchemaMismatch(
                f"{where}: column {name!r} is null in row {row}, and the schema has it as nullable=False"
            )


def check_texts(data: pa.RecordBatch, where: str) -> None:
    """Raises ``SchemaMismatch`` for a text that is not UTF-8."""
    for field, column in zip(data.schema, data.columns, strict=True):
        if _has_texts(field.type):
            try:
                column.validate(full=True)
            except pa.ArrowInvalid as error:
                found = misfit(data.select([field.name]), lambda part: part.validate(full=True))
                raise SchemaMismatch(
                    f"{where}, {found or f'column {field.name!r}'}: {error}; write the file in UTF-8, or declare the column as bytes"
                ) from error


def _has_texts(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _has_texts(kind.value_type)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return True
    return any(_has_texts(kind.field(place).type) for place in range(kind.num_fields))


def _has_required(field: pa.Field) -> bool:
    """Returns whether a type has a field that is not nullable; keys of maps, which cannot be null, are ignored."""
    if not field.nullable:
        return True
    kind = field.type
    if pa.types.is_map(kind):
        return _has_required(kind.item_field)
    return any(_has_required(kind.field(place)) for place in range(kind.num_fields))


def _null_of(field: pa.Field, column: pa.Array) -> tuple[int, str] | None:
    """Returns the row and the field name of the first null in a field that is not nullable."""
    if not field.nullable and column.null_count:
        return pc.index(column.is_null(), True).as_py(), str(field.name)
    kind = field.type
    if pa.types.is_struct(kind):
        there = pc.indices_nonzero(column.is_valid())
        parts = [(kind.field(place), column.field(place).take(there)) for place in range(kind.num_fields)]
    elif pa.types.is_map(kind):
        items = pa.ListArray.from_arrays(column.offsets, column.items)
        there, parts = pc.list_parent_indices(items), [(kind.item_field, pc.list_flatten(items))]
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        there = pc.list_parent_indices(column)
        parts = [(kind.value_field, pc.list_flatten(column))]
    else:
        return None
    for part, values in parts:
        if _has_required(part) and (found := _null_of(part, values)):
            return there[found[0]].as_py(), f"{field.name}.{found[1]}"
    return None
