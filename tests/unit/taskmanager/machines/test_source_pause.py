"""When a source rests, and for how long."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidegate.taskmanager.machines.source_pause import MOST_MS, SourcePause


def test_one_that_is_behind_rests_for_its_share_of_the_time_between_barriers() -> None:
    rest = SourcePause(0.05, 1_000.0)
    assert rest.left_ms(1_000.0) == 0
    rest.on_barrier(1, 1_400.0)
    assert rest.left_ms(1_400.0) == 20
    assert rest.left_ms(1_415.0) == 5
    assert rest.left_ms(1_420.0) == rest.left_ms(1_421.0) == 0
    rest.on_barrier(2, 2_000.0)
    assert rest.left_ms(2_000.0) == 30


def test_it_never_rests_for_long() -> None:
    rest = SourcePause(0.05, 0.0)
    rest.on_barrier(1, 60_000.0)
    assert rest.left_ms(60_000.0) == MOST_MS
    rest = SourcePause(0.05, 0.0)
    rest.on_barrier(1, 16_284.746722887603)  # a float that is a little larger once 100 were added and taken away
    assert rest.left_ms(16_284.746722887603) == MOST_MS


def test_it_goes_on_once_the_checkpoint_is_settled() -> None:
    rest = SourcePause(0.05, 0.0)
    rest.on_barrier(7, 1_000.0)
    rest.on_settled(6)
    assert rest.left_ms(1_000.0) == 50
    rest.on_settled(7)
    assert rest.left_ms(1_000.0) == 0


def test_the_end_of_a_later_one_settles_it_too() -> None:
    rest = SourcePause(0.05, 0.0)
    rest.on_barrier(7, 1_000.0)
    rest.on_settled(8)
    assert rest.left_ms(1_000.0) == 0


def test_one_that_had_to_wait_for_data_since_the_last_barrier_does_not_rest() -> None:
    rest = SourcePause(0.05, 0.0)
    rest.on_waited()
    rest.on_barrier(1, 1_000.0)
    assert rest.left_ms(1_000.0) == 0
    rest.on_barrier(2, 2_000.0)
    assert rest.left_ms(2_000.0) == 50


def test_a_share_of_nothing_is_no_rest() -> None:
    rest = SourcePause(0.0, 0.0)
    rest.on_barrier(1, 1_000.0)
    assert rest.left_ms(1_000.0) == 0


@given(
    st.floats(0, 1),
    st.lists(st.tuples(st.floats(0.01, 10_000), st.booleans()), min_size=1, max_size=30),
)
def test_it_rests_for_no_more_than_its_share(share: float, barriers: list[tuple[float, bool]]) -> None:
    """However the barriers come: of the time up to each, it rested for no more than its share."""
    rest, now_ms, rested_ms = SourcePause(share, 0.0), 0.0, 0.0
    for number, (after_ms, waited) in enumerate(barriers, start=1):
        rested_ms += min(rest.left_ms(now_ms), after_ms)
        now_ms += after_ms
        if waited:
            rest.on_waited()
        rest.on_barrier(number, now_ms)
        assert rested_ms <= share * now_ms + 1e-6
        assert rest.left_ms(now_ms) <= MOST_MS
