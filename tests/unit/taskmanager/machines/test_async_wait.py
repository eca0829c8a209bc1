"""The queue of asynchronous I/O: what is invoked when, and what leaves in which order."""

from __future__ import annotations

from tidegate.taskmanager.machines.async_wait import (
    AsyncWaitCommand,
    AsyncWaitQueue,
    EmitResults,
    Invoke,
    MarkArrived,
    PassMark,
    RecordArrived,
    RecordCompleted,
)


def records(queue: AsyncWaitQueue, *numbers: int) -> list[AsyncWaitCommand]:
    return [command for number in numbers for command in queue.on(RecordArrived(number))]


def completed(queue: AsyncWaitQueue, *numbers: int) -> list[AsyncWaitCommand]:
    return [command for number in numbers for command in queue.on(RecordCompleted(number))]


def test_records_are_invoked_as_they_come_up_to_the_capacity() -> None:
    queue = AsyncWaitQueue(capacity=2, ordered=False)
    assert records(queue, 1, 2) == [Invoke(1), Invoke(2)]
    assert not queue.has_room
    assert records(queue, 3, 4) == []
    assert completed(queue, 2) == [EmitResults(2), Invoke(3)]
    assert queue.in_flight == [1, 3, 4]


def test_ordered_results_wait_for_their_turn_and_count_until_then() -> None:
    queue = AsyncWaitQueue(capacity=2, ordered=True)
    records(queue, 1, 2, 3)
    assert completed(queue, 2) == []
    assert not queue.has_room
    assert completed(queue, 1) == [EmitResults(1), EmitResults(2), Invoke(3)]
    assert completed(queue, 3) == [EmitResults(3)]
    assert queue.is_empty


def test_unordered_results_leave_as_they_come_but_never_past_a_mark() -> None:
    queue = AsyncWaitQueue(capacity=9, ordered=False)
    records(queue, 1, 2)
    assert queue.on(MarkArrived(3)) == []
    records(queue, 4, 5)
    assert completed(queue, 5) == []
    assert completed(queue, 2) == [EmitResults(2)]
    assert completed(queue, 1) == [EmitResults(1), PassMark(3), EmitResults(5)]
    assert completed(queue, 4) == [EmitResults(4)]
    assert queue.is_empty


def test_a_mark_with_nothing_before_it_passes_at_once() -> None:
    for ordered in (True, False):
        queue = AsyncWaitQueue(capacity=1, ordered=ordered)
        assert queue.on(MarkArrived(1)) == [PassMark(1)]
        records(queue, 2)
        assert queue.on(MarkArrived(3)) == []
        assert queue.on(MarkArrived(4)) == []
        assert not queue.is_empty
        assert completed(queue, 2) == [EmitResults(2), PassMark(3), PassMark(4)]
        assert queue.is_empty
        assert queue.on(MarkArrived(5)) == [PassMark(5)]
