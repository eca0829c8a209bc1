"""Lookup tables in PostgreSQL, which fetch the rows of many keys in one statement (Flink: ``JdbcRowDataLookupFunction.java``, one key at a time)."""

from __future__ import annotations

import decimal
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.connectors.postgres.connections import connect, postgres_errors
from tidegate.connectors.postgres.table import PostgresTable, quoted, quoted_table
from tidegate.functions.base import RuntimeContext
from tidegate.functions.sql.scalar import arrow_schema, batch_of
from tidegate.model.errors import ExternalError, InvalidJob, SchemaMismatch
from tidegate.plan.logical_types import LogicalType, TypeRoot
from tidegate.table._lookup.port import FoundRows, in_order

MAX_KEYS: Final = 10_000
"""How many keys one statement looks up. Chosen, not measured: their texts stay below a megabyte."""
_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")
_SERVER_TYPES: Final = {
    TypeRoot.BOOLEAN: "bool",
    TypeRoot.TINYINT: "int2",
    TypeRoot.SMALLINT: "int2",
    TypeRoot.INTEGER: "int4",
    TypeRoot.BIGINT: "int8",
    TypeRoot.FLOAT: "float4",
    TypeRoot.DOUBLE: "float8",
    TypeRoot.DECIMAL: "numeric",
    TypeRoot.DATE: "date",
    TypeRoot.TIME: "time",
    TypeRoot.TIMESTAMP: "timestamp",
    TypeRoot.CHAR: "text",
    TypeRoot.VARCHAR: "text",
    TypeRoot.VARBINARY: "bytea",
}
"""PostgreSQL types as which keys are compared, by SQL type; other types are refused, as Flink's dialect refuses most of them."""
_TEXTS: Final = ("text", "varchar")


@dataclass(frozen=True)
class PostgresPlace:
    """A table in PostgreSQL and how to connect. ``table``: as PostgreSQL names it. ``max_retries``: how often a failed request is retried, unless the
    statement itself is wrong."""

    name: str
    conninfo: str
    table: str
    max_retries: int


def check_type(name: str, column: str, type: LogicalType) -> None:
    """Raises ``InvalidJob`` for a column type that cannot be read."""
    if type.root not in _SERVER_TYPES:
        raise InvalidJob(
            f"The PostgreSQL dialect doesn't support type: {type}, of the column {column!r} of the table {name}. Declare it as one of "
            "BOOLEAN, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL, DATE, TIME, TIMESTAMP, STRING and VARBINARY"
        )


class _Asked:
    """The base of both readers: a connection that is opened again when it is lost."""

    def __init__(self, place: PostgresPlace, row_type: LogicalType) -> None:
        self._place, self._row_type = place, row_type
        self._connection: Any = None

    @property
    def name(self) -> str:
        """Returns the name of the table, for messages."""
        return self._place.name

    @property
    def schema(self) -> pa.Schema:
        """Returns the schema of the rows that are found."""
        return arrow_schema(self._row_type)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _again(self, work: Callable[[Any], _T]) -> _T:
        """Runs ``work`` with the connection; retries errors that are not the statement's own, waiting one second longer each time."""
        for attempt in range(self._place.max_retries + 1):
            try:
                if self._connection is None:
                    self._connection = connect(self._place.conninfo, f"tidegate lookup {self._place.name}")
                with postgres_errors(f"look up rows of {self._place.table}", self._place.conninfo):
                    return work(self._connection)
            except ExternalError as error:
                self.close()
                if attempt == self._place.max_retries:
                    raise
                _LOG.warning("lookup join with %s, attempt %d: %s", self._place.name, attempt + 1, error.message)
                time.sleep(attempt + 1)
        raise AssertionError("unreachable")

    def _columns(self, cursor: Any, first: int, rows: int) -> list[pa.Array]:
        """Converts the texts of a query result to columns."""
        result = cursor.pgresult
        found = []
        for at, field in enumerate(self._row_type.fields, first):
            texts = [result.get_value(row, at) for row in range(rows)]
            found.append(_values(self._place.name, field.name, texts, self.schema.field(at - first).type))
        return found


class PostgresRows(_Asked):
    """Reads a whole table of PostgreSQL."""

    def read(self) -> pa.RecordBatch:
        """Reads all rows, over a connection of its own."""
        names = ", ".join(quoted(field.name) for field in self._row_type.fields) or "NULL"
        statement = f"SELECT {names} FROM {quoted_table(self._place.table)}"

        def work(connection: Any) -> pa.RecordBatch:
            cursor = connection.execute(statement)
            rows = cursor.rowcount
            return batch_of(self._columns(cursor, 0, rows), self.schema, rows)

        try:
            return self._again(work)
        finally:
            self.close()


class PostgresLookup(_Asked):
    """A table in PostgreSQL that is looked up by key. ``key_columns``: positions in ``row_type``. The server compares the values."""

    def __init__(self, place: PostgresPlace, row_type: LogicalType, key_columns: Sequence[int]) -> None:
        super().__init__(place, row_type)
        self._key_fields = [row_type.fields[at] for at in key_columns]
        self._statement = ""

    def open(self, context: RuntimeContext) -> None:
        """Connects, and reads the types of the key columns from the server."""
        try:
            self._statement = self._prepared()
        except BaseException:
            self.close()
            raise

    def _prepared(self) -> str:
        table = self._again(lambda connection: PostgresTable.read(connection, self._place.table))
        by_name = {column.name: column for column in table.columns}
        for field in self._row_type.fields:
            if field.name not in by_name:
                known = ", ".join(map(repr, by_name))
                raise InvalidJob(f"table {self._place.table!r} has no column {field.name!r}: its columns are {known}")
        arrays, conditions = [], []
        for number, field in enumerate(self._key_fields):
            column, as_type = by_name[field.name], _SERVER_TYPES[field.type.root]
            if as_type == "text" and column.type_name not in _TEXTS:
                as_type = column.type_name if column.is_builtin else column.shown
            arrays.append(f"%s::text[]::{as_type}[]")
            conditions.append(f"t.{quoted(field.name)} = k.c{number}")
        names = "".join(f", t.{quoted(field.name)}" for field in self._row_type.fields)
        aliases = ", ".join(f"c{number}" for number in range(len(self._key_fields)))
        return (
            f"SELECT k.n{names} FROM unnest({', '.join(arrays)}) WITH ORDINALITY AS k({aliases}, n)"
            f" JOIN {quoted_table(self._place.table)} t ON {' AND '.join(conditions)}"
        )

    def look_up(self, keys: pa.RecordBatch) -> FoundRows:
        """Returns the rows that the server has now for some keys."""
        found = [self._some(keys.slice(at, MAX_KEYS), at) for at in range(0, keys.num_rows, MAX_KEYS)]
        if len(found) == 1:
            return found[0]
        return FoundRows(np.concatenate([one.keys for one in found]), pa.concat_batches([one.rows for one in found]))

    def _some(self, keys: pa.RecordBatch, offset: int) -> FoundRows:
        texts = [_texts(column) for column in keys.columns]

        def work(connection: Any) -> FoundRows:
            cursor = connection.execute(self._statement, texts)
            rows = cursor.rowcount
            result = cursor.pgresult
            places = np.array([int(result.get_value(row, 0)) for row in range(rows)], np.int64) + (offset - 1)
            return in_order(places, batch_of(self._columns(cursor, 1, rows), self.schema, rows))

        return self._again(work)


def _texts(column: pa.Array) -> list[str]:
    """Formats keys as PostgreSQL reads them."""
    if pa.types.is_binary(column.type):
        return [f"\\x{value.hex()}" for value in column.to_pylist()]
    texts: list[str] = column.cast(pa.string()).to_pylist()
    return texts


def _values(table: str, name: str, texts: list[bytes | None], type: pa.DataType) -> pa.Array:
    """Parses texts of the server to a column. Raises ``SchemaMismatch`` for a text that is not a value of the type."""
    if pa.types.is_binary(type):
        return pa.array([None if text is None else bytes.fromhex(text[2:].decode()) for text in texts], type)
    made = pa.array(texts, pa.binary()).cast(pa.string())
    try:
        if pa.types.is_boolean(type):
            return pc.equal(made, "t")
        if pa.types.is_time32(type):
            moments = pc.binary_join_element_wise("1970-01-01", made, " ").cast(pa.timestamp("us"))
            return moments.cast(pa.timestamp(type.unit), safe=False).cast(pa.int64()).cast(pa.int32()).view(type)
        if pa.types.is_timestamp(type):
            return made.cast(pa.timestamp("us")).cast(type, safe=type.unit == "ns")
        if pa.types.is_floating(type):
            return pc.replace_substring(made, "Infinity", "inf").cast(type)
        if pa.types.is_decimal(type):
            return _decimals(made, type)
        return made.cast(type)
    except pa.ArrowInvalid as error:
        raise SchemaMismatch(
            f"the column {name!r} of the table {table} is declared as {type}, and a value of it in PostgreSQL does not fit: {error}; declare "
            "another type"
        ) from error


def _decimals(texts: pa.Array, type: pa.DataType) -> pa.Array:
    """Parses decimals, rounded half up to the scale of the type; those that do not fit become null, as in Flink's ``DecimalData``."""
    step = decimal.Decimal(1).scaleb(-type.scale)
    most = decimal.Decimal(10) ** (type.precision - type.scale)
    found = []
    with decimal.localcontext(prec=80):
        for text in texts.to_pylist():
            value = None if text is None else decimal.Decimal(text)
            if value is not None:
                value = value.quantize(step, decimal.ROUND_HALF_UP) if value.is_finite() else None
            found.append(None if value is None or abs(value) >= most else value)
    return pa.array(found, type)


__all__ = ["PostgresLookup", "PostgresPlace", "PostgresRows", "check_type"]
