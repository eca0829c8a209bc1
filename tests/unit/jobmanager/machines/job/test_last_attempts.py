"""Which attempts were the last ones of a job, and what is shown of those that an earlier JobManager knew."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.jobmanager.machines.checkpoint.test_jobmanager_recovery import manifest
from tests.unit.jobmanager.machines.cluster_kit import JOB, operator_id, running_job, subtask
from tests.unit.jobmanager.machines.job.test_adoption import (
    LAST,
    LOST,
    NUMBER,
    PIPELINES,
    SINK,
    SOURCE,
    all_register,
    allocation,
    attempt,
    both,
    numbers,
    recovering,
    registers,
    report,
)
from tidegate.jobmanager.machines import commands as c
from tidegate.jobmanager.machines import events as e
from tidegate.jobmanager.machines.views import EarlierAttempt, FailureView, JobHistory
from tidegate.model.checkpoint import OperatorState
from tidegate.model.ids import CheckpointId
from tidegate.model.leadership.attempt_report import AttemptReport
from tidegate.model.leadership.noted_attempts import NotedAttempts
from tidegate.model.states import ExecutionState as E
from tidegate.model.states import JobState as J


def test_one_that_was_given_up_long_ago_is_not_preferred_to_its_successor() -> None:
    cluster = recovering()
    registers(cluster, "tm-0", 7, [AttemptReport(attempt(SOURCE, 0, 1), allocation(7), E.RUNNING, restored_id=8)])
    all_register(cluster)
    assert numbers(cluster)[subtask(SOURCE, 0)] == NUMBER
    assert [command.allocation_id for command in cluster.of(c.FreeSlot)] == [allocation(7)]


def test_one_that_was_followed_by_another_is_not_adopted_although_that_is_never_reported() -> None:
    """The later attempt may have aborted its transactions, which a checkpoint would then commit."""
    cluster = recovering()
    for index in range(2):
        registers(cluster, f"tm-{index}", index, both(index, number=NUMBER - 1))
    cluster.pass_time(5_100)
    cluster.cancel_tasks()
    cluster.pass_time(1_100)
    assert min(numbers(cluster).values()) > LAST


def test_regions_are_adopted_at_once_when_each_reports_its_last_attempt() -> None:
    """One had fewer attempts than the other, as the job store knows."""
    cluster = recovering(job=PIPELINES, noted=NotedAttempts(0, {0: NUMBER, 1: NUMBER - 1}))
    registers(cluster, "tm-1", 0, both(0))
    registers(cluster, "tm-2", 1, both(1, number=NUMBER - 1))
    assert cluster.job_state() is J.RUNNING
    assert numbers(cluster)[subtask(SOURCE, 0)] == NUMBER
    assert numbers(cluster)[subtask(SOURCE, 1)] == NUMBER - 1
    assert cluster.of(c.SubmitTask) == []


def test_a_region_whose_last_attempt_is_never_reported_restarts_although_an_earlier_one_runs() -> None:
    """That one was cut off, and its successor, whose TaskManager is gone, may have aborted its transactions."""
    cluster = recovering(job=PIPELINES)
    registers(cluster, "tm-1", 0, both(0))
    registers(cluster, "tm-2", 1, both(1, number=NUMBER - 1))
    assert cluster.job_state() is J.RECONCILING
    cluster.pass_time(5_100)
    assert numbers(cluster)[subtask(SOURCE, 0)] == NUMBER
    assert {command.attempt for command in cluster.of(c.CancelTask)} == {
        attempt(SOURCE, 1, NUMBER - 1),
        attempt(SINK, 1, NUMBER - 1),
    }
    cluster.cancel_tasks()
    cluster.pass_time(100)
    assert numbers(cluster)[subtask(SOURCE, 1)] > LAST


def test_a_failure_that_the_earlier_jobmanager_had_handled_is_listed_once() -> None:
    """It had canceled the rest, and died before it deployed anything: all is known, and nothing is waited for."""
    known = FailureView(17, LOST, attempt(SOURCE, 0))
    cluster = recovering(history=replace(history_of(), failures=(known,)))
    registers(cluster, "tm-1", 0, [report(SOURCE, 0, E.FAILED, error=LOST), report(SINK, 0, E.CANCELED)])
    registers(cluster, "tm-2", 1, both(1, state=E.CANCELED))
    assert cluster.job_state() is J.RESTARTING
    assert [(failure.at_ms, failure.attempt) for failure in cluster.job().failures] == [(17, known.attempt)]


def test_a_job_that_was_being_restarted_is_restarted_at_once_without_a_failure() -> None:
    cluster = recovering()
    registers(cluster, "tm-1", 0, both(0, state=E.CANCELED))
    assert cluster.job_state() is J.RECONCILING
    registers(cluster, "tm-2", 1, both(1, state=E.CANCELED))
    cluster.cancel_tasks()
    cluster.pass_time(10)
    assert set(numbers(cluster).values()) == {LAST + 2}
    assert list(cluster.job().failures) == []


def test_a_failure_of_an_attempt_that_was_followed_is_none_of_the_job() -> None:
    cluster = recovering()
    registers(cluster, "tm-1", 0, both(0, state=E.FAILED, number=NUMBER - 1, error=LOST))
    registers(cluster, "tm-2", 1, both(1))
    assert cluster.job_state() is J.RECONCILING, "the last attempts may still be reported"
    cluster.pass_time(5_000)
    assert list(cluster.job().failures) == []


def test_when_adopted_attempts_entered_their_states_is_shown_on() -> None:
    """Also of one that no TaskManager reports, since its slot was freed: it has its own number, and not one that nothing ever had."""
    cluster = recovering(history=history_of((report(SOURCE, 0), E.RUNNING), (report(SINK, 1), E.FINISHED)))
    registers(cluster, "tm-1", 0, both(0))
    registers(cluster, "tm-2", 1, [report(SOURCE, 1), report(SINK, 1, E.FINISHED)])
    shown = {a.attempt: a.state_timestamps_ms for v in cluster.job().vertices for a in (s.current for s in v.subtasks)}
    assert shown[attempt(SOURCE, 0)][E.RUNNING] == 17
    assert shown[attempt(SINK, 1)][E.FINISHED] == 17
    assert shown[attempt(SOURCE, 1)][E.RUNNING] != 17


def test_one_that_only_the_checkpoint_knows_as_finished_has_the_number_that_it_had() -> None:
    gone = report(SOURCE, 1)
    had_finished = OperatorState(operator_id(SOURCE), SOURCE, SOURCE, 2, 128, {}, finished=frozenset({1}))
    content = replace(manifest(8), operators=(had_finished,))
    cluster = recovering(
        e.FoundCheckpoint(CheckpointId(8), "/cp/chk-8", content), history=history_of((gone, E.FINISHED))
    )
    registers(cluster, "tm-1", 0, both(0))
    registers(cluster, "tm-2", 1, [report(SINK, 1)])
    assert cluster.attempts(E.FINISHED) == [gone.attempt]


def history_of(*attempts: tuple[AttemptReport, E]) -> JobHistory:
    """Those were in these states at 17."""
    history = running_job().machine.history(JOB)
    assert history is not None
    return replace(history, attempts=tuple(EarlierAttempt(known.attempt, {state: 17}) for known, state in attempts))
