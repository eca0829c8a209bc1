"""Processes that start late, end without a word or do not want to end: what the task table makes of them."""

from __future__ import annotations

import dataclasses

import pytest

from tests.unit.taskmanager.machines.test_tasks import (
    ATTEMPT,
    CANCEL,
    E_,
    FAIL,
    FREED,
    GENERATION,
    INTERRUPTED,
    KILLING,
    LIMITS,
    OPENED,
    START,
    SUBMIT,
    TASK,
    P,
    shape,
    table_in,
)
from tidegate.model.errors import ErrorInfo, NoResourceAvailable, OutputLost, StorageError, SubtaskLost
from tidegate.taskmanager.machines.slots import JobManagerFound, JobManagerLost, LossGraceOver
from tidegate.taskmanager.machines.task_events import (
    LogWarning,
    ReportState,
    SparkJobEnded,
    StartTimer,
    StoredEdges,
    StreamBroke,
    SubtaskInterrupted,
    SubtaskStateChanged,
    TaskEvent,
    TaskLimits,
    TimerKind,
)
from tidegate.taskmanager.machines.tasks import TaskTable


def test_a_start_that_takes_too_long_while_an_executor_is_away_says_so() -> None:
    table = table_in(P.STARTING)
    table.on(START, 0)
    away = ErrorInfo.of(NoResourceAvailable("map had no core"))
    report = table.on(SparkJobEnded(ATTEMPT, away), 0)[1]
    assert isinstance(report, ReportState)
    assert report.error is not None
    assert report.error.message.endswith(" map had no core")
    assert "within 30 s" in report.error.message


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (
            -9,
            "was ended by SIGKILL (signal 9): no process of this cluster sent it; the kernel does when memory runs out",
        ),
        (-11, "was ended by SIGSEGV (signal 11): native code crashed"),
        (-63, "was ended by signal 63"),
        (3, "ended with exit code 3 before its function did: something in it called exit"),
        (None, "is gone, and its exit code is not known here; ExecutorLostFailure: Command exited with code 137"),
    ],
)
@pytest.mark.parametrize("before", [(StreamBroke(ATTEMPT),), ()])
def test_a_process_that_is_lost_is_told_of_with_its_exit_status(
    before: tuple[TaskEvent, ...], status: int | None, words: str
) -> None:
    table = table_in(P.ATTACHED)
    for event in before:
        table.on(event, 0)
    of_spark = ErrorInfo.of(SubtaskLost("ExecutorLostFailure: Command exited with code 137"))
    (report,) = [c for c in table.on(SparkJobEnded(ATTEMPT, of_spark, status), 0) if isinstance(c, ReportState)]
    assert report.error is not None
    assert report.error.message.startswith("the process of map (1/2)#3 (pid 77 on here) " + words)
    assert "ExecutorLostFailure" in report.error.details


CANCELING = SubtaskStateChanged(ATTEMPT, E_.CANCELING)


def test_one_that_answers_its_cancellation_has_time_to_be_closed() -> None:
    table = table_in(P.ATTACHED)
    assert StartTimer(ATTEMPT, TimerKind.KILL, 20_000) in table.on(CANCEL, 0)
    assert list(table.on(CANCELING, 0)) == [StartTimer(ATTEMPT, TimerKind.KILL, 180_000)]
    endless = TaskTable(dataclasses.replace(LIMITS, cancellation_timeout_ms=0))
    for event in (JobManagerFound(GENERATION), SUBMIT, OPENED, CANCEL):
        endless.on(event, 0)
    assert shape(endless.on(CANCELING, 0)) == ["StopTimers"]


def test_an_answer_prolongs_nothing_when_the_job_manager_is_gone() -> None:
    table = table_in(P.ATTACHED)
    for event in (JobManagerLost(), LossGraceOver()):
        table.on(event, 0)
    assert list(table.on(CANCELING, 0)) == []


def test_one_that_does_not_stop_is_killed_and_the_log_says_why() -> None:
    table = table_in(P.ATTACHED)
    table.on(CANCEL, 0)
    warning = table.on(KILLING, 0)[0]
    assert isinstance(warning, LogWarning)
    assert "map (1/2)#3 does not stop: its function (process 77) goes on" in warning.text
    assert "tidegate.task.unresponsive-timeout" in warning.text


def test_the_end_of_one_that_was_killed_says_why_and_where_its_function_stood() -> None:
    table = table_in(P.ATTACHED)
    for event in (CANCEL, SubtaskInterrupted(ATTEMPT, "earlier"), INTERRUPTED, KILLING):
        table.on(event, 0)
    (report,) = [c for c in table.on(SparkJobEnded(ATTEMPT, None, -9), 0) if isinstance(c, ReportState)]
    assert report.state is E_.CANCELED
    assert report.error is not None
    assert "map (1/2)#3 does not stop: its function (process 77) goes on" in report.error.message
    assert report.error.details == f"its function stood at\n{INTERRUPTED.stack}"


def test_a_failure_that_it_was_stopped_for_stays_the_reason_of_one_that_is_killed() -> None:
    table = table_in(P.ATTACHED)
    for event in (FAIL, INTERRUPTED, KILLING):
        table.on(event, 0)
    (report,) = [c for c in table.on(SparkJobEnded(ATTEMPT, None, -9), 0) if isinstance(c, ReportState)]
    assert (report.state, report.error) == (E_.FAILED, FREED)


NOT_STORED = ErrorInfo.of(StorageError("what it gave could not be stored"))
NOT_READ = ErrorInfo.of(OutputLost("what it read is gone"))


@pytest.mark.parametrize("error", [NOT_STORED, NOT_READ])
def test_one_that_says_it_has_finished_and_whose_output_is_not_stored_has_failed(error: ErrorInfo) -> None:
    (report,) = [c for c in table_in(P.ENDED).on(SparkJobEnded(ATTEMPT, error), 0) if isinstance(c, ReportState)]
    assert (report.state, report.error) == (E_.FAILED, error)


@pytest.mark.parametrize(("error", "code"), [(NOT_STORED, "subtask-lost"), (NOT_READ, "output-lost")])
def test_one_that_is_killed_is_lost_unless_its_input_is(error: ErrorInfo, code: str) -> None:
    table = table_in(P.KILLED)
    (report,) = [c for c in table.on(SparkJobEnded(ATTEMPT, error, -9), 0) if isinstance(c, ReportState)]
    assert report.error is not None
    assert report.error.code == code


def test_one_whose_output_is_stored_may_take_long_to_leave() -> None:
    limits, edges = TaskLimits(exit_timeout_ms=5, storing_timeout_ms=7), StoredEdges((), ((0, (0, 1)), (1, (0,))))
    assert limits.time_to_exit_ms(TASK) == 5
    assert limits.time_to_exit_ms(dataclasses.replace(TASK, stored=edges)) == 7
    assert edges.partitions == 3
