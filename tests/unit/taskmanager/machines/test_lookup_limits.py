"""How many lookups of clients get through, key by key and moment by moment."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidegate.model.ids import AttemptId, JobId, VertexId
from tidegate.taskmanager.machines.queryable.lookup_limits import BURST_S, PENDING_KEYS, REQUEST_KEYS, LookupLimits

FIRST, SECOND = (AttemptId(JobId("1" * 32), VertexId("2" * 32), subtask, 0) for subtask in (0, 1))


def test_the_rate_bounds_the_keys_of_a_second() -> None:
    limits, admitted = LookupLimits(10_000), 0
    for now_ms in range(10_000):
        while limits.refusal(FIRST, 100, now_ms) is None:
            admitted += 100
            limits.answered(FIRST, 100)
            limits.check_invariants()
    assert 100_000 - 100 <= admitted <= 100_000 + PENDING_KEYS


def test_a_request_of_one_key_costs_more_than_its_key() -> None:
    limits, admitted = LookupLimits(1_000), 0
    for now_ms in range(10_000):
        while limits.refusal(FIRST, 1, now_ms) is None:
            admitted += 1
            limits.answered(FIRST, 1)
    assert admitted <= (10_000 + PENDING_KEYS) / REQUEST_KEYS


def test_a_subtask_that_does_not_answer_is_given_a_bounded_number_of_keys() -> None:
    limits = LookupLimits(1_000_000)
    assert limits.refusal(FIRST, PENDING_KEYS, 0) is None
    assert limits.refusal(FIRST, 1, 0) == f"its subtask has {PENDING_KEYS:,} keys to look up already"
    assert limits.refusal(SECOND, 1, 0) is None
    limits.answered(FIRST, PENDING_KEYS)
    assert limits.refusal(FIRST, 1, 0) is None


def test_a_request_of_too_many_keys_is_refused_for_ever() -> None:
    assert (
        LookupLimits(1_000_000).refusal(FIRST, PENDING_KEYS + 1, 0) == "a request holds at most 4,096 keys, not 4,097"
    )


def test_the_refusal_names_the_option() -> None:
    limits = LookupLimits(10)
    assert limits.refusal(FIRST, PENDING_KEYS, 0) is None
    limits.answered(FIRST, PENDING_KEYS)
    assert limits.refusal(FIRST, 10, 1) == (
        "this TaskManager answers 10 keys a second (tidegate.queryable-state.max-rate)"
    )


@given(st.lists(st.tuples(st.booleans(), st.sampled_from([FIRST, SECOND]), st.integers(1, 5_000), st.integers(0, 300))))
def test_everything_that_was_admitted_fits_into_the_bounds(steps: list[tuple[bool, AttemptId, int, int]]) -> None:
    rate = 20_000
    limits, now_ms, spent, pending = LookupLimits(rate), 0, 0, list[tuple[AttemptId, int]]()
    for answers, attempt, keys, later_ms in steps:
        now_ms += later_ms
        if answers and pending:
            limits.answered(*pending.pop())
        elif limits.refusal(attempt, keys, now_ms) is None:
            pending.append((attempt, keys))
            spent += keys
        limits.check_invariants()
        assert spent <= max(PENDING_KEYS, rate * BURST_S) + rate * now_ms / 1000
