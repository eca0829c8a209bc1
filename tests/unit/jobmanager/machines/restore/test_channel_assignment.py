"""In-flight data of unaligned checkpoints: into the manifest, and to the consumers of the job that restores it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.jobmanager.machines.cluster_kit import (
    CHECKPOINTED,
    JOB,
    Cluster,
    checkpointed,
    graph,
    operator_id,
    running_job,
    subtask,
    until_triggered,
    vertex,
)
from tidegate.jobmanager.machines import commands as c
from tidegate.jobmanager.machines import events as e
from tidegate.jobmanager.machines.restore.state_assignment import StateAssignment
from tidegate.model.checkpoint import (
    ChannelStateHandle,
    CheckpointManifest,
    InFlightEdge,
    OperatorSnapshot,
    OperatorState,
    SnapshotType,
    StateHandle,
    SubtaskSnapshot,
)
from tidegate.model.errors import InvalidJob
from tidegate.model.graph import JobGraph, Partitioner
from tidegate.model.ids import CheckpointId
from tidegate.model.keygroups import range_of
from tidegate.model.restore_check import RestoreOutcome, check_restore, examine_restore

HASH, REBALANCE, GLOBAL, BROADCAST = (
    Partitioner.HASH,
    Partitioner.REBALANCE,
    Partitioner.GLOBAL,
    Partitioner.BROADCAST,
)
OLD_EDGE = 3


def channel(producer: int, consumer: int, side: str) -> ChannelStateHandle:
    handle = StateHandle(8, "0" * 16, f"{side}-{producer}-{consumer}")
    return ChannelStateHandle(OLD_EDGE, producer, consumer, 1, handle)


def manifest(
    producers: int, consumers: int, partitioner: Partitioner, max_parallelism: int = 128
) -> CheckpointManifest:
    """Every channel holds data on both sides."""
    edge = InFlightEdge(
        OLD_EDGE, operator_id("source"), operator_id("sink"), 0, partitioner, producers, consumers, max_parallelism
    )
    outputs = {
        p: OperatorSnapshot(output_channels=tuple(channel(p, q, "out") for q in range(consumers)))
        for p in range(producers)
    }
    inputs = {
        q: OperatorSnapshot(input_channels=tuple(channel(p, q, "in") for p in range(producers)))
        for q in range(consumers)
    }
    states = (
        OperatorState(operator_id("source"), "source", "source", producers, 128, outputs),
        OperatorState(operator_id("sink"), "sink", "sink", consumers, max_parallelism, inputs),
    )
    return CheckpointManifest(JOB, "job", CheckpointId(5), 1, SnapshotType.CHECKPOINT, states, edges=(edge,))


def job(parallelism: int, partitioner: Partitioner = HASH) -> JobGraph:
    return graph([vertex("source", 1, source=True), vertex("sink", parallelism)], [("source", "sink", partitioner)])


def replayed(old: CheckpointManifest, new: JobGraph) -> list[list[str]]:
    """By new consumer, the files in the order of replay."""
    assignment = StateAssignment(new, old, "/cp/chk-5")
    found = []
    for index in range(new.vertices[-1].parallelism):
        operators = assignment.restore_of(subtask("sink", index)).task.operators
        restored = operators.get(operator_id("sink"))
        found.append([c.handle.path for c in restored.channels] if restored else [])
    return found


@pytest.mark.parametrize("partitioner", [HASH, REBALANCE])
def test_at_the_same_parallelism_each_replays_its_own_channels_input_before_output(partitioner: Partitioner) -> None:
    assert replayed(manifest(2, 2, partitioner), job(2, partitioner)) == [
        ["in-0-0", "out-0-0", "in-1-0", "out-1-0"],
        ["in-0-1", "out-0-1", "in-1-1", "out-1-1"],
    ]


@given(old=st.integers(1, 9), new=st.integers(1, 9), max_parallelism=st.integers(9, 64))
def test_rescaled_keyed_channels_go_where_any_of_their_key_groups_lives(
    old: int, new: int, max_parallelism: int
) -> None:
    sink = replace(vertex("sink", new), max_parallelism=max_parallelism)
    graph_ = replace(job(new), vertices=(vertex("source", 1, source=True), sink))
    for index, files in enumerate(replayed(manifest(2, old, HASH, max_parallelism), graph_)):
        mine = range_of(index, max_parallelism, new)
        touching = [q for q in range(old) if range_of(q, max_parallelism, old).intersect(mine).size]
        assert files == [f"{side}-{p}-{q}" for q in touching for p in range(2) for side in ("in", "out")]


@given(old=st.integers(1, 9), new=st.integers(1, 9), partitioner=st.sampled_from([REBALANCE, GLOBAL]))
def test_other_channels_go_to_exactly_one(old: int, new: int, partitioner: Partitioner) -> None:
    files = Counter(f for files in replayed(manifest(2, old, partitioner), job(new, partitioner)) for f in files)
    assert files == Counter(f"{side}-{p}-{q}" for side in ("in", "out") for p in range(2) for q in range(old))


def test_a_broadcast_is_replayed_once_by_everybody() -> None:
    assert replayed(manifest(1, 2, BROADCAST), job(3, BROADCAST)) == [
        ["in-0-0", "out-0-0"],
        ["in-0-1", "out-0-1"],
        ["in-0-0", "out-0-0"],
    ]


def test_when_the_key_groups_changed_everybody_looks_for_its_rows_everywhere() -> None:
    for old in (manifest(1, 2, HASH, 64), manifest(1, 2, REBALANCE)):
        everything = ["in-0-0", "out-0-0", "in-0-1", "out-0-1"]
        assert replayed(old, job(2)) == [everything, everything]


def test_data_in_flight_without_a_place_is_refused_unless_it_may_be_dropped() -> None:
    old = manifest(1, 2, HASH)
    apart = graph(
        [vertex("source", 1, source=True), vertex("new", 1), vertex("sink", 2)],
        [("source", "new", HASH), ("new", "sink", HASH)],
    )
    with pytest.raises(InvalidJob, match="data in flight from operator 'source' to operator 'sink'"):
        check_restore(apart, old, allow_non_restored=False)
    check_restore(apart, old, allow_non_restored=True)
    assert replayed(old, apart) == [[], []]
    assert [v.outcome for v in examine_restore(apart, old) if "in flight" in v.name] == [RestoreOutcome.DROPPED]
    check_restore(apart, old.without_channels(), allow_non_restored=False)
    assert all(v.outcome is not RestoreOutcome.DROPPED for v in examine_restore(job(4), old))


def test_edges_get_their_numbers_of_the_new_job_and_twins_keep_their_order() -> None:
    def twins(first: Partitioner, second: Partitioner) -> JobGraph:
        ends = ("source", "sink")
        return graph([vertex("source", 1, source=True), vertex("sink", 1)], [(*ends, first), (*ends, second)])

    old = manifest(1, 1, HASH)
    twin = replace(old.edges[0], edge_id=OLD_EDGE + 1, partitioner=REBALANCE)
    of_twin = OperatorSnapshot(input_channels=(replace(channel(0, 0, "twin"), edge_id=twin.edge_id),))
    more = OperatorState(operator_id("sink"), "sink", "sink", 1, 128, {0: of_twin})
    both = replace(old, operators=(old.operators[0], more), edges=(old.edges[0], twin))
    restored = StateAssignment(twins(HASH, REBALANCE), both, "/cp").restore_of(subtask("sink", 0)).task
    found = [(c.edge_id, c.handle.path) for c in restored.operators[operator_id("sink")].channels]
    assert found == [(0, "out-0-0"), (1, "twin-0-0")]


def test_acknowledged_channels_stand_in_the_manifest_with_their_edge() -> None:
    cluster = checkpointed(**{"unaligned.enabled": "true"})
    for name, snapshot in (
        ("source", OperatorSnapshot(output_channels=(replace(channel(0, 1, "out"), edge_id=0),))),
        ("sink", OperatorSnapshot()),
    ):
        for attempt in cluster.attempts(of=name):
            cluster.acknowledge(attempt, 1, SubtaskSnapshot({operator_id(name): snapshot}))
    (written,) = cluster.of(c.WriteManifest)
    assert written.manifest.edges == (InFlightEdge(0, operator_id("source"), operator_id("sink"), 0, HASH, 2, 2, 128),)
    cluster.fail(cluster.attempt("sink", 1))
    cluster.cancel_tasks()
    cluster.pass_time(5_000)
    deployed = cluster.of(c.SubmitTask)[-1].deployment.restore
    assert deployed is not None
    assert [x.handle.path for x in deployed.operators[operator_id("sink")].channels] == ["out-0-1"] * 2


def test_data_in_flight_of_one_checkpoint_can_be_left_out() -> None:
    def started(checkpoint_id: int) -> Cluster:
        cluster = Cluster()
        cluster.register("tm-1", 2)
        options = {**CHECKPOINTED, "execution.state-recovery.without-channel-state.checkpoint-id": str(checkpoint_id)}
        cluster.submit(job(2), options, e.RestoreFrom("/cp/chk-5", manifest(1, 2, HASH)))
        return cluster

    def channels(cluster: Cluster) -> list[int]:
        restores = [s.deployment.restore for s in cluster.of(c.SubmitTask)]
        return [sum(len(o.channels) for o in r.operators.values()) for r in restores if r is not None]

    assert channels(started(5)) == [0, 0, 0]
    assert channels(started(4)) == [0, 2, 2]


def test_without_data_in_flight_the_manifest_names_no_edge() -> None:
    cluster = running_job(configuration=CHECKPOINTED)
    until_triggered(cluster, 1)
    cluster.complete_checkpoint(1)
    assert cluster.of(c.WriteManifest)[0].manifest.edges == ()
