"""States are written at the same time, by threads that stay from one snapshot to the next and end with the subtask."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tidegate.model.checkpoint import OperatorSnapshot
from tidegate.store.segments import InlineSegmentStore
from tidegate.taskmanager.runtime.checkpointing.parallel_writes import ParallelWriter
from tidegate.taskmanager.state.ports import FrozenState, SegmentStore

TIMEOUT_S = 30


class State(FrozenState):
    """``meeting``: writing ends only when all parties write."""

    def __init__(self, meeting: threading.Barrier | None = None, error: BaseException | None = None) -> None:
        self.thread: threading.Thread | None = None
        self.snapshot = OperatorSnapshot()
        self._meeting = meeting
        self._error = error

    def write(self, store: SegmentStore) -> OperatorSnapshot:
        self.thread = threading.current_thread()
        if self._meeting is not None:
            self._meeting.wait(TIMEOUT_S)
        if self._error is not None:
            raise self._error
        return self.snapshot


@pytest.fixture
def writer() -> Iterator[ParallelWriter]:
    made = ParallelWriter()
    yield made
    made.close()


def threads_of(states: list[State]) -> list[threading.Thread]:
    return [state.thread for state in states if state.thread is not None]


def written(writer: ParallelWriter, count: int) -> list[State]:
    meeting = threading.Barrier(count)
    states = [State(meeting) for _ in range(count)]
    found = writer.write_all(states, InlineSegmentStore())
    assert all(one is state.snapshot for one, state in zip(found, states, strict=True)), "in their order"
    return states


def test_all_are_written_at_the_same_time_the_first_by_the_caller(writer: ParallelWriter) -> None:
    threads = threads_of(written(writer, 3))
    assert threads[0] is threading.current_thread()
    assert len(set(threads)) == 3
    assert all(thread.daemon for thread in threads[1:])


def test_threads_stay_and_are_as_many_as_the_widest_snapshot_needs(writer: ParallelWriter) -> None:
    written(writer, 1)
    first = set(threads_of(written(writer, 2)))
    second = set(threads_of(written(writer, 4)))
    assert first < second
    assert set(threads_of(written(writer, 4))) == second


def test_the_first_error_is_raised_when_all_are_done(writer: ParallelWriter) -> None:
    meeting = threading.Barrier(3)
    states = [State(meeting), State(meeting, OSError("first")), State(meeting, ValueError("second"))]
    with pytest.raises(OSError, match="first"):
        writer.write_all(states, InlineSegmentStore())
    assert len(threads_of(states)) == 3
    written(writer, 3)


def test_threads_end_with_the_subtask() -> None:
    writer = ParallelWriter()
    threads = threads_of(written(writer, 3))[1:]
    writer.close()
    for thread in threads:
        thread.join(TIMEOUT_S)
    assert not any(thread.is_alive() for thread in threads)
