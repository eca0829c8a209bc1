"""Data as it should not be: NaN and null keys, remote times, one record an hour, texts of a megabyte. On records and on columns
alike the result is right, or one error says what is wrong."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from tidegate.common import Duration, Row, Time, Types, WatermarkStrategy
from tidegate.datastream import DataStream, ProcessWindowFunction, TimeWindow
from tidegate.datastream.aggregates import count, last, sum
from tidegate.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows
from tidegate.model.errors import InvalidJob, SchemaMismatch
from tidegate.taskmanager.harness.operators import OperatorHarness

PAIR = Types.TUPLE([Types.DOUBLE(), Types.LONG()])
COLUMNS = Types.SCHEMA(pa.schema([("k", pa.float64()), ("v", pa.int64()), ("ts", pa.int64())]))
TEXTS = Types.SCHEMA(pa.schema([("k", pa.string()), ("v", pa.string()), ("ts", pa.int64())]))
HOUR_MS = 3_600_000
A_SECOND = TumblingEventTimeWindows.of(Time.seconds(1))
OTHER_NAN = math.inf - math.inf
STRANGE_KEYS = [math.nan, OTHER_NAN, -math.nan, 0.0, -0.0, None, None]
MOST_REMOTE_MS = 2**62


class Counted(ProcessWindowFunction[Any, Any, Any, TimeWindow]):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        yield key, context.window().start, len(list(elements))


def told(key: Any) -> str:
    """One text for all NaN."""
    return "NaN" if isinstance(key, float) and math.isnan(key) else str(key)


def by_column() -> WatermarkStrategy:
    return WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_timestamp_column("ts")


def by_record() -> WatermarkStrategy:
    return WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_timestamp_assigner(
        lambda value, _: value[1]
    )


def windowed_columns(stream: DataStream) -> DataStream:
    timed = stream.assign_timestamps_and_watermarks(by_column())
    return timed.key_by("k").window(A_SECOND).agg(count().alias("n"), sum("v"))


def windowed_records(stream: DataStream) -> DataStream:
    timed = stream.assign_timestamps_and_watermarks(by_record())
    return timed.key_by(lambda value: value[0], Types.DOUBLE()).window(A_SECOND).process(Counted())


class TestStrangeKeys:
    """Every NaN is one key, 0.0 and -0.0 are two, as in PyFlink 2.3 (recorded), and null is a key as any other."""

    def test_reduce(self) -> None:
        def summed(stream: DataStream) -> DataStream:
            return stream.key_by(lambda v: v[0], Types.DOUBLE()).reduce(lambda a, b: (a[0], a[1] + b[1]))

        with OperatorHarness(summed, PAIR) as harness:
            harness.push_all([(key, 10**i) for i, key in enumerate(STRANGE_KEYS)])
            assert {told(key): total for key, total in harness.take()} == {
                "NaN": 111,
                "0.0": 1_000,
                "-0.0": 10_000,
                "None": 1_100_000,
            }
            snapshot = harness.snapshot()
        with OperatorHarness(summed, PAIR, restore=snapshot) as again:
            again.push_all([(OTHER_NAN, 1), (-0.0, 1), (None, 1)])
            assert [total for _, total in again.take()] == [112, 10_001, 1_100_001]

    def test_a_key_of_several_parts(self) -> None:
        def summed(stream: DataStream) -> DataStream:
            return stream.key_by(lambda v: (v[0], "x")).reduce(lambda a, b: (a[0], a[1] + b[1]))

        with OperatorHarness(summed, PAIR) as harness:
            harness.push_all([(key, 10**i) for i, key in enumerate(STRANGE_KEYS)])
            assert {told(key): total for key, total in harness.take()} == {
                "NaN": 111,
                "0.0": 1_000,
                "-0.0": 10_000,
                "None": 1_100_000,
            }

    def test_windows_of_records(self) -> None:
        with OperatorHarness(windowed_records, PAIR) as harness:
            harness.push_all([(key, 100 + i) for i, key in enumerate(STRANGE_KEYS)])
            harness.push_watermark(2**63 - 1)
            assert sorted((told(key), n) for key, _, n in harness.take()) == [
                ("-0.0", 1),
                ("0.0", 1),
                ("NaN", 3),
                ("None", 2),
            ]

    def test_windows_of_columns(self) -> None:
        with OperatorHarness(windowed_columns, COLUMNS) as harness:
            harness.push_all([Row(k=key, v=10**i, ts=100) for i, key in enumerate(STRANGE_KEYS)])
            harness.push_watermark(2**63 - 1)
            found = sorted((told(row.k), row.n, row.sum_v) for row in harness.take())
            assert found == [("-0.0", 1, 10_000), ("0.0", 1, 1_000), ("NaN", 3, 111), ("None", 2, 1_100_000)]

    def test_running_aggregates_of_columns(self) -> None:
        with OperatorHarness(lambda s: s.key_by("k").agg(sum("v")), COLUMNS) as harness:
            harness.push_all([Row(k=key, v=10**i, ts=0) for i, key in enumerate(STRANGE_KEYS)])
            harness.push_all([Row(k=OTHER_NAN, v=None, ts=0)])
            found = {told(row.k): row.sum_v for row in harness.take()}
            assert found == {"0.0": 1_000, "-0.0": 10_000, "NaN": 111, "None": 1_100_000}


class TestTimes:
    def test_one_record_an_hour_fires_each_window_when_the_next_one_comes(self) -> None:
        with OperatorHarness(windowed_records, PAIR) as harness:
            for hour in range(4):
                harness.push((1.0, hour * HOUR_MS))
                harness.advance_processing_time(hour * HOUR_MS + 1_000)
                assert harness.take() == ([(1.0, (hour - 1) * HOUR_MS, 1)] if hour else [])

    def test_windows_before_1970_are_aligned_as_those_behind(self) -> None:
        expected = [(-2000, 1), (-1000, 1), (0, 2)]
        with OperatorHarness(windowed_records, PAIR) as harness:
            harness.push_all([(1.0, -1500), (1.0, -1), (1.0, 0), (1.0, 999)])
            harness.push_watermark(2**63 - 1)
            assert [(start, n) for _, start, n in harness.take()] == expected
        with OperatorHarness(windowed_columns, COLUMNS) as harness:
            harness.push_all([Row(k=1.0, v=1, ts=ts) for ts in (-1500, -1, 0, 999)])
            harness.push_watermark(2**63 - 1)
            assert sorted((row.window_start, row.n) for row in harness.take()) == expected

    @pytest.mark.parametrize("stamp", [2**63 - 1, MOST_REMOTE_MS + 1, -MOST_REMOTE_MS - 1, 2**63, -(2**63) - 1])
    def test_a_remote_time_of_a_record_is_named(self, stamp: int) -> None:
        stamped = by_record().with_timestamp_assigner(lambda *_: stamp)
        with (
            OperatorHarness(lambda s: s.assign_timestamps_and_watermarks(stamped), PAIR) as harness,
            pytest.raises(SchemaMismatch, match=f"{stamp} is out of range"),
        ):
            harness.push((1.0, 1))

    @pytest.mark.parametrize("stamp", [2**63 - 1, MOST_REMOTE_MS + 1, -(2**63)])
    def test_a_remote_time_of_a_column_is_named(self, stamp: int) -> None:
        with (
            OperatorHarness(windowed_columns, COLUMNS) as harness,
            pytest.raises(SchemaMismatch, match=f"{stamp} is out of range"),
        ):
            harness.push_all([Row(k=1.0, v=1, ts=0), Row(k=1.0, v=1, ts=stamp)])

    def test_seconds_that_are_no_milliseconds_any_more_are_named(self) -> None:
        seconds = pa.schema([("ts", pa.timestamp("s"))])

        def remote(batch: pa.RecordBatch) -> pa.RecordBatch:
            return pa.RecordBatch.from_arrays([pa.array([2**61], pa.int64()).cast(pa.timestamp("s"))], schema=seconds)

        def timed(stream: DataStream) -> DataStream:
            return stream.map_batches(remote, seconds).assign_timestamps_and_watermarks(by_column())

        with OperatorHarness(timed, COLUMNS) as harness, pytest.raises(SchemaMismatch, match="'ts' is out of range"):
            harness.push(Row(k=1.0, v=1, ts=1))

    @pytest.mark.parametrize("stamp", [None, "noon", math.nan])
    def test_what_is_no_time_is_named(self, stamp: Any) -> None:
        stamped = by_record().with_timestamp_assigner(lambda *_: stamp)
        with (
            OperatorHarness(lambda s: s.assign_timestamps_and_watermarks(stamped), PAIR) as harness,
            pytest.raises(SchemaMismatch, match=f"extract_timestamp gave {stamp!r}"),
        ):
            harness.push((1.0, 1))

    def test_a_null_time_in_a_column_is_named(self) -> None:
        with OperatorHarness(windowed_columns, COLUMNS) as harness, pytest.raises(SchemaMismatch, match="'ts'.*null"):
            harness.push_all([Row(k=1.0, v=1, ts=None)])

    def test_a_window_needs_times(self) -> None:
        def windows(stream: DataStream) -> DataStream:
            return stream.key_by(lambda v: v[0], Types.DOUBLE()).window(A_SECOND).process(Counted())

        with OperatorHarness(windows, PAIR) as harness, pytest.raises(InvalidJob, match="without a timestamp"):
            harness.push((1.0, 1))

    def test_the_most_remote_times_have_windows(self) -> None:
        def sessions(stream: DataStream) -> DataStream:
            timed = stream.assign_timestamps_and_watermarks(by_record())
            keyed = timed.key_by(lambda value: value[0], Types.DOUBLE())
            return keyed.window(EventTimeSessionWindows.with_gap(Time.days(365))).process(Counted())

        with OperatorHarness(sessions, PAIR) as harness:
            harness.push_all([(1.0, -MOST_REMOTE_MS), (2.0, MOST_REMOTE_MS)])
            harness.push_watermark(2**63 - 1)
            assert sorted(harness.take()) == [(1.0, -MOST_REMOTE_MS, 1), (2.0, MOST_REMOTE_MS, 1)]


class TestLongTexts:
    MEGABYTE = "é" * 2**19

    def test_as_keys_and_values_of_columns(self) -> None:
        def windows(stream: DataStream) -> DataStream:
            timed = stream.assign_timestamps_and_watermarks(by_column())
            return timed.key_by("k").window(A_SECOND).agg(count().alias("n"), last("v").alias("text"))

        with OperatorHarness(windows, TEXTS) as harness:
            harness.push_all([Row(k=self.MEGABYTE + str(i % 2), v=self.MEGABYTE * (i + 1), ts=0) for i in range(8)])
            harness.push_watermark(2**63 - 1)
            found = {row.k[-1]: (row.n, len(row.text)) for row in harness.take()}
            assert found == {"0": (4, 7 * 2**19), "1": (4, 8 * 2**19)}

    def test_as_keys_and_values_of_records(self) -> None:
        kind = Types.TUPLE([Types.STRING(), Types.STRING()])

        def longest(stream: DataStream) -> DataStream:
            return stream.key_by(lambda v: v[0], Types.STRING()).reduce(lambda a, b: (a[0], a[1] + b[1]))

        with OperatorHarness(longest, kind) as harness:
            harness.push_all([(self.MEGABYTE + str(i % 2), self.MEGABYTE) for i in range(4)])
            snapshot = harness.snapshot()
        with OperatorHarness(longest, kind, restore=snapshot) as again:
            again.push((self.MEGABYTE + "1", "x"))
            assert [len(text) for _, text in again.take()] == [2 * 2**19 + 1]


def test_half_of_the_rows_with_one_key_are_counted_as_all_others() -> None:
    keys = [0.0 if i % 2 else float(i) for i in range(2, 20_002)]
    with OperatorHarness(windowed_columns, COLUMNS) as harness:
        harness.push_all([Row(k=key, v=1, ts=i // 20) for i, key in enumerate(keys)])
        harness.push_watermark(2**63 - 1)
        found = {row.k: row.n for row in harness.take()}
    assert found == Counter(keys)
