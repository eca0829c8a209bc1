"""Jobs whose exchanges block: what is deployed when, in how few slots, and what a failure runs again."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.unit.jobmanager.machines.cluster_kit import FAULT, Cluster, graph, two_stage, vertex, vertex_id
from tidegate.jobmanager.machines import commands as c
from tidegate.jobmanager.machines import events as e
from tidegate.model.errors import ErrorInfo, OutputLost
from tidegate.model.graph import JobGraph, Partitioner
from tidegate.model.ids import AttemptId, JobId, TaskManagerId
from tidegate.model.states import ExecutionState, JobState

_E = ExecutionState
STAGED = {"execution.runtime-mode": "BATCH", "execution.batch-shuffle-mode": "ALL_EXCHANGES_BLOCKING"}
RESTARTING = {
    **STAGED,
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "1000",
    "restart-strategy.fixed-delay.delay": "10 ms",
}
LOST = ErrorInfo.of(OutputLost("what it read is gone"))


def staged(job: JobGraph) -> JobGraph:
    return replace(job, configuration=STAGED)


def three_stages(parallelism: int) -> JobGraph:
    return graph(
        [vertex("source", parallelism, source=True), vertex("middle", parallelism), vertex("sink", parallelism)],
        [("source", "middle", Partitioner.HASH), ("middle", "sink", Partitioner.FORWARD)],
    )


def submitted(job: JobGraph, slots: int, configuration: dict[str, str] | None = None) -> Cluster:
    cluster = Cluster()
    cluster.register("tm-1", slots)
    cluster.submit(staged(job), configuration or STAGED)
    return cluster


def deployed(cluster: Cluster) -> list[AttemptId]:
    return cluster.attempts(_E.DEPLOYING, _E.INITIALIZING, _E.RUNNING)


def finish(cluster: Cluster, attempt: AttemptId) -> None:
    for state in (_E.INITIALIZING, _E.RUNNING, _E.FINISHED):
        cluster.state(attempt, state)
    cluster.machine.check_invariants()


def finish_all(cluster: Cluster, of: str) -> None:
    for _ in range(len(cluster.attempts(of=of))):
        finish(cluster, next(a for a in deployed(cluster) if a.vertex_id == vertex_id(of)))


def test_nine_subtasks_of_each_stage_finish_on_three_slots() -> None:
    cluster = submitted(three_stages(9), slots=3)
    most = 0
    while cluster.job_state() is JobState.RUNNING:
        most = max(most, len(deployed(cluster)))
        finish(cluster, deployed(cluster)[0])
    assert cluster.job_state() is JobState.FINISHED
    assert most == 3
    assert len(cluster.of(c.SubmitTask)) == 27
    assert len(cluster.of(c.AllocateSlot)) == len(cluster.of(c.FreeSlot)) == 3, "the slots are kept until the end"


def test_a_consumer_begins_when_all_of_its_producers_have_finished() -> None:
    cluster = submitted(three_stages(3), slots=9)
    assert {a.vertex_id for a in deployed(cluster)} == {vertex_id("source")}
    assert {a.subtask for a in cluster.attempts(_E.CREATED, of="middle")} == {0, 1, 2}
    finish(cluster, cluster.attempt("source", 0))
    finish(cluster, cluster.attempt("source", 1))
    assert not [a for a in deployed(cluster) if a.vertex_id == vertex_id("middle")]
    finish(cluster, cluster.attempt("source", 2))
    assert len([a for a in deployed(cluster) if a.vertex_id == vertex_id("middle")]) == 3


def test_over_a_pointwise_edge_it_waits_for_its_own_producers_only() -> None:
    cluster = submitted(three_stages(2), slots=4)
    finish_all(cluster, "source")
    finish(cluster, cluster.attempt("middle", 1))
    assert [a.subtask for a in deployed(cluster) if a.vertex_id == vertex_id("sink")] == [1]


def test_a_failure_runs_that_subtask_alone_again() -> None:
    cluster = submitted(three_stages(2), slots=2, configuration=RESTARTING)
    finish_all(cluster, "source")
    finish(cluster, cluster.attempt("middle", 0))
    cluster.fail(cluster.attempt("middle", 1))
    cluster.pass_time(10)
    again = [a for a in cluster.attempts() if a.attempt > 0]
    assert [(a.vertex_id, a.subtask) for a in again] == [(vertex_id("middle"), 1)]
    assert cluster.job().restarts == 1
    while cluster.job_state() is JobState.RUNNING:
        finish(cluster, deployed(cluster)[0])
    assert cluster.job_state() is JobState.FINISHED


def test_without_a_restart_strategy_the_job_fails() -> None:
    cluster = submitted(two_stage(3), slots=2)
    cluster.fail(deployed(cluster)[0])
    cluster.cancel_tasks()
    assert cluster.job_state() is JobState.FAILED
    assert len(cluster.of(c.FreeSlot)) == 2
    cluster.machine.check_invariants()


@pytest.mark.parametrize("finished", [0, 1])
def test_when_stored_output_is_gone_everything_runs_again(finished: int) -> None:
    cluster = submitted(two_stage(2), slots=2, configuration=RESTARTING)
    finish_all(cluster, "source")
    for _ in range(finished):
        finish(cluster, cluster.attempts(_E.DEPLOYING, of="sink")[0])
    cluster.fail(cluster.attempts(_E.DEPLOYING, of="sink")[0], LOST)
    cluster.cancel_tasks()
    cluster.pass_time(10)
    assert {a.attempt for a in cluster.attempts()} == {1}
    assert {a.vertex_id for a in deployed(cluster)} == {vertex_id("source")}


def test_the_slots_are_of_one_taskmanager_and_when_it_is_lost_another_one_runs_everything() -> None:
    cluster = Cluster()
    cluster.register("tm-1", 2)
    cluster.register("tm-2", 3)
    cluster.submit(staged(two_stage(9)), RESTARTING)
    assert {call.task_manager_id for call in cluster.of(c.SubmitTask)} == {"tm-2"}
    finish(cluster, deployed(cluster)[0])
    cluster.tell(e.TaskManagerConnectionLost(TaskManagerId("tm-2"), "s1", "it is gone", is_gone=True))
    cluster.settle()
    cluster.pass_time(10)
    assert {a.attempt for a in cluster.attempts()} == {1}
    assert len(deployed(cluster)) == 2
    assert cluster.of(c.SubmitTask)[-1].task_manager_id == "tm-1"
    cluster.machine.check_invariants()


def test_a_slot_that_becomes_free_is_taken_while_others_work() -> None:
    cluster = submitted(two_stage(1), slots=2)
    other = staged(replace(two_stage(3), job_id=JobId("b" * 32)))
    cluster.submit(other, STAGED)
    mine = [call for call in cluster.of(c.SubmitTask) if call.deployment.attempt.job_id == other.job_id]
    assert len(mine) == 1
    finish_all(cluster, "source")
    finish_all(cluster, "sink")
    freed = cluster.of(c.FreeSlot)[-1]
    cluster.tell(e.SlotFreed(freed.task_manager_id, freed.allocation_id))
    cluster.settle()
    mine = [call for call in cluster.of(c.SubmitTask) if call.deployment.attempt.job_id == other.job_id]
    assert len(mine) == 2
    cluster.machine.check_invariants()


def test_a_job_that_gets_no_slot_says_so_in_time() -> None:
    cluster = Cluster()
    cluster.submit(staged(two_stage(9)), STAGED)
    assert cluster.job().waiting_for == "1 of 1 slots"
    cluster.pass_time(300_000)
    cluster.cancel_tasks()
    assert cluster.job_state() is JobState.FAILED
    failure = cluster.job().failure
    assert failure is not None
    assert "none is free on the 0 registered TaskManagers" in failure.message


def test_with_one_slot_it_waits_for_no_other() -> None:
    cluster = submitted(two_stage(9), slots=1, configuration={**STAGED, "slot.request.timeout": "1 s"})
    assert cluster.job().waiting_for == ""
    cluster.pass_time(10_000)
    assert cluster.job_state() is JobState.RUNNING


def test_a_slot_without_work_goes_back_but_the_last_one_stays() -> None:
    narrowing = graph([vertex("source", 3, source=True), vertex("sink", 1)], [("source", "sink", Partitioner.HASH)])
    cluster = submitted(narrowing, slots=3, configuration={**STAGED, "slot.idle.timeout": "1 s"})
    finish_all(cluster, "source")
    cluster.state(cluster.attempt("sink"), _E.RUNNING)
    cluster.pass_time(10_000)
    assert len(cluster.of(c.FreeSlot)) == 2
    assert len(deployed(cluster)) == 1
    cluster.machine.check_invariants()


def test_it_is_cancelled_in_the_middle() -> None:
    cluster = submitted(three_stages(4), slots=3)
    cluster.tell(e.JobCancelRequested(cluster.job().job_id))
    cluster.settle()
    cluster.cancel_tasks()
    assert cluster.job_state() is JobState.CANCELED
    assert len(cluster.of(c.FreeSlot)) == 3
    cluster.machine.check_invariants()


@pytest.mark.parametrize("seed", range(60))
def test_whatever_fails_each_subtask_finishes_behind_its_producers(seed: int) -> None:
    """Failures, losses of a TaskManager and of stored output at random; then everything goes well."""
    draw = random.Random(seed)
    cluster = submitted(three_stages(draw.randint(1, 5)), slots=draw.randint(1, 4), configuration=RESTARTING)
    managers, finished_at = 1, dict[AttemptId, int]()
    began_at: dict[AttemptId, int] = {}
    for step in range(4_000):
        cluster.cancel_tasks()
        cluster.pass_time(20)
        cluster.machine.check_invariants()
        if cluster.job_state() is not JobState.RUNNING:
            break
        live = deployed(cluster)
        for attempt in live:
            began_at.setdefault(attempt, step)
        kind = draw.random() if step < 60 else 1.0
        if kind < 0.05:
            cluster.tell(e.TaskManagerConnectionLost(TaskManagerId(f"tm-{managers}"), "s1", "it is gone", is_gone=True))
            managers += 1
            cluster.register(f"tm-{managers}", draw.randint(1, 4))
        elif kind < 0.3 and live:
            cluster.fail(draw.choice(live), LOST if kind < 0.1 else FAULT)
        elif live:
            attempt = draw.choice(live)
            finish(cluster, attempt)
            finished_at[attempt] = step
    assert cluster.job_state() is JobState.FINISHED
    for upper, lower in (("source", "middle"), ("middle", "sink")):
        for consumer in cluster.attempts(of=lower):
            producers = cluster.attempts(of=upper)
            mine = producers if upper == "source" else [producers[consumer.subtask]]
            assert all(finished_at[producer] < began_at[consumer] for producer in mine), consumer
