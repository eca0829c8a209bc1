"""Outputs are flushed in rounds: no record waits longer than the buffer timeout, and a round has at most one frame."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidegate.taskmanager.runtime.flushing import FlushTimer

TIMEOUT_MS = 5


def flushes(timer: FlushTimer, records_ms: list[int]) -> list[tuple[float, float]]:
    """(when the first record of a frame came, when the frame left) of records that come at these times; steps take no time."""
    found: list[tuple[float, float]] = []
    first: float | None = None
    for now in range(max(records_ms) + 2 * TIMEOUT_MS):
        timer.begin(now)
        came = now in records_ms
        if came and first is None:
            first = now
        if timer.is_due(now, unflushed=first is not None, advanced=came):
            assert first is not None
            found.append((first, now))
            first = None
    assert first is None, "nothing is kept"
    return found


def test_rounds_begin_with_the_first_record() -> None:
    assert flushes(FlushTimer(TIMEOUT_MS), [3, 4, 7, 10, 16]) == [(3, 8), (10, 13), (16, 18)]


def test_a_long_silence_does_not_move_the_rounds() -> None:
    assert flushes(FlushTimer(TIMEOUT_MS), [0, 103]) == [(0, 5), (103, 105)]


def test_without_a_timeout_each_record_leaves_at_once() -> None:
    assert flushes(FlushTimer(0), [3, 4, 9]) == [(3, 3), (4, 4), (9, 9)]


@given(st.lists(st.integers(0, 200), min_size=1, unique=True))
def test_no_record_waits_longer_than_the_timeout_and_no_round_has_two_frames(records_ms: list[int]) -> None:
    begun = min(records_ms)
    found = flushes(FlushTimer(TIMEOUT_MS), records_ms)
    assert all(0 < left - first <= TIMEOUT_MS for first, left in found)
    assert len({(first - begun) // TIMEOUT_MS for first, _ in found}) == len(found)
