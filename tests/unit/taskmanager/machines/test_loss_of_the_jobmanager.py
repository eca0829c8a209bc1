"""A TaskManager without its JobManager: tasks go on for a while, the next leader learns of each, and no earlier one is obeyed again."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.submitted import submitted
from tidegate.model.checkpoint import TaskRestore
from tidegate.model.coordinators.operator_events import (
    AddSplits,
    CoordinatorEvent,
    CoordinatorReport,
    DiscoveryNoted,
    NoMoreSplits,
    OperatorEvent,
    ReportBacklog,
    RequestDiscovery,
    RequestSplit,
    SourceSplit,
    SplitsDiscovered,
    StartDiscovery,
)
from tidegate.model.deployment import TaskDeployment
from tidegate.model.errors import ErrorInfo, SubtaskLost
from tidegate.model.fencing import make_generation
from tidegate.model.ids import AllocationId, AttemptId, BlobKey, CheckpointId, Generation, JobId, OperatorId, VertexId
from tidegate.model.leadership.attempt_report import AttemptReport
from tidegate.model.states import ExecutionState
from tidegate.taskmanager.machines import slots
from tidegate.taskmanager.machines import task_events as tv
from tidegate.taskmanager.machines.task_manager import (
    StartLossTimer,
    StopLossTimer,
    TaskManagerCommand,
    TaskManagerEvent,
    TaskManagerMachine,
)

FIRST, SECOND, LATER = (make_generation(term, "f" * 16) for term in (1, 2, 3))
JOB = JobId("a" * 32)
ALLOCATION = AllocationId("1" * 32)
ATTEMPT = AttemptId(JOB, VertexId("b" * 32), 0, 3)
GRACE_MS = 60_000
LOST = ErrorInfo.of(SubtaskLost("gone"))
E = ExecutionState
FOUND = slots.JobManagerFound(FIRST, GRACE_MS)
NEXT = slots.JobManagerFound(SECOND, GRACE_MS)
GONE = slots.JobManagerLost()
K = tv.CheckpointMailKind


def deployment(attempt: AttemptId = ATTEMPT, restored_id: int = 0, generation: Generation = FIRST) -> tv.SubmittedTask:
    restore = TaskRestore(CheckpointId(restored_id), "/cp/chk") if restored_id else None
    key = BlobKey("f" * 64)
    return submitted(TaskDeployment(attempt, generation, ALLOCATION, "job", "map", 1, 128, key, restore=restore))


def running(found: slots.JobManagerFound = FOUND, restored_id: int = 0) -> TaskManagerMachine:
    """One task, RUNNING, under a leader."""
    machine = TaskManagerMachine(2, 10_000, tv.TaskLimits())
    for event in (
        found,
        slots.SlotRequested(found.generation, JOB, ALLOCATION, 0),
        tv.TaskSubmitted(deployment(restored_id=restored_id, generation=found.generation), "token"),
        tv.StreamOpened(ATTEMPT, "token", 7, "here"),
        tv.SubtaskListening(ATTEMPT, "unix:/s"),
        tv.SubtaskStateChanged(ATTEMPT, E.RUNNING),
    ):
        assert not [command for command in machine.on(event, 1) if isinstance(command, slots.Refuse)]
    return machine


def after(machine: TaskManagerMachine, *events: TaskManagerEvent) -> list[TaskManagerCommand]:
    """What the last of them leads to."""
    commands: Sequence[TaskManagerCommand] = ()
    for event in events:
        commands = machine.on(event, 2)
    return list(commands)


def report_of(machine: TaskManagerMachine) -> AttemptReport:
    (report,) = machine.reports()
    return report


def mail(kind: tv.CheckpointMailKind, checkpoint_id: int, **more: bool) -> tv.MailRequested:
    return tv.MailRequested(FIRST, ATTEMPT, b"mail", tv.CheckpointMail(kind, checkpoint_id, **more))


def acknowledged(checkpoint_id: int) -> tv.SubtaskReported:
    return tv.SubtaskReported(ATTEMPT, "ack", acknowledged=checkpoint_id)


def test_tasks_go_on_and_the_grace_runs() -> None:
    machine = running()
    assert after(machine, GONE) == [StartLossTimer(GRACE_MS)]
    assert report_of(machine).state is E.RUNNING
    assert machine.slots.report()[0].state is slots.SlotState.ACTIVE


def test_a_loss_that_is_seen_twice_does_not_lengthen_the_grace() -> None:
    assert after(running(), GONE, GONE) == []


def test_without_a_grace_everything_is_stopped_at_once() -> None:
    machine = running(slots.JobManagerFound(FIRST, 0))
    commands = after(machine, GONE)
    assert tv.SendCancel(ATTEMPT) in commands
    assert machine.has_given_up
    assert report_of(machine).state is E.CANCELING


def test_after_the_grace_everything_is_stopped() -> None:
    machine = running()
    commands = after(machine, GONE, slots.LossGraceOver())
    assert tv.SendCancel(ATTEMPT) in commands
    assert machine.has_given_up
    assert machine.slots.report()[0].state is slots.SlotState.RELEASING


def test_a_timer_of_the_grace_that_fires_too_late_stops_nothing() -> None:
    machine = running()
    assert after(machine, GONE, NEXT)[0] == StopLossTimer()
    assert after(machine, slots.LossGraceOver()) == []
    assert not machine.has_given_up


@pytest.mark.parametrize("event", [mail(K.CONFIRM, 5), tv.CancelRequested(FIRST, ATTEMPT)])
def test_while_there_is_no_leader_nobody_is_obeyed(event: TaskManagerEvent) -> None:
    (refusal,) = after(running(), GONE, event)
    assert isinstance(refusal, slots.Refuse)
    assert refusal.error.code == "fenced"


def test_a_confirmation_of_an_earlier_leader_is_refused_for_ever() -> None:
    machine = running()
    (refusal,) = after(machine, GONE, NEXT, mail(K.CONFIRM, 5))
    assert isinstance(refusal, slots.Refuse)
    assert report_of(machine).confirmed_id == 0


@pytest.mark.parametrize("events", [[GONE, NEXT], [GONE, NEXT, GONE]])
def test_an_earlier_leader_is_not_found_again(events: list[TaskManagerEvent]) -> None:
    (refusal,) = after(running(), *events, FOUND)
    assert isinstance(refusal, slots.Refuse)
    assert "a JobManager of term 2 has led since" in refusal.error.message


def test_when_the_same_leader_is_found_again_its_tasks_go_on_and_nothing_is_said_twice() -> None:
    """Reports of that time wait in the outbox, and what was asked meanwhile is asked again."""
    machine = running()
    after(machine, mail(K.TRIGGER, 5), GONE, mail(K.CONFIRM, 4, may_finish=True))
    assert after(machine, acknowledged(5)) == [tv.Forward(ATTEMPT, "ack")]
    assert after(machine, FOUND) == [StopLossTimer()]
    assert report_of(machine).state is E.RUNNING
    assert report_of(machine).holds(5, FIRST)
    assert after(machine, mail(K.CONFIRM, 5)) == [tv.SendMail(ATTEMPT, b"mail")]


def test_a_task_that_starts_while_its_leader_is_lost_for_a_while_goes_on_to_start() -> None:
    machine = TaskManagerMachine(2, 10_000, tv.TaskLimits())
    submitted = tv.TaskSubmitted(deployment(), "token")
    after(machine, FOUND, slots.SlotRequested(FIRST, JOB, ALLOCATION, 0), submitted, GONE)
    opened = after(machine, tv.StreamOpened(ATTEMPT, "token", 7, "here"))
    assert [type(command).__name__ for command in opened] == ["StopTimers", "AcceptStream"]
    assert after(machine, FOUND, submitted) == [], "the answer to the submission may have been lost"
    assert report_of(machine).state is E.DEPLOYING


def test_what_ended_while_the_connection_was_broken_is_told_once_to_the_same_leader() -> None:
    machine = running()
    told = after(machine, GONE, tv.SubtaskStateChanged(ATTEMPT, E.FINISHED), tv.SparkJobEnded(ATTEMPT))
    assert tv.ReportState(ATTEMPT, E.FINISHED) in told
    assert after(machine, FOUND) == [StopLossTimer()]


@pytest.mark.parametrize(("is_over", "grace_ms"), [(False, 5_000), (True, None)])
def test_where_jobs_end_with_their_jobmanager_a_broken_connection_is_not_its_end(
    is_over: bool, grace_ms: int | None
) -> None:
    machine = running(slots.JobManagerFound(FIRST, 0, reconnect_ms=5_000))
    commands = after(machine, slots.JobManagerLost(is_over))
    assert [c.delay_ms for c in commands if isinstance(c, StartLossTimer)] == ([grace_ms] if grace_ms else [])
    assert machine.has_given_up is is_over


@pytest.mark.parametrize("loss_grace_ms", [0, 60_000])
def test_a_jobmanager_that_is_gone_ends_what_its_loss_did_not_where_jobs_end_with_it(loss_grace_ms: int) -> None:
    machine = running(slots.JobManagerFound(FIRST, loss_grace_ms, reconnect_ms=50_000))
    after(machine, slots.JobManagerLost())
    assert not machine.has_given_up
    commands = after(machine, slots.JobManagerLost(is_over=True))
    assert machine.has_given_up is (loss_grace_ms == 0)
    assert (tv.SendCancel(ATTEMPT) in commands) is (loss_grace_ms == 0)
    assert after(machine, slots.JobManagerLost(is_over=True)) == []


def test_a_task_that_ended_meanwhile_is_told_to_the_same_leader_as_it_ended() -> None:
    machine = running()
    after(machine, GONE, tv.SubtaskStateChanged(ATTEMPT, E.FINISHED), FOUND)
    assert tv.ReportState(ATTEMPT, E.FINISHED) in after(machine, tv.SparkJobEnded(ATTEMPT))


def test_a_leader_that_was_never_lost_may_be_found_twice() -> None:
    assert after(running(), FOUND) == [StopLossTimer()]


def test_tasks_go_on_when_the_next_leader_is_found_and_when_that_one_is_lost_for_a_while() -> None:
    machine = running()
    assert after(machine, GONE, NEXT) == [StopLossTimer()]
    assert after(machine, GONE, NEXT) == [StopLossTimer()]
    assert report_of(machine).state is E.RUNNING


def test_jobmanagers_without_high_availability_are_in_no_order() -> None:
    machine = running(slots.JobManagerFound(make_generation(0, "b" * 16), 0))
    assert after(machine, GONE, slots.JobManagerFound(make_generation(0, "a" * 16), 0))[0] == StopLossTimer()


def test_the_next_leader_owns_the_tasks() -> None:
    machine = running()
    after(machine, GONE, NEXT)
    assert after(machine, acknowledged(7)) == [tv.Forward(ATTEMPT, "ack")]
    assert report_of(machine).acknowledged == ((7, SECOND),)
    assert tv.SendCancel(ATTEMPT) in after(machine, tv.CancelRequested(SECOND, ATTEMPT))


def test_the_next_leader_can_free_the_slot() -> None:
    machine = running()
    after(machine, GONE, NEXT)
    after(machine, slots.SlotFreeRequested(SECOND, ALLOCATION, "not needed"))
    assert machine.slots.report()[0].state is slots.SlotState.RELEASING


def test_what_is_reported_of_a_task() -> None:
    machine = running(restored_id=2)
    assert report_of(machine) == AttemptReport(
        ATTEMPT, ALLOCATION, E.RUNNING, 1, "unix:/s", restored_id=2, confirmed_id=2, newest_id=2
    )
    after(machine, mail(K.TRIGGER, 3), acknowledged(3), mail(K.TRIGGER, 4), acknowledged(4), mail(K.TRIGGER, 5))
    assert report_of(machine).acknowledged == ((3, FIRST), (4, FIRST))
    after(machine, mail(K.CONFIRM, 4), mail(K.ABORT, 5))
    report = report_of(machine)
    assert (report.acknowledged, report.confirmed_id, report.newest_id) == (((4, FIRST),), 4, 5)
    assert not report.may_finish


def test_an_aborted_checkpoint_is_not_one_that_it_holds() -> None:
    machine = running()
    after(machine, mail(K.TRIGGER, 3), acknowledged(3))
    assert report_of(machine).holds(3, FIRST)
    assert not report_of(machine).holds(3, SECOND), "another JobManager gave the id to another checkpoint"
    after(machine, mail(K.ABORT, 3))
    assert not report_of(machine).holds(3, FIRST)


def test_an_acknowledgement_while_the_leader_is_lost_counts_for_that_one_alone() -> None:
    """It has completed the checkpoint only if it got this."""
    machine = running()
    after(machine, mail(K.TRIGGER, 3), GONE, acknowledged(3))
    assert report_of(machine).acknowledged == ((3, FIRST),)
    after(machine, NEXT)
    assert not report_of(machine).holds(3, SECOND)


def test_what_ends_the_job_and_what_lets_finish_is_reported() -> None:
    machine = running()
    after(machine, mail(K.TRIGGER, 3, ends_the_job=True), mail(K.CONFIRM, 3, may_finish=True))
    report = report_of(machine)
    assert report.is_being_stopped
    assert report.may_finish


def test_an_end_of_data_in_between_is_told_to_the_next_leader() -> None:
    machine = running()
    after(machine, GONE, tv.SubtaskReported(ATTEMPT, "end", is_end_of_data=True))
    assert report_of(machine).at_end_of_data
    assert tv.Forward(ATTEMPT, "end") in after(machine, NEXT)


@pytest.mark.parametrize(
    ("last_word", "state"),
    [
        (tv.SubtaskStateChanged(ATTEMPT, E.FINISHED), E.FINISHED),
        (tv.SubtaskStateChanged(ATTEMPT, E.FAILED, LOST), E.FAILED),
        (tv.StreamBroke(ATTEMPT), E.FAILED),
    ],
)
def test_an_end_in_between_is_reported_and_told_once(last_word: TaskManagerEvent, state: ExecutionState) -> None:
    machine = running()
    after(machine, GONE, last_word, tv.SparkJobEnded(ATTEMPT))
    assert report_of(machine).state is state
    told = [command for command in after(machine, NEXT) if isinstance(command, tv.ReportState)]
    assert [(one.attempt, one.state) for one in told] == [(ATTEMPT, state)]
    assert [command for command in after(machine, GONE, NEXT) if isinstance(command, tv.ReportState)] == []


def test_a_finished_attempt_is_remembered_until_its_slot_is_freed() -> None:
    machine = running()
    after(machine, tv.SubtaskStateChanged(ATTEMPT, E.FINISHED), tv.SparkJobEnded(ATTEMPT))
    assert report_of(machine).state is E.FINISHED
    after(machine, slots.SlotFreeRequested(FIRST, ALLOCATION, "idle"))
    assert machine.reports() == ()


def test_a_failure_is_remembered_too_since_the_jobmanager_may_be_lost_before_it_acts_on_it() -> None:
    machine = running()
    after(machine, tv.StreamBroke(ATTEMPT), tv.SparkJobEnded(ATTEMPT))
    assert report_of(machine).state is E.FAILED
    assert [one for one in after(machine, GONE, NEXT) if isinstance(one, tv.ReportState)] == [], "it was told once"
    after(machine, slots.SlotFreeRequested(SECOND, ALLOCATION, "idle"))
    assert machine.reports() == ()


def test_a_successor_takes_the_place_of_one_that_is_over() -> None:
    machine = running()
    after(machine, tv.SubtaskStateChanged(ATTEMPT, E.FINISHED), tv.SparkJobEnded(ATTEMPT))
    successor = AttemptId(JOB, ATTEMPT.vertex_id, 0, 4)
    after(machine, tv.TaskSubmitted(deployment(successor), "other"))
    assert report_of(machine).attempt == successor


@pytest.mark.parametrize("end", [tv.SubtaskStateChanged(ATTEMPT, E.FINISHED), tv.StreamBroke(ATTEMPT)])
def test_a_submission_that_is_repeated_after_its_attempt_has_ended_starts_nothing(end: TaskManagerEvent) -> None:
    machine = running()
    after(machine, end, tv.SparkJobEnded(ATTEMPT))
    reports = machine.reports()
    assert after(machine, tv.TaskSubmitted(deployment(), "token")) == []
    assert machine.reports() == reports


def test_a_submission_that_comes_after_that_of_the_next_attempt_starts_nothing() -> None:
    machine = running()
    successor = AttemptId(JOB, ATTEMPT.vertex_id, 0, 4)
    after(machine, tv.StreamBroke(ATTEMPT), tv.SparkJobEnded(ATTEMPT))
    after(machine, tv.TaskSubmitted(deployment(successor), "other"))
    assert after(machine, tv.TaskSubmitted(deployment(), "token")) == []
    assert machine.tasks.attempts() == (successor,)


def test_when_its_slot_is_free_a_submission_that_is_repeated_is_refused() -> None:
    machine = running()
    after(machine, tv.StreamBroke(ATTEMPT), tv.SparkJobEnded(ATTEMPT))
    after(machine, slots.SlotFreeRequested(FIRST, ALLOCATION, "idle"))
    (refusal,) = after(machine, tv.TaskSubmitted(deployment(), "token"))
    assert isinstance(refusal, slots.Refuse)


def test_one_that_has_said_its_last_word_counts_as_running_until_it_is_gone() -> None:
    machine = running()
    after(machine, tv.SubtaskStateChanged(ATTEMPT, E.FINISHED))
    assert report_of(machine).state is E.RUNNING


def coordinator_says(number: int, event: CoordinatorEvent) -> tv.MailRequested:
    return tv.MailRequested(FIRST, ATTEMPT, b"event", OperatorEvent(OperatorId("b" * 32), number, event))


def test_splits_since_the_confirmed_checkpoint_are_reported_with_what_the_attempt_knew_of_before() -> None:
    machine = running(restored_id=4)
    first, second, third = (SourceSplit(name, b"") for name in "abc")
    after(machine, coordinator_says(1, AddSplits((first,))), mail(K.TRIGGER, 5))
    after(machine, coordinator_says(2, AddSplits((second,))))
    assert report_of(machine).events == CoordinatorReport(((4, first), (5, second)), 2)
    after(machine, mail(K.CONFIRM, 5), mail(K.TRIGGER, 6), coordinator_says(3, AddSplits((third,))))
    assert report_of(machine).events == CoordinatorReport(((5, second), (6, third)), 3)


def test_an_event_that_comes_again_is_passed_on_once() -> None:
    machine = running()
    assert after(machine, coordinator_says(1, NoMoreSplits())) == [tv.SendMail(ATTEMPT, b"event")]
    assert after(machine, coordinator_says(1, NoMoreSplits())) == []
    assert report_of(machine).events.last_number == 1


def told(number: int, event: CoordinatorEvent, message: str) -> tv.SubtaskReported:
    """An operator speaks to its coordinator."""
    return tv.SubtaskReported(ATTEMPT, message, event=OperatorEvent(OperatorId("c" * 32), number, event))


def test_what_was_found_is_reported_from_when_the_coordinator_has_noted_it_until_a_checkpoint_holds_it() -> None:
    machine = running()
    first, second = (SourceSplit(name, b"") for name in ("first", "second"))
    found = told(1, SplitsDiscovered((first,)), "found")
    after(machine, found, mail(K.TRIGGER, 5))
    assert report_of(machine).events == CoordinatorReport(), "it is said again instead"
    assert tv.Forward(ATTEMPT, "found") in after(running(), found, GONE, NEXT)
    after(machine, coordinator_says(1, DiscoveryNoted(1)))
    assert report_of(machine).events.discovered == ((5, first),), "checkpoint 5 was triggered before"
    assert tv.Forward(ATTEMPT, "found") not in after(machine, GONE, NEXT)
    machine = running()
    after(machine, found, told(2, SplitsDiscovered((second,)), "more"), coordinator_says(1, DiscoveryNoted(1)))
    after(machine, mail(K.TRIGGER, 5), coordinator_says(2, DiscoveryNoted(2)), mail(K.CONFIRM, 5))
    assert report_of(machine).events.discovered == ((5, second),)


def test_the_next_jobmanager_hears_whether_there_is_a_backlog_as_it_was_said_last() -> None:
    machine = running()
    after(machine, told(1, ReportBacklog(True), "begins"), told(2, RequestSplit(), "request"))
    after(machine, told(3, ReportBacklog(False), "ends"), told(4, ReportBacklog(True), "begins again"))
    commands = after(machine, GONE, NEXT)
    assert [c.message for c in commands if isinstance(c, tv.Forward)] == ["request", "begins again"]


def test_a_reader_that_waits_for_what_is_known_says_so_and_other_events_are_no_answer() -> None:
    machine = running()
    after(machine, told(1, RequestSplit(), "request"), told(2, RequestDiscovery(), "discovery"))
    after(machine, coordinator_says(1, AddSplits(())))
    assert report_of(machine).events.awaits_discovery
    commands = after(machine, GONE, NEXT)
    assert [c.message for c in commands if isinstance(c, tv.Forward)] == ["discovery"]
    after(
        machine, tv.MailRequested(SECOND, ATTEMPT, b"event", OperatorEvent(OperatorId("c" * 32), 2, StartDiscovery(())))
    )
    assert not report_of(machine).events.awaits_discovery


def test_a_request_without_an_answer_is_told_to_the_next_leader() -> None:
    request = told(1, RequestSplit(), "request")
    forwarded = tv.Forward(ATTEMPT, "request")
    assert after(running(), request) == [forwarded]
    assert forwarded in after(running(), request, GONE, NEXT), "the lost one may not have answered"
    assert forwarded in after(running(), GONE, request, NEXT)
    answered = after(running(), request, coordinator_says(1, NoMoreSplits()), GONE, NEXT)
    assert forwarded not in answered
