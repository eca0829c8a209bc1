"""A collection as source and the standard output as sink."""

from __future__ import annotations

import datetime
import pickle
from typing import Any

import pyarrow as pa
import pytest

from tidegate.common import Row, TypeInformation, Types
from tidegate.connectors.base import ReaderContext, SinkContext, SplitState
from tidegate.connectors.collection import CollectionSource
from tidegate.connectors.print_sink import PrintSink
from tidegate.model.errors import SchemaMismatch
from tidegate.records.arrow_type import ArrowTypeInfo
from tidegate.records.batch import ArrowBatch, RecordsBatch
from tidegate.records.record_codec import decode, encode

CONTEXT = ReaderContext(0, 1, 128, "job", "attempt", "operator")
NAMED = Types.ROW_NAMED(["a", "b"], [Types.STRING(), Types.INT()])


@pytest.mark.parametrize(
    ("values", "type_info"),
    [
        ([1, 2, 3], Types.LONG()),
        ([(1, "a"), (2, None)], Types.TUPLE([Types.INT(), Types.STRING()])),
        ([Row(a="x", b=1)], NAMED),
        ([{"any": "thing"}, 5], Types.PICKLED_BYTE_ARRAY()),
        ([], Types.LONG()),
        (list(range(10_000)), Types.INT()),
    ],
)
def test_gives_its_values_in_order(values: list[Any], type_info: TypeInformation) -> None:
    source = pickle.loads(pickle.dumps(CollectionSource(values, type_info)))
    reader = source.make_reader(CONTEXT)
    reader.open([SplitState(split) for split in source.list_splits(1)])
    found: list[Any] = []
    while (polled := reader.poll()) is not None:
        found += decode(type_info, polled.batch.data)
        reader.advance(len(polled.batch))
    assert found == values
    assert reader.is_finished()
    assert [state.done for state in reader.snapshot_state()] == [True]


def test_goes_on_behind_the_last_emitted_record() -> None:
    source = CollectionSource(list(range(10)), Types.LONG())
    reader = source.make_reader(CONTEXT)
    reader.open([SplitState(split) for split in source.list_splits(1)])
    assert reader.poll() is not None
    reader.advance(4)
    states = reader.snapshot_state()
    assert [(state.position, state.done) for state in states] == [(4, False)]
    restored = source.make_reader(CONTEXT)
    restored.open(states)
    polled = restored.poll()
    assert polled is not None
    assert isinstance(polled.batch, ArrowBatch)
    assert polled.batch.data.column(0).to_pylist() == [4, 5, 6, 7, 8, 9]


def test_a_value_that_does_not_fit_is_refused_at_once() -> None:
    with pytest.raises(SchemaMismatch, match="from_collection"):
        CollectionSource([1, "two"], Types.LONG())


def context(parallelism: int) -> SinkContext:
    return SinkContext(1, parallelism, "job", "attempt", "operator")


def test_prints_as_flink_does(capsys: pytest.CaptureFixture[str]) -> None:
    writer = PrintSink("out").make_writer(context(4), [], NAMED)
    writer.write(RecordsBatch([Row(a="x", b=1), Row(a="y", b=None)]))
    writer.write(ArrowBatch(encode(NAMED, [Row(a="z", b=3)])))
    assert capsys.readouterr().out == "out:2> +I[x,1]\nout:2> +I[y,None]\nout:2> +I[z,3]\n"


NESTED = {"EXPR$0": 1, "EXPR$1": "a", "EXPR$2": None}


@pytest.mark.parametrize(
    ("values", "types", "line"),
    [
        ([1, "a", None], [pa.int32(), pa.string(), pa.float64()], "+I[1,a,None]"),
        (
            [1.1, 1e10, 1e-5, float("nan")],
            [pa.float32(), *[pa.float64()] * 3],
            "+I[1.100000023841858,10000000000.0,1e-05,nan]",
        ),
        (
            [datetime.date(2021, 3, 4), datetime.time(1, 2, 3)],
            [pa.date32(), pa.time32("ms")],
            "+I[2021-03-04,01:02:03]",
        ),
        ([datetime.datetime(1970, 1, 1, 0, 0, 1, 500000)], [pa.timestamp("ms", "UTC")], "+I[Instant<1, 500000000>]"),
        ([datetime.datetime(1970, 1, 1, 0, 0, 1)], [pa.timestamp("ns")], "+I[1970-01-01 00:00:01]"),
        ([NESTED], [None], "+I[Row(EXPR$0=1, EXPR$1='a', EXPR$2=None)]"),
        ([{"EXPR$0": {"EXPR$0": 1.5}}], [None], "+I[Row(EXPR$0=Row(EXPR$0=1.5))]"),
        ([[1, 2, None], ["a", "b"]], [None, None], "+I[[1, 2, None],['a', 'b']]"),
        ([[("a", 1), ("b", None)]], [pa.map_(pa.string(), pa.int32())], "+I[{'a': 1, 'b': None}]"),
    ],
)
def test_rows_of_columns_are_printed_as_pyflink_prints_those_of_tables(
    values: list[object], types: list[pa.DataType | None], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The lines are those of PyFlink 2.3 for ``to_data_stream(...).print()``, but for the one of nanoseconds."""
    columns = [pa.array([value], kind) for value, kind in zip(values, types, strict=True)]
    batch = pa.RecordBatch.from_arrays(columns, names=[f"c{i}" for i in range(len(values))])
    PrintSink().make_writer(context(1), [], ArrowTypeInfo(batch.schema)).write(ArrowBatch(batch))
    assert capsys.readouterr().out == f"{line}\n"


@pytest.mark.parametrize(("identifier", "parallelism", "prefix"), [("", 1, ""), ("id", 1, "id> "), ("", 3, "2> ")])
def test_prefix_says_only_what_matters(
    identifier: str, parallelism: int, prefix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    PrintSink(identifier).make_writer(context(parallelism), [], Types.LONG()).write(RecordsBatch([7]))
    assert capsys.readouterr().out == f"{prefix}7\n"


def test_prints_to_the_standard_error_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    PrintSink(stderr=True).make_writer(context(1), [], Types.PICKLED_BYTE_ARRAY()).write(RecordsBatch([("a", 1)]))
    assert capsys.readouterr().err == "('a', 1)\n"
