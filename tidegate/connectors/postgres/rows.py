"""How columns become rows of a table: ``COPY`` for new rows, ``INSERT ... ON CONFLICT`` for upserts by key.

Both take whole batches. A column goes to the table's column of the same name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from tidegate.model.errors import InvalidJob


def quoted(name: str) -> str:
    """Returns an SQL identifier; a dot separates schema and table."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in name.split("."))


def check_types(schema: pa.Schema) -> None:
    """Raises ``InvalidJob`` for a column that a table cannot take."""
    for field in schema:
        if pa.types.is_nested(field.type):
            raise InvalidJob(f"column {field.name!r} is {field.type}: a table of PostgreSQL takes plain values")


def copy(connection: Any, table: str, data: pa.RecordBatch) -> None:
    """Appends the rows of a batch to a table with ``COPY``."""
    names = ", ".join(quoted(name) for name in data.schema.names)
    sink = pa.BufferOutputStream()
    options = pacsv.WriteOptions(include_header=False, quoting_style="all_valid")
    pacsv.write_csv(pa.RecordBatch.from_arrays(_texts(data), names=data.schema.names), sink, options)
    with connection.cursor().copy(f"COPY {quoted(table)} ({names}) FROM STDIN WITH (FORMAT csv)") as to:
        to.write(sink.getvalue().to_pybytes())


def upsert(connection: Any, table: str, data: pa.RecordBatch, keys: Sequence[str]) -> None:
    """The last row of each key wins."""
    data = _last_of_each(data, keys)
    names = data.schema.names
    rest = [name for name in names if name not in keys]
    columns = ", ".join(quoted(name) for name in names)
    arrays = ", ".join(f"%s::{sql_type(field.type)}[]" for field in data.schema)
    assigned = ", ".join(f"{quoted(name)} = EXCLUDED.{quoted(name)}" for name in rest)
    action = f"DO UPDATE SET {assigned}" if rest else "DO NOTHING"
    by = ", ".join(quoted(name) for name in keys)
    connection.execute(
        f"INSERT INTO {quoted(table)} ({columns}) SELECT * FROM unnest({arrays}) ON CONFLICT ({by}) {action}",
        [column.to_pylist() for column in data.columns],
    )


def sql_type(kind: pa.DataType) -> str:
    """Returns the type of PostgreSQL that holds an Arrow type."""
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_integer(kind):
        return "bigint" if kind.bit_width > 32 or pa.types.is_unsigned_integer(kind) else "integer"
    if pa.types.is_floating(kind):
        return "double precision"
    if pa.types.is_decimal(kind):
        return "numeric"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "timestamptz"
    if pa.types.is_date(kind):
        return "date"
    if pa.types.is_time(kind):
        return "time"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return "bytea"
    return "text"


def _texts(data: pa.RecordBatch) -> list[pa.Array]:
    """Bytes in PostgreSQL's hexadecimal form; CSV has none."""
    found = []
    for column in data.columns:
        if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
            column = pa.array([None if v is None else "\\x" + v.hex() for v in column.to_pylist()], pa.string())
        found.append(column)
    return found


def _last_of_each(data: pa.RecordBatch, keys: Sequence[str]) -> pa.RecordBatch:
    table = pa.Table.from_batches([data]).select(list(keys)).append_column("__row", pa.array(range(data.num_rows)))
    last = table.group_by(list(keys)).aggregate([("__row", "max")]).column("__row_max").combine_chunks()
    return data.take(last.take(pc.sort_indices(last)))
