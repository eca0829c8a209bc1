from __future__ import annotations

from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tests.unit.taskmanager.operators.harness import spec, start
from tidegate.common import WatermarkStrategy
from tidegate.connectors.number_sequence import DataGeneratorSource
from tidegate.datastream import DataStream, StreamExecutionEnvironment
from tidegate.functions.adapted.frame_functions import PandasFunction, PolarsFunction
from tidegate.model.errors import SchemaMismatch, TidegateError
from tidegate.records.batch import ArrowBatch

SCHEMA = pa.schema([("name", pa.string()), ("n", pa.int32())])
BATCH = pa.RecordBatch.from_pydict({"name": ["a", "b", "a"], "n": [1, 2, 3]})


def longer(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(n=frame["n"] * 10)[["name", "n"]]


def summed(frame: pl.DataFrame) -> pl.LazyFrame:
    return frame.lazy().group_by("name").agg(pl.col("n").sum()).sort("name")


def output(function: Any, batch: ArrowBatch) -> Any:
    running = start(spec("map_batches", options={"func": function}, output_type=_Type()))
    running.operator.process(batch, 0)
    return running.out.batches


class _Type:
    def arrow_schema(self) -> pa.Schema:
        return SCHEMA


def test_rows_of_a_pandas_function_keep_their_timestamps_when_their_number_does() -> None:
    (found,) = output(PandasFunction(longer, SCHEMA), ArrowBatch(BATCH, pa.array([7, 8, 9])))
    assert found.data.to_pydict() == {"name": ["a", "b", "a"], "n": [10, 20, 30]}
    assert found.data.schema == SCHEMA
    assert found.timestamps.to_pylist() == [7, 8, 9]


def test_a_polars_function_may_be_lazy_and_give_other_rows() -> None:
    (found,) = output(PolarsFunction(summed, SCHEMA), ArrowBatch(BATCH, pa.array([7, 8, 9])))
    assert found.data.to_pydict() == {"name": ["a", "b"], "n": [4, 2]}
    assert found.timestamps is None


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (PandasFunction(lambda frame: frame["n"], SCHEMA), "Series"),
        (PolarsFunction(lambda frame: 5, SCHEMA), "int"),
        (
            PandasFunction(lambda frame: frame.assign(n=2**40), SCHEMA),
            "does not fit the schema that was given with it, ",
        ),
        (PolarsFunction(lambda frame: frame.with_columns(m=1), SCHEMA), "'m'"),
    ],
)
def test_what_does_not_fit_is_refused(function: Any, said: str) -> None:
    with pytest.raises(TidegateError, match=said):
        output(function, ArrowBatch(BATCH))


def test_streams_offer_them() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    source = DataGeneratorSource(lambda first, n: pa.RecordBatch.from_pydict({"n": [1] * n}), 10)
    stream: DataStream = env.from_source(source, WatermarkStrategy.no_watermarks(), "rows")
    assert stream.map_pandas(longer, SCHEMA).get_type().arrow_schema() == SCHEMA
    assert stream.map_polars(summed, SCHEMA).get_type().arrow_schema() == SCHEMA
    with pytest.raises(SchemaMismatch):
        PandasFunction(lambda frame: 1, SCHEMA)(BATCH)
