"""What the JobManager's log says of commits that do not succeed."""

from __future__ import annotations

import pytest

from tidegate.jobmanager.service.task_managers.attempts import CurrentAttempts
from tidegate.model.ids import AttemptId, JobId, VertexId
from tidegate.pb.common_pb2 import TaskMetrics

JOB = JobId("0" * 31 + "1")
FIRST, SECOND = (AttemptId(JOB, VertexId("a" * 32), 1, number) for number in (0, 1))


class Bench:
    def __init__(self) -> None:
        self.now_ms = 0
        self.attempts = CurrentAttempts(lambda: self.now_ms)
        self.attempts.submitted(FIRST)

    def hears(self, at_s: int, failing_s: int, attempt: AttemptId = FIRST) -> None:
        self.now_ms = at_s * 1000
        self.attempts.measured(attempt, TaskMetrics(user={"out.failingCommitTime": failing_s * 1000.0}))


def test_commits_that_fail_are_a_warning_every_30_s_until_they_succeed(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.hears(0, 0)
    assert caplog.messages == []
    for at_s in range(1, 91):
        bench.hears(at_s, at_s)
    first, *more = caplog.messages
    assert first.startswith(f"job {JOB}: commits of operator 'out', subtask 1, have not succeeded for 1 s")
    assert [message.split(" for ")[1].split(",")[0] for message in more] == ["31 s", "61 s"]
    bench.hears(91, 0)
    bench.hears(92, 0)
    assert caplog.messages[3:] == [f"job {JOB}: commits of operator 'out', subtask 1, succeed again"]


def test_of_an_attempt_that_is_replaced_nothing_more_is_said(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.hears(1, 1)
    bench.attempts.submitted(SECOND)
    bench.hears(40, 40)
    bench.hears(41, 0, SECOND)
    assert len(caplog.messages) == 1
    bench.hears(42, 1, SECOND)
    assert len(caplog.messages) == 2


def test_of_a_job_that_is_over_nothing_more_is_said(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.hears(1, 1)
    bench.attempts.forget(JOB)
    bench.hears(40, 40)
    bench.hears(41, 0)
    assert len(caplog.messages) == 1
