"""A job that runs takes another shape: what is done in which order, and what is refused in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.unit.jobmanager.machines.cluster_kit import (
    CHECKPOINTED,
    FAULT,
    JOB,
    Cluster,
    graph,
    running_job,
    two_stage,
    until_triggered,
    vertex,
    vertex_id,
)
from tests.unit.jobmanager.machines.restore.test_state_assignment import segment
from tidegate.jobmanager.machines import commands as c
from tidegate.jobmanager.machines import events as e
from tidegate.model.checkpoint import OperatorSnapshot, SnapshotType, SubtaskSnapshot
from tidegate.model.errors import ErrorInfo
from tidegate.model.graph import JobGraph, Partitioner
from tidegate.model.ids import OperatorId, VertexId
from tidegate.model.keygroups import KeyGroupRange, range_of
from tidegate.model.rescaling.bounds import ParallelismBounds, bounds_of, with_parallelism
from tidegate.model.states import ExecutionState as E
from tidegate.model.states import JobState as J

NOT_WRITTEN = ErrorInfo("storage", "external", "disk full")


def wanted(parallelism: int, job: JobGraph | None = None) -> e.RescaleRequested:
    vertices = (job or two_stage()).vertices
    return e.RescaleRequested(JOB, {v.vertex_id: ParallelismBounds(1, parallelism) for v in vertices})


def running(slots: int = 4, job: JobGraph | None = None, settings: Mapping[str, str] = CHECKPOINTED) -> Cluster:
    return running_job(job, settings, slots=slots)


def keyed(cluster: Cluster, name: str, index: int, parallelism: int) -> SubtaskSnapshot:
    operator = cluster.job().graph.vertex(vertex_id(name)).operators[0].operator_id
    return SubtaskSnapshot({OperatorId(operator): OperatorSnapshot(keyed=(segment(index, parallelism, 128),))})


def changing(slots: int = 4, parallelism: int = 4, *, writes_shapes: bool = True) -> Cluster:
    """The checkpoint before the change is complete, the store knows the new shape (unless it is to wait), and the old subtasks are canceled."""
    cluster = running(slots)
    cluster.writes_shapes = writes_shapes
    cluster.tell(wanted(parallelism))
    cluster.settle()
    for attempt in cluster.attempts(E.RUNNING):
        cluster.acknowledge(attempt, 1, keyed(cluster, _name(attempt.vertex_id), attempt.subtask, 2))
    return cluster


def groups_of(found: KeyGroupRange) -> set[int]:
    return set(range(found.start, found.end + 1))


def _name(vertex: VertexId) -> str:
    return "source" if vertex == vertex_id("source") else "sink"


def over(cluster: Cluster) -> Cluster:
    cluster.cancel_tasks()
    cluster.pass_time(0)
    return cluster


def shape_of(cluster: Cluster) -> dict[VertexId, int]:
    return {v.vertex_id: v.parallelism for v in cluster.job().vertices}


def test_a_checkpoint_comes_first_then_the_store_then_the_subtasks() -> None:
    cluster = running()
    cluster.tell(wanted(4))
    assert cluster.of(c.TriggerCheckpoint) == [], "the directory is made first"
    cluster.settle()
    assert [t.checkpoint_id for t in cluster.of(c.TriggerCheckpoint)] == [1]
    assert cluster.of(c.WriteShape) == []
    cluster.writes_shapes = False
    cluster.complete_checkpoint(1)
    written = cluster.of(c.WriteShape)
    assert [dict(w.shape.parallelism) for w in written] == [{vertex_id("source"): 4, vertex_id("sink"): 4}]
    assert cluster.states() == {E.RUNNING}, "nothing stands still while the shape is written"
    cluster.tell(e.ShapeWritten(JOB))
    assert cluster.states() == {E.CANCELING}
    assert cluster.job_state() is J.RESTARTING


def test_everything_is_deployed_in_the_new_shape_with_a_number_no_attempt_had() -> None:
    cluster = over(changing())
    assert shape_of(cluster) == {vertex_id("source"): 4, vertex_id("sink"): 4}
    deployed = [s.deployment for s in cluster.of(c.SubmitTask) if s.deployment.attempt.attempt > 0]
    assert len(deployed) == 8
    assert {d.parallelism for d in deployed} == {4}
    assert {d.attempt.attempt for d in deployed} == {cluster.of(c.WriteShape)[0].shape.first_attempt} == {1}, (
        "attempts count by one"
    )
    assert {s.region for s in cluster.of(c.SubmitTask)} == {None}
    cluster.start_tasks()
    assert (cluster.job_state(), cluster.job().rescales, cluster.job().restarts) == (J.RUNNING, 1, 0)


def test_a_checkpoint_that_a_rescale_aborts_is_no_failed_one() -> None:
    cluster = changing(writes_shapes=False)
    cluster.pass_time(2_000)
    assert [t.checkpoint_id for t in cluster.of(c.TriggerCheckpoint)][-1] == 2, "the job runs on meanwhile"
    cluster.tell(e.ShapeWritten(JOB))
    assert [a.checkpoint_id for a in cluster.of(c.AbortCheckpoint)] == [2] * len(cluster.of(c.AbortCheckpoint)) != []
    shown = cluster.checkpoints()
    assert (shown.failed, shown.in_progress, shown.completed) == (0, 0, 1)
    assert [checkpoint.checkpoint_id for checkpoint in shown.history] == [1]
    cluster.settle()
    over(cluster)
    cluster.start_tasks()
    assert (cluster.job_state(), cluster.job().rescales) == (J.RUNNING, 1)


def test_one_that_a_client_waits_for_is_a_failed_one() -> None:
    cluster = changing(writes_shapes=False)
    cluster.tell(e.SnapshotRequested(JOB, "r", SnapshotType.SAVEPOINT, "/sp"))
    cluster.settle()
    cluster.tell(e.ShapeWritten(JOB))
    (report,) = cluster.of(c.ReportSnapshot)
    assert report.error is not None
    assert cluster.checkpoints().failed == 1


@pytest.mark.parametrize("parallelism", [1, 3, 4])
def test_each_new_subtask_gets_the_rows_of_its_key_groups(parallelism: int) -> None:
    cluster = over(changing(parallelism=parallelism))
    deployed = [s.deployment for s in cluster.of(c.SubmitTask) if s.deployment.attempt.attempt == 2]
    for deployment in deployed:
        assert deployment.restore is not None
        assert deployment.restore.checkpoint_id == 1
        owned = range_of(deployment.attempt.subtask, 128, parallelism)
        (operator,) = deployment.restore.operators.values()
        covered = {group for found in operator.keyed for group in groups_of(found.key_groups)}
        assert groups_of(owned) <= covered


def test_an_old_subtask_that_finishes_last_is_asked_for_nothing_more() -> None:
    """It has finished instead of being canceled, and is the one that the change waited for: the new shape has no subtask of its number."""
    cluster = changing(parallelism=1)
    last, *others = sorted(cluster.attempts(E.CANCELING), key=lambda attempt: -attempt.subtask)
    for attempt in others:
        cluster.state(attempt, E.CANCELED)
    cluster.pass_time(0)
    cluster.state(last, E.FINISHED)
    cluster.start_tasks()
    assert shape_of(cluster) == {vertex_id("source"): 1, vertex_id("sink"): 1}
    assert cluster.job_state() is J.RUNNING


def test_slots_that_are_not_needed_go_back() -> None:
    cluster = over(changing(slots=2, parallelism=1))
    assert len(cluster.of(c.FreeSlot)) == 1
    cluster.start_tasks()
    assert cluster.states() == {E.RUNNING}


def test_a_failure_while_the_shape_is_written_waits_for_the_answer() -> None:
    cluster = running()
    cluster.writes_shapes = False
    cluster.tell(wanted(4))
    cluster.settle()
    cluster.complete_checkpoint(1)
    cluster.fail(cluster.attempt("sink"))
    cluster.cancel_tasks()
    cluster.pass_time(60_000)
    assert cluster.job_state() is J.RESTARTING
    cluster.tell(e.ShapeWritten(JOB))
    cluster.pass_time(0)
    assert shape_of(cluster) == {vertex_id("source"): 4, vertex_id("sink"): 4}


def test_a_store_that_refuses_is_asked_again_and_the_job_runs_on() -> None:
    cluster = running()
    cluster.writes_shapes = False
    cluster.tell(wanted(4))
    cluster.settle()
    cluster.complete_checkpoint(1)
    cluster.inbox.clear()
    cluster.tell(e.ShapeWritten(JOB, NOT_WRITTEN))
    assert cluster.states() == {E.RUNNING}
    cluster.writes_shapes = True
    cluster.pass_time(1_000)
    first, second = cluster.of(c.WriteShape)
    assert first == second
    assert shape_of(over(cluster)) == {vertex_id("source"): 4, vertex_id("sink"): 4}


def test_checkpoints_that_fail_hold_it_up_twice_at_most() -> None:
    cluster = running(settings={**CHECKPOINTED, "execution.checkpointing.tolerable-failed-checkpoints": "10"})
    cluster.tell(wanted(4))
    cluster.settle()
    cluster.decline(cluster.attempt("sink"), 1)
    assert cluster.of(c.WriteShape) == []
    until_triggered(cluster, 2)
    cluster.decline(cluster.attempt("sink"), 2)
    assert shape_of(over(cluster)) == {vertex_id("source"): 4, vertex_id("sink"): 4}


def waiting(delay: str) -> Cluster:
    cluster = running(settings={**CHECKPOINTED, "jobmanager.adaptive-scheduler.rescale-trigger.max-delay": delay})
    cluster.tell(wanted(4))
    cluster.settle()
    assert cluster.of(c.TriggerCheckpoint) == [], "no checkpoint is taken for it yet"
    return cluster


def test_a_checkpoint_that_is_due_is_waited_for() -> None:
    cluster = waiting("1 h")
    until_triggered(cluster, 1)
    for attempt in cluster.attempts(E.RUNNING):
        cluster.acknowledge(attempt, 1, keyed(cluster, _name(attempt.vertex_id), attempt.subtask, 2))
    over(cluster)
    assert set(shape_of(cluster).values()) == {4}


def test_when_none_was_due_for_so_long_one_is_taken() -> None:
    cluster = waiting("1 ms")
    cluster.pass_time(1)
    cluster.settle()
    assert cluster.of(c.TriggerCheckpoint), "long before the interval is over"


def test_a_job_that_restarts_anyway_restarts_in_the_new_shape() -> None:
    cluster = running()
    cluster.fail(cluster.attempt("sink"))
    cluster.tell(wanted(4))
    cluster.settle()
    cluster.cancel_tasks()
    cluster.pass_time(60_000)
    assert shape_of(cluster) == {vertex_id("source"): 4, vertex_id("sink"): 4}


def test_one_region_that_restarts_waits_for_all_when_the_shape_changes() -> None:
    job = two_stage(2, Partitioner.FORWARD)
    cluster = running(job=job)
    cluster.fail(cluster.attempt("sink", 1))
    cluster.tell(wanted(3, job))
    cluster.settle()
    assert {a.subtask for a in cluster.attempts(E.CANCELING)} == {0, 1}
    cluster.cancel_tasks()
    cluster.pass_time(60_000)
    assert shape_of(cluster) == {vertex_id("source"): 3, vertex_id("sink"): 3}


def test_a_failure_in_the_middle_takes_everything_with_it_in_the_new_shape() -> None:
    cluster = changing()
    cluster.fail(cluster.attempt("sink"))
    cluster.cancel_tasks()
    cluster.pass_time(60_000)
    cluster.start_tasks()
    assert (cluster.job_state(), shape_of(cluster)) == (J.RUNNING, {vertex_id("source"): 4, vertex_id("sink"): 4})


def test_what_an_old_subtask_says_changes_nothing() -> None:
    cluster = over(changing(slots=2, parallelism=1))
    gone = replace(cluster.attempt("sink"), subtask=1, attempt=0)
    cluster.start_tasks()
    cluster.tell(e.TaskStateChanged(gone, E.FAILED, FAULT))
    cluster.tell(e.TaskStateChanged(gone, E.RUNNING, None, "here:1"))
    assert cluster.states() == {E.RUNNING}


def test_another_request_on_the_way_is_followed_when_the_first_is_done() -> None:
    cluster = changing()
    cluster.tell(wanted(1))
    over(cluster)
    cluster.start_tasks()
    cluster.settle()
    checkpoint = max(t.checkpoint_id for t in cluster.of(c.TriggerCheckpoint))
    cluster.complete_checkpoint(checkpoint)
    over(cluster)
    assert shape_of(cluster) == {vertex_id("source"): 1, vertex_id("sink"): 1}


def test_a_job_that_is_canceled_on_the_way_ends() -> None:
    cluster = changing()
    cluster.tell(e.JobCancelRequested(JOB))
    cluster.cancel_tasks()
    assert cluster.job_state() is J.CANCELED


def test_a_job_that_is_being_stopped_keeps_its_shape() -> None:
    cluster = running()
    cluster.tell(e.SnapshotRequested(JOB, "stop", SnapshotType.SUSPEND, "/sp"))
    cluster.settle()
    cluster.tell(wanted(4))
    assert cluster.settle() == []
    assert cluster.of(c.WriteShape) == []


def test_a_vertex_of_which_some_subtasks_have_finished_keeps_its_shape() -> None:
    cluster = running()
    cluster.state(cluster.attempt("source"), E.FINISHED)
    cluster.tell(wanted(4))
    until_triggered(cluster, 1)
    cluster.complete_checkpoint(1)
    assert cluster.of(c.WriteShape) == []


def test_the_next_jobmanager_goes_on_towards_what_was_asked_for() -> None:
    cluster = Cluster()
    cluster.register("tm-1", 4)
    settings = {**CHECKPOINTED, "tidegate.jobmanager.adoption-timeout": "1 s"}
    cluster.tell(e.JobRecovered(e.JobSubmitted(two_stage(), settings), first_attempt=1, requests=(wanted(4),)))
    cluster.pass_time(1_000)
    cluster.start_tasks()
    cluster.settle()
    cluster.complete_checkpoint(1)
    assert shape_of(over(cluster)) == {vertex_id("source"): 4, vertex_id("sink"): 4}


def test_bounds_that_nobody_asked_for_are_those_of_the_submission() -> None:
    cluster = running()
    assert cluster.job().bounds == bounds_of(two_stage())


# ---- what is refused -----------------------------------------------------------------------------------------------------


def refusal(cluster: Cluster, parallelism: int) -> str:
    return cluster.machine.refusal_of(wanted(parallelism))


def test_a_job_is_refused_slots_that_are_not_there() -> None:
    assert refusal(running(slots=4), 4) == ""
    assert "needs 5 slots, and the job can have 4" in refusal(running(slots=4), 5)


def test_slots_that_taskmanagers_would_bring_count() -> None:
    cluster = Cluster({"tidegate.resourcemanager.driver": "command", "slotmanager.number-of-slots.max": "6"})
    cluster.tell(e.WorkersFound(()))
    cluster.register("tm-1", 2)
    cluster.submit(two_stage(), CHECKPOINTED)
    cluster.start_tasks()
    assert refusal(cluster, 6) == ""
    assert "needs 7 slots" in refusal(cluster, 7)
    cluster.tell(wanted(4))
    cluster.settle()
    cluster.pass_time(1_000)
    assert len(cluster.of(c.StartWorker)) == 2
    assert cluster.of(c.WriteShape) == [], "the job runs on until they are there"


def test_a_job_without_checkpoints_keeps_its_parallelism() -> None:
    assert "execution.checkpointing.interval" in refusal(running(settings={}), 3)


def test_a_job_in_batch_mode_keeps_its_parallelism() -> None:
    modes = {"execution.runtime-mode": "BATCH", "execution.batch-shuffle-mode": "ALL_EXCHANGES_BLOCKING"}
    cluster = Cluster()
    cluster.submit(replace(two_stage(), configuration=modes), modes)
    assert "BATCH mode" in refusal(cluster, 3)


def test_a_job_that_is_over_is_refused() -> None:
    cluster = changing()
    cluster.tell(e.JobCancelRequested(JOB))
    cluster.cancel_tasks()
    assert refusal(cluster, 3).endswith("is CANCELED already")


def test_more_than_the_max_parallelism_is_refused() -> None:
    assert "exceeds its maximum parallelism 128" in refusal(running(), 129)


def test_rows_that_go_forward_keep_their_neighbours_together() -> None:
    job = graph(
        [vertex("source", 2, source=True), replace(vertex("sink", 2), keeps_parallelism=True)],
        [("source", "sink", Partitioner.FORWARD)],
    )
    cluster = running(job=job)
    bounds = {vertex_id("source"): ParallelismBounds(3, 4), vertex_id("sink"): ParallelismBounds(1, 2)}
    found = cluster.machine.refusal_of(e.RescaleRequested(JOB, bounds))
    assert "need the same parallelism" in found
    assert with_parallelism(job, {}) == job
