"""Rows of a batch are numbered by arrays as one after another would be."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.functions.sql.time_shift import TimeShift
from tidegate.functions.sql.time_windows import grid_of, spans_of
from tidegate.plan.specs import CumulativeWindow, HoppingWindow, SessionWindow, TumblingWindow, Window
from tidegate.taskmanager.operators.relational.window_pairs import cells_of_times, local_times, number_by_first, runs_of

SPRING_MS = 1_711_846_800_000
"""When clocks in Berlin went from two to three in 2024."""
WINDOWS = (
    TumblingWindow(size="PT10S", offset="PT3S"),
    TumblingWindow(size="PT10S", offset="PT13S"),
    HoppingWindow(size="PT10S", slide="PT2S"),
    HoppingWindow(size="PT10S", slide="PT4S", offset="PT1S"),
    HoppingWindow(size="PT2S", slide="PT5S"),
    CumulativeWindow(max_size="PT12S", step="PT4S"),
)


@given(st.lists(st.one_of(st.integers(0, 9), st.integers(0, 1 << 40)), max_size=60))
def test_codes_are_numbered_in_their_order(codes: list[int]) -> None:
    firsts, numbers = number_by_first(np.array(codes, np.intp))
    different = list(dict.fromkeys(codes))
    assert [codes[at] for at in firsts.tolist()] == different
    assert firsts.tolist() == [codes.index(code) for code in different]
    assert numbers.tolist() == [different.index(code) for code in codes]


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@settings(deadline=None)
@given(st.lists(st.integers(-40_000, 40_000), min_size=1, max_size=40))
def test_times_of_a_cell_have_the_same_windows(window: Window, times: list[int]) -> None:
    grid, assign = grid_of(window), spans_of(window)
    assert grid is not None
    cell_of, of_cells = cells_of_times(np.array(times, np.int64), grid)
    assert [assign(of_cells[cell]) for cell in cell_of.tolist()] == list(map(assign, times))
    assert len(of_cells) == len(set(cell_of.tolist())) <= 80_000 // grid[0] + 1


def test_sessions_have_no_cells() -> None:
    assert grid_of(SessionWindow(gap="PT10S")) is None


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Asia/Kolkata"])
def test_local_times_follow_the_clock(zone: str) -> None:
    shift = TimeShift(zone)
    times = [SPRING_MS + ms for ms in (-3_600_001, -1_000, -1, 0, 1, 999, 1_000, 7_200_000)] + [-1, 0, 1]
    assert local_times(np.array(times, np.int64), shift).tolist() == list(map(shift.local, times))


def test_runs_end_where_one_of_the_times_changes() -> None:
    starts = pa.array([0, 0, 2, 2, 0], pa.timestamp("ms"))
    ends = pa.array([5, 5, 5, 7, 5], pa.timestamp("ms"))
    found = runs_of([starts, ends])
    assert found is not None
    assert found.tolist() == [0, 2, 3, 4]
    assert runs_of([starts, pa.array([5, None, 5, 7, 5], pa.timestamp("ms"))]) is None
    assert runs_of([]) is None
