"""Requests to DuckDB while a query is planned: texts and types of expressions, names of aggregates."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa

from tidegate.datastream.sql.query import Node, Query
from tidegate.datastream.sql.zones import labelled
from tidegate.functions.sql.database import duckdb_module, planner
from tidegate.functions.sql.duckdb_values import readable
from tidegate.model.errors import InvalidJob
from tidegate.model.values import Json, Record

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_ROW_BY_ROW = frozenset({"PROJECTION", "PYTHON_ARROW_SCAN"})
"""The plan steps that compute one row from one row."""


def text_of(query: Query, node: Node) -> str:
    """Formats an expression as SQL, by DuckDB."""
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
    """Returns DuckDB's types of expressions on ``schema``, the columns that are read. Raises ``InvalidJob``, with DuckDB's message, if they do not fit
    the columns, and for an expression that does not give one value for each row."""
    with _bound(query, schema, zone) as connection:
        for text in expressions:
            _check_row_by_row(connection, text, query)
        return _types(connection, expressions, zone)


def types_of_aggregates(query: Query, expressions: Sequence[str], schema: pa.Schema, zone: str) -> list[pa.DataType]:
    """Returns DuckDB's types of aggregates; see ``types_of``."""
    with _bound(query, schema, zone) as connection:
        return _types(connection, expressions, zone)


@contextmanager
def _bound(query: Query, schema: pa.Schema, zone: str) -> Iterator[Record]:
    """Yields DuckDB with an empty table of the columns; its errors become those of the query."""
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
    """Casts a text to a DuckDB type; returns ``None`` if it has no such value."""
    try:
        table = planner().sql(f"SELECT CAST(? AS {kind}) AS value", params=[text]).to_arrow_table()
    except duckdb_module().Error:
        return None
    return table.column("value")[0]


def _check_row_by_row(connection: DuckDBPyConnection, expression: str, query: Query) -> None:
    """Raises ``InvalidJob`` for an expression that does not give one value for each row; the plan reveals aggregates, subqueries and ``unnest`` in
    macros.

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
    """Returns the length of an interval in ms. Raises ``InvalidJob`` when the SQL text is not an interval, or has no fixed length in whole ms."""
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
        raise InvalidJob(f"sql: {text} is not an interval, such as INTERVAL '5' SECOND") from error
    if months is None or length_us is None:
        raise InvalidJob(f"sql: {text} is not an interval, such as INTERVAL '5' SECOND")
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
