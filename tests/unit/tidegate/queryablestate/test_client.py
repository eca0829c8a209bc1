"""What a client makes of the JobManager's answers."""

from __future__ import annotations

import pytest

from tidegate.model.errors import Misuse, StateNotServed
from tidegate.model.states import JobState
from tidegate.pb import jobmanager_pb2 as pb
from tidegate.queryablestate import client as client_module
from tidegate.queryablestate.client import QueryableStateClient


class Answers:
    """A JobManager to which subtasks register one state after the other: what it says to each question, the last again and again."""

    def __init__(self, *answers: pb.KvStateLocationAnswer) -> None:
        self._answers = list(answers)
        self.questions = 0

    def kv_state_location(self, job_id: str, name: str) -> pb.KvStateLocationAnswer:
        self.questions += 1
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


RUNS = JobState.RUNNING.value
ONLY_SUMS = pb.KvStateLocationAnswer(job_state=RUNS, names=["sums"])
ENDED = pb.KvStateLocationAnswer(job_state=JobState.FINISHED.value)


def asked(answers: Answers, timeout_s: float = 30.0) -> None:
    with QueryableStateClient._over(answers) as client:
        client.get_kv_states("f" * 32, "counts", [1], timeout_s=timeout_s)


def test_a_name_that_is_not_there_yet_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A JobManager that has just adopted the job learns of its states one by one."""
    monkeypatch.setattr(client_module, "REGISTERED_WITHIN_S", 30.0)
    answers = Answers(ONLY_SUMS, ONLY_SUMS, ENDED)
    with pytest.raises(Misuse, match="is FINISHED and serves no state"):
        asked(answers)
    assert answers.questions == 3


def test_a_name_that_stays_away_is_refused_with_those_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "REGISTERED_WITHIN_S", 0.1)
    with pytest.raises(Misuse, match="has no queryable state 'counts'; it has 'sums'"):
        asked(Answers(ONLY_SUMS))


def test_without_the_time_to_be_sure_it_may_be_there_later() -> None:
    with pytest.raises(StateNotServed, match="it has 'sums'"):
        asked(Answers(ONLY_SUMS), timeout_s=0.1)
