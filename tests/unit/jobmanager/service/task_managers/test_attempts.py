"""Counters of attempts, and the readings that rates are computed from."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.jobmanager.machines.cluster_kit import JOB, vertex_id
from tidegate.jobmanager.service.task_managers.attempts import CurrentAttempts
from tidegate.model.ids import AttemptId, TaskManagerId
from tidegate.model.late_records import LateRecords
from tidegate.pb.common_pb2 import TaskMetrics
from tidegate.wire.task_metrics import RATE_WINDOW_MS


def attempt(number: int) -> AttemptId:
    return AttemptId(JOB, vertex_id("map"), 0, number)


def test_rates_are_over_the_last_seconds() -> None:
    now = [0]
    attempts = CurrentAttempts(lambda: now[0])
    attempts.submitted(attempt(0))
    spans = []
    for at_ms in range(0, 4 * RATE_WINDOW_MS, 1_000):
        now[0] = at_ms
        attempts.measured(attempt(0), TaskMetrics(records_in=at_ms))
        span = attempts.span_of(attempt(0))
        spans.append(None if span is None else span.duration_ms)
        if span is not None:
            assert (span.until_ms, span.later.records_in) == (at_ms, at_ms)
            assert span.earlier.records_in == at_ms - span.duration_ms
    assert spans[0] is None, "one reading is no rate"
    assert spans[1:6] == [1_000, 2_000, 3_000, 4_000, 5_000]
    assert max(span for span in spans[6:] if span is not None) <= 2 * RATE_WINDOW_MS
    assert spans[-1] is not None


def test_only_the_attempt_that_counts() -> None:
    attempts = CurrentAttempts(lambda: 0)
    attempts.measured(attempt(0), TaskMetrics(records_in=1))
    assert attempts.metrics_of(attempt(0)) is None, "never submitted"
    attempts.submitted(attempt(0))
    attempts.measured(attempt(0), TaskMetrics(records_in=2))
    attempts.submitted(attempt(1))
    attempts.measured(attempt(1), TaskMetrics(records_in=3))
    attempts.measured(attempt(0), TaskMetrics(records_in=4))
    assert attempts.metrics_of(attempt(0)) is None
    found = attempts.metrics_of(attempt(1))
    assert found is not None
    assert found.records_in == 3
    attempts.forget(JOB)
    attempts.measured(attempt(1), TaskMetrics(records_in=5))
    last = attempts.metrics_of(attempt(1))
    assert last is not None, "its last figures stay"
    assert last.records_in == 5


def test_a_heartbeat_that_was_overtaken_does_not_undo_the_last_figures() -> None:
    attempts = CurrentAttempts(lambda: 0)
    attempts.submitted(attempt(0))
    attempts.measured(attempt(0), TaskMetrics(records_in=1))
    attempts.measured_last(attempt(0), TaskMetrics(records_in=3))
    attempts.measured(attempt(0), TaskMetrics(records_in=2))
    last = attempts.metrics_of(attempt(0))
    assert last is not None
    assert last.records_in == 3
    attempts.submitted(attempt(1))
    for records_in in (4, 5):
        attempts.measured(attempt(1), TaskMetrics(records_in=records_in))
    of_the_next = attempts.metrics_of(attempt(1))
    assert of_the_next is not None
    assert of_the_next.records_in == 5


def test_metrics_of_a_process_go_with_its_session() -> None:
    attempts, task_manager = CurrentAttempts(lambda: 0), TaskManagerId("tm")
    assert attempts.process_metrics_of(task_manager) == {}
    attempts.process_measured(task_manager, {"Status.JVM.Threads.Count": 7.0})
    assert attempts.process_metrics_of(task_manager) == {"Status.JVM.Threads.Count": 7.0}
    attempts.process_gone(task_manager)
    assert attempts.process_metrics_of(task_manager) == {}


def test_late_records_are_counted_by_operator_and_those_of_earlier_attempts_apart() -> None:
    def told(**dropped: int) -> TaskMetrics:
        user = {f"{name}.numLateRecordsDropped": float(count) for name, count in dropped.items()}
        return TaskMetrics(late_records_dropped=sum(dropped.values()), user={**user, "windows.stateKeys": 3.0})

    attempts = CurrentAttempts(lambda: 0)
    other = AttemptId(JOB, vertex_id("map"), 1, 0)
    assert attempts.late_records(JOB) == []
    attempts.submitted(attempt(0))
    attempts.submitted(other)
    attempts.measured(attempt(0), told(windows=2, join=0))
    attempts.measured(other, told(windows=5))
    assert attempts.late_records(JOB) == [LateRecords("windows", 7)]
    attempts.measured_last(attempt(0), told(windows=3, join=1))
    attempts.submitted(attempt(1))
    attempts.measured(attempt(1), told(join=4))
    attempts.forget(JOB)
    assert attempts.late_records(JOB) == [LateRecords("join", 4, 1), LateRecords("windows", 5, 3)]


def test_figures_of_what_has_ended_are_handed_to_the_next_jobmanager() -> None:
    before, after = CurrentAttempts(lambda: 7), CurrentAttempts(lambda: 9)
    other = AttemptId(JOB, vertex_id("map"), 1, 0)
    for running in (attempt(0), attempt(1), other):
        before.submitted(running)
        late = {"windows.numLateRecordsDropped": 2.0}
        before.measured(running, TaskMetrics(records_in=4, late_records_dropped=2, user=late))
    before.measured_last(attempt(1), TaskMetrics(records_in=5))
    figures = before.metrics_of_ended(JOB)
    assert [(one.attempt, one.at_ms) for one in figures] == [(attempt(1), 7)], "others are told by their TaskManagers"
    after.recall(JOB, [*figures, replace(figures[0], attempt=other, metrics=b"\xff")], before.late_before(JOB))
    found = after.metrics_of(attempt(1))
    assert found is not None
    assert found.records_in == 5
    assert after.metrics_of(other) is None, "what cannot be read is left out"
    assert after.late_records(JOB) == [LateRecords("windows", 0, 2)]
    after.submitted(attempt(2))
    after.measured(attempt(2), TaskMetrics(records_in=1))
    newer = after.metrics_of(attempt(2))
    assert newer is not None
    assert newer.records_in == 1
