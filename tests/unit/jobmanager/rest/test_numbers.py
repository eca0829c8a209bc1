"""Numbers as Flink computes them; the expected ones are from answers of a real cluster."""

from __future__ import annotations

import math

import pytest

from tidegate.jobmanager.rest.numbers import aggregate, number, skew_percent, summary
from tidegate.jobmanager.rest.responses.jobs import java_duration


def test_what_is_not_finite_is_a_text() -> None:
    assert [number(value) for value in (1, math.nan, math.inf, -math.inf)] == [1.0, "NaN", "Infinity", "-Infinity"]


def test_statistics_of_two_subtasks() -> None:
    expected = {"min": 12035, "p25": 12035, "avg": 13256, "median": 13256, "p75": 14477, "p95": 14477, "max": 14477}
    assert aggregate([14477, 12035]) == {**expected, "sum": 26512}


def test_percentiles_lie_between_samples() -> None:
    durations = [*range(31, 47), 80, 358]
    found = summary(durations)
    assert (found["min"], found["max"], found["avg"]) == (31, 358, sum(durations) // 18)
    assert found["p50"] == 39.5
    assert math.isclose(found["p90"], 80 + 0.1 * (358 - 80))
    assert (found["p95"], found["p999"]) == (358.0, 358.0)


def test_without_samples_percentiles_are_unknown() -> None:
    assert summary([]) == {"min": 0, "max": 0, "avg": 0, **dict.fromkeys(("p50", "p90", "p95", "p99", "p999"), "NaN")}
    assert summary([5], percentiles=False)["p50"] == "NaN"


def test_skew() -> None:
    assert math.isclose(skew_percent([323, 397]), 10.277777777777777)
    assert skew_percent([0, 0]) == 0.0
    assert skew_percent([0, 0, 0, 0, 90]) == 100.0


@pytest.mark.parametrize(
    ("value_ms", "text"),
    [
        (0, "PT0S"),
        (500, "PT0.5S"),
        (1_000, "PT1S"),
        (61_250, "PT1M1.25S"),
        (3_600_000, "PT1H"),
        (90_000_000, "PT25H"),
    ],
)
def test_durations_as_java_writes_them(value_ms: int, text: str) -> None:
    assert java_duration(value_ms) == text
