"""Rings of figures over time."""

from __future__ import annotations

import math

from tidegate.jobmanager.web import series
from tidegate.jobmanager.web.series import JOB, SAMPLES, STEP_MS, Series

VERTEX = ("1" * 32, -1)


def test_what_is_not_told_in_a_step_is_a_gap() -> None:
    kept = Series()
    kept.record(0, [(JOB, {"in_s": 1.0}), (VERTEX, {"busy": 0.5})])
    kept.record(STEP_MS, [(JOB, {"in_s": 2.0, "lag_ms": 7.0})])
    assert kept.show(JOB) == {"in_s": [1.0, 2.0], "lag_ms": [None, 7.0]}
    assert kept.show(VERTEX) == {"busy": [0.5, None]}
    assert kept.show(("2" * 32, 0)) == {}
    assert kept.last_ms == STEP_MS


def test_the_last_values_of_a_series_come_without_its_gaps() -> None:
    kept = Series()
    for step in range(SAMPLES + 3):
        kept.record(step, [(JOB, {"in_s": float(step)} if step % 2 else {})])
    last = SAMPLES + 2
    assert kept.values(JOB, "in_s", 4) == [float(last - 3), float(last - 1)]
    assert len(kept.values(JOB, "in_s")) == SAMPLES // 2
    assert kept.values(JOB, "out_s") == []
    assert kept.values(VERTEX, "in_s") == []


def test_it_goes_round_and_forgets_what_is_older_than_a_quarter_of_an_hour() -> None:
    kept = Series()
    for step in range(SAMPLES + 3):
        kept.record(step, [(JOB, {"in_s": float(step)})])
    shown = kept.show(JOB)["in_s"]
    assert (shown[0], shown[-1], len(shown)) == (3.0, SAMPLES + 2, SAMPLES)
    assert SAMPLES * STEP_MS == 15 * 60_000


def test_what_is_no_number_is_a_gap() -> None:
    kept = Series()
    kept.record(0, [(JOB, {"a": math.inf, "b": math.nan})])
    assert kept.show(JOB) == {"a": [None], "b": [None]}


def test_a_job_with_too_many_figures_keeps_those_that_were_told_first() -> None:
    kept = Series()
    many = {f"m{number}": 1.0 for number in range(series.MAX_SERIES)}
    kept.record(0, [(JOB, {"in_s": 1.0}), (VERTEX, many)])
    assert kept.show(JOB) == {"in_s": [1.0]}
    assert len(kept.show(VERTEX)) == series.MAX_SERIES - 1
