"""Frames, tables and arrays as collections: their rows, with their types, or a refusal; and records as a frame."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tidegate.common import Row, TypeInformation, Types
from tidegate.common.typeinfo import ArrowTypeInfo
from tidegate.connectors.base import ReaderContext, SplitState
from tidegate.connectors.collection import CollectionSource
from tidegate.connectors.tabular import pandas_table, to_frame
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.model.errors import InvalidJob, SchemaMismatch
from tidegate.records.batch import ArrowBatch
from tidegate.records.record_codec import decode
from tidegate.table import DataTypes

CONTEXT = ReaderContext(0, 1, 128, "job", "attempt", "operator")
FRAME = pd.DataFrame({"a": [1, 2], "b": ["x", None]})
COLUMNS = pa.table({"a": [1, 2], "b": ["x", None]})
ROWS = [Row(a=1, b="x"), Row(a=2, b=None)]
NAMED = Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.STRING()])


def batches_of(source: CollectionSource) -> list[pa.RecordBatch]:
    reader = source.make_reader(CONTEXT)
    reader.open([SplitState(split) for split in source.list_splits(1)])
    found = []
    while (polled := reader.poll()) is not None:
        assert isinstance(polled.batch, ArrowBatch)
        found.append(polled.batch.data)
        reader.advance(len(polled.batch))
    return found


def given(collection: Any, type_info: TypeInformation | None = None) -> tuple[list[Any], TypeInformation]:
    """The records that a reader of the collection gives, and their type."""
    source = CollectionSource(collection, type_info)
    kind = source.produced_type()
    return [record for data in batches_of(source) for record in decode(kind, data)], kind


def structured() -> Any:
    return np.array([(1, 1.5), (2, np.nan)], dtype=[("a", "i8"), ("b", "f4")])


@pytest.mark.parametrize(
    "collection",
    [
        FRAME,
        FRAME.set_index(pd.Index([7, 8])),
        FRAME.astype({"b": "category"}),
        FRAME.astype({"b": "string[pyarrow]", "a": "Int64"}),
        pl.DataFrame({"a": [1, 2], "b": ["x", None]}),
        pl.DataFrame({"a": [1, 2], "b": ["x", None]}).lazy(),
        pl.DataFrame({"a": [1, 2], "b": ["x", None]}, schema_overrides={"b": pl.Categorical}),
        COLUMNS,
        pa.concat_tables([COLUMNS.slice(0, 1), COLUMNS.slice(1)]),
        COLUMNS.to_batches()[0],
        COLUMNS.to_reader(),
        COLUMNS.cast(pa.schema([("a", pa.int64()), ("b", pa.large_string())])),
        pa.table({"a": [1, 2], "b": pa.array(["x", None]).dictionary_encode()}),
        duckdb.sql("SELECT * FROM (VALUES (1::BIGINT, 'x'), (2, NULL)) AS t(a, b)"),
    ],
    ids=lambda collection: f"{type(collection).__module__}.{type(collection).__name__}",
)
def test_what_has_columns_gives_its_rows_with_their_types(collection: Any) -> None:
    assert given(collection) == (ROWS, ArrowTypeInfo(pa.schema([("a", pa.int64()), ("b", pa.string())])))


def test_a_structured_array_has_columns() -> None:
    rows, kind = given(structured())
    assert kind == ArrowTypeInfo(pa.schema([("a", pa.int64()), ("b", pa.float32())]))
    assert [row["a"] for row in rows] == [1, 2]
    assert rows[0]["b"] == 1.5


@pytest.mark.parametrize(
    ("collection", "values", "kind"),
    [
        (FRAME["a"], [1, 2], Types.LONG()),
        (FRAME["b"], ["x", None], Types.PICKLED_BYTE_ARRAY()),
        (FRAME.index, [0, 1], Types.LONG()),
        (FRAME["a"].astype("Int16"), [1, 2], Types.SHORT()),
        (pl.Series([1.5, None]), [1.5, None], Types.DOUBLE()),
        (pl.Series(["x"]), ["x"], Types.STRING()),
        (np.arange(3), [0, 1, 2], Types.LONG()),
        (np.array([1, 2], "i4")[::-1], [2, 1], Types.INT()),
        (np.array([True]), [True], Types.BOOLEAN()),
        (np.array(["x", "yz"]), ["x", "yz"], Types.STRING()),
        (np.array([{"any": "thing"}]), [{"any": "thing"}], Types.PICKLED_BYTE_ARRAY()),
        (np.array(["2026-11-27"], "M8[D]"), [dt.date(2026, 11, 27)], Types.PICKLED_BYTE_ARRAY()),
        (pa.array([1, None], pa.int32()), [1, None], Types.INT()),
        (pa.chunked_array([[1], [2]]), [1, 2], Types.LONG()),
        (range(2), [0, 1], Types.PICKLED_BYTE_ARRAY()),
        ((n for n in range(2)), [0, 1], Types.PICKLED_BYTE_ARRAY()),
    ],
)
def test_arrays_give_values_and_other_iterables_objects(
    collection: Any, values: list[Any], kind: TypeInformation
) -> None:
    assert given(collection) == (values, kind)


def test_an_array_of_two_dimensions_has_rows() -> None:
    matrix = np.arange(4).reshape(2, 2)
    rows, kind = given(matrix)
    assert kind == Types.PICKLED_BYTE_ARRAY()
    assert [row.tolist() for row in rows] == [[0, 1], [2, 3]]  # as PyFlink 2.3 gives them
    assert given(matrix, Types.TUPLE([Types.LONG(), Types.INT()]))[0] == [(0, 1), (2, 3)]
    assert given(matrix, NUMBERS)[0] == [Row(x=0.0, y=1.0), Row(x=2.0, y=3.0)]


NUMBERS = Types.SCHEMA(pa.schema([("x", pa.float64()), ("y", pa.float64())]))


@pytest.mark.parametrize(
    "collection", [FRAME, COLUMNS, COLUMNS.to_batches()[0], pl.from_arrow(COLUMNS), FRAME[["b", "a"]]]
)
def test_rows_of_a_given_type_are_found_by_name(collection: Any) -> None:
    assert given(collection, NAMED) == (ROWS, NAMED)
    schema = Types.SCHEMA(pa.schema([("a", pa.int32()), ("b", pa.string())]))
    assert given(collection, schema) == (ROWS, schema)


def test_tuples_take_columns_in_their_order() -> None:
    kind = Types.TUPLE([Types.INT(), Types.STRING()])
    assert given(FRAME, kind) == ([(1, "x"), (2, None)], kind)


def test_values_of_a_given_type_are_checked() -> None:
    assert given(np.arange(2), Types.INT()) == ([0, 1], Types.INT())
    with pytest.raises(SchemaMismatch, match="does not fit type"):
        given(np.array([1.5]), Types.LONG())


@pytest.mark.parametrize(
    ("collection", "kind", "message"),
    [
        (FRAME, Types.LONG(), "does not fit type"),
        (FRAME, Types.ROW_NAMED(["a", "c"], [Types.LONG(), Types.STRING()]), "and its declared type is RowTypeInfo"),
        (FRAME, Types.SCHEMA(pa.schema([("a", pa.int64())])), "and its declared type \\['a'\\]"),
        (FRAME, Types.SCHEMA(pa.schema([("a", pa.string()), ("b", pa.string())])), "column 'a' is of type int64"),
        (pd.DataFrame({"a": [1.5]}), Types.SCHEMA(pa.schema([("a", pa.int64())])), "do not fit"),
        (pd.DataFrame({"a": [300]}), Types.SCHEMA(pa.schema([("a", pa.int8())])), "do not fit"),
        (pd.DataFrame({"a": [1, "x"]}), None, "column a"),
        (pl.DataFrame({"a": [object()]}), None, "has a column that Arrow cannot hold"),
        (pl.Series([object()]), None, "has a column that Arrow cannot hold"),
        (
            pd.DataFrame({"a": pd.period_range("2026-01", periods=2, freq="M")}),
            None,
            "cannot be streamed: convert them",
        ),
        (pd.DataFrame({"a": [1 + 2j]}), None, "has a column that Arrow cannot hold"),
    ],
)
def test_columns_that_do_not_fit_are_refused(collection: Any, kind: TypeInformation | None, message: str) -> None:
    with pytest.raises(SchemaMismatch, match=message):
        given(collection, kind)


class OtherFrame:
    """Iterates over the names of its columns, as frames do."""

    columns = ["a"]
    dtypes = {"a": "int"}

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)


@pytest.mark.parametrize(
    ("collection", "message"),
    [
        ({"a": [1, 2]}, "dict gives its keys alone"),
        (OtherFrame(), "OtherFrame gives no rows"),
        (5, "not 5"),
        (None, "not None"),
        (np.array(5), "without a dimension"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "column names must differ"),
        (pa.table([[1], [2]], names=["a", "a"]), "column names must differ"),
    ],
)
def test_what_has_no_records_is_refused(collection: Any, message: str) -> None:
    with pytest.raises(InvalidJob, match=message):
        given(collection)


def test_a_frame_of_spark_is_pointed_to_from_spark() -> None:
    frame = type(
        "DataFrame", (), {"__module__": "pyspark.sql.classic.dataframe", "__iter__": lambda self: iter("ab")}
    )()
    with pytest.raises(InvalidJob, match="from_spark"):
        given(frame)


def test_a_frame_without_rows_has_a_type() -> None:
    assert given(FRAME[:0].astype({"b": "string[pyarrow]"})) == ([], ArrowTypeInfo(COLUMNS.schema))


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (None, pa.schema([("a", pa.int64()), ("b", pa.string())])),
        (["x", "y"], pa.schema([("x", pa.int64()), ("y", pa.string())])),
        ([DataTypes.INT(), DataTypes.STRING()], pa.schema([("a", pa.int32()), ("b", pa.string())])),
        (
            DataTypes.ROW([DataTypes.FIELD("b", DataTypes.STRING()), DataTypes.FIELD("a", DataTypes.DOUBLE())]),
            pa.schema([("b", pa.string()), ("a", pa.float64())]),
        ),
        (pa.schema([("a", pa.int16()), ("b", pa.string())]), pa.schema([("a", pa.int16()), ("b", pa.string())])),
    ],
)
def test_from_pandas_takes_the_schemas_of_pyflink(schema: Any, expected: pa.Schema) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    assert env.from_pandas(FRAME, schema).get_type() == ArrowTypeInfo(expected)


def test_a_type_names_the_columns_of_a_frame_without_names() -> None:
    kind = DataTypes.ROW([DataTypes.FIELD("a", DataTypes.DOUBLE()), DataTypes.FIELD("b", DataTypes.BIGINT())])
    found = pandas_table(pd.DataFrame([[1.5, 2], [2.5, 3]]), kind)
    assert found.to_pydict() == {"a": [1.5, 2.5], "b": [2, 3]}


@pytest.mark.parametrize(
    ("frame", "schema", "message"),
    [
        ([1], None, "takes a pandas.DataFrame"),
        (FRAME, ["x"], "for each of the 2 columns"),
        (FRAME, ["x", 1], "a list of names"),
    ],
)
def test_from_pandas_refuses_what_it_does_not_know(frame: Any, schema: Any, message: str) -> None:
    with pytest.raises(InvalidJob, match=message):
        pandas_table(frame, schema)


def test_nan_of_pandas_is_null_as_in_pyflink() -> None:
    assert given(pd.DataFrame({"a": [1.5, np.nan]}))[0] == [Row(a=1.5), Row(a=None)]


EVERY = Types.ROW_NAMED(
    ["n", "big", "dec", "at", "day", "any", "list", "map", "row"],
    [Types.LONG(), Types.BIG_INT(), Types.BIG_DEC(), Types.SQL_TIMESTAMP(), Types.SQL_DATE(), Types.PICKLED_BYTE_ARRAY(),
     Types.LIST(Types.INT()), Types.MAP(Types.STRING(), Types.INT()), Types.ROW_NAMED(["x"], [Types.INT()])],
)  # fmt: skip


def test_a_frame_of_records_holds_what_records_have() -> None:
    at = dt.datetime(2026, 11, 27, 21, 50)
    record = Row(
        n=1, big=10**30, dec=decimal.Decimal("1.5"), at=at, day=at.date(), any={1}, list=[1], map={"k": 1}, row=Row(x=1)
    )
    source = CollectionSource([record], EVERY)
    frame = to_frame(batches_of(source), EVERY)
    assert frame["n"].dtype == np.int64
    assert frame["at"].dtype.kind == "M"
    assert frame.iloc[0].to_dict() == {**record.as_dict(), "at": pd.Timestamp(at)}


def test_columns_come_back_as_the_frame_that_they_were() -> None:
    source = CollectionSource(FRAME)
    pd.testing.assert_frame_equal(to_frame(batches_of(source), source.produced_type()), FRAME)
    assert to_frame([], source.produced_type()).columns.tolist() == ["a", "b"]
