"""Executions, regions, slot sharing: transitions by the table, counts that are always right."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.jobmanager.machines.cluster_kit import JOB, graph, subtask, two_stage, vertex, vertex_id
from tidegate.jobmanager.machines.scheduling.execution import Execution
from tidegate.jobmanager.machines.scheduling.execution_graph import ExecutionGraph
from tidegate.jobmanager.machines.scheduling.regions import Regions
from tidegate.jobmanager.machines.scheduling.slot_sharing import SlotSharing
from tidegate.model.errors import IllegalTransition
from tidegate.model.graph import JobGraph, Partitioner
from tidegate.model.ids import AttemptId
from tidegate.model.states import EXECUTION_TRANSITIONS, ExecutionState


def execution_in(state: ExecutionState) -> Execution:
    it = Execution(AttemptId(JOB, vertex_id("v"), 0, 0), 0)
    it.state = state
    return it


@pytest.mark.parametrize("before", ExecutionState)
@pytest.mark.parametrize("after", ExecutionState)
def test_every_transition_follows_the_table(before: ExecutionState, after: ExecutionState) -> None:
    it = execution_in(before)
    if after in EXECUTION_TRANSITIONS[before]:
        it.enter(after, 7)
        assert (it.state, it.timestamps_ms[after]) == (after, 7)
    else:
        with pytest.raises(IllegalTransition, match=f"cannot go from {before.value} to {after.value} at 7"):
            it.enter(after, 7)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20)), max_size=60))
def test_counts_are_those_of_the_executions(steps: list[tuple[int, int]]) -> None:
    it = ExecutionGraph(two_stage(2), 2, 0)
    order = list(it)
    for index, choice in steps:
        current = it[order[index].subtask_id]
        nexts = sorted(EXECUTION_TRANSITIONS[current.state], key=lambda s: s.value)
        if nexts:
            it.move(current, nexts[choice % len(nexts)], 1)
        else:
            it.reset(current.subtask_id, 2)
        if choice % 3 == 0:
            it.note_end_of_data(it[current.subtask_id])
            it.note_address(it[current.subtask_id], "a")
    counted = Counter(e.state for e in it)
    assert {s: it.count(s) for s in ExecutionState if it.count(s)} == dict(counted)
    for name in ("source", "sink"):
        executions = it.executions_of(vertex_id(name))
        assert it.is_wholly_at_end(vertex_id(name)) == all(e.at_end_of_data for e in executions)
        assert it.all_addressed(vertex_id(name)) == all(e.address for e in executions)
    assert it.all_terminal == all(e.state.is_terminal for e in it)


def test_an_attempt_that_is_over_is_remembered_but_is_not_the_current_one() -> None:
    it = ExecutionGraph(two_stage(1), 1, 0)
    old = it[subtask("source")]
    it.move(old, ExecutionState.FAILED, 1)
    new = it.reset(subtask("source"), 2)
    assert new.attempt.attempt == 1
    assert it.current(old.attempt) is None
    assert it.earlier(old.attempt) is old
    it.move(new, ExecutionState.CANCELED, 3)
    it.reset(subtask("source"), 4)
    assert it.history(subtask("source")) == (new,), "attempts-history-size is 1"


def regions(job: JobGraph) -> list[list[str]]:
    names = {v.vertex_id: v.name for v in job.vertices}
    return sorted(sorted(f"{names[s.vertex_id]}{s.index}" for s in region) for region in Regions(job).all)


@pytest.mark.parametrize(
    ("partitioner", "expected"),
    [
        (Partitioner.FORWARD, [["sink0", "source0"], ["sink1", "source1"]]),
        (Partitioner.HASH, [["sink0", "sink1", "source0", "source1"]]),
        (Partitioner.BROADCAST, [["sink0", "sink1", "source0", "source1"]]),
    ],
)
def test_regions_are_what_is_connected(partitioner: Partitioner, expected: list[list[str]]) -> None:
    assert regions(two_stage(2, partitioner)) == expected


def test_rescale_connects_groups_and_strangers_stay_apart() -> None:
    job = graph(
        [vertex("a", 4, source=True), vertex("b", 2), vertex("c", 1, source=True)],
        [("a", "b", Partitioner.RESCALE)],
    )
    assert regions(job) == [["a0", "a1", "b0"], ["a2", "a3", "b1"], ["c0"]]


def test_a_group_needs_as_many_slots_as_its_widest_vertex() -> None:
    sharing = SlotSharing(graph([vertex("a", 2), vertex("b", 4), vertex("c", 3, group="g")]))
    subtasks = [subtask(name, i) for name, width in (("a", 2), ("b", 4), ("c", 3)) for i in range(width)]
    assert len({sharing.slot_of(one) for one in subtasks}) == 4 + 3
    assert sharing.slot_of(subtask("a", 1)) == sharing.slot_of(subtask("b", 1))
    assert sharing.subtasks_of(sharing.slot_of(subtask("b", 3))) == (subtask("b", 3),)
