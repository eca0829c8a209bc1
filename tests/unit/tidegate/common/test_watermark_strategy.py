"""Watermark strategies are values; columns become event time in every unit."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from tidegate.common import Duration, TimestampAssigner, WatermarkStrategy
from tidegate.common.watermark_strategy import event_times
from tidegate.functions.adapters import FieldTimestamp
from tidegate.model.errors import InvalidJob, SchemaMismatch


class Second(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1])


def test_builders_return_new_strategies() -> None:
    first = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(2))
    second = first.with_timestamp_assigner(Second()).with_idleness(Duration.of_minutes(1))
    assert (first.max_out_of_orderness_ms, first.timestamp_assigner, first.idle_timeout_ms) == (2000, None, None)
    assert second.idle_timeout_ms == 60_000
    assert second.timestamp_assigner is not None
    assert second.timestamp_assigner.extract_timestamp((0, 7), -1) == 7
    assert WatermarkStrategy.no_watermarks().max_out_of_orderness_ms is None
    assert WatermarkStrategy.for_monotonous_timestamps().max_out_of_orderness_ms == 0


def test_function_as_assigner_and_the_last_assigner_wins() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, old: value + old)
    assert strategy.timestamp_assigner is not None
    assert strategy.timestamp_assigner.extract_timestamp(3, 4) == 7
    by_column = strategy.with_timestamp_column("t")
    assert (by_column.timestamp_assigner, by_column.timestamp_column) == (None, "t")


def test_nonsense_is_refused() -> None:
    with pytest.raises(InvalidJob, match="must be positive"):
        WatermarkStrategy.no_watermarks().with_idleness(Duration.of_millis(0))
    with pytest.raises(InvalidJob, match="not a TimestampAssigner"):
        WatermarkStrategy.no_watermarks().with_timestamp_assigner(5)  # type: ignore[arg-type]
    with pytest.raises(InvalidJob, match="must not be negative"):
        WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(-1))


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([5, None], pa.int32()), [5, None]),
        (pa.array([5, -5], pa.timestamp("s")), [5000, -5000]),
        (pa.array([5, -5], pa.timestamp("ms", tz="UTC")), [5, -5]),
        (pa.array([1999, -1, -1000, None], pa.timestamp("us")), [1, -1, -1, None]),
        (pa.array([1_999_999, -1], pa.timestamp("ns")), [1, -1]),
        (pa.array([dt.date(1970, 1, 2)]), [86_400_000]),
    ],
)
def test_event_times_round_down_to_milliseconds(column: pa.Array, expected: list[int | None]) -> None:
    found = event_times(column)
    assert found.type == pa.int64()
    assert found.to_pylist() == expected


def test_event_time_must_be_a_time() -> None:
    with pytest.raises(SchemaMismatch, match="timestamp column 'f' is of type double"):
        event_times(pa.array([1.5]), "f")


def test_field_of_a_record_as_event_time() -> None:
    moment = dt.datetime(1970, 1, 1, 0, 0, 1, 999)
    assert FieldTimestamp(1).extract_timestamp((0, moment), -1) == 1000
    assert FieldTimestamp(None).extract_timestamp(17, -1) == 17
    assert FieldTimestamp(0).extract_timestamp((dt.date(1970, 1, 2),), -1) == 86_400_000
    with pytest.raises(InvalidJob, match="not an event time"):
        FieldTimestamp(0).extract_timestamp(("noon",), -1)
