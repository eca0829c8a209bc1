"""Columns whose values are in the names of directories (``dt=2024-01-01/part.csv``), as Hive, Spark and pyarrow write them.

The value of a file's directory counts for all its rows, also against a column of that name in the file.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from urllib.parse import unquote

import pyarrow as pa

from tidegate.connectors.files.block import Block
from tidegate.connectors.files.decimal_text import decimals_of
from tidegate.connectors.files.file_range import FileRange
from tidegate.connectors.files.formats import FileFormat
from tidegate.model.errors import SchemaMismatch

_NULL = "__HIVE_DEFAULT_PARTITION__"

Values = Mapping[str, str | None]
"""The column values of one file's directories, as texts by name."""


def directory_values(root: str, path: str) -> dict[str, str | None]:
    """Returns the values in the directory names between ``root``, which ends with a slash, and the file at ``path``. Raises ``SchemaMismatch``."""
    values: dict[str, str | None] = {}
    if not path.startswith(root):  # the root is the file itself
        return values
    for segment in path.removeprefix(root).split("/")[:-1]:
        name, is_one, text = segment.partition("=")
        if name and is_one:
            values[_decoded(name, path)] = None if text == _NULL else _decoded(text, path)
    return values


def _decoded(text: str, path: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError as error:
        raise SchemaMismatch(
            f"{path}: {text!r} is not UTF-8 once its percent signs are decoded: rename the directory"
        ) from error


def with_fields(schema: pa.Schema, files: Sequence[Values]) -> pa.Schema:
    """Adds a column for each name to ``schema``, typed as pyarrow infers: int32 if every text is one, string otherwise."""
    for name in dict.fromkeys(name for values in files for name in values):
        field = pa.field(name, _inferred([values.get(name) for values in files]))
        index = schema.get_field_index(name)
        schema = schema.append(field) if index < 0 else schema.set(index, field)
    return schema


def _inferred(texts: Sequence[str | None]) -> pa.DataType:
    if all(text is None for text in texts):
        return pa.string()
    try:
        pa.array(texts, pa.string()).cast(pa.int32())
    except pa.ArrowInvalid:
        return pa.string()
    return pa.int32()


def known(file_format: FileFormat, values: Values) -> dict[str, str | None]:
    """Returns the values for columns of the format's schema; empty for a format whose records are not its rows."""
    names = {name: text for name, text in values.items() if name in file_format.schema.names}
    return names if names and file_format.without(names) is not None else {}


def stored(file_format: FileFormat, names: Collection[str]) -> FileFormat:
    """Returns the format of the files' own content, without the columns of directories."""
    return (file_format.without(names) or file_format) if names else file_format


def check_values(path: str, values: Values, schema: pa.Schema) -> None:
    """Raises ``SchemaMismatch`` for a text that is not a value of its column's type."""
    _constants(path, schema, values)


def blocks(file_format: FileFormat, part: FileRange, values: Values, start: int | None, skip: int) -> Iterator[Block]:
    """Yields the blocks of a file, with the columns of its directories added."""
    schema = file_format.schema
    constants = _constants(part.path, schema, values)
    for block in stored(file_format, values).blocks(part, start, skip):
        is_plain = not constants or bool(block.side)
        yield block if is_plain else replace(block, data=_with_constants(block.data, constants, schema))


def first_record(
    file_format: FileFormat, part: FileRange, values: Values, start: int | None, skip: int
) -> pa.RecordBatch | None:
    """Returns the first row of ``blocks``."""
    schema = file_format.schema
    data = stored(file_format, values).first_record(part, start, skip)
    return data if data is None or not values else _with_constants(data, _constants(part.path, schema, values), schema)


def _constants(path: str, schema: pa.Schema, values: Values) -> dict[str, pa.Scalar]:
    return {name: _scalar(path, schema.field(name), text) for name, text in values.items()}


def _scalar(path: str, field: pa.Field, text: str | None) -> pa.Scalar:
    try:
        if pa.types.is_decimal(field.type):
            return decimals_of([text], field)[0]
        if pa.types.is_time(field.type):
            return pa.scalar(None if text is None else datetime.time.fromisoformat(text), field.type)
        return pa.scalar(text, pa.string()).cast(field.type)
    except Exception as error:
        raise SchemaMismatch(
            f"{path}: column {field.name!r} is {field.type}, its directory says {text!r}, which is none: rename it, or declare the column as text"
        ) from error


def _with_constants(data: pa.RecordBatch, constants: Mapping[str, pa.Scalar], schema: pa.Schema) -> pa.RecordBatch:
    columns = [
        pa.repeat(constants[name], data.num_rows) if name in constants else data.column(name) for name in schema.names
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
