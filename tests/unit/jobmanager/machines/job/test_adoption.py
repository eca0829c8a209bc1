"""A JobManager that takes the lead goes on with the subtasks that run, and restarts the rest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.jobmanager.machines.checkpoint.test_jobmanager_recovery import cut_off, manifest, whole
from tests.unit.jobmanager.machines.cluster_kit import (
    CHECKPOINTED,
    JOB,
    Cluster,
    operator_id,
    subtask,
    two_stage,
    until_triggered,
)
from tidegate.jobmanager.machines import commands as c
from tidegate.jobmanager.machines import events as e
from tidegate.jobmanager.machines.views import JobHistory
from tidegate.model.checkpoint import OperatorState, SnapshotType
from tidegate.model.errors import ErrorInfo, SubtaskLost
from tidegate.model.graph import JobGraph, Partitioner
from tidegate.model.ids import AllocationId, AttemptId, CheckpointId, Generation, SubtaskId, TaskManagerId, hex_id
from tidegate.model.leadership.attempt_report import AttemptReport
from tidegate.model.leadership.noted_attempts import NotedAttempts
from tidegate.model.states import ExecutionState as E
from tidegate.model.states import JobState as J

EARLIER = Generation("")
"""The JobManager that wrote the manifests of these tests."""
NUMBER = LAST = 3
"""The numbers of the attempts that run, and the highest that any had."""
LOST = ErrorInfo.of(SubtaskLost("it was killed"))
OPTIONS = {**CHECKPOINTED, "tidegate.jobmanager.adoption-timeout": "5 s"}
SOURCE, SINK = "source", "sink"
PIPELINES = two_stage(2, Partitioner.FORWARD)
"""Two regions, each in a slot of its own."""


def attempt(name: str, index: int, number: int = NUMBER) -> AttemptId:
    place = subtask(name, index)
    return AttemptId(JOB, place.vertex_id, place.index, number)


def allocation(index: int) -> AllocationId:
    return AllocationId(hex_id("allocation", str(index)))


def report(name: str, index: int, state: E = E.RUNNING, number: int = NUMBER, **more: Any) -> AttemptReport:
    """One that acknowledged checkpoint 8."""
    facts: dict[str, Any] = {"acknowledged": ((8, EARLIER),), "newest_id": 8, "data_address": f"{name}:{index}"}
    return AttemptReport(attempt(name, index, number), allocation(index), state, **{**facts, **more})


def both(index: int, **more: Any) -> list[AttemptReport]:
    return [report(SOURCE, index, **more), report(SINK, index, **more)]


def recovering(
    *found: e.FoundCheckpoint,
    job: JobGraph | None = None,
    options: dict[str, str] | None = None,
    history: JobHistory | None = None,
    noted: NotedAttempts | None = None,
    requests: tuple[e.JobCancelRequested | e.SnapshotRequested, ...] = (),
) -> Cluster:
    """A job that waits for reports; checkpoint 8 is its newest, unless others were found."""
    cluster = Cluster()
    submitted = e.JobSubmitted(job or two_stage(), options or OPTIONS)
    event = e.JobRecovered(submitted, found or (whole(8),), LAST + 1, noted=noted, history=history, requests=requests)
    cluster.tell(event)
    assert cluster.job_state() is J.RECONCILING
    return cluster


def registers(cluster: Cluster, name: str, index: int, attempts: Iterable[AttemptReport]) -> list[c.Command]:
    """A TaskManager with the ``index``-th slot of the job, and one that is free."""
    slots = (e.ReportedSlot(0, allocation(index), JOB), e.ReportedSlot(1))
    event = e.TaskManagerRegistered(TaskManagerId(name), "s1", f"{name}:1", name, slots, attempts=tuple(attempts))
    told = cluster.tell(event)
    cluster.machine.check_invariants()
    return told + cluster.settle()


def all_register(cluster: Cluster) -> list[c.Command]:
    return registers(cluster, "tm-1", 0, both(0)) + registers(cluster, "tm-2", 1, both(1))


def numbers(cluster: Cluster) -> dict[SubtaskId, int]:
    return {a.subtask_id: a.attempt for a in cluster.attempts()}


def test_a_job_whose_attempts_all_report_goes_on_without_a_restart() -> None:
    cluster = recovering()
    all_register(cluster)
    assert cluster.job_state() is J.RUNNING
    assert cluster.states() == {E.RUNNING}
    assert set(numbers(cluster).values()) == {NUMBER}
    assert cluster.of(c.SubmitTask) == []
    assert cluster.of(c.FreeSlot) == []
    assert cluster.job().restarts == 0


def test_nothing_is_decided_before_the_last_one_has_reported() -> None:
    cluster = recovering()
    registers(cluster, "tm-1", 0, both(0))
    assert cluster.job_state() is J.RECONCILING
    assert cluster.of(c.CancelTask) == []
    assert cluster.of(c.FreeSlot) == []


def test_heartbeats_meanwhile_cancel_nothing() -> None:
    cluster = recovering()
    registers(cluster, "tm-1", 0, both(0))
    here = (attempt(SOURCE, 0), attempt(SINK, 0))
    slots = (e.ReportedSlot(0, allocation(0), JOB), e.ReportedSlot(1))
    for _ in range(3):
        cluster.tell(e.TaskManagerHeartbeat(TaskManagerId("tm-1"), "s1", slots, here))
    assert cluster.of(c.CancelTask) == []


def test_the_newest_checkpoint_is_confirmed_to_those_who_may_not_know_of_it() -> None:
    cluster = recovering()
    registers(cluster, "tm-1", 0, [report(SOURCE, 0, confirmed_id=8), report(SINK, 0)])
    registers(cluster, "tm-2", 1, both(1))
    confirmed = {a for command in cluster.of(c.ConfirmCheckpoint) for a in command.attempts}
    assert confirmed == {attempt(SINK, 0), attempt(SOURCE, 1), attempt(SINK, 1)}
    assert {command.checkpoint_id for command in cluster.of(c.ConfirmCheckpoint)} == {8}


def test_what_was_begun_later_is_aborted_and_removed() -> None:
    cluster = recovering(whole(8), cut_off(9))
    registers(cluster, "tm-1", 0, both(0, newest_id=10))
    registers(cluster, "tm-2", 1, both(1))
    aborted = {(command.checkpoint_id, len(command.attempts)) for command in cluster.of(c.AbortCheckpoint)}
    assert aborted == {(9, 2), (10, 2)}
    assert [command.location for command in cluster.of(c.DiscardCheckpoint)] == ["/cp/chk-9"]


def test_ids_go_on_behind_every_one_that_any_attempt_has_seen() -> None:
    cluster = recovering()
    registers(cluster, "tm-1", 0, both(0, newest_id=20))
    registers(cluster, "tm-2", 1, both(1))
    until_triggered(cluster, 21)
    cluster.complete_checkpoint(21)
    assert cluster.checkpoints().latest_completed_id == 21


def test_a_job_of_which_nothing_is_reported_is_restarted_after_a_while() -> None:
    cluster = recovering()
    cluster.register("tm-1", 2)
    cluster.pass_time(4_999)
    assert cluster.of(c.SubmitTask) == []
    cluster.pass_time(1)
    assert set(numbers(cluster).values()) == {LAST + 1}
    assert {s.deployment.restore.checkpoint_id for s in cluster.of(c.SubmitTask) if s.deployment.restore} == {8}


def test_only_the_region_that_lacks_a_subtask_restarts() -> None:
    cluster = recovering(job=PIPELINES)
    registers(cluster, "tm-1", 0, both(0))
    cluster.register("tm-3", 2)
    cluster.pass_time(5_000)
    cluster.machine.check_invariants()
    now = numbers(cluster)
    assert {now[subtask(SOURCE, 0)], now[subtask(SINK, 0)]} == {NUMBER}
    assert min(now[subtask(SOURCE, 1)], now[subtask(SINK, 1)]) > LAST
    assert cluster.of(c.CancelTask) == []


def test_what_runs_of_a_region_that_lacks_a_subtask_is_canceled_before_it_restarts() -> None:
    cluster = recovering()
    registers(cluster, "tm-1", 0, both(0))
    cluster.register("tm-3", 2)
    cluster.pass_time(5_000)
    assert {command.attempt for command in cluster.of(c.CancelTask)} == {attempt(SOURCE, 0), attempt(SINK, 0)}
    assert cluster.of(c.SubmitTask) == []
    cluster.cancel_tasks()
    assert len(cluster.of(c.SubmitTask)) == 4
    assert set(numbers(cluster).values()) == {LAST + 2}


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"acknowledged": ()}, "it does not go on from the newest checkpoint"),
        ({"acknowledged": ((8, Generation("another")),)}, "it acknowledged another checkpoint of that id"),
        ({"acknowledged": ((9, EARLIER),)}, "it has only what was never completed"),
        ({"state": E.INITIALIZING}, "it does not run yet"),
        ({"state": E.CANCELING}, "it is being stopped"),
        ({"is_being_stopped": True}, "its sources have ended for a savepoint"),
        ({"number": NUMBER + 1}, "it belongs to another deployment of the region"),
    ],
)
def test_an_attempt_that_cannot_go_on_makes_its_region_restart(more: dict[str, Any], why: str) -> None:
    cluster = recovering()
    registers(cluster, "tm-1", 0, [report(SOURCE, 0, **more), report(SINK, 0)])
    registers(cluster, "tm-2", 1, both(1))
    cluster.pass_time(5_000)
    cluster.cancel_tasks()
    cluster.pass_time(1)
    assert min(numbers(cluster).values()) > LAST, why


def test_an_attempt_that_was_restored_from_the_newest_checkpoint_goes_on() -> None:
    cluster = recovering()
    registers(cluster, "tm-1", 0, both(0, acknowledged=(), restored_id=8, confirmed_id=8))
    registers(cluster, "tm-2", 1, both(1))
    assert set(numbers(cluster).values()) == {NUMBER}


def test_without_any_checkpoint_attempts_go_on_from_the_beginning() -> None:
    cluster = recovering(cut_off(1))
    for index in range(2):
        registers(cluster, f"tm-{index}", index, both(index, acknowledged=(), newest_id=1))
    assert set(numbers(cluster).values()) == {NUMBER}
    assert cluster.of(c.ConfirmCheckpoint) == []
    assert {command.checkpoint_id for command in cluster.of(c.AbortCheckpoint)} == {1}


def test_one_that_failed_meanwhile_is_a_failure_like_any_other() -> None:
    cluster = recovering()
    registers(cluster, "tm-1", 0, [report(SOURCE, 0, E.FAILED, error=LOST), report(SINK, 0)])
    registers(cluster, "tm-2", 1, both(1))
    assert cluster.job_state() is J.RESTARTING
    assert [failure.error.message for failure in cluster.job().failures] == [LOST.message]


def test_one_that_fails_while_others_are_waited_for_is_not_adopted() -> None:
    cluster = recovering()
    registers(cluster, "tm-1", 0, both(0))
    cluster.fail(attempt(SOURCE, 0))
    registers(cluster, "tm-2", 1, both(1))
    assert cluster.job_state() is J.RESTARTING


def test_one_that_has_finished_meanwhile_has_finished() -> None:
    cluster = recovering()
    registers(cluster, "tm-1", 0, [report(SOURCE, 0, E.FINISHED), report(SINK, 0)])
    registers(cluster, "tm-2", 1, [report(SOURCE, 1, E.FINISHED), report(SINK, 1)])
    assert set(cluster.attempts(E.FINISHED)) == {attempt(SOURCE, 0), attempt(SOURCE, 1)}
    assert cluster.job_state() is J.RUNNING


def test_one_that_was_restored_as_finished_is_so_in_later_checkpoints() -> None:
    """It runs, but its operators do not, and it acknowledges no state. Were it not said so, a later restore would begin them anew."""
    over = OperatorState(operator_id(SOURCE), SOURCE, SOURCE, 2, 128, finished=frozenset((0, 1)))
    content = manifest(8)
    content = replace(content, operators=(over, *content.operators))
    cluster = recovering(e.FoundCheckpoint(CheckpointId(8), "/cp/chk-8", content))
    for index in range(2):
        restored = both(index, acknowledged=(), restored_id=8, confirmed_id=8, at_end_of_data=True)
        registers(cluster, f"tm-{index}", index, restored)
    until_triggered(cluster, 9)
    [write] = [one for one in cluster.complete_checkpoint(9) if isinstance(one, c.WriteManifest)]
    assert [(state.uid, state.finished) for state in write.manifest.operators] == [(SOURCE, frozenset((0, 1)))]


def test_a_job_whose_subtasks_have_all_finished_is_finished() -> None:
    cluster = recovering()
    for index in range(2):
        registers(cluster, f"tm-{index}", index, both(index, state=E.FINISHED))
    cluster.settle()
    assert cluster.job_state() is J.FINISHED


def test_an_end_of_data_that_is_told_while_others_are_waited_for_counts() -> None:
    cluster = recovering()
    registers(cluster, "tm-1", 0, both(0, at_end_of_data=True))
    cluster.tell(e.EndOfDataReached(attempt(SOURCE, 1)))
    registers(cluster, "tm-2", 1, both(1, at_end_of_data=True))
    assert cluster.of(c.TriggerCheckpoint), "the final checkpoint is taken at once"


def test_siblings_of_one_that_was_let_finish_are_let_finish_too() -> None:
    cluster = recovering()
    at_end: dict[str, Any] = {"at_end_of_data": True}
    registers(cluster, "tm-1", 0, [report(SOURCE, 0, confirmed_id=8, may_finish=True, **at_end), report(SINK, 0)])
    registers(cluster, "tm-2", 1, [report(SOURCE, 1, **at_end), report(SINK, 1)])
    may = {a for command in cluster.of(c.ConfirmCheckpoint) for a in command.may_finish}
    assert may == {attempt(SOURCE, 1)}


def test_a_taskmanager_that_is_lost_while_others_are_waited_for_takes_its_reports_along() -> None:
    cluster = recovering()
    registers(cluster, "tm-1", 0, both(0))
    cluster.tell(e.TaskManagerConnectionLost(TaskManagerId("tm-1"), "s1", "killed", is_gone=True))
    registers(cluster, "tm-2", 1, both(1))
    assert cluster.job_state() is J.RECONCILING


def test_a_job_of_which_nothing_was_ever_deployed_waits_for_nobody() -> None:
    """It was kept, and its JobManager died before it had slots."""
    cluster = Cluster()
    cluster.register("tm-1", 2)
    cluster.tell(e.JobRecovered(e.JobSubmitted(two_stage(), OPTIONS)))
    cluster.settle()
    assert set(numbers(cluster).values()) == {0}
    assert len(cluster.of(c.SubmitTask)) == 4


def test_a_region_that_was_never_deployed_is_not_waited_for() -> None:
    noted = NotedAttempts(-1, {0: NUMBER})
    cluster = recovering(job=PIPELINES, noted=noted)
    registers(cluster, "tm-1", 0, both(0))
    assert cluster.job_state() is not J.RECONCILING
    assert numbers(cluster)[subtask(SOURCE, 0)] == NUMBER


def test_a_job_that_is_canceled_while_it_waits_ends() -> None:
    cluster = recovering()
    registers(cluster, "tm-1", 0, both(0))
    cluster.tell(e.JobCancelRequested(JOB))
    assert {command.attempt for command in cluster.of(c.CancelTask)} == {attempt(SOURCE, 0), attempt(SINK, 0)}
    cluster.cancel_tasks()
    assert cluster.job_state() is J.CANCELED


def test_who_comes_too_late_is_canceled_and_its_slot_is_freed() -> None:
    cluster = recovering(job=PIPELINES)
    registers(cluster, "tm-1", 0, both(0))
    cluster.register("tm-3", 2)
    cluster.pass_time(5_000)
    registers(cluster, "tm-2", 1, both(1))
    assert [command.allocation_id for command in cluster.of(c.FreeSlot)] == [allocation(1)]


def test_without_a_grace_nothing_is_waited_for() -> None:
    cluster = Cluster()
    cluster.register("tm-1", 2)
    options = {**OPTIONS, "tidegate.jobmanager.loss-grace": "0 ms"}
    cluster.tell(e.JobRecovered(e.JobSubmitted(two_stage(), options), (whole(8),), first_attempt=LAST + 1))
    cluster.settle()
    assert set(numbers(cluster).values()) == {LAST + 1}


def test_a_job_that_began_from_a_savepoint_goes_on_from_it() -> None:
    cluster = Cluster()
    restore = e.RestoreFrom("/sp/savepoint-x", manifest(7, kind=SnapshotType.SAVEPOINT))
    cluster.tell(e.JobRecovered(e.JobSubmitted(two_stage(), OPTIONS, restore), (), first_attempt=LAST + 1))
    for index in range(2):
        restored = both(index, acknowledged=(), restored_id=7, confirmed_id=7, newest_id=7)
        registers(cluster, f"tm-{index}", index, restored)
    assert set(numbers(cluster).values()) == {NUMBER}
    assert cluster.of(c.ConfirmCheckpoint) == []
    assert cluster.of(c.AbortCheckpoint) == []
