"""Subtasks leave an executor that Spark takes away: a checkpoint, then their regions restart from it, and nothing has failed."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.jobmanager.machines.cluster_kit import CHECKPOINTED, Cluster, P, running_job, two_stage
from tests.unit.jobmanager.machines.job.test_rescaling import wanted
from tidegate.jobmanager.machines import commands as c
from tidegate.jobmanager.machines import events as e
from tidegate.model.graph import Partitioner
from tidegate.model.ids import AttemptId, JobId, TaskManagerId
from tidegate.model.states import ExecutionState as E
from tidegate.model.states import JobState as J

TM = TaskManagerId("tm-1")


def beat(cluster: Cluster, *leaving: AttemptId) -> None:
    here = tuple(cluster.attempts(E.RUNNING, E.CANCELING, E.DEPLOYING))
    [view] = cluster.machine.cluster().task_managers
    slots = tuple(e.ReportedSlot(slot.index, slot.allocation_id, slot.job_id) for slot in view.slots)
    cluster.tell(e.TaskManagerHeartbeat(TM, cluster.sessions["tm-1"], slots, here, leaving))


def triggered(cluster: Cluster) -> list[int]:
    return [int(t.checkpoint_id) for t in cluster.of(c.TriggerCheckpoint)]


def running() -> Cluster:
    return running_job(None, {**CHECKPOINTED, f"{P}.tolerable-failed-checkpoints": "3"}, slots=4)


def test_a_checkpoint_comes_first_and_nothing_is_counted_as_a_failure() -> None:
    cluster = running()
    beat(cluster, cluster.attempt("source"))
    cluster.settle()
    assert triggered(cluster) == [1]
    assert cluster.states() == {E.RUNNING}
    cluster.complete_checkpoint(1)
    assert cluster.states() == {E.CANCELING}
    cluster.cancel_tasks()
    cluster.pass_time(0)
    cluster.start_tasks()
    job = cluster.job()
    assert (cluster.job_state(), job.restarts, list(job.failures)) == (J.RUNNING, 0, [])
    restored = [s.deployment.restore for s in cluster.of(c.SubmitTask) if s.deployment.attempt.attempt == 1]
    assert [restore.checkpoint_id for restore in restored if restore is not None] == [1] * 4


def test_only_the_region_of_what_leaves_restarts() -> None:
    cluster = running_job(two_stage(partitioner=Partitioner.FORWARD), CHECKPOINTED, slots=4)
    beat(cluster, cluster.attempt("source", 1))
    cluster.settle()
    cluster.complete_checkpoint(1)
    assert {a.subtask for a in cluster.attempts(E.CANCELING)} == {1}
    assert {a.subtask for a in cluster.attempts(E.RUNNING)} == {0}


def test_what_is_repeated_takes_one_checkpoint() -> None:
    cluster = running()
    for _ in range(3):
        beat(cluster, cluster.attempt("source"))
        cluster.settle()
    assert triggered(cluster) == [1]


def test_a_checkpoint_that_fails_is_tried_again_with_the_next_word() -> None:
    cluster = running()
    leaving = cluster.attempt("source")
    beat(cluster, leaving)
    cluster.settle()
    cluster.decline(leaving, 1)
    cluster.settle()
    assert triggered(cluster) == [1]
    beat(cluster, leaving)
    cluster.settle()
    assert triggered(cluster) == [1, 2]


def test_what_failed_meanwhile_has_left() -> None:
    """It restarts as after any failure, and the checkpoint that was taken moves nothing."""
    cluster = running()
    leaving = cluster.attempt("source")
    beat(cluster, leaving)
    cluster.settle()
    cluster.fail(leaving)
    cluster.cancel_tasks()
    cluster.pass_time(2_000)
    cluster.start_tasks()
    assert cluster.job().restarts == 1
    beat(cluster, leaving)
    cluster.settle()
    assert cluster.states() == {E.RUNNING}


def test_a_job_without_checkpoints_keeps_what_it_has_read_for_as_long_as_it_can() -> None:
    cluster = running_job(None, {}, slots=4)
    beat(cluster, cluster.attempt("source"))
    cluster.settle()
    assert triggered(cluster) == []
    assert cluster.states() == {E.RUNNING}


def test_a_change_of_shape_moves_them_anyway() -> None:
    cluster = running()
    cluster.tell(wanted(4))
    cluster.settle()
    beat(cluster, cluster.attempt("source"))
    cluster.complete_checkpoint(1)
    assert len(cluster.of(c.WriteShape)) == 1
    cluster.cancel_tasks()
    cluster.pass_time(0)
    cluster.start_tasks()
    assert (cluster.job().rescales, cluster.job().restarts) == (1, 0)
    assert {a.attempt for a in cluster.attempts(E.RUNNING)} == {1}


def test_an_attempt_of_no_job_here_is_ignored() -> None:
    cluster = running()
    here = cluster.attempt("source")
    beat(cluster, replace(here, job_id=JobId("0" * 32)))
    assert triggered(cluster) == []
