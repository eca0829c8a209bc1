"""Why a subtask has not acknowledged a checkpoint, in words."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.unit.jobmanager.machines.cluster_kit import (
    CHECKPOINTED,
    Cluster,
    graph,
    running_job,
    until_triggered,
    vertex,
)
from tidegate.jobmanager.web.checkpoint_causes import CheckpointCauses
from tidegate.model.graph import Partitioner
from tidegate.model.ids import AttemptId, TaskManagerId
from tidegate.pb.common_pb2 import TaskMetrics
from tidegate.wire.task_metrics import INPUT, ReadingSpan

PIPELINE = graph(
    [vertex("source", 2, source=True), vertex("map", 2), vertex("sink", 1)],
    [("source", "map", Partitioner.HASH), ("map", "sink", Partitioner.GLOBAL)],
)


class Told:
    """Shares of time by vertex, and buffers in the inputs of all."""

    def __init__(self, cluster: Cluster) -> None:
        self._names = {view.vertex_id: view.name for view in cluster.job().vertices}
        self.busy: dict[str, float] = {}
        self.backpressured: dict[str, float] = {}
        self.waiting = 0.0

    def metrics_of(self, attempt: AttemptId) -> TaskMetrics | None:
        return TaskMetrics(
            figures={f"{INPUT}.Buffers.inputQueueLength": self.waiting, f"{INPUT}.Buffers.inPoolUsage": 1.0}
        )

    def span_of(self, attempt: AttemptId) -> ReadingSpan | None:
        name = self._names[attempt.vertex_id]
        later = TaskMetrics(
            busy_ms=round(1000 * self.busy.get(name, 0.0)),
            backpressured_ms=round(1000 * self.backpressured.get(name, 0.0)),
        )
        return ReadingSpan(TaskMetrics(), later, 1000, 1000)

    def process_metrics_of(self, task_manager_id: TaskManagerId) -> Mapping[str, float]:
        return {}


@pytest.fixture
def cluster() -> Cluster:
    cluster = running_job(PIPELINE, CHECKPOINTED)
    until_triggered(cluster, 1)
    return cluster


def causes(cluster: Cluster, told: Told, kept: CheckpointCauses | None = None) -> dict[str, str]:
    job = cluster.job()
    names: dict[str, str] = {view.vertex_id: view.name for view in job.vertices}
    found = (kept or CheckpointCauses(told)).of(job, job.checkpoints.history[0])
    return {f"{names[vertex_id]} {index}": cause for (vertex_id, index), cause in found.items()}


def test_a_source_whose_output_is_full_names_who_holds_it_up(cluster: Cluster) -> None:
    told = Told(cluster)
    told.backpressured = {"source": 0.9, "map": 0.8}
    told.busy = {"sink": 0.97}
    found = causes(cluster, told)
    assert found["source 0"] == (
        "the trigger waits in it: its output is full, backpressured by sink, which is busy 97% of the time"
    )
    assert found["map 0"] == "no barrier has come from source (1), source (2)"
    assert found["sink 0"] == "no barrier has come from map (1), map (2)"


def test_who_has_acknowledged_is_not_missing_and_who_follows_has_the_barrier(cluster: Cluster) -> None:
    told = Told(cluster)
    told.busy, told.waiting = {"map": 0.75}, 12
    for index in (0, 1):
        cluster.acknowledge(cluster.attempt("source", index), 1)
    found = causes(cluster, told)
    assert sorted(found) == ["map 0", "map 1", "sink 0"]
    assert found["map 1"] == (
        "the barrier waits behind 12 buffers: its input is full, and its functions are busy 75% of the time"
    )
    cluster.acknowledge(cluster.attempt("map", 0), 1)
    assert causes(cluster, told)["sink 0"] == "no barrier has come from map (2)"


def test_causes_of_a_checkpoint_that_was_given_up_are_those_of_the_last_look(cluster: Cluster) -> None:
    told = Told(cluster)
    told.busy = {"source": 1.0}
    kept = CheckpointCauses(told)
    kept.note(cluster.job())
    cluster.decline(cluster.attempt("source"), 1)
    told.busy = {}
    assert cluster.job().checkpoints.history[0].status == "FAILED"
    words = "the trigger has reached it, and its functions are busy 100% of the time"
    assert causes(cluster, told, kept)["source 0"] == words
    kept.keep([])
    assert causes(cluster, told, kept) == {}
