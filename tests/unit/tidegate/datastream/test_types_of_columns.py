"""Whatever a column's type is: what the graph accepts runs, with a snapshot in between; the others are refused when it is built."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from tidegate.common import Row, Time
from tidegate.common.typeinfo import ArrowTypeInfo
from tidegate.datastream import DataStream, aggregates, col
from tidegate.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from tidegate.model.errors import InvalidJob, SchemaMismatch
from tidegate.testing import OperatorHarness

VALUES: dict[pa.DataType, Any] = {
    pa.int8(): 1, pa.uint64(): 2**64 - 1, pa.float16(): 1.5, pa.float32(): 1.5, pa.float64(): 1.5, pa.decimal32(5, 2): Decimal("1.50"),
    pa.decimal64(12, 2): Decimal("1.50"), pa.decimal128(9, 2): Decimal("1.50"), pa.decimal256(50, 2): Decimal("1.50"), pa.bool_(): True,
    pa.string(): "a", pa.large_string(): "a", pa.string_view(): "a", pa.binary(): b"a", pa.large_binary(): b"a", pa.binary_view(): b"a",
    pa.binary(2): b"ab", pa.date32(): dt.date(2020, 1, 1), pa.date64(): dt.date(2020, 1, 1), pa.timestamp("s"): dt.datetime(2020, 1, 1),
    pa.timestamp("ns", "UTC"): dt.datetime(2020, 1, 1, tzinfo=dt.UTC), pa.time32("s"): dt.time(1), pa.time64("ns"): dt.time(1),
    pa.duration("us"): dt.timedelta(1), pa.month_day_nano_interval(): (1, 2, 3), pa.null(): None,
    pa.dictionary(pa.int32(), pa.string()): "a", pa.dictionary(pa.int8(), pa.float64()): 5.0, pa.list_(pa.int64()): [1],
    pa.struct([("a", pa.int64())]): {"a": 1}, pa.map_(pa.string(), pa.int64()): [("a", 1)], pa.list_view(pa.int64()): [1],
    pa.run_end_encoded(pa.int32(), pa.int64()): 1,
}  # fmt: skip
WINDOWS: dict[str, Any] = {
    "tumble": TumblingEventTimeWindows.of(Time.milliseconds(10)),
    "hop": SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5)),
    "session": EventTimeSessionWindows.with_gap(Time.milliseconds(5)),
}
NOT_KEYS = [
    pa.float16(), pa.decimal32(5, 2), pa.decimal64(12, 2), pa.string_view(), pa.binary_view(), pa.month_day_nano_interval(), pa.list_(pa.int64()),
    pa.struct([("a", pa.int64())]), pa.map_(pa.string(), pa.int64()), pa.list_view(pa.int64()), pa.run_end_encoded(pa.int32(), pa.int64()),
]  # fmt: skip
NOT_KEYS_OF_TOTALS = [*NOT_KEYS, pa.null(), pa.binary(2), pa.decimal128(9, 2), pa.decimal256(50, 2)]
FUNCTIONS = ("count", "sum", "min", "max", "avg", "first", "last", "stddev", "approx_distinct", "median")
REFUSED: dict[pa.DataType, str] = {
    pa.string_view(): "count sum min max avg first last stddev approx_distinct median",
    pa.run_end_encoded(pa.int32(), pa.int64()): "count sum min max avg first last stddev approx_distinct median",
    pa.month_day_nano_interval(): "sum min max avg stddev approx_distinct median",
    pa.decimal128(9, 2): "sum min max avg stddev median",
    pa.timestamp("s"): "sum avg stddev median",
    pa.bool_(): "sum avg stddev median",
    pa.string(): "sum min max avg stddev median",
    pa.list_(pa.int64()): "sum min max avg stddev approx_distinct median",
    pa.float16(): "",
    pa.uint64(): "",
}


def runs(piece: Callable[[DataStream], DataStream], kind: pa.DataType, rows: list[Row], *columns: str) -> bool:
    """Whether the graph takes it; then it has to run."""
    schema = pa.schema([(columns[0], kind), (columns[1], pa.int64())])
    built: list[bool] = []

    def noted(stream: DataStream) -> DataStream:
        made = piece(stream)
        built.append(True)
        return made

    try:
        with OperatorHarness(noted, ArrowTypeInfo(schema)) as harness:
            harness.push_all(rows, [0] * len(rows))
            snapshot = harness.snapshot()
    except (SchemaMismatch, InvalidJob):
        assert not built, "it is not the graph that refuses it"
        return False
    with OperatorHarness(noted, ArrowTypeInfo(schema), restore=snapshot) as harness:
        harness.push_all(rows, [1] * len(rows))
        harness.push_watermark(1000)
        assert harness.output
    return True


@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_keys(kind: pa.DataType) -> None:
    rows = [Row(k=VALUES[kind], v=1), Row(k=None, v=1)]
    for assigner in WINDOWS.values():
        made = runs(lambda s, a=assigner: s.key_by("k").window(a).agg(aggregates.count()), kind, rows, "k", "v")  # type: ignore[misc]
        assert made == (kind not in NOT_KEYS)
    for keys in (["k"], ["v", "k"]):
        made = runs(lambda s, k=keys: s.key_by(*k).agg(aggregates.count()), kind, rows, "k", "v")  # type: ignore[misc]
        assert made == (kind not in NOT_KEYS_OF_TOTALS)


@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_what_is_aggregated(kind: pa.DataType) -> None:
    rows = [Row(v=VALUES[kind], k=1), Row(v=None, k=1)]
    refused = set()
    for function in FUNCTIONS:
        made = getattr(aggregates, function)("v")

        def in_windows(stream: DataStream, assigner: Any, made: aggregates.Aggregate = made) -> DataStream:
            return stream.key_by("k").window(assigner).agg(made)

        def running(stream: DataStream, made: aggregates.Aggregate = made) -> DataStream:
            return stream.key_by("k").agg(made)

        found = {runs(partial(in_windows, assigner=a), kind, rows, "v", "k") for a in WINDOWS.values()}
        assert len(found) == 1
        refused |= {function} if found == {False} else set()
        if function in aggregates.RUNNING:
            assert {runs(running, kind, rows, "v", "k")} == found
    if kind in REFUSED:
        assert refused == set(REFUSED[kind].split())


def test_a_column_that_no_step_can_move_is_refused_where_rows_are_chosen() -> None:
    rows = [Row(v="a", k=1)]
    assert not runs(lambda s: s.filter(col("k") > 0), pa.string_view(), rows, "v", "k")
    assert not runs(lambda s: s.key_by("k").agg(aggregates.count()), pa.string_view(), rows, "v", "k")
    assert runs(
        lambda s: s.select("k", v=col("v").cast("string")).filter(col("k") > 0), pa.string_view(), rows, "v", "k"
    )


def test_a_struct_is_no_key_of_records() -> None:
    rows = [Row(k={"a": 1}, v=1)]
    assert not runs(lambda s: s.key_by("k").reduce(lambda a, b: a), pa.struct([("a", pa.int64())]), rows, "k", "v")
