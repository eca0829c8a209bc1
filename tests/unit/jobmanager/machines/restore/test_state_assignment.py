"""State assignment at the same and at another parallelism, and what makes a restore impossible."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.jobmanager.machines.cluster_kit import (
    CHECKPOINTED,
    GENERATION,
    JOB,
    Cluster,
    graph,
    operator_id,
    subtask,
    two_stage,
    until_triggered,
    vertex,
)
from tidegate.jobmanager.machines import commands as c
from tidegate.jobmanager.machines import events as e
from tidegate.jobmanager.machines.restore.state_assignment import StateAssignment, concerns, deal_elements
from tidegate.model.checkpoint import (
    CheckpointManifest,
    OperatorSnapshot,
    OperatorState,
    OperatorStateHandle,
    RestoredOperator,
    SegmentHandle,
    SnapshotType,
    StateHandle,
    StateRedistribution,
)
from tidegate.model.errors import InvalidJob
from tidegate.model.ids import CheckpointId
from tidegate.model.keygroups import KeyGroupRange, range_of
from tidegate.model.options import ClaimMode
from tidegate.model.restore_check import check_restore
from tidegate.model.states import JobState as J

SPLIT, UNION, BROADCAST = StateRedistribution.SPLIT, StateRedistribution.UNION, StateRedistribution.BROADCAST


def handle(name: str) -> StateHandle:
    return StateHandle(1, "", path=name)


def segment(owner: int, parallelism: int, max_parallelism: int) -> SegmentHandle:
    """One row in every key group."""
    groups = range_of(owner, max_parallelism, parallelism)
    return SegmentHandle("s", groups, tuple(range(groups.size + 1)), handle(f"keyed-{owner}"))


def elements(owner: int, count: int, mode: StateRedistribution, name: str = "l") -> OperatorStateHandle:
    return OperatorStateHandle(name, mode, count, handle(f"{name}-{owner}"))


def manifest(*states: OperatorState) -> CheckpointManifest:
    return CheckpointManifest(JOB, "job", CheckpointId(5), 1, SnapshotType.CHECKPOINT, states, generation=GENERATION)


def state(
    snapshots: dict[int, OperatorSnapshot],
    parallelism: int,
    *,
    max_parallelism: int = 128,
    finished: frozenset[int] = frozenset(),
) -> OperatorState:
    return OperatorState(operator_id("op"), "op", "op", parallelism, max_parallelism, snapshots, finished)


def restored(old: OperatorState, parallelism: int) -> list[RestoredOperator]:
    job = graph([replace(vertex("op", parallelism), max_parallelism=old.max_parallelism)])
    assignment = StateAssignment(job, manifest(old), "/cp/chk-5")
    return [assignment.restore_of(subtask("op", i)).task.operators[operator_id("op")] for i in range(parallelism)]


# ---- keyed -------------------------------------------------------------------------------------------------------------------------


@given(old=st.integers(1, 12), new=st.integers(1, 12), max_parallelism=st.integers(12, 128))
def test_every_key_group_arrives_where_it_belongs_exactly_once(old: int, new: int, max_parallelism: int) -> None:
    snapshots = {i: OperatorSnapshot(keyed=(segment(i, old, max_parallelism),)) for i in range(old)}
    for index, part in enumerate(restored(state(snapshots, old, max_parallelism=max_parallelism), new)):
        wanted = range_of(index, max_parallelism, new)
        got = Counter(
            group
            for s in part.keyed
            for group in range(max(s.key_groups.start, wanted.start), min(s.key_groups.end, wanted.end) + 1)
        )
        assert got == Counter(range(wanted.start, wanted.end + 1))


def test_segments_without_a_row_in_the_range_are_left_out() -> None:
    s = SegmentHandle("s", KeyGroupRange(10, 13), (0, 0, 5, 5, 7), handle("x"))
    wanted = {(10, 10): False, (11, 11): True, (12, 12): False, (13, 20): True, (0, 9): False, (12, 13): True}
    assert {key: concerns(s, KeyGroupRange(*key)) for key in wanted} == wanted
    delta = replace(s, level=1)
    everywhere = {**dict.fromkeys(wanted, True), (0, 9): False}
    assert {key: concerns(delta, KeyGroupRange(*key)) for key in wanted} == everywhere, "it may say what is gone"


# ---- operator state ----------------------------------------------------------------------------------------------------------------


@given(counts=st.lists(st.integers(0, 9), min_size=1, max_size=8), new=st.integers(1, 8))
def test_list_state_is_cut_into_even_runs_in_order(counts: list[int], new: int) -> None:
    handles = [elements(i, n, SPLIT) for i, n in enumerate(counts)]
    dealt = deal_elements(handles, new)
    taken = [(h.handle.path, k) for part in dealt for h, first, end in part for k in range(first, end)]
    assert taken == [(h.handle.path, k) for h in handles for k in range(h.elements)]
    sizes = [sum(end - first for _, first, end in part) for part in dealt]
    assert max(sizes) - min(sizes) <= 1


def test_the_longer_runs_move_on_from_name_to_name() -> None:
    dealt = deal_elements([elements(0, 4, SPLIT, "a"), elements(0, 4, SPLIT, "b")], 3)
    sizes = [Counter({h.state_name: end - first for h, first, end in part}) for part in dealt]
    assert [s["a"] for s in sizes] == [2, 1, 1]
    assert [s["b"] for s in sizes] == [1, 2, 1]


def test_list_state_stays_where_it_was_at_the_same_parallelism() -> None:
    snapshots = {i: OperatorSnapshot(operator=(elements(i, 3 - i, SPLIT),)) for i in range(2)}
    parts = restored(state(snapshots, 2), 2)
    assert [[h.handle.path for h in p.operator] for p in parts] == [["l-0"], ["l-1"]]
    assert [p.slices for p in parts] == [((0, 3),), ((0, 2),)]


def test_union_state_goes_to_everybody_and_broadcast_state_round_robin() -> None:
    snapshots = {
        i: OperatorSnapshot(operator=(elements(i, 1, UNION, "u"), elements(i, 2, BROADCAST, "b"))) for i in range(2)
    }
    parts = restored(state(snapshots, 2), 3)
    assert [[h.handle.path for h in p.operator] for p in parts] == [
        ["u-0", "u-1", "b-0"],
        ["u-0", "u-1", "b-1"],
        ["u-0", "u-1", "b-0"],
    ]


def test_a_subtask_without_its_own_broadcast_copy_takes_anothers() -> None:
    parts = restored(state({0: OperatorSnapshot(operator=(elements(0, 2, BROADCAST),))}, 2), 2)
    assert [[h.handle.path for h in p.operator] for p in parts] == [["l-0"], ["l-0"]]


@pytest.mark.parametrize("parallelism", [2, 3])
def test_a_subtask_that_has_other_state_but_no_broadcast_copy_takes_anothers(parallelism: int) -> None:
    both = (elements(1, 1, SPLIT, "s"), elements(1, 2, BROADCAST, "b"))
    snapshots = {0: OperatorSnapshot(operator=(elements(0, 1, SPLIT, "s"),)), 1: OperatorSnapshot(operator=both)}
    parts = restored(state(snapshots, 2), parallelism)
    copies = [[h.handle.path for h in p.operator if h.redistribution is BROADCAST] for p in parts]
    assert copies == [["b-1"]] * parallelism


@pytest.mark.parametrize(("finished", "expected"), [({0, 1}, True), ({0}, False), (set(), False)])
def test_a_vertex_is_finished_when_all_its_subtasks_were(finished: set[int], expected: bool) -> None:
    job = graph([vertex("op", 2)])
    assignment = StateAssignment(job, manifest(state({}, 2, finished=frozenset(finished))), "/cp")
    assert assignment.restore_of(subtask("op", 0)).finished is expected


# ---- what cannot be -------------------------------------------------------------------------------------------------------------------


KEYED = {0: OperatorSnapshot(keyed=(segment(0, 1, 64),))}


def test_state_without_an_operator_is_refused_unless_allowed() -> None:
    job, old = graph([vertex("other", 1)]), manifest(state(KEYED, 1, max_parallelism=64))
    with pytest.raises(InvalidJob, match=r"holds state of operator 'op' .*uid op.*--allow-non-restored-state"):
        check_restore(job, old, allow_non_restored=False)
    assert check_restore(job, old, allow_non_restored=True) == job


def test_a_derived_max_parallelism_gives_way_and_an_explicit_one_is_refused() -> None:
    old = manifest(state(KEYED, 1, max_parallelism=64))
    job = graph([vertex("op", 2)])
    assert check_restore(job, old, allow_non_restored=False).vertices[0].max_parallelism == 64
    explicit = graph([replace(vertex("op", 2), max_parallelism_is_explicit=True)])
    with pytest.raises(InvalidJob, match="is set to 128, but its state was written with 64"):
        check_restore(explicit, old, allow_non_restored=False)


def test_more_parallelism_than_key_groups_is_refused() -> None:
    with pytest.raises(InvalidJob, match="parallelism 65 of 'op' is above the max parallelism 64"):
        check_restore(
            graph([vertex("op", 65)]), manifest(state(KEYED, 1, max_parallelism=64)), allow_non_restored=False
        )


# ---- through the machine -----------------------------------------------------------------------------------------------------------------


def test_a_job_starts_from_a_checkpoint_counts_on_and_never_deletes_it() -> None:
    old = OperatorState(
        operator_id("sink"), "sink", "sink", 3, 64, {i: OperatorSnapshot(keyed=(segment(i, 3, 64),)) for i in range(3)}
    )
    cluster = Cluster()
    cluster.register("tm-1", 2)
    cluster.submit(two_stage(2), CHECKPOINTED, e.RestoreFrom("/old/chk-5", manifest(old)))
    deployments = [s.deployment for s in cluster.of(c.SubmitTask)]
    assert {d.restore.location for d in deployments if d.restore} == {"/old/chk-5"}
    assert [d.max_parallelism for d in deployments] == [128, 128, 64, 64]
    sink = deployments[3].restore
    assert sink is not None
    assert [s.handle.path for s in sink.operators[operator_id("sink")].keyed] == ["keyed-1", "keyed-2"]
    cluster.start_tasks()
    cluster.pass_time(1_000)
    cluster.complete_checkpoint(6)
    assert cluster.checkpoints().latest_completed_id == 6
    assert not cluster.of(c.DiscardCheckpoint)


def test_a_job_that_cannot_be_restored_fails_before_it_asks_for_slots() -> None:
    cluster = Cluster()
    cluster.register("tm-1", 2)
    restore = e.RestoreFrom("/old/chk-5", manifest(state(KEYED, 1, max_parallelism=64)))
    cluster.submit(two_stage(2), {}, restore)
    assert cluster.job_state() is J.FAILED
    assert "holds state of operator 'op'" in str(cluster.job().failure)
    assert not cluster.of(c.AllocateSlot)
    assert cluster.of(c.JobTerminated)


@pytest.mark.parametrize(
    ("mode", "is_full", "is_deleted"),
    [(ClaimMode.CLAIM, False, True), (ClaimMode.NO_CLAIM, True, False), (ClaimMode.LEGACY, False, False)],
)
def test_who_owns_the_savepoint_that_a_job_starts_from(mode: ClaimMode, is_full: bool, is_deleted: bool) -> None:
    cluster = Cluster()
    cluster.register("tm-1", 2)
    tolerant = {**CHECKPOINTED, "execution.checkpointing.tolerable-failed-checkpoints": "9"}
    cluster.submit(two_stage(2), tolerant, e.RestoreFrom("/old/sp", manifest(), claim_mode=mode))
    cluster.start_tasks()
    until_triggered(cluster, 6)
    cluster.decline(cluster.attempt("sink"), 6)
    until_triggered(cluster, 7)
    cluster.complete_checkpoint(7)
    until_triggered(cluster, 8)
    cluster.complete_checkpoint(8)
    full = {trigger.checkpoint_id: trigger.options.is_full for trigger in cluster.of(c.TriggerCheckpoint)}
    assert full == {6: is_full, 7: is_full, 8: False}, "until one is complete"
    assert [d.location for d in cluster.of(c.DiscardCheckpoint) if d.location == "/old/sp"] == ["/old/sp"] * is_deleted
