"""A small table as a stream and in DuckDB: queries that keep rows are computed by the operators' own functions, without a job."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa

from tidegate.common import WatermarkStrategy
from tidegate.connectors.number_sequence import DataGeneratorSource
from tidegate.datastream import DataStream, StreamExecutionEnvironment
from tidegate.datastream._graph.transformation import OperatorTransformation, Transformation

ROWS = 40
_TIMES = pa.array([dt.datetime(2024, 1, 1) + dt.timedelta(seconds=977 * i) for i in range(ROWS)], pa.timestamp("ms"))
TABLE = pa.RecordBatch.from_pydict(
    {
        "a": pa.array([None if i % 7 == 0 else i % 9 - 2 for i in range(ROWS)], pa.int64()),
        "b": pa.array([None if i % 11 == 0 else i for i in range(ROWS)], pa.int64()),
        "s": pa.array([None if i % 5 == 0 else ("abc", "ABC", "", "1", "x y")[i % 5] for i in range(ROWS)]),
        "f": pa.array([None if i % 6 == 0 else i / 8 - 2 for i in range(ROWS)]),
        "ts": _TIMES,
        "other_ts": _TIMES,
        "instant": _TIMES.cast(pa.timestamp("ms", "UTC")),
        "l": pa.array([None if i % 8 == 0 else [1, 2, i] for i in range(ROWS)], pa.list_(pa.int64())),
    }
)


def stream() -> DataStream:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("ts")
    return env.from_source(DataGeneratorSource(TABLE.slice, ROWS), strategy, "rows")


def answer_of(made: DataStream) -> list[Any]:
    """The rows of a query without windows, as its operators compute them for one batch."""
    return _plain(pa.Table.from_batches([_computed(made._transformation)]))


def reference(query: str) -> list[Any]:
    """The rows that DuckDB gives. Raises ``duckdb.Error``."""
    with duckdb.connect(config={"threads": 1, "enable_external_access": False}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("PRAGMA disable_optimizer")  # which would leave out a part that fails
        connection.register("input", pa.Table.from_batches([TABLE]))
        return _plain(connection.sql(query).to_arrow_table())


def _computed(step: Transformation) -> pa.RecordBatch:
    assert isinstance(step, OperatorTransformation)
    if step.kind == "source":
        return TABLE
    batch = _computed(step.inputs[0])
    if step.kind == "filter_columns":
        return batch.filter(step.options["predicate"].compute(batch))
    if step.kind == "map_batches":
        return step.options["func"](batch)
    assert step.kind == "select", step.kind
    assert step.output_type is not None
    schema = step.output_type.arrow_schema()
    return pa.RecordBatch.from_arrays([one.compute(batch) for _, one in step.options["columns"]], schema=schema)


def _plain(table: pa.Table) -> list[Any]:
    return [table.schema.names, *[[_value(one) for one in column.to_pylist()] for column in table.columns]]


def _value(value: Any) -> Any:
    """Numbers as floats, since ``2.5`` is a double here and a decimal in DuckDB; instants in UTC."""
    match value:
        case bool() | None | str():
            return value
        case int() | float() | Decimal():
            return "nan" if math.isnan(value) else round(float(value), 9)
        case dt.datetime() if value.tzinfo is not None:
            return value.astimezone(dt.UTC)
        case list() | tuple():
            return [_value(one) for one in value]
        case dict():
            return {name: _value(one) for name, one in value.items()}
    return value
