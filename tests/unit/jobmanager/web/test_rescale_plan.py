"""What a rescale would change, before anything is asked for."""

from __future__ import annotations

from tests.unit.jobmanager.machines.cluster_kit import (
    CHECKPOINTED,
    Cluster,
    graph,
    operator_id,
    running_job,
    until_triggered,
    vertex,
)
from tidegate.jobmanager.web.rescale_plan import moved_key_groups, rescale_plan
from tidegate.model.checkpoint import (
    OperatorSnapshot,
    OperatorStateHandle,
    StateHandle,
    StateRedistribution,
    SubtaskSnapshot,
)
from tidegate.model.graph import Partitioner
from tidegate.model.values import JsonObject

PIPELINE = graph(
    [vertex("source", 2, source=True), vertex("totals", 2), vertex("sink", 2)],
    [("source", "totals", Partitioner.HASH), ("totals", "sink", Partitioner.FORWARD)],
)


def plan_of(cluster: Cluster, parallelism: int, name: str = "") -> JsonObject:
    job = cluster.job()
    ids = {view.name: view.vertex_id for view in job.vertices}
    return rescale_plan(job, parallelism, ids[name] if name else "", cluster.machine.refusal_of)


def with_state(cluster: Cluster, size_bytes: int) -> None:
    handle = OperatorStateHandle("sums", StateRedistribution.SPLIT, 1, StateHandle(size_bytes, "0" * 16, "sums"))
    held = SubtaskSnapshot({operator_id("totals"): OperatorSnapshot(operator=(handle,))})
    until_triggered(cluster, 1)
    for name in ("source", "totals", "sink"):
        for index in (0, 1):
            cluster.acknowledge(cluster.attempt(name, index), 1, held if name == "totals" else None)


def test_all_vertices_change_and_the_state_of_each_is_told() -> None:
    cluster = running_job(PIPELINE, CHECKPOINTED, slots=4)
    with_state(cluster, 500)
    found = plan_of(cluster, 4)
    assert found["refusal"] == ""
    assert [(each["name"], each["before"], each["after"]) for each in found["changes"]] == [
        ("source", 2, 4),
        ("totals", 2, 4),
        ("sink", 2, 4),
    ]
    source, totals, sink = found["changes"]
    assert (source["state_bytes"], source["key_groups"], source["moved"]) == (0, None, None)
    most = totals["key_groups"]
    assert (totals["state_bytes"], totals["moved"]) == (1000, moved_key_groups(most, 2, 4))
    assert sink["key_groups"] is None
    bounds = found["requirements"][totals["vertex"]]["parallelism"]
    assert bounds == {"lowerBound": 1, "upperBound": 4}


def test_a_vertex_changes_with_those_that_it_feeds_forward() -> None:
    found = plan_of(running_job(PIPELINE, CHECKPOINTED, slots=4), 3, "totals")
    assert [(each["name"], each["after"]) for each in found["changes"]] == [("totals", 3), ("sink", 3)]
    assert [each["state_bytes"] for each in found["changes"]] == [None, None]


def test_the_parallelism_that_there_is_changes_nothing() -> None:
    assert plan_of(running_job(PIPELINE, CHECKPOINTED, slots=4), 2)["changes"] == []


def test_a_refusal_says_why() -> None:
    assert "slots" in plan_of(running_job(PIPELINE, CHECKPOINTED, slots=4), 64)["refusal"]
    assert "execution.checkpointing.interval" in plan_of(running_job(PIPELINE, {}, slots=4), 4)["refusal"]
    found = plan_of(running_job(PIPELINE, CHECKPOINTED, slots=4), 100_000)
    assert found["refusal"]


def test_an_unknown_vertex_is_refused() -> None:
    job = running_job(PIPELINE, CHECKPOINTED, slots=4)
    found = rescale_plan(job.job(), 4, "nothing", job.machine.refusal_of)
    assert "no vertex 'nothing'" in found["refusal"]
    assert found["changes"] == []


def test_key_groups_that_another_subtask_owns_are_counted() -> None:
    assert moved_key_groups(128, 2, 2) == 0
    assert moved_key_groups(4, 1, 2) == 2
    assert moved_key_groups(128, 2, 4) == 96
    assert moved_key_groups(128, 4, 2) == 96
