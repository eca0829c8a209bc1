"""Which acknowledgements a TaskManager sends together, and when."""

from __future__ import annotations

from collections.abc import Callable

from tests.unit.taskmanager.runtime.fakes import FakeClock
from tidegate.model.ids import AttemptId, JobId, VertexId
from tidegate.pb.common_pb2 import Acknowledgement
from tidegate.taskmanager.service.jobmanager.ack_batcher import HOLD_S, AckBatcher

A, B, C = HERE = [AttemptId(JobId("0" * 32), VertexId("1" * 32), subtask, 0) for subtask in range(3)]


class _Timer:
    def __init__(self, at_ms: float, call: Callable[[], None]) -> None:
        self.at_ms = at_ms
        self.call = call
        self.is_armed = True

    def cancel(self) -> None:
        self.is_armed = False


class _Sent:
    """What left, message by message: the names of the subtasks, and how long each was held."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.timers: list[_Timer] = []
        self.messages: list[list[tuple[str, int]]] = []
        self.gathering = AckBatcher(self._send, self._call_later, lambda: self.clock.ms / 1000)

    def advance(self, by_ms: float) -> None:
        self.clock.ms += by_ms
        for timer in self.timers:
            if timer.is_armed and timer.at_ms <= self.clock.ms:
                timer.cancel()
                timer.call()

    def _call_later(self, delay_s: float, call: Callable[[], None]) -> _Timer:
        self.timers.append(_Timer(self.clock.ms + 1000 * delay_s, call))
        return self.timers[-1]

    def acknowledge(self, attempt: AttemptId, checkpoint_id: int = 1, here: list[AttemptId] = HERE) -> None:
        self.gathering.keep(attempt, Acknowledgement(attempt=str(attempt), checkpoint_id=checkpoint_id), lambda: here)

    def _send(self, together: list[Acknowledgement]) -> None:
        self.messages.append([(one.attempt, one.held_ms) for one in together])


def test_they_wait_for_the_last_one_which_leaves_at_once() -> None:
    sent = _Sent()
    sent.acknowledge(A)
    sent.advance(4)
    sent.acknowledge(B)
    assert sent.messages == []
    sent.advance(3)
    sent.acknowledge(C)
    assert sent.messages == [[(str(A), 7), (str(B), 3), (str(C), 0)]]


def test_one_without_neighbours_leaves_at_once() -> None:
    sent = _Sent()
    sent.acknowledge(A, here=[A])
    assert sent.messages == [[(str(A), 0)]]


def test_nobody_waits_long_and_who_comes_after_that_is_the_last_all_the_same() -> None:
    sent = _Sent()
    sent.acknowledge(A)
    sent.advance(1000 * HOLD_S - 1)
    sent.acknowledge(B)
    assert sent.messages == []
    sent.advance(1)
    assert sent.messages == [[(str(A), 25), (str(B), 1)]]
    sent.acknowledge(C)
    assert sent.messages[1:] == [[(str(C), 0)]]


def test_what_is_told_next_does_not_overtake_them() -> None:
    sent = _Sent()
    sent.acknowledge(A)
    sent.gathering.release()
    assert sent.messages == [[(str(A), 0)]]
    sent.gathering.release()
    assert len(sent.messages) == 1


def test_of_a_session_that_is_over_nothing_leaves() -> None:
    sent = _Sent()
    sent.acknowledge(A)
    sent.gathering.drop()
    sent.advance(1000 * HOLD_S)
    assert sent.messages == []


def test_each_checkpoint_is_waited_for_anew() -> None:
    sent = _Sent()
    for attempt in HERE:
        sent.acknowledge(attempt, 1)
    sent.acknowledge(A, 2)
    assert len(sent.messages) == 1
    sent.acknowledge(B, 2)
    sent.acknowledge(C, 2)
    assert [len(message) for message in sent.messages] == [3, 3]


def test_who_is_gone_is_not_waited_for() -> None:
    sent = _Sent()
    sent.acknowledge(A)
    sent.gathering.forget(C, is_last=False)
    sent.acknowledge(B)
    assert [len(message) for message in sent.messages] == [2]


def test_nothing_is_known_of_a_job_that_is_gone() -> None:
    sent = _Sent()
    sent.acknowledge(A, 7)
    sent.gathering.forget(A, is_last=True)
    sent.acknowledge(B, 1)
    assert sent.messages == []
    sent.acknowledge(A, 1)
    sent.acknowledge(C, 1)
    assert [len(message) for message in sent.messages] == [4]


def test_of_several_checkpoints_at_once_the_newest_is_waited_for() -> None:
    sent = _Sent()
    sent.acknowledge(A, 1)
    sent.acknowledge(A, 2)
    assert sent.messages == []
    sent.acknowledge(B, 1)
    assert [len(message) for message in sent.messages] == [3]
    sent.acknowledge(B, 2)
    sent.acknowledge(C, 1)
    assert [len(message) for message in sent.messages] == [3, 2]
    sent.acknowledge(C, 2)
    assert [len(message) for message in sent.messages] == [3, 2, 1]


def test_jobs_do_not_wait_for_one_another() -> None:
    sent = _Sent()
    other = AttemptId(JobId("2" * 32), VertexId("1" * 32), 0, 0)
    sent.acknowledge(A, 5)
    sent.acknowledge(other, 1, here=[other])
    assert [len(message) for message in sent.messages] == [2]
    sent.acknowledge(B, 5)
    sent.acknowledge(C, 5)
    assert [len(message) for message in sent.messages] == [2, 2]
