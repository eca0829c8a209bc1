"""The task table: every phase meets every event."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest

from tests.submitted import submitted
from tidegate.model.deployment import TaskDeployment
from tidegate.model.errors import ErrorInfo, SubtaskLost, UserFunctionError
from tidegate.model.ids import AllocationId, AttemptId, BlobKey, Generation, JobId, VertexId
from tidegate.model.states import ExecutionState
from tidegate.taskmanager.machines.slots import JobManagerFound, JobManagerLost, LossGraceOver, Refuse
from tidegate.taskmanager.machines.task_events import (
    AcceptStream,
    AttemptRejected,
    CancelRequested,
    Escalate,
    Forward,
    KillSubtask,
    MailRequested,
    RefuseStream,
    RemoveTask,
    ReportState,
    SendCancel,
    SendMail,
    SparkJobEnded,
    StartSubtask,
    StartTimer,
    StreamBroke,
    StreamOpened,
    SubmittedTask,
    SubtaskInterrupted,
    SubtaskListening,
    SubtaskReported,
    SubtaskStateChanged,
    TaskCommand,
    TaskEvent,
    TaskFailed,
    TaskLimits,
    TaskPhase,
    TaskSubmitted,
    TimerFired,
    TimerKind,
)
from tidegate.taskmanager.machines.tasks import TaskTable

GENERATION = Generation("g1")
ATTEMPT = AttemptId(JobId("a" * 32), VertexId("b" * 32), 0, 3)
TASK = submitted(TaskDeployment(ATTEMPT, GENERATION, AllocationId("1" * 32), "job", "map", 2, 128, BlobKey("f" * 64)))
LIMITS = TaskLimits(
    start_timeout_ms=30_000,
    spark_query_timeout_ms=600_000,
    unresponsive_timeout_ms=20_000,
    cancellation_timeout_ms=180_000,
    orphan_timeout_ms=3_000,
    exit_timeout_ms=5_000,
)
OPENED = StreamOpened(ATTEMPT, "token", 77, "here")
USERS = ErrorInfo.of(UserFunctionError("map raised ZeroDivisionError"))
FREED = ErrorInfo.of(SubtaskLost("slot 0 was freed"))
E_ = ExecutionState
P = TaskPhase


def table_in(phase: TaskPhase | None) -> TaskTable:
    """With one task in a phase, or none. ENDED is FINISHED, KILLED is a broken stream, WAITING is behind another one."""
    table = TaskTable(dataclasses.replace(LIMITS, starts_at_once=1) if phase is P.WAITING else LIMITS)
    events: list[TaskEvent] = [JobManagerFound(GENERATION)]
    if phase is P.WAITING:
        events.append(TaskSubmitted(numbered(9), "token"))
    if phase is not None:
        events.append(TaskSubmitted(TASK, "token"))
    if phase in (P.ATTACHED, P.ENDED, P.KILLED):
        events.append(OPENED)
    if phase is P.ENDED:
        events.append(SubtaskStateChanged(ATTEMPT, E_.FINISHED))
    if phase is P.KILLED:
        events.append(StreamBroke(ATTEMPT))
    for event in events:
        table.on(event, 0)
    assert phase_of(table) is phase
    return table


def numbered(subtask: int, query: str = "") -> SubmittedTask:
    """Another subtask of the same vertex; ``query``: it begins with one of Spark."""
    attempt = dataclasses.replace(ATTEMPT, subtask=subtask)
    return dataclasses.replace(TASK, attempt=attempt, spark_query=BlobKey(query) if query else None)


def phase_of(table: TaskTable) -> TaskPhase | None:
    task = table.task(ATTEMPT)
    return task.phase if task else None


def shape(commands: Sequence[TaskCommand]) -> list[str]:
    return [type(command).__name__ for command in commands]


KILL = ["StopTimers", "KillSubtask", "StartTimer"]
CLOSE_AND_KILL = ["StopTimers", "CloseStream", "KillSubtask", "StartTimer"]
GONE = ["StopTimers", "ReportState", "RemoveTask"]
SUBMIT = TaskSubmitted(TASK, "token")
MAIL = MailRequested(GENERATION, ATTEMPT, b"mail")
CANCEL = CancelRequested(GENERATION, ATTEMPT)
FAIL = TaskFailed(ATTEMPT, FREED)
RUNNING = SubtaskStateChanged(ATTEMPT, E_.RUNNING)
DONE = SubtaskStateChanged(ATTEMPT, E_.FINISHED)
TOLD = SubtaskReported(ATTEMPT, "ack")
INTERRUPTED = SubtaskInterrupted(ATTEMPT, 'File "job.py", line 3, in spins')
START, KILLING = TimerFired(ATTEMPT, TimerKind.START), TimerFired(ATTEMPT, TimerKind.KILL)
ESCALATION = TimerFired(ATTEMPT, TimerKind.ESCALATE)

TABLE: list[tuple[TaskPhase | None, TaskEvent, list[str], TaskPhase | None]] = [
    (None, SUBMIT, ["StartTimer", "StartSubtask"], P.STARTING),
    (None, MAIL, ["Refuse"], None),
    (None, CANCEL, ["Refuse"], None),
    (None, OPENED, ["RefuseStream"], None),
    (None, SubtaskListening(ATTEMPT, "x"), [], None),
    (None, INTERRUPTED, [], None),
    (None, RUNNING, [], None),
    (None, TOLD, [], None),
    (None, StreamBroke(ATTEMPT), [], None),
    (None, SparkJobEnded(ATTEMPT), [], None),
    (None, FAIL, [], None),
    (None, AttemptRejected(ATTEMPT), [], None),
    (None, START, [], None),
    (None, JobManagerLost(), [], None),
    (None, LossGraceOver(), [], None),
    (None, JobManagerFound(GENERATION), [], None),
    (P.WAITING, SUBMIT, [], P.WAITING),
    (P.WAITING, MAIL, [], P.WAITING),
    (P.WAITING, CANCEL, GONE, None),
    (P.WAITING, OPENED, ["RefuseStream"], P.WAITING),
    (P.WAITING, SubtaskListening(ATTEMPT, "x"), [], P.WAITING),
    (P.WAITING, INTERRUPTED, [], P.WAITING),
    (P.WAITING, RUNNING, [], P.WAITING),
    (P.WAITING, TOLD, [], P.WAITING),
    (P.WAITING, StreamBroke(ATTEMPT), [], P.WAITING),
    (P.WAITING, SparkJobEnded(ATTEMPT), GONE, None),
    (P.WAITING, FAIL, GONE, None),
    (P.WAITING, AttemptRejected(ATTEMPT), ["StopTimers", "RemoveTask"], None),
    (P.WAITING, START, [], P.WAITING),
    (P.WAITING, KILLING, [], P.WAITING),
    (P.WAITING, ESCALATION, [], P.WAITING),
    (P.WAITING, JobManagerLost(), [], P.WAITING),
    (P.WAITING, LossGraceOver(), [*KILL, *GONE], None),
    (P.WAITING, JobManagerFound(GENERATION), [], P.WAITING),
    (P.STARTING, SUBMIT, [], P.STARTING),
    (P.STARTING, MAIL, [], P.STARTING),
    (P.STARTING, CANCEL, KILL, P.KILLED),
    (P.STARTING, OPENED, ["StopTimers", "AcceptStream"], P.ATTACHED),
    (P.STARTING, SubtaskListening(ATTEMPT, "x"), [], P.STARTING),
    (P.STARTING, INTERRUPTED, [], P.STARTING),
    (P.STARTING, RUNNING, [], P.STARTING),
    (P.STARTING, TOLD, [], P.STARTING),
    (P.STARTING, StreamBroke(ATTEMPT), [], P.STARTING),
    (P.STARTING, SparkJobEnded(ATTEMPT), GONE, None),
    (P.STARTING, FAIL, KILL, P.KILLED),
    (P.STARTING, AttemptRejected(ATTEMPT), KILL, P.KILLED),
    (P.STARTING, START, KILL, P.KILLED),
    (P.STARTING, KILLING, ["LogWarning", *KILL], P.KILLED),
    (P.STARTING, ESCALATION, ["Escalate"], P.STARTING),
    (P.STARTING, JobManagerLost(), [], P.STARTING),
    (P.STARTING, LossGraceOver(), KILL, P.KILLED),
    (P.STARTING, JobManagerFound(GENERATION), [], P.STARTING),
    (P.ATTACHED, SUBMIT, [], P.ATTACHED),
    (P.ATTACHED, MAIL, ["SendMail"], P.ATTACHED),
    (P.ATTACHED, CANCEL, ["SendCancel", "StartTimer"], P.ATTACHED),
    (P.ATTACHED, OPENED, ["RefuseStream"], P.ATTACHED),
    (P.ATTACHED, SubtaskListening(ATTEMPT, "x"), [], P.ATTACHED),
    (P.ATTACHED, INTERRUPTED, [], P.ATTACHED),
    (P.ATTACHED, RUNNING, ["ReportState"], P.ATTACHED),
    (P.ATTACHED, DONE, ["StopTimers", "CloseStream", "StartTimer"], P.ENDED),
    (P.ATTACHED, TOLD, ["Forward"], P.ATTACHED),
    (P.ATTACHED, StreamBroke(ATTEMPT), CLOSE_AND_KILL, P.KILLED),
    (P.ATTACHED, SparkJobEnded(ATTEMPT), ["StopTimers", "CloseStream", "ReportState", "RemoveTask"], None),
    (P.ATTACHED, FAIL, ["SendCancel", "StartTimer"], P.ATTACHED),
    (P.ATTACHED, TaskFailed(ATTEMPT, FREED, by_force=True), CLOSE_AND_KILL, P.KILLED),
    (P.ATTACHED, AttemptRejected(ATTEMPT), ["SendCancel", "StartTimer"], P.ATTACHED),
    (P.ATTACHED, START, [], P.ATTACHED),
    (P.ATTACHED, KILLING, ["LogWarning", *CLOSE_AND_KILL], P.KILLED),
    (P.ATTACHED, ESCALATION, ["Escalate"], P.ATTACHED),
    (P.ATTACHED, JobManagerLost(), [], P.ATTACHED),
    (P.ATTACHED, LossGraceOver(), ["SendCancel", "StartTimer", "StartTimer"], P.ATTACHED),
    (P.ATTACHED, JobManagerFound(GENERATION), [], P.ATTACHED),
    (P.ENDED, SUBMIT, [], P.ENDED),
    (P.ENDED, MAIL, ["Refuse"], P.ENDED),
    (P.ENDED, CANCEL, [], P.ENDED),
    (P.ENDED, OPENED, ["RefuseStream"], P.ENDED),
    (P.ENDED, SubtaskListening(ATTEMPT, "x"), [], P.ENDED),
    (P.ENDED, INTERRUPTED, [], P.ENDED),
    (P.ENDED, RUNNING, [], P.ENDED),
    (P.ENDED, TOLD, [], P.ENDED),
    (P.ENDED, StreamBroke(ATTEMPT), [], P.ENDED),
    (P.ENDED, SparkJobEnded(ATTEMPT), GONE, None),
    (P.ENDED, FAIL, [], P.ENDED),
    (P.ENDED, AttemptRejected(ATTEMPT), [], P.ENDED),
    (P.ENDED, START, [], P.ENDED),
    (P.ENDED, KILLING, KILL, P.KILLED),
    (P.ENDED, ESCALATION, ["Escalate"], P.ENDED),
    (P.ENDED, JobManagerLost(), [], P.ENDED),
    (P.ENDED, LossGraceOver(), [], P.ENDED),
    (P.ENDED, JobManagerFound(GENERATION), [], P.ENDED),
    (P.KILLED, SUBMIT, [], P.KILLED),
    (P.KILLED, MAIL, ["Refuse"], P.KILLED),
    (P.KILLED, CANCEL, [], P.KILLED),
    (P.KILLED, OPENED, ["RefuseStream"], P.KILLED),
    (P.KILLED, SubtaskListening(ATTEMPT, "x"), [], P.KILLED),
    (P.KILLED, INTERRUPTED, [], P.KILLED),
    (P.KILLED, RUNNING, [], P.KILLED),
    (P.KILLED, TOLD, [], P.KILLED),
    (P.KILLED, StreamBroke(ATTEMPT), [], P.KILLED),
    (P.KILLED, SparkJobEnded(ATTEMPT), GONE, None),
    (P.KILLED, FAIL, [], P.KILLED),
    (P.KILLED, AttemptRejected(ATTEMPT), [], P.KILLED),
    (P.KILLED, START, [], P.KILLED),
    (P.KILLED, KILLING, [], P.KILLED),
    (P.KILLED, ESCALATION, ["Escalate"], P.KILLED),
    (P.KILLED, JobManagerLost(), [], P.KILLED),
    (P.KILLED, LossGraceOver(), [], P.KILLED),
    (P.KILLED, JobManagerFound(GENERATION), [], P.KILLED),
]


@pytest.mark.parametrize(("phase", "event", "commands", "after"), TABLE)
def test_transition(phase: TaskPhase | None, event: TaskEvent, commands: list[str], after: TaskPhase | None) -> None:
    table = table_in(phase)
    assert shape(table.on(event, 5)) == commands
    assert phase_of(table) is after


def test_every_phase_meets_every_event() -> None:
    kinds = set(TaskEvent.__args__)
    met = {(phase, type(event)) for phase, event, _, _ in TABLE}
    assert met == {(phase, kind) for phase in (None, *TaskPhase) for kind in kinds}


def starts_in(commands: Sequence[TaskCommand]) -> list[int]:
    return [command.task.attempt.subtask for command in commands if isinstance(command, StartSubtask)]


def begun(at_once: int, *tasks: SubmittedTask) -> tuple[TaskTable, list[int]]:
    """A table to which the tasks were submitted, and those that started at once."""
    table = TaskTable(dataclasses.replace(LIMITS, starts_at_once=at_once))
    commands = [*table.on(JobManagerFound(GENERATION), 0)]
    for task in tasks:
        commands += table.on(TaskSubmitted(task, "token"), 0)
        table.check_invariants()
    return table, starts_in(commands)


def opened(subtask: int) -> StreamOpened:
    return dataclasses.replace(OPENED, attempt=numbered(subtask).attempt)


def test_the_time_to_start_begins_with_an_attempts_turn() -> None:
    table, started = begun(2, *(numbered(n) for n in range(5)))
    assert started == [0, 1], "the others wait, and no timer of theirs runs"
    commands = table.on(opened(1), 50_000)
    assert starts_in(commands) == [2], "in the order in which they came"
    assert StartTimer(numbered(2).attempt, TimerKind.START, 30_000) in commands, (
        "the whole of it, although 50 s have passed"
    )
    assert starts_in(table.on(opened(0), 50_000)) == [3]
    table.check_invariants()


def frees_a_turn() -> list[tuple[str, TaskEvent]]:
    first = numbered(0).attempt
    return [
        ("it is attached", opened(0)),
        ("it is too late", TimerFired(first, TimerKind.START)),
        ("it is cancelled", CancelRequested(GENERATION, first)),
        ("it failed to start", SparkJobEnded(first, FREED)),
        ("it is made to fail", TaskFailed(first, FREED)),
        ("nobody knows it", AttemptRejected(first)),
    ]


@pytest.mark.parametrize(("why", "event"), frees_a_turn())
def test_a_start_that_is_over_lets_the_next_one_begin(why: str, event: TaskEvent) -> None:
    table, _ = begun(1, numbered(0), numbered(1), numbered(2))
    assert starts_in(table.on(event, 0)) == [1], why
    table.check_invariants()


def test_one_that_is_stopped_while_it_waits_ends_at_once_and_nothing_is_started_for_it() -> None:
    table, _ = begun(1, numbered(0), numbered(1), numbered(2))
    ended = table.on(CancelRequested(GENERATION, numbered(1).attempt), 0)
    assert ReportState(numbered(1).attempt, E_.CANCELED) in ended
    assert not any(isinstance(command, KillSubtask) for command in ended)
    assert starts_in(table.on(opened(0), 0)) == [2]
    assert table.has_begun(numbered(1)), "the same submission again starts nothing"
    assert list(table.on(TaskSubmitted(numbered(1), "token"), 0)) == []


def test_a_query_of_spark_waits_for_no_turn_and_takes_none() -> None:
    _, started = begun(1, numbered(0, "e" * 64), numbered(1), numbered(2), numbered(3, "e" * 64))
    assert started == [0, 1, 3]


def test_what_a_waiting_attempt_was_told_follows_its_deployment() -> None:
    table, _ = begun(1, numbered(0), numbered(1))
    table.on(MailRequested(GENERATION, numbered(1).attempt, b"early"), 0)
    table.on(opened(0), 0)
    assert AcceptStream(numbered(1).attempt, (TASK.deploy, b"early")) in table.on(opened(1), 0)


def test_what_waits_starts_while_the_jobmanager_is_away_too() -> None:
    table, _ = begun(1, numbered(0), numbered(1))
    table.on(JobManagerLost(), 0)
    assert starts_in(table.on(opened(0), 0)) == [1]
    table.check_invariants()


def outcome_after(*events: TaskEvent) -> ReportState | None:
    """What is reported of a task that was attached, went through the events, and whose Spark job then returned."""
    table = table_in(P.ATTACHED)
    for event in events:
        table.on(event, 0)
    commands = table.on(SparkJobEnded(ATTEMPT), 0)
    reports = [command for command in commands if isinstance(command, ReportState)]
    assert any(isinstance(command, RemoveTask) for command in commands)
    assert len(reports) <= 1
    return reports[0] if reports else None


BROKE = StreamBroke(ATTEMPT)
CANCELED_WORD = SubtaskStateChanged(ATTEMPT, E_.CANCELED)
FAILED_WORD = SubtaskStateChanged(ATTEMPT, E_.FAILED, USERS)


@pytest.mark.parametrize(
    ("events", "state", "code"),
    [
        ((DONE,), E_.FINISHED, None),
        ((FAILED_WORD,), E_.FAILED, "user-function"),
        ((), E_.FAILED, "subtask-lost"),
        ((BROKE,), E_.FAILED, "subtask-lost"),
        ((CANCEL, CANCELED_WORD), E_.CANCELED, None),
        ((CANCEL, FAILED_WORD), E_.CANCELED, None),
        ((CANCEL, DONE), E_.FINISHED, None),
        ((CANCEL, BROKE), E_.CANCELED, None),
        ((CANCEL, KILLING), E_.CANCELED, "subtask-lost"),
        ((FAIL, KILLING), E_.FAILED, "subtask-lost"),
        ((FAIL, CANCELED_WORD), E_.FAILED, "subtask-lost"),
        ((FAIL, CANCEL, CANCELED_WORD), E_.FAILED, "subtask-lost"),
        ((CANCEL, FAIL, CANCELED_WORD), E_.CANCELED, None),
        ((DONE, KILLING), E_.FINISHED, None),
        ((DONE, BROKE), E_.FINISHED, None),
    ],
)
def test_how_an_attempt_ended(events: tuple[TaskEvent, ...], state: ExecutionState, code: str | None) -> None:
    report = outcome_after(*events)
    assert report is not None
    assert report.state is state
    assert (report.error.code if report.error else None) == code


@pytest.mark.parametrize("ending", [(CANCELED_WORD,), (BROKE,), (KILLING,), (DONE,)])
def test_nothing_is_told_of_a_task_that_nobody_owns(ending: tuple[TaskEvent, ...]) -> None:
    assert outcome_after(AttemptRejected(ATTEMPT), *ending) is None


def test_what_is_told_while_the_job_manager_is_lost_is_for_that_one() -> None:
    """Its driver keeps it."""
    table = table_in(P.ATTACHED)
    table.on(JobManagerLost(), 0)
    assert [type(command).__name__ for command in table.on(TOLD, 0)] == ["Forward"]
    assert [type(command).__name__ for command in table.on(RUNNING, 0)] == ["ReportState"]


def test_a_task_that_was_being_stopped_is_not_told_of_to_the_next_job_manager() -> None:
    table = table_in(P.ATTACHED)
    for event in (JobManagerLost(), LossGraceOver(), JobManagerFound(Generation("g2"))):
        table.on(event, 0)
    assert list(table.on(TOLD, 0)) == []


def test_when_the_grace_is_over_a_task_has_three_seconds() -> None:
    commands = table_in(P.ATTACHED).on(LossGraceOver(), 0)
    timers = [command for command in commands if isinstance(command, StartTimer)]
    assert timers[-1] == StartTimer(ATTEMPT, TimerKind.KILL, 3_000)


def test_mails_that_come_before_the_stream_follow_the_deployment_in_order() -> None:
    table = table_in(P.STARTING)
    for mail in (b"first", b"second"):
        table.on(MailRequested(GENERATION, ATTEMPT, mail), 0)
    assert AcceptStream(ATTEMPT, (TASK.deploy, b"first", b"second")) in table.on(OPENED, 0)
    assert list(table.on(MailRequested(GENERATION, ATTEMPT, b"third"), 0)) == [SendMail(ATTEMPT, b"third")]


def test_a_wrong_token_is_refused_and_the_right_one_is_still_taken() -> None:
    table = table_in(P.STARTING)
    (refused,) = table.on(dataclasses.replace(OPENED, token="guess"), 0)
    assert isinstance(refused, RefuseStream)
    assert refused.error.code == "fenced"
    assert phase_of(table) is P.STARTING
    table.on(OPENED, 0)
    assert phase_of(table) is P.ATTACHED


@pytest.mark.parametrize(
    "event",
    [
        TaskSubmitted(dataclasses.replace(TASK, generation=Generation("old")), "t"),
        MailRequested(Generation("old"), ATTEMPT, b"mail"),
        CancelRequested(Generation("old"), ATTEMPT),
    ],
)
def test_another_generation_is_fenced(event: TaskEvent) -> None:
    (refused,) = table_in(P.ATTACHED).on(event, 0)
    assert isinstance(refused, Refuse)
    assert refused.error.code == "fenced"


@pytest.mark.parametrize("event", [MAIL, CANCEL])
def test_an_attempt_that_is_not_here_is_unknown(event: TaskEvent) -> None:
    (refused,) = table_in(None).on(event, 0)
    assert isinstance(refused, Refuse)
    assert refused.error.code == "unknown-attempt"


def test_the_same_attempt_with_another_deployment_is_refused() -> None:
    changed = dataclasses.replace(TASK, task_name="other")
    (refused,) = table_in(P.ATTACHED).on(TaskSubmitted(changed, "token"), 0)
    assert isinstance(refused, Refuse)


def test_the_address_is_told_with_initializing_only() -> None:
    table = table_in(P.ATTACHED)
    table.on(SubtaskListening(ATTEMPT, "unix:/x"), 0)
    (initializing,) = table.on(SubtaskStateChanged(ATTEMPT, E_.INITIALIZING), 0)
    (running,) = table.on(RUNNING, 0)
    assert isinstance(initializing, ReportState)
    assert isinstance(running, ReportState)
    assert (initializing.data_address, running.data_address) == ("unix:/x", None)


def test_a_task_that_is_stopping_is_not_reported_running_but_still_acknowledges() -> None:
    table = table_in(P.ATTACHED)
    table.on(CANCEL, 0)
    assert list(table.on(RUNNING, 0)) == []
    assert list(table.on(TOLD, 0)) == [Forward(ATTEMPT, "ack")]


def test_the_commands_carry_what_the_driver_needs() -> None:
    table = TaskTable(LIMITS)
    table.on(JobManagerFound(GENERATION), 0)
    started = table.on(SUBMIT, 0)
    assert list(started) == [StartTimer(ATTEMPT, TimerKind.START, 30_000), StartSubtask(TASK, "token")]
    table.on(OPENED, 0)
    cancelled = table.on(CANCEL, 0)
    assert list(cancelled) == [SendCancel(ATTEMPT), StartTimer(ATTEMPT, TimerKind.KILL, 20_000)]
    assert list(table.on(CANCEL, 0)) == []
    killed = table.on(KILLING, 0)
    assert KillSubtask(ATTEMPT, 77, "here") in killed
    assert StartTimer(ATTEMPT, TimerKind.ESCALATE, 180_000) in killed
    (escalated,) = table.on(ESCALATION, 0)
    assert isinstance(escalated, Escalate)
    assert "map (1/2)#3 was killed 180 s ago" in escalated.error.message


def test_a_start_that_takes_too_long_says_what_to_look_at() -> None:
    table = table_in(P.STARTING)
    table.on(START, 0)
    report = table.on(SparkJobEnded(ATTEMPT), 0)[1]
    assert isinstance(report, ReportState)
    assert report.error is not None
    assert "map (1/2)#3: its process did not connect within 30 s of the beginning of its start" in report.error.message


@pytest.mark.parametrize("query", ["", "e" * 64])
@pytest.mark.parametrize("has_executors", [False, True])
def test_executors_are_suspected_where_there_are_some(has_executors: bool, query: str) -> None:
    table = TaskTable(dataclasses.replace(LIMITS, has_executors=has_executors))
    task = numbered(0, query)
    for event in (JobManagerFound(GENERATION), TaskSubmitted(task, "token"), TimerFired(task.attempt, TimerKind.START)):
        table.on(event, 0)
    report = table.on(SparkJobEnded(task.attempt), 0)[1]
    assert isinstance(report, ReportState)
    assert report.error is not None
    assert ("executors" in report.error.message) == has_executors
    assert ("this machine" in report.error.message) == (not has_executors)
    assert f"tidegate.{'spark-query' if query else 'subtask'}.start-timeout" in report.error.message


def test_a_spark_job_that_fails_before_the_process_connects_tells_sparks_reason() -> None:
    error = ErrorInfo.of(SubtaskLost("no free core"))
    report = table_in(P.STARTING).on(SparkJobEnded(ATTEMPT, error), 0)[1]
    assert isinstance(report, ReportState)
    assert report.error == error


def test_a_query_of_spark_has_its_own_time_to_be_prepared() -> None:
    query = dataclasses.replace(TASK, spark_query=BlobKey("e" * 64))
    table = TaskTable(LIMITS)
    table.on(JobManagerFound(GENERATION), 0)
    assert StartTimer(ATTEMPT, TimerKind.START, 600_000) in table.on(TaskSubmitted(query, "token"), 0)
