"""What has no translation into Arrow kernels is computed by DuckDB, a batch at a time, as further columns of the batch.

Laws: rows stay where they are, none is added or dropped, so each keeps its timestamp; DuckDB reads the batch and nothing else.
Its time zone is the query's (``zones``): left alone, it would be that of the process.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa

from tidegate.datastream.sql.database import connected, duckdb_module, planner
from tidegate.datastream.sql.query import Node, Query
from tidegate.datastream.sql.zones import labelled
from tidegate.model.errors import InvalidJob
from tidegate.model.values import Json, Record

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_ROW_BY_ROW = frozenset({"PROJECTION", "PYTHON_ARROW_SCAN"})
"""The steps of a plan that computes one row from one row."""


class DuckDbValues:
    """Arrays of expressions over a batch: one of ``kinds`` for each SQL text of ``expressions``."""

    def __init__(
        self, expressions: Sequence[str], kinds: Sequence[pa.DataType], columns: Sequence[str], zone: str
    ) -> None:
        """``columns``: those that are read; DuckDB need not know the types of others. ``zone``: in which instants are dates
        and times of day."""
        self._statement = f"SELECT {', '.join(expressions)} FROM input"
        self._kinds = list(kinds)
        self._columns = list(columns)
        self._zone = zone
        self._connection: DuckDBPyConnection | None = None

    def __call__(self, batch: pa.RecordBatch) -> list[pa.Array]:
        if self._connection is None:
            self._connection = connected(self._zone)
        self._connection.register("input", readable(pa.Table.from_batches([batch]), self._columns))
        computed = self._connection.sql(self._statement).to_arrow_table().combine_chunks()
        return [
            column.chunk(0).cast(kind) if column.num_chunks else pa.array([], kind)
            for kind, column in zip(self._kinds, computed.columns, strict=True)
        ]

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_connection": None}


class DuckDbColumns:
    """For ``map_batches``: the columns of the batch, then one for each of ``expressions``, which are SQL texts."""

    def __init__(
        self, expressions: Sequence[str], schema: pa.Schema, zone: str, columns: Sequence[str] | None = None
    ) -> None:
        """``schema``: of the result. ``columns``: those that are read, without them all."""
        self._schema = schema
        self._width = len(schema) - len(expressions)
        own = schema.names[: self._width]
        self._values = DuckDbValues(expressions, schema.types[self._width :], own if columns is None else columns, zone)

    def keeps(self, column: str) -> bool:
        """Whether it is one of the batch's own columns, which stay as they are."""
        return column in self._schema.names[: self._width]

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([*batch.columns, *self._values(batch)], schema=self._schema)


def readable(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    """What DuckDB reads of a table: it refuses one with a column of a type that it has not, read or not."""
    if columns:
        return table.select(columns)
    return pa.table({"__rows": pa.nulls(table.num_rows, pa.int8())})


def text_of(query: Query, node: Node) -> str:
    """SQL of an expression, written by DuckDB."""
    tree = copy.deepcopy(query.tree)
    select = tree["statements"][0]["node"]
    select |= {"select_list": [node | {"alias": ""}], "where_clause": None, "group_expressions": [], "having": None}
    select["group_sets"] = []
    select["from_table"]["alias"] = ""
    (text,) = planner().execute("SELECT json_deserialize_sql(?::JSON)", [json.dumps(tree)]).fetchall()[0]
    head, tail = "SELECT ", ' FROM "input"'
    assert text.startswith(head), text
    assert text.endswith(tail), text
    return str(text[len(head) : -len(tail)])


def types_of(query: Query, expressions: Sequence[str], schema: pa.Schema, zone: str) -> list[pa.DataType]:
    """What DuckDB gives on ``schema``, the columns that are read. Raises ``InvalidJob`` with what DuckDB says, where they do
    not fit the columns, and for an expression that does not give one value for each row."""
    with _bound(query, schema, zone) as connection:
        for text in expressions:
            _check_row_by_row(connection, text, query)
        return _types(connection, expressions, zone)


def types_of_aggregates(query: Query, expressions: Sequence[str], schema: pa.Schema, zone: str) -> list[pa.DataType]:
    """As ``types_of``, for aggregates."""
    with _bound(query, schema, zone) as connection:
        return _types(connection, expressions, zone)


@contextmanager
def _bound(query: Query, schema: pa.Schema, zone: str) -> Iterator[Record]:
    """DuckDB with an empty table of the columns; its errors are those of the query."""
    try:
        planner(zone).register("input", readable(_empty(schema, query), schema.names))
        yield planner(zone)
    except duckdb_module().Error as error:
        reason = str(error).splitlines()[0]
        raise InvalidJob(f"sql: {reason}; the stream has {_listed(schema)}: {query.text}") from error


def _empty(schema: pa.Schema, query: Query) -> pa.Table:
    for field in schema:
        try:
            pa.schema([field]).empty_table()
        except pa.ArrowNotImplementedError:
            raise InvalidJob(
                f"sql: the column {field.name!r} is of type {field.type}, which a query cannot read: {query.text}"
            ) from None
    return schema.empty_table()


def _types(connection: DuckDBPyConnection, expressions: Sequence[str], zone: str) -> list[pa.DataType]:
    if not expressions:
        return []
    found = connection.sql(f"SELECT {', '.join(expressions)} FROM input").to_arrow_table().schema.types
    return [labelled(kind, zone) for kind in found]


def constant(text: str, kind: str) -> pa.Scalar | None:
    """The value of a text as a type of DuckDB's; ``None`` where it has none."""
    try:
        table = planner().sql(f"SELECT CAST(? AS {kind}) AS value", params=[text]).to_arrow_table()
    except duckdb_module().Error:
        return None
    return table.column("value")[0]


def _check_row_by_row(connection: DuckDBPyConnection, expression: str, query: Query) -> None:
    """A macro may hide an aggregate, a subquery or ``unnest``: the plan shows it. ``unnest`` of a struct gives several columns.

    The optimizer, which may make a part of a plan disappear, rests meanwhile; afterwards it tells of constants that cannot be
    computed.
    """
    connection.execute("PRAGMA disable_optimizer")
    statement = f"SELECT {expression} FROM input"
    ((_, plan),) = connection.execute(f"EXPLAIN (FORMAT JSON) {statement}").fetchall()
    connection.execute("PRAGMA enable_optimizer")
    steps = set(_steps(json.loads(plan)))
    if not steps <= _ROW_BY_ROW or len(connection.sql(statement).columns) != 1 or "unnest(" in expression.lower():
        raise InvalidJob(f"sql: {expression} does not give one value for each row of the stream: {query.text}")


def _steps(nodes: Sequence[Json]) -> Iterator[str]:
    for node in nodes:
        yield node["name"]
        yield from _steps(node.get("children", ()))


def interval_ms(text: str) -> int:
    """Length of an interval. Raises ``InvalidJob`` when the SQL text is none, or has no fixed length in whole ms."""
    try:
        ((months, length_us),) = (
            planner()
            .execute(
                "SELECT datepart('month', i) + 12 * datepart('year', i), epoch_us(TIMESTAMP '1970-01-01' + i) "
                f"FROM (SELECT ({text})::INTERVAL AS i)"
            )
            .fetchall()
        )
    except duckdb_module().Error as error:
        raise InvalidJob(f"sql: {text} is no interval, such as INTERVAL '5' SECOND") from error
    if months is None or length_us is None:
        raise InvalidJob(f"sql: {text} is no interval, such as INTERVAL '5' SECOND")
    if months:
        raise InvalidJob(f"sql: {text} has no fixed length, since months differ; give days, such as INTERVAL '30' DAY")
    if length_us % 1000:
        raise InvalidJob(f"sql: {text} is not a whole number of milliseconds")
    return int(length_us) // 1000


@cache
def aggregate_names() -> frozenset[str]:
    """Returns the names of all aggregates that DuckDB knows."""
    found = planner().execute("SELECT function_name FROM duckdb_functions() WHERE function_type = 'aggregate'")
    return frozenset(name for (name,) in found.fetchall())


def _listed(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
