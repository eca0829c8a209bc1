"""What has no translation into Arrow kernels is computed by DuckDB, a batch at a time, as further columns of the batch.

Laws: rows stay where they are, none is added or dropped, so each keeps its timestamp; DuckDB reads the batch and nothing else.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from functools import cache
from typing import Any

import pyarrow as pa

from tidegate.datastream.sql.query import Node, Query, duckdb_module
from tidegate.model.errors import InvalidJob

_SETTINGS = {"threads": 1, "enable_external_access": False}


class DuckDbColumns:
    """For ``map_batches``: the columns of the batch, then one for each of ``expressions``, which are SQL texts."""

    def __init__(self, expressions: Sequence[str], schema: pa.Schema) -> None:
        """``schema``: of the result."""
        self._statement = f"SELECT {', '.join(expressions)} FROM input"
        self._schema = schema
        self._connection: Any = None

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._connection is None:
            self._connection = duckdb_module().connect(":memory:", config=_SETTINGS)
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


def types_of(query: Query, expressions: Sequence[str], schema: pa.Schema) -> list[pa.DataType]:
    """Raises ``InvalidJob`` with what DuckDB says, where they do not fit the columns."""
    duckdb = duckdb_module()
    with duckdb.connect(":memory:", config=_SETTINGS) as connection:
        connection.register("input", schema.empty_table())
        try:
            found = connection.sql(f"SELECT {', '.join(expressions)} FROM input").to_arrow_table().schema.types
        except duckdb.Error as error:
            reason = str(error).splitlines()[0]
            raise InvalidJob(f"sql: {reason}; the stream has {_told(schema)}: {query.text}") from error
    return list(found)


def interval_ms(text: str) -> int:
    """Raises ``InvalidJob`` when the SQL text is no interval of fixed length."""
    duckdb = duckdb_module()
    with duckdb.connect(":memory:", config=_SETTINGS) as connection:
        try:
            (found,) = connection.execute(f"SELECT epoch_ms(TIMESTAMP '1970-01-01' + ({text}))").fetchone()
        except duckdb.Error as error:
            raise InvalidJob(f"sql: {text} is no interval, such as INTERVAL '5' SECOND") from error
    return int(found)


@cache
def aggregate_names() -> frozenset[str]:
    """Of all aggregates that DuckDB knows."""
    with duckdb_module().connect() as connection:
        found = connection.execute("SELECT function_name FROM duckdb_functions() WHERE function_type = 'aggregate'")
        return frozenset(name for (name,) in found.fetchall())


def _told(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
