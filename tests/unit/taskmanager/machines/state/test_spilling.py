"""What goes to disk: never more than the limit stays in memory, partitions do not overlap, and rows are seldom written again."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from tidegate.model.keygroups import KeyGroupRange
from tidegate.taskmanager.machines.state.spilling import (
    FAN_OUT,
    MOST_PIECES,
    decide_combine,
    decide_limits,
    decide_parts,
    decide_spill,
    is_worth_keeping,
)

SIZES = st.lists(st.integers(0, 10_000), min_size=1, max_size=80)
RANGES = st.tuples(st.integers(0, 1 << 20), st.integers(0, 5000)).map(lambda at: KeyGroupRange(at[0], at[0] + at[1]))


def test_a_budget_is_for_windows_and_for_what_changed() -> None:
    assert decide_limits(0) == (None, None)
    assert decide_limits(1000) == (750, 250)


@given(SIZES, st.integers(0, 10_000), st.integers(0, 400_000))
def test_what_is_written_ends_within_the_limit_and_no_sooner(held: list[int], inbox: int, limit: int) -> None:
    written = 0
    while (index := decide_spill(held, inbox, limit)) is not None:
        assert sum(held) + inbox > limit
        if index < 0:
            assert inbox, "there is something to partition"
            held[0], inbox = held[0] + inbox, 0
        else:
            assert held[index] == max(held) > 0
            held[index] = 0
            written += 1
    assert sum(held) + inbox <= limit
    assert written <= len(held) + 1


@given(RANGES)
def test_a_state_is_cut_into_a_bounded_number_of_parts_without_gaps(owned: KeyGroupRange) -> None:
    parts = decide_parts(owned, owned)
    assert len(parts) <= FAN_OUT
    assert len(parts) >= min(FAN_OUT // 2, owned.size)
    assert [group for part in parts for group in range(part.start, part.end + 1)] == [
        *range(owned.start, owned.end + 1)
    ]
    assert all(decide_parts(part, owned) == [part] for part in parts), "what was cut is not cut again"


def test_rows_are_written_again_only_when_they_have_doubled() -> None:
    pieces, added, written = [100], 100, 100
    for _ in range(1000):
        pieces.append(100)
        added, written = added + 100, written + 100
        if decide_combine(pieces):
            written += sum(pieces)
            pieces = [sum(pieces)]
        assert len(pieces) < MOST_PIECES or sum(pieces[1:]) < pieces[0]
    assert written < 4 * added


def test_duplicates_are_a_reason_to_stay_in_memory() -> None:
    assert is_worth_keeping(100, 50)
    assert not is_worth_keeping(100, 51)
