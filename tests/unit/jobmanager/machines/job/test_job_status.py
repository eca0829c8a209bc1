"""A job's way through its states, with polite and less polite TaskManagers."""

from __future__ import annotations

import pytest

from tests.unit.jobmanager.machines.cluster_kit import (
    CHECKPOINTED,
    FAULT,
    JOB,
    Cluster,
    graph,
    running_job,
    two_stage,
    vertex,
    vertex_id,
)
from tidegate.jobmanager.machines import commands as c
from tidegate.jobmanager.machines import events as e
from tidegate.model.errors import ErrorInfo, UnknownAttempt, Unreachable, UserError
from tidegate.model.graph import Partitioner
from tidegate.model.ids import TaskManagerId
from tidegate.model.states import ExecutionState as E
from tidegate.model.states import JobState as J


def test_a_job_asks_for_its_slots_deploys_connects_and_finishes() -> None:
    cluster = Cluster()
    cluster.register("tm-1", 2)
    commands = cluster.submit(two_stage())
    assert len(cluster.of(c.AllocateSlot, commands)) == 2
    assert len(cluster.of(c.SubmitTask, commands)) == 4
    assert cluster.job_state() is J.RUNNING
    assert cluster.states() == {E.DEPLOYING}
    cluster.start_tasks()
    assert cluster.states() == {E.RUNNING}
    connects = cluster.of(c.ConnectTask)
    assert sorted(call.attempt for call in connects) == sorted(cluster.attempts(of="sink"))
    assert all([p.attempt for p in call.producers] == cluster.attempts(of="source") for call in connects)
    for attempt in cluster.attempts():
        last = cluster.state(attempt, E.FINISHED)
    assert cluster.job_state() is J.FINISHED
    assert len(cluster.of(c.FreeSlot, last)) == 2
    assert cluster.of(c.JobTerminated, last) == [c.JobTerminated(JOB)]


def test_no_task_is_submitted_before_every_slot_is_confirmed() -> None:
    cluster = Cluster()
    cluster.register("tm-1", 2)
    cluster.answers_calls = False
    cluster.submit(two_stage())
    first, second = cluster.of(c.AllocateSlot)
    assert not cluster.of(c.SubmitTask, cluster.tell(e.CallAnswered(first.call_id)))
    assert len(cluster.of(c.SubmitTask, cluster.tell(e.CallAnswered(second.call_id)))) == 4


def test_an_address_that_comes_with_running_connects_too() -> None:
    cluster = Cluster()
    cluster.register("tm-1", 1)
    cluster.submit(two_stage(1))
    cluster.state(cluster.attempt("source"), E.RUNNING)
    assert [call.attempt for call in cluster.of(c.ConnectTask)] == cluster.attempts(of="sink")
    cluster.state(cluster.attempt("source"), E.RUNNING)
    assert len(cluster.of(c.ConnectTask)) == 1, "told again: connected once"


def test_an_attempt_that_ended_before_it_was_connected_tells_its_own_cause() -> None:
    cluster = Cluster()
    cluster.register("tm-1", 1)
    cluster.submit(two_stage(1))
    cluster.answers_calls = False
    sink = cluster.attempt("sink")
    cluster.state(cluster.attempt("source"), E.RUNNING)
    (connect,) = cluster.of(c.ConnectTask)
    gone = ErrorInfo.of(UnknownAttempt(f"attempt {sink} does not run on this TaskManager"))
    cluster.tell(e.CallAnswered(connect.call_id, gone))
    assert cluster.job_state() is J.RUNNING
    cluster.fail(sink, FAULT)
    failure = cluster.job().failure
    assert failure is not None
    assert FAULT.message in failure.message


def test_pointwise_consumers_are_connected_to_their_own_producers_only() -> None:
    job = graph([vertex("source", 4, source=True), vertex("sink", 2)], [("source", "sink", Partitioner.RESCALE)])
    cluster = Cluster()
    cluster.register("tm-1", 4)
    cluster.submit(job)
    for attempt in cluster.attempts(of="source")[:2]:
        cluster.state(attempt, E.INITIALIZING)
    [call] = cluster.of(c.ConnectTask)
    assert call.attempt == cluster.attempt("sink", 0)
    assert [p.attempt.subtask for p in call.producers] == [0, 1]


def test_cancel_ends_canceled_when_every_task_is_over() -> None:
    cluster = running_job()
    commands = cluster.tell(e.JobCancelRequested(JOB)) + cluster.settle()
    assert len(cluster.of(c.CancelTask, commands)) == 4
    assert cluster.job_state() is J.CANCELLING
    cluster.tell(e.JobCancelRequested(JOB))
    cluster.cancel_tasks()
    assert cluster.job_state() is J.CANCELED
    assert len(cluster.of(c.JobTerminated)) == 1


def test_cancel_of_a_job_that_waits_for_slots_is_immediate() -> None:
    cluster = Cluster()
    cluster.submit(two_stage())
    assert cluster.job().waiting_for == "2 of 2 slots"
    cluster.tell(e.JobCancelRequested(JOB))
    assert cluster.job_state() is J.CANCELED
    assert not cluster.timers


def test_a_task_that_finishes_while_it_is_canceled_does_no_harm() -> None:
    cluster = running_job()
    cluster.tell(e.JobCancelRequested(JOB))
    for attempt in cluster.attempts():
        cluster.state(attempt, E.FINISHED)
    assert cluster.job_state() is J.CANCELED


def test_without_checkpointing_a_failure_ends_the_job() -> None:
    cluster = running_job()
    cluster.fail(cluster.attempt("sink"))
    assert cluster.job_state() is J.FAILING
    cluster.cancel_tasks()
    assert cluster.job_state() is J.FAILED
    failure = cluster.job().failure
    assert failure is not None
    assert failure.message == ("killed by the test (Recovery is suppressed by NoRestartBackoffTimeStrategy)")
    assert failure.origin == "sink (1/2)#0 on tm-1"


def test_a_cancel_wins_over_a_failing_job() -> None:
    cluster = running_job()
    cluster.fail(cluster.attempt("sink"))
    cluster.tell(e.JobCancelRequested(JOB))
    cluster.cancel_tasks()
    assert cluster.job_state() is J.CANCELED


def test_a_failure_restarts_the_job_after_the_backoff_with_new_attempts() -> None:
    cluster = running_job(configuration=CHECKPOINTED)
    cluster.fail(cluster.attempt("sink"))
    assert cluster.job_state() is J.RESTARTING
    cluster.cancel_tasks()
    assert cluster.job_state() is J.RESTARTING, "the backoff runs still"
    cluster.pass_time(1_100)
    assert cluster.job_state() is J.RUNNING
    assert {a.attempt for a in cluster.attempts()} == {1}
    assert cluster.states() == {E.DEPLOYING}, "the slots are still there"
    assert cluster.job().restarts == 1
    cluster.start_tasks()
    assert cluster.states() == {E.RUNNING}
    newest = [call for call in cluster.of(c.ConnectTask) if call.attempt.attempt == 1]
    assert {p.attempt.attempt for call in newest for p in call.producers} == {1}


def test_the_restart_waits_for_the_last_task_to_be_over() -> None:
    cluster = running_job(configuration=CHECKPOINTED)
    cluster.fail(cluster.attempt("sink"))
    cluster.pass_time(5_000)
    assert cluster.job_state() is J.RESTARTING
    assert not [s for s in cluster.of(c.SubmitTask) if s.deployment.attempt.attempt == 1]
    cluster.cancel_tasks()
    assert cluster.job_state() is J.RUNNING


def test_a_failure_that_cannot_be_repaired_skips_the_restart_strategy() -> None:
    cluster = running_job(configuration=CHECKPOINTED)
    cluster.fail(cluster.attempt("sink"), ErrorInfo.of(UserError("no such column")))
    cluster.cancel_tasks()
    assert cluster.job_state() is J.FAILED


def test_regions_restart_alone() -> None:
    cluster = running_job(two_stage(2, Partitioner.FORWARD), CHECKPOINTED)
    cluster.fail(cluster.attempt("sink", 1))
    assert cluster.attempts(E.CANCELING) == [cluster.attempt("source", 1)]
    assert cluster.attempts(E.RUNNING) == [cluster.attempt("source", 0), cluster.attempt("sink", 0)]
    cluster.cancel_tasks()
    cluster.pass_time(1_100)
    assert [a.attempt for a in cluster.attempts()] == [0, 1, 0, 1]


def test_the_failover_strategy_full_restarts_everything() -> None:
    cluster = running_job(
        two_stage(2, Partitioner.FORWARD), {**CHECKPOINTED, "jobmanager.execution.failover-strategy": "full"}
    )
    cluster.fail(cluster.attempt("sink", 1))
    assert len(cluster.attempts(E.CANCELING)) == 3


def test_a_second_failure_during_the_backoff_is_merged() -> None:
    cluster = running_job(two_stage(2, Partitioner.FORWARD), CHECKPOINTED)
    cluster.fail(cluster.attempt("sink", 0))
    cluster.now_ms += 200
    cluster.fail(cluster.attempt("sink", 1))
    cluster.cancel_tasks()
    cluster.pass_time(1_100)
    assert {a.attempt for a in cluster.attempts()} == {1}
    assert cluster.job().restarts == 1


def test_fixed_delay_gives_up_after_its_attempts() -> None:
    strategy = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "1 s"}
    cluster = running_job(configuration=strategy)
    cluster.fail(cluster.attempt("sink"))
    cluster.cancel_tasks()
    cluster.pass_time(1_000)
    cluster.start_tasks()
    cluster.fail(cluster.attempt("sink"))
    cluster.cancel_tasks()
    assert cluster.job_state() is J.FAILED
    failure = cluster.job().failure
    assert failure is not None
    assert "FixedDelayRestartBackoffTimeStrategy(maxNumberRestartAttempts=1, backoffTimeMS=1000)" in failure.message


def test_states_of_an_attempt_that_is_over_order_its_cancellation() -> None:
    cluster = running_job(configuration=CHECKPOINTED)
    old = cluster.attempt("sink")
    cluster.fail(old)
    cluster.cancel_tasks()
    cluster.pass_time(1_100)
    commands = cluster.state(old, E.RUNNING)
    assert [call.attempt for call in cluster.of(c.CancelTask, commands)] == [old]
    assert cluster.job_state() is J.RUNNING


def test_late_and_repeated_states_change_nothing() -> None:
    cluster = running_job()
    attempt = cluster.attempt("sink")
    cluster.state(attempt, E.INITIALIZING)
    cluster.state(attempt, E.RUNNING)
    assert cluster.states() == {E.RUNNING}
    cluster.tell(e.JobCancelRequested(JOB))
    cluster.state(attempt, E.RUNNING)
    assert cluster.states() == {E.CANCELING}


def test_a_task_that_was_canceled_without_an_order_has_failed() -> None:
    cluster = running_job(configuration=CHECKPOINTED)
    cluster.state(cluster.attempt("sink"), E.CANCELED)
    assert cluster.job_state() is J.RESTARTING


def test_a_refused_submission_fails_the_attempt() -> None:
    cluster = Cluster()
    cluster.register("tm-1", 2)
    refused = ErrorInfo.of(Unreachable("no answer"))
    cluster.refusal = lambda command: refused if isinstance(command, c.SubmitTask) else None
    cluster.submit(two_stage())
    cluster.refusal = lambda command: None
    cluster.cancel_tasks()
    assert cluster.job_state() is J.FAILED
    assert "SubmitTask of source (1/2)#0 on tm-1 failed: no answer" in str(cluster.job().failure)


def test_a_cancellation_of_an_attempt_nobody_knows_ends_it() -> None:
    cluster = running_job()
    gone = ErrorInfo.of(UnknownAttempt("not here"))
    cluster.refusal = lambda command: gone if isinstance(command, c.CancelTask) else None
    cluster.tell(e.JobCancelRequested(JOB))
    cluster.settle()
    assert cluster.job_state() is J.CANCELED


def test_the_view_tells_states_places_and_times() -> None:
    cluster = running_job()
    view = cluster.job()
    assert [v.name for v in view.vertices] == ["source", "sink"]
    subtask = view.vertices[0].subtasks[1]
    assert (subtask.current.task_manager_id, subtask.current.host) == ("tm-1", "tm-1")
    assert subtask.current.start_ms == cluster.now_ms
    assert view.state_timestamps_ms[J.RUNNING] == cluster.now_ms
    assert view.vertices[0].vertex_id == vertex_id("source")


@pytest.mark.parametrize("event", [e.JobCancelRequested(JOB), e.ManifestWritten(JOB, 1, 1)])  # type: ignore[arg-type]
def test_events_of_an_unknown_job_are_logged_only(event: e.Event) -> None:
    cluster = Cluster()
    [logged] = cluster.tell(event)
    assert isinstance(logged, c.Log)


def logged(commands: list[c.Command]) -> list[str]:
    return [command.message for command in commands if isinstance(command, c.Log)]


def test_the_log_of_a_restart_names_the_task_once_and_the_cause() -> None:
    strategy = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": "1"}
    cluster = running_job(configuration=strategy)
    commands = cluster.tell(e.TaskStateChanged(cluster.attempt("source"), E.FAILED, FAULT))
    assert logged(commands) == [
        "job 'job' is RESTARTING",
        f"restarting 4 tasks in 1000 ms: source (1/2)#0 on tm-1: {FAULT.message}",
    ]
    cluster.cancel_tasks()
    cluster.pass_time(1_000)
    cluster.start_tasks()
    lost = e.TaskManagerConnectionLost(TaskManagerId("tm-1"), "s1", "its process ended", is_gone=True)
    named = "source (1/2)#1 on tm-1: TaskManager tm-1 is lost: its connection broke (its process ended)"
    assert logged(cluster.tell(lost))[1].startswith(f"job 'job' is FAILING: {named} (Recovery is suppressed by ")


def test_a_job_id_is_taken_once() -> None:
    cluster = running_job()
    cluster.submit(two_stage())
    assert cluster.states() == {E.RUNNING}
    assert FAULT.code == "subtask-lost"
