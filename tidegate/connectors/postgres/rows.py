"""Writing of batches to PostgreSQL: ``COPY`` into the table, or into a staging table that one statement upserts later.

Columns go to the table's columns of the same names, by the rule of ``values``, in both ways.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv

from tidegate.connectors.postgres.table import PostgresColumn, PostgresTable, quoted, quoted_table
from tidegate.connectors.postgres.values import ValueRefused, conversion
from tidegate.model.errors import InvalidJob, UserError


@dataclass(frozen=True, slots=True)
class RowFormat:
    """The columns that a stream writes, their conversions to text, and the upsert keys, which must not be null."""

    table: PostgresTable
    columns: tuple[PostgresColumn, ...]
    schema: pa.Schema
    conversions: tuple[Callable[[pa.Array], pa.Array], ...]
    keys: tuple[str, ...]

    @staticmethod
    def of(table: PostgresTable, schema: pa.Schema, keys: Sequence[str] = ()) -> RowFormat:
        """Returns the format of a stream. ``schema``: with the names of the table's columns. Raises ``InvalidJob`` for columns that the table cannot hold."""
        if missing := [key for key in keys if key not in schema.names]:
            raise InvalidJob(
                f"the upsert keys {missing} are not among the columns of the stream, {schema.names}: add them, or name other keys"
            )
        columns = table.written(schema.names, keys)
        made = [conversion(field.type, column) for field, column in zip(schema, columns, strict=True)]
        return RowFormat(table, tuple(columns), schema, tuple(made), tuple(keys))

    def texts(self, data: pa.RecordBatch, first: int) -> list[pa.Array]:
        """Converts a batch to texts. ``first``: the number of its first row in the epoch, for messages. Raises ``UserError``."""
        if not data.schema.equals(self.schema):
            return RowFormat.of(self.table, data.schema, self.keys).texts(data, first)
        found = []
        for column, convert, values in zip(self.columns, self.conversions, data.columns, strict=True):
            try:
                if column.name in self.keys and values.null_count and not self.table.takes_null_keys(self.keys):
                    place = values.is_null().index(True).as_py()
                    raise ValueRefused(
                        place, f"null in the upsert key {column.name!r} cannot identify a row of the table"
                    )
                found.append(convert(values))
            except ValueRefused as refused:
                raise UserError(
                    f"table {self.table.name!r} of PostgreSQL, row {first + refused.place} since the last checkpoint: {refused.reason}"
                ) from None
            except pa.ArrowInvalid as error:
                raise UserError(
                    f"column {column.name!r} of table {self.table.name!r} of PostgreSQL is {column.shown}, which does not hold all values of "
                    f"rows {first} to {first + data.num_rows - 1} since the last checkpoint: {error}"
                ) from error
        return found


def copy(connection: Any, into: str, names: Sequence[str], texts: Sequence[pa.Array]) -> None:
    """Appends rows to a table, whose name is quoted, with ``COPY``."""
    sink = pa.BufferOutputStream()
    options = pacsv.WriteOptions(include_header=False, quoting_style="all_valid")
    if texts:
        pacsv.write_csv(pa.RecordBatch.from_arrays(list(texts), names=list(names)), sink, options)
    columns = ", ".join(map(quoted, names))
    with connection.cursor().copy(f"COPY {into} ({columns}) FROM STDIN WITH (FORMAT csv)") as to:
        to.write(sink.getvalue())


@dataclass(frozen=True, slots=True)
class Staging:
    """A staging table for an epoch of upserts, with types and constraints of the target's columns. ``name``: unquoted. ``number``: the column of row
    numbers, from 1."""

    name: str
    table: str
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    number: str

    @staticmethod
    def of(name: str, rows: RowFormat) -> Staging:
        """Returns the PostgreSQL table in which the rows of an open transaction of a sink are staged, without creating it."""
        columns = tuple(column.name for column in rows.columns)
        number = "row"
        while number in columns:
            number += "_"
        return Staging(name, rows.table.name, columns, rows.keys, number)

    def create(self, connection: Any, rows: RowFormat, *, temporary: bool = False) -> None:
        """Creates the table in the open transaction."""
        checks = [check for check, names in rows.table.checks if names and set(names) <= set(self.columns)]
        parts = [*(column.definition for column in rows.columns), f"{quoted(self.number)} bigint", *checks]
        kind = "TEMPORARY TABLE" if temporary else "TABLE"
        dropped = " ON COMMIT DROP" if temporary else ""
        connection.execute(f"CREATE {kind} {quoted(self.name)} ({', '.join(parts)}){dropped}")

    def copy(self, connection: Any, texts: Sequence[pa.Array], first: int) -> None:
        """Copies rows into the table, numbered from ``first``."""
        numbers = pa.array(range(first, first + len(texts[0])), pa.int64())
        copy(connection, quoted(self.name), [*self.columns, self.number], [*texts, numbers])

    def upsert(self, connection: Any, after: int = 0, last: int | None = None) -> None:
        """Upserts the last row of each key, by the table's own equality; of rows numbered above ``after`` and up to ``last``, in the order of their
        keys, so that two writers of the same rows never deadlock."""
        names, keys = (", ".join(map(quoted, found)) for found in (self.columns, self.keys))
        rest = [name for name in self.columns if name not in self.keys]
        assigned = ", ".join(f"{quoted(name)} = EXCLUDED.{quoted(name)}" for name in rest)
        action = f"DO UPDATE SET {assigned}" if rest else "DO NOTHING"
        number = quoted(self.number)
        up_to = "" if last is None else f" AND {number} <= {int(last)}"
        connection.execute(
            f"INSERT INTO {quoted_table(self.table)} ({names}) SELECT {names} FROM ("
            f"SELECT DISTINCT ON ({keys}) * FROM {quoted(self.name)} ORDER BY {keys}, {number} DESC) AS staged "
            f"WHERE {number} > {int(after)}{up_to} ORDER BY {keys} ON CONFLICT ({keys}) {action}"
        )

    def refused_row(self, connection: Any, is_of_data: Callable[[Exception], bool]) -> str:
        """Finds the row that the table refuses, by bisection in an open transaction that will be rolled back; returns it with its key. Empty when the
        table accepts each row on its own."""
        number = quoted(self.number)
        connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
        (last,) = connection.execute(f"SELECT coalesce(max({number}), 0) FROM {quoted(self.name)}").fetchone()
        low, high = 0, last
        while low < high:
            middle = max(low + 1, (low + high) // 2)
            try:
                with connection.transaction():
                    self.upsert(connection, low, middle)
                low = middle
            except Exception as error:
                if not is_of_data(error):
                    raise
                if middle == low + 1:
                    return f"row {middle} of {last} ({self._key_of(connection, middle)})"
                high = middle
        return ""

    def _key_of(self, connection: Any, row: int) -> str:
        shown = ", ".join(f"{quoted(key)}::text" for key in self.keys)
        query = f"SELECT {shown} FROM {quoted(self.name)} WHERE {quoted(self.number)} = %s"
        found = connection.execute(query, [row]).fetchone()
        return ", ".join(f"{key} = {value}" for key, value in zip(self.keys, found, strict=True))[:200]
