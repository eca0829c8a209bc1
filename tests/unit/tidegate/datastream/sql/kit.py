"""A small table as a stream and in DuckDB: queries that keep rows are computed by the operators' own functions, without a job."""

from __future__ import annotations

import datetime as dt
import re
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


def stream(table: pa.RecordBatch = TABLE) -> DataStream:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("ts")
    return env.from_source(DataGeneratorSource(table.slice, table.num_rows), strategy, "rows")


def answer_of(made: DataStream, table: pa.RecordBatch = TABLE) -> list[Any]:
    """The columns of a query without windows: names, types, values, as its operators compute them for one batch."""
    return plain(pa.Table.from_batches([_computed(made._transformation, table)]))


def reference(query: str, table: pa.RecordBatch = TABLE) -> list[Any]:
    """The columns that DuckDB gives. Raises ``duckdb.Error``."""
    with duckdb.connect(config={"threads": 1, "enable_external_access": False}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("PRAGMA disable_optimizer")  # which would leave out a part that fails
        connection.register("input", pa.Table.from_batches([table]))
        return plain(connection.sql(query).to_arrow_table())


def engines_of(made: DataStream) -> set[str]:
    """Which of Arrow's kernels and DuckDB compute a query."""
    found: set[str] = set()
    step: Any = made._transformation
    while step.kind != "source":
        found.add("DuckDB" if step.kind == "map_batches" else "kernels")
        step = step.inputs[0]
    return found


def _computed(step: Transformation, table: pa.RecordBatch) -> pa.RecordBatch:
    assert isinstance(step, OperatorTransformation)
    if step.kind == "source":
        return table
    batch = _computed(step.inputs[0], table)
    if step.kind == "filter_columns":
        return batch.filter(step.options["predicate"].compute(batch))
    if step.kind == "map_batches":
        return step.options["func"](batch)
    assert step.kind == "select", step.kind
    assert step.output_type is not None
    schema = step.output_type.arrow_schema()
    return pa.RecordBatch.from_arrays([one.compute(batch) for _, one in step.options["columns"]], schema=schema)


def plain(table: pa.Table) -> list[Any]:
    """Returns what is compared: names, types and values. Columns that are handed on keep types that DuckDB does not have, so
    these appear as DuckDB's."""
    kinds = [re.sub(r"list<\w+:", "list<item:", _AS_DUCKDB.get(str(kind), str(kind))) for kind in table.schema.types]
    values = [[_value(one) for one in column.to_pylist()] for column in table.columns]
    return [table.schema.names, kinds, *values]


_AS_DUCKDB = {"timestamp[ms, tz=UTC]": "timestamp[us, tz=UTC]", "large_string": "string"}
_AS_DUCKDB["dictionary<values=string, indices=int32, ordered=0>"] = "string"


def _value(value: Any) -> Any:
    """NaN as a value that equals itself; instants in UTC."""
    match value:
        case float():
            return repr(value)
        case dt.datetime() if value.tzinfo is not None:
            return value.astimezone(dt.UTC)
        case list() | tuple():
            return [_value(one) for one in value]
        case dict():
            return {name: _value(one) for name, one in value.items()}
    return value
