"""Operator state of functions over any sequence of parallelisms, through versions of a job that ask for it and that do not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.common import Types
from tidegate.functions.state import ListStateDescriptor, MapStateDescriptor
from tidegate.jobmanager.machines.restore.state_assignment import StateAssignment
from tidegate.model.checkpoint import (
    CheckpointManifest,
    OperatorSnapshot,
    OperatorState,
    RestoredOperator,
    SnapshotType,
)
from tidegate.model.graph import JobGraph, JobVertex, OperatorInfo
from tidegate.model.ids import BlobKey, CheckpointId, JobId, OperatorId, SubtaskId, VertexId
from tidegate.store.segments import InlineSegmentStore, open_segment_source
from tidegate.taskmanager.state.function_state import FunctionStateBackend

OPERATOR, VERTEX, JOB = OperatorId("2" * 32), VertexId("1" * 32), JobId("0" * 32)
LISTED = ListStateDescriptor("listed", Types.LONG())
UNITED = ListStateDescriptor("united", Types.LONG())
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


def snapshot(backend: FunctionStateBackend) -> OperatorSnapshot:
    frozen = backend.freeze()
    return frozen.write(InlineSegmentStore()) if frozen is not None else OperatorSnapshot()


def restored(snapshots: Sequence[OperatorSnapshot], parallelism: int) -> list[FunctionStateBackend]:
    there = {i: found for i, found in enumerate(snapshots) if found.operator}
    old = OperatorState(OPERATOR, "op", "op", len(snapshots), 128, there)
    manifest = CheckpointManifest(JOB, "job", CheckpointId(7), 1, SnapshotType.SAVEPOINT, (old,))
    vertex = JobVertex(VERTEX, "op", parallelism, 128, (OperatorInfo(OPERATOR, "op"),), BlobKey("b"))
    assignment = StateAssignment(JobGraph(JOB, "job", (vertex,), ()), manifest, "/nowhere")
    backends = []
    for index in range(parallelism):
        parts = assignment.restore_of(SubtaskId(VERTEX, index)).task.operators.get(OPERATOR, RestoredOperator())
        backend = FunctionStateBackend("op", index)
        backend.restore(parts, open_segment_source("/nowhere"))
        backends.append(backend)
    return backends


@settings(deadline=None, max_examples=60)
@given(
    lists=st.lists(st.lists(st.integers(0, 50), max_size=6), min_size=1, max_size=5),
    versions=st.lists(st.tuples(st.integers(1, 6), st.booleans()), min_size=1, max_size=4),
)
def test_nothing_is_lost_or_doubled(lists: list[list[int]], versions: list[tuple[int, bool]]) -> None:
    """``versions``: parallelism, and whether the job asks for its state."""
    backends = [FunctionStateBackend("op", index) for index in range(len(lists))]
    for index, (backend, values) in enumerate(zip(backends, lists, strict=True)):
        backend.get_list_state(LISTED).update(values)
        backend.get_union_list_state(UNITED).update([index])
        backend.get_broadcast_state(RULES).put("count", len(lists))
    union = list(range(len(lists)))
    for parallelism, asks in [*versions, (2, True)]:
        backends = restored([snapshot(backend) for backend in backends], parallelism)
        if not asks:
            continue
        held = [list(backend.get_list_state(LISTED).get()) for backend in backends]
        assert Counter(v for part in held for v in part) == Counter(v for part in lists for v in part)
        for index, backend in enumerate(backends):
            united = backend.get_union_list_state(UNITED)
            assert sorted(united.get()) == union
            united.update([index])
            assert dict(backend.get_broadcast_state(RULES).items()) == {"count": len(lists)}
        union = list(range(parallelism))
