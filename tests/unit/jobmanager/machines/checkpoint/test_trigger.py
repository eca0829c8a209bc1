"""The queue of requests and the rule that picks the next (``CheckpointRequestDeciderTest``), and the failure counter."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tidegate.jobmanager.machines.checkpoint.failure import FailureCounter, FailureReason
from tidegate.jobmanager.machines.checkpoint.trigger import (
    MAX_QUEUED_REQUESTS,
    CheckpointRequest,
    CoordinatorLoad,
    DropWithinPause,
    PeriodicSchedule,
    RequestQueue,
    Start,
)
from tidegate.jobmanager.machines.random import SplitMix64
from tidegate.jobmanager.machines.settings import CheckpointSettings
from tidegate.model.checkpoint import SnapshotType
from tidegate.model.ids import CheckpointId

IDLE = CoordinatorLoad(is_triggering=False, pending=0, cleaning=0, last_end_ms=None)
CHECKPOINT, SAVEPOINT = SnapshotType.CHECKPOINT, SnapshotType.SAVEPOINT
DECLINED, EXPIRED = FailureReason.DECLINED, FailureReason.EXPIRED


def periodic(number: int, at_ms: int = 0) -> CheckpointRequest:
    return CheckpointRequest(CHECKPOINT, at_ms, number, is_periodic=True)


def user(number: int, kind: SnapshotType = CHECKPOINT) -> CheckpointRequest:
    return CheckpointRequest(kind, 0, number, request_id=str(number), is_forced=kind.is_savepoint)


def queue(*requests: CheckpointRequest, min_pause_ms: int = 0, max_concurrent: int = 1) -> RequestQueue:
    made = RequestQueue(CheckpointSettings(min_pause_ms=min_pause_ms, max_concurrent=max_concurrent))
    for request in requests:
        made.add(request)
    return made


def order(it: RequestQueue) -> list[int]:
    found = []
    while isinstance(decision := it.decide_next(IDLE, 0), Start):
        found.append(decision.request.number)
    return found


def test_savepoints_come_before_users_checkpoints_before_periodic_ones() -> None:
    requests = (periodic(1), user(2), user(3, SAVEPOINT), periodic(4), user(5))
    assert order(queue(*requests, max_concurrent=2)) == [3, 2, 5, 1, 4]


def test_no_more_periodic_ones_wait_than_may_be_pending() -> None:
    requests = (periodic(1), user(2), periodic(3), periodic(4))
    assert order(queue(*requests)) == [2, 1]
    assert order(queue(*requests, max_concurrent=2)) == [2, 1, 3]


def test_nothing_starts_while_another_is_being_triggered_or_too_many_are_cleaned() -> None:
    it = queue(user(1, SAVEPOINT))
    assert it.decide_next(replace(IDLE, is_triggering=True), 0) is None
    assert it.decide_next(replace(IDLE, cleaning=2), 0) is None
    assert it.decide_next(replace(IDLE, cleaning=1), 0) == Start(user(1, SAVEPOINT))


def test_only_savepoints_pass_the_limit_of_pending_ones() -> None:
    full = replace(IDLE, pending=1)
    assert queue(user(1), periodic(2)).decide_next(full, 0) is None
    assert queue(user(1), user(2, SAVEPOINT)).decide_next(full, 0) == Start(user(2, SAVEPOINT))


def test_only_periodic_ones_mind_the_pause() -> None:
    load = replace(IDLE, last_end_ms=1_000)
    assert queue(periodic(1), min_pause_ms=500).decide_next(load, 1_499) == DropWithinPause(periodic(1), 1_500)
    assert queue(periodic(1), min_pause_ms=500).decide_next(load, 1_500) == Start(periodic(1))
    assert queue(user(1), min_pause_ms=500).decide_next(load, 1_001) == Start(user(1))


def test_a_full_queue_drops_periodic_requests_first() -> None:
    it = queue(*(user(i) for i in range(MAX_QUEUED_REQUESTS - 1)), periodic(5_000))
    assert it.add(periodic(5_001, at_ms=1)) == periodic(5_001, at_ms=1), "the new one has the lowest rank"
    assert it.add(user(5_002)) == periodic(5_000)
    assert it.add(user(5_003)) == user(5_003)
    assert it.add(user(5_004, SAVEPOINT)) == user(5_004, SAVEPOINT)
    assert len(it) == MAX_QUEUED_REQUESTS


@given(
    seed=st.integers(0, 2**64 - 1),
    late_ms=st.lists(st.integers(0, 99), max_size=20),
    pause_ms=st.integers(0, 100),
)
def test_the_schedule_keeps_its_rate_as_long_as_nothing_is_later_than_the_interval(
    seed: int, late_ms: list[int], pause_ms: int
) -> None:
    it = PeriodicSchedule(100, pause_ms)
    first = at = it.start(0, SplitMix64(seed))
    assert pause_ms <= first <= 100
    for number, late in enumerate(late_ms, start=1):
        at = it.next(at + late) or 0
        assert at == first + 100 * number
    assert it.start(10_000, SplitMix64(seed)) == 10_000 + pause_ms, "after a failover it is not drawn anew"


def test_a_trigger_that_is_very_late_is_followed_at_once() -> None:
    it = PeriodicSchedule(100, 0)
    it.start(0, SplitMix64(1))
    assert it.next(1_000) == 1_000


def test_what_is_planned_when_a_backlog_begins_starts_and_the_next_one_is_further_away() -> None:
    it = PeriodicSchedule(100, 0, 1_000)
    first = it.start(0, SplitMix64(1))
    assert it.note_backlog(10, is_backlog=True) is None, "later, never earlier"
    assert it.next(first) == first + 1_000


def test_the_end_of_a_backlog_waits_no_longer_than_the_usual_interval() -> None:
    it = PeriodicSchedule(100, 0, 1_000)
    first = it.start(0, SplitMix64(1))
    it.note_backlog(10, is_backlog=True)
    it.next(first)
    assert it.note_backlog(first + 5, is_backlog=False) == first + 105
    assert it.next(first + 105) == first + 205


def test_an_interval_of_0_plans_none_until_the_backlog_ends() -> None:
    it = PeriodicSchedule(100, 0, 0)
    first = it.start(0, SplitMix64(1))
    assert it.note_backlog(10, is_backlog=True) is None
    assert it.next(first) is None
    assert it.note_backlog(5_000, is_backlog=True) is None
    assert it.note_backlog(10_000, is_backlog=False) == 10_100


def test_without_an_interval_of_its_own_a_backlog_changes_nothing() -> None:
    it = PeriodicSchedule(100, 0)
    first = it.start(0, SplitMix64(1))
    assert it.note_backlog(10, is_backlog=True) is None
    assert it.next(first) == first + 100


# ---- what fails the job -----------------------------------------------------------------------------------------------------------


def failed(counter: FailureCounter, checkpoint_id: int | None, reason: FailureReason = DECLINED) -> bool:
    number = None if checkpoint_id is None else CheckpointId(checkpoint_id)
    return counter.on_failure(reason, number, CHECKPOINT, on_task_side=True)


def test_consecutive_counted_failures_of_distinct_checkpoints_count() -> None:
    counter = FailureCounter(1)
    assert [failed(counter, 1), failed(counter, 1, EXPIRED), failed(counter, 2)] == [False, False, True]


def test_a_success_starts_anew_and_closes_what_was_before() -> None:
    counter = FailureCounter(0)
    counter.on_success(CheckpointId(5))
    assert not failed(counter, 4)
    assert failed(counter, 6)


def test_failures_before_an_id_count_every_time() -> None:
    counter = FailureCounter(1)
    io = FailureReason.IO_EXCEPTION
    assert [failed(counter, None, io), failed(counter, None, io)] == [False, True]


def test_the_counted_reasons_are_flinks() -> None:
    assert {r.name for r in FailureReason if r.counts} == {
        "IO_EXCEPTION",
        "ASYNC_EXCEPTION",
        "DECLINED",
        "EXPIRED",
        "FINALIZE_CHECKPOINT_FAILURE",
    }


def test_savepoints_count_only_when_a_task_failed_them() -> None:
    counter = FailureCounter(0)
    assert not counter.on_failure(EXPIRED, CheckpointId(1), SAVEPOINT, on_task_side=False)
    assert counter.on_failure(DECLINED, CheckpointId(2), SAVEPOINT, on_task_side=True)
