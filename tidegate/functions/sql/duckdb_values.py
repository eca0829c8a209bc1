"""Evaluation by DuckDB of expressions without Arrow kernels, a batch at a time, as further columns of the batch.

Laws: rows stay where they are, none is added or dropped, so each keeps its timestamp; DuckDB reads the batch and nothing else.
Its time zone is the query's: left alone, it would be that of the process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from tidegate.functions.sql.database import connected

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


class DuckDbValues:
    """Evaluates SQL expressions over a batch: an array of one of ``kinds`` for each of ``expressions``."""

    def __init__(
        self, expressions: Sequence[str], kinds: Sequence[pa.DataType], columns: Sequence[str], zone: str
    ) -> None:
        """Creates it. ``columns``: those that are read; DuckDB need not support the types of others. ``zone``: the time zone of dates and times of
        instants."""
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
    """A function for ``map_batches`` that appends a column for each SQL expression to those of the batch."""

    def __init__(
        self, expressions: Sequence[str], schema: pa.Schema, zone: str, columns: Sequence[str] | None = None
    ) -> None:
        """Creates it. ``schema``: of the result. ``columns``: those that are read; ``None``: all."""
        self._schema = schema
        self._width = len(schema) - len(expressions)
        own = schema.names[: self._width]
        self._values = DuckDbValues(expressions, schema.types[self._width :], own if columns is None else columns, zone)

    def keeps(self, column: str) -> bool:
        """Returns whether a column is the batch's own, which stays unchanged."""
        return column in self._schema.names[: self._width]

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([*batch.columns, *self._values(batch)], schema=self._schema)


def readable(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Selects the columns that DuckDB reads: it refuses a table with a column of an unsupported type, read or not."""
    if columns:
        return table.select(columns)
    return pa.table({"__rows": pa.nulls(table.num_rows, pa.int8())})
