"""What has no translation into Arrow kernels is computed by DuckDB, a batch at a time, as further columns of the batch.

Laws: rows stay where they are, none is added or dropped, so each keeps its timestamp; DuckDB reads the batch and nothing else.
Its time zone is the query's (``zones``): left alone, it would be that of the process.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import pyarrow as pa

from tidegate.datastream.sql.query import Node, Query, duckdb_module
from tidegate.datastream.sql.zones import labelled
from tidegate.model.errors import InvalidJob

_SETTINGS = {"threads": 1, "enable_external_access": False}
_ROW_BY_ROW = frozenset({"PROJECTION", "PYTHON_ARROW_SCAN"})
"""The steps of a plan that computes one row from one row."""


def connected(zone: str) -> Any:
    """A database in memory that reads nothing else, and whose local time is that of ``zone``, whatever the process has."""
    connection = duckdb_module().connect(":memory:", config=_SETTINGS)
    # As an entry of the settings it would come before the extension that knows the zones.
    connection.execute("SET TimeZone = ?", [zone])
    return connection


class DuckDbColumns:
    """For ``map_batches``: the columns of the batch, then one for each of ``expressions``, which are SQL texts."""

    def __init__(self, expressions: Sequence[str], schema: pa.Schema, zone: str) -> None:
        """``schema``: of the result. ``zone``: in which instants are dates and times of day."""
        self._statement = f"SELECT {', '.join(expressions)} FROM input"
        self._schema = schema
        self._zone = zone
        self._width = len(schema) - len(expressions)
        self._connection: Any = None

    def keeps(self, column: str) -> bool:
        """Whether it is one of the batch's own columns, which stay as they are."""
        return column in self._schema.names[: self._width]

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._connection is None:
            self._connection = connected(self._zone)
        self._connection.register("input", pa.Table.from_batches([batch]))
        computed = self._connection.sql(self._statement).to_arrow_table().combine_chunks()
        fields = list(self._schema)[batch.num_columns :]
        columns = [
            column.chunk(0).cast(field.type) if column.num_chunks else pa.array([], field.type)
            for field, column in zip(fields, computed.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays([*batch.columns, *columns], schema=self._schema)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_connection": None}


def text_of(query: Query, node: Node) -> str:
    """SQL of an expression, written by DuckDB."""
    tree = copy.deepcopy(query.tree)
    select = tree["statements"][0]["node"]
    select |= {"select_list": [node | {"alias": ""}], "where_clause": None, "group_expressions": [], "having": None}
    select["group_sets"] = []
    select["from_table"]["alias"] = ""
    with duckdb_module().connect() as connection:
        (text,) = connection.execute("SELECT json_deserialize_sql(?::JSON)", [json.dumps(tree)]).fetchone()
    head, tail = "SELECT ", ' FROM "input"'
    assert text.startswith(head), text
    assert text.endswith(tail), text
    return str(text[len(head) : -len(tail)])


def types_of(query: Query, expressions: Sequence[str], schema: pa.Schema, zone: str) -> list[pa.DataType]:
    """Raises ``InvalidJob`` with what DuckDB says, where they do not fit the columns, and for an expression that does not
    give one value for each row."""
    duckdb = duckdb_module()
    with connected(zone) as connection:
        connection.register("input", schema.empty_table())
        try:
            for text in expressions:
                _check_row_by_row(connection, text, query)
            found = connection.sql(f"SELECT {', '.join(expressions)} FROM input").to_arrow_table().schema.types
        except duckdb.Error as error:
            reason = str(error).splitlines()[0]
            raise InvalidJob(f"sql: {reason}; the stream has {_listed(schema)}: {query.text}") from error
    return [labelled(kind, zone) for kind in found]


def _check_row_by_row(connection: Any, expression: str, query: Query) -> None:
    """A macro may hide an aggregate, a subquery or ``unnest``: the plan shows it. ``unnest`` of a struct gives several columns."""
    connection.execute("PRAGMA disable_optimizer")
    statement = f"SELECT {expression} FROM input"
    ((_, plan),) = connection.execute(f"EXPLAIN (FORMAT JSON) {statement}").fetchall()
    steps = set(_steps(json.loads(plan)))
    if not steps <= _ROW_BY_ROW or len(connection.sql(statement).columns) != 1 or "unnest(" in expression.lower():
        raise InvalidJob(f"sql: {expression} does not give one value for each row of the stream: {query.text}")


def _steps(nodes: Sequence[Any]) -> Iterator[str]:
    for node in nodes:
        yield node["name"]
        yield from _steps(node.get("children", ()))


def interval_ms(text: str) -> int:
    """Length of an interval. Raises ``InvalidJob`` when the SQL text is none, or has no fixed length in whole ms."""
    duckdb = duckdb_module()
    with connected("UTC") as connection:
        try:
            months, length_us = connection.execute(
                "SELECT datepart('month', i) + 12 * datepart('year', i), epoch_us(TIMESTAMP '1970-01-01' + i) "
                f"FROM (SELECT ({text})::INTERVAL AS i)"
            ).fetchone()
        except (duckdb.Error, TypeError) as error:
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
    """Of all aggregates that DuckDB knows."""
    with duckdb_module().connect() as connection:
        found = connection.execute("SELECT function_name FROM duckdb_functions() WHERE function_type = 'aggregate'")
        return frozenset(name for (name,) in found.fetchall())


def _listed(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
