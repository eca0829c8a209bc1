"""``jobmanager.scheduler: adaptive`` and reactive mode: a job takes the slots that there are between its bounds."""

from __future__ import annotations

from collections.abc import Mapping

from tests.unit.jobmanager.machines.cluster_kit import CHECKPOINTED, JOB, Cluster, two_stage, until_triggered, vertex_id
from tests.unit.jobmanager.machines.job.test_rescaling import over, shape_of, wanted
from tidegate.jobmanager.machines import commands as c
from tidegate.jobmanager.machines import events as e
from tidegate.model.ids import TaskManagerId
from tidegate.model.states import ExecutionState as E
from tidegate.model.states import JobState as J

PREFIX = "jobmanager.adaptive-scheduler"
ADAPTIVE = {
    **CHECKPOINTED,
    "jobmanager.scheduler": "adaptive",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "10",
    "restart-strategy.fixed-delay.delay": "0 s",
}
REACTIVE = {**ADAPTIVE, "scheduler-mode": "reactive"}
PATIENT = {"heartbeat.timeout": "1 h"}
"""TaskManagers of these tests send no heartbeats."""


def cluster_of(*slots: int) -> Cluster:
    cluster = Cluster(PATIENT)
    for number, count in enumerate(slots):
        cluster.register(f"tm-{number}", count)
    return cluster


def submitted(*slots: int, settings: Mapping[str, str] = ADAPTIVE, parallelism: int = 4) -> Cluster:
    cluster = cluster_of(*slots)
    cluster.submit(two_stage(parallelism), settings)
    return cluster


def both(parallelism: int) -> dict[object, int]:
    return {vertex_id("source"): parallelism, vertex_id("sink"): parallelism}


def deployed(cluster: Cluster) -> int:
    return len(cluster.attempts(E.DEPLOYING)) + len(cluster.attempts(E.RUNNING))


def lose(cluster: Cluster, name: str) -> None:
    cluster.tell(e.TaskManagerConnectionLost(TaskManagerId(name), cluster.sessions[name], "reset", is_gone=True))
    cluster.settle()
    cluster.cancel_tasks()
    cluster.pass_time(0)


def checkpointed(cluster: Cluster) -> None:
    """The checkpoint that is under way, or comes next, is completed."""
    cluster.settle()
    done = {w.checkpoint_id for w in cluster.of(c.WriteManifest)}
    begun = [t.checkpoint_id for t in cluster.of(c.TriggerCheckpoint) if t.checkpoint_id not in done]
    number = begun[-1] if begun else max(done, default=0) + 1
    until_triggered(cluster, number)
    cluster.complete_checkpoint(number)


def test_with_all_slots_it_begins_at_once() -> None:
    cluster = submitted(4)
    assert (shape_of(cluster), deployed(cluster)) == (both(4), 8)
    assert cluster.of(c.WriteShape) == []


def test_with_fewer_it_begins_when_no_more_came_for_a_while() -> None:
    cluster = submitted(3)
    cluster.pass_time(9_999)
    assert deployed(cluster) == 0
    cluster.pass_time(1)
    assert (shape_of(cluster), deployed(cluster)) == (both(3), 6)


def test_slots_that_come_in_time_are_taken_at_once() -> None:
    cluster = submitted(3)
    cluster.pass_time(5_000)
    cluster.register("tm-late", 1)
    assert (shape_of(cluster), deployed(cluster)) == (both(4), 8)
    cluster.pass_time(60_000)
    assert cluster.of(c.WriteShape) == []


def test_below_its_lower_bounds_it_waits_until_the_time_is_up() -> None:
    cluster = submitted(settings={**ADAPTIVE, f"{PREFIX}.submission.resource-wait-timeout": "1 min"})
    cluster.pass_time(59_999)
    assert cluster.job_state() is J.RUNNING
    cluster.pass_time(1)
    assert cluster.job_state() is J.FAILED


def test_without_a_taskmanager_it_shrinks_and_grows_again_when_one_comes() -> None:
    cluster = submitted(2, 2)
    cluster.start_tasks()
    checkpointed(cluster)
    lose(cluster, "tm-1")
    assert deployed(cluster) == 0, "it hopes for slots at first"
    cluster.pass_time(10_000)
    assert (shape_of(cluster), deployed(cluster)) == (both(2), 4)
    assert {d.deployment.restore.checkpoint_id for d in cluster.of(c.SubmitTask)[-4:] if d.deployment.restore} == {1}
    cluster.start_tasks()
    cluster.register("tm-2", 2)
    cluster.pass_time(29_999)
    assert len(cluster.of(c.WriteShape)) == 1, "it keeps a new shape for a while"
    cluster.pass_time(1)
    checkpointed(cluster)
    assert shape_of(over(cluster)) == both(4)
    assert cluster.job().rescales == 2


def test_a_taskmanager_that_comes_back_in_time_changes_nothing() -> None:
    cluster = submitted(2, 2)
    cluster.start_tasks()
    lose(cluster, "tm-1")
    cluster.pass_time(5_000)
    cluster.register("tm-1", 2, session="s2")
    assert (shape_of(cluster), deployed(cluster)) == (both(4), 8)
    cluster.pass_time(3_000)
    assert cluster.of(c.WriteShape) == []


def test_some_new_slots_are_taken_when_no_more_came_for_longer() -> None:
    cluster = submitted(1, parallelism=4)
    cluster.pass_time(10_000)
    cluster.start_tasks()
    cluster.register("tm-1", 1)
    cluster.pass_time(59_999)
    assert len(cluster.of(c.WriteShape)) == 1
    cluster.pass_time(1)
    checkpointed(cluster)
    assert shape_of(over(cluster)) == both(2)


def test_bounds_that_a_user_lowers_are_taken_without_more_slots() -> None:
    cluster = submitted(4)
    cluster.start_tasks()
    cluster.tell(wanted(2))
    checkpointed(cluster)
    assert shape_of(over(cluster)) == both(2)


def test_upper_bounds_without_slots_are_no_mistake() -> None:
    cluster = submitted(4)
    cluster.start_tasks()
    assert cluster.machine.refusal_of(wanted(9)) == ""
    cluster.tell(wanted(9))
    cluster.pass_time(120_000)
    assert cluster.of(c.WriteShape) == []
    assert {both.upper for both in cluster.job().bounds.values()} == {9}


def test_the_next_jobmanager_knows_what_was_submitted_and_grows_back_to_it() -> None:
    cluster = submitted(2)
    cluster.pass_time(10_000)
    shape = cluster.of(c.WriteShape)[0].shape
    after = cluster_of(4)
    again = e.JobSubmitted(two_stage(4), {**ADAPTIVE, "tidegate.jobmanager.loss-grace": "0 s"})
    after.tell(e.JobRecovered(again, first_attempt=shape.first_attempt + 1, shape=shape))
    after.settle()
    after.start_tasks()
    assert shape_of(after) == both(2)
    checkpointed(after)
    assert shape_of(over(after)) == both(4), "slots for all of it are there"
    assert {w.shape.first_attempt for w in after.of(c.WriteShape)} == {shape.first_attempt + 2}


def test_a_reactive_job_takes_all_slots() -> None:
    cluster = submitted(3, settings=REACTIVE, parallelism=1)
    cluster.start_tasks()
    cluster.pass_time(60_000)
    checkpointed(cluster)
    assert shape_of(over(cluster)) == both(3)
    assert {both.upper for both in cluster.job().bounds.values()} == {128}


def test_a_reactive_job_without_enough_slots_begins_with_those_that_there_are() -> None:
    cluster = submitted(2, settings=REACTIVE, parallelism=4)
    cluster.pass_time(0)
    assert (shape_of(cluster), deployed(cluster)) == (both(2), 4)
    assert cluster.job().job_id == JOB
