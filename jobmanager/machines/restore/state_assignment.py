"""State assignment: which part of a checkpoint each subtask of a job gets, at the same or another parallelism.

State is matched by operator id. Keyed state: every old segment whose rows touch the new range of key groups, and all
deltas that cover a part of it. List state: with unchanged parallelism each subtask keeps its own, otherwise all elements in
subtask order are cut into even runs. Union state: everything to every subtask. Broadcast state: new subtask i takes old copy
``i mod old parallelism``.

Follows Flink's ``StateAssignmentOperation.java`` and ``RoundRobinOperatorStateRepartitioner.java``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from tidegate.jobmanager.machines.restore.channel_assignment import ChannelAssignment
from tidegate.model.checkpoint import (
    CheckpointManifest,
    OperatorState,
    OperatorStateHandle,
    RestoredOperator,
    SegmentHandle,
    StateRedistribution,
    TaskRestore,
)
from tidegate.model.graph import JobGraph, JobVertex
from tidegate.model.ids import OperatorId, SubtaskId
from tidegate.model.keygroups import KeyGroupRange, range_of, subtask_of
from tidegate.model.restore_check import check_restore

_Slice = tuple[OperatorStateHandle, int, int]


@dataclass(frozen=True, slots=True)
class Restore:
    """The state with which one subtask is deployed."""

    task: TaskRestore
    finished: bool
    """Whether every operator of its vertex had finished in the checkpoint."""


def had_finished(vertex: JobVertex, states: Mapping[OperatorId, OperatorState]) -> bool:
    """Tells whether every operator of the vertex had finished in the checkpoint, in all of its subtasks."""
    found = [states.get(operator.operator_id) for operator in vertex.operators]
    return all(state is not None and len(state.finished) == state.parallelism for state in found)


class StateAssignment:
    """Assigns the state of one checkpoint. What depends on an operator alone is computed once, when first needed."""

    def __init__(self, graph: JobGraph, manifest: CheckpointManifest, location: str) -> None:
        self._vertices = {v.vertex_id: v for v in graph.vertices}
        self._states = {s.operator_id: s for s in manifest.operators}
        self._manifest = manifest
        self._location = location
        self._channels = ChannelAssignment(graph, manifest)
        self._plans: dict[tuple[OperatorId, int], OperatorPlan] = {}

    def restore_of(self, subtask: SubtaskId) -> Restore:
        vertex = self._vertices[subtask.vertex_id]
        operators: dict[OperatorId, RestoredOperator] = {}
        for operator in vertex.operators:
            state = self._states.get(operator.operator_id)
            if state is not None and state.subtasks:
                operators[operator.operator_id] = self._plan(state, vertex).of(subtask.index)
        if channels := self._channels.of(vertex, subtask.index):
            head = vertex.operators[0].operator_id
            operators[head] = replace(operators.get(head, RestoredOperator()), channels=channels)
        task = TaskRestore(self._manifest.checkpoint_id, self._location, operators)
        return Restore(task, finished=had_finished(vertex, self._states))

    def _plan(self, state: OperatorState, vertex: JobVertex) -> OperatorPlan:
        key = (state.operator_id, vertex.parallelism)
        if key not in self._plans:
            self._plans[key] = OperatorPlan(state, vertex.parallelism, vertex.max_parallelism)
        return self._plans[key]


@dataclass(slots=True)
class OperatorPlan:
    """How the state of one operator is assigned to ``parallelism`` subtasks."""

    state: OperatorState
    parallelism: int
    max_parallelism: int
    split: list[list[_Slice]] = field(init=False)
    union: list[_Slice] = field(init=False)
    broadcast: dict[str, dict[int, OperatorStateHandle]] = field(init=False)
    """Copies of broadcast state by state name and old subtask; subtasks that had finished or used the state late have none."""

    def __post_init__(self) -> None:
        self.union = [
            (handle, 0, handle.elements)
            for handle in self._handles()
            if handle.redistribution is StateRedistribution.UNION
        ]
        self.broadcast = {}
        for index, snapshot in sorted(self.state.subtasks.items()):
            for handle in snapshot.operator:
                if handle.redistribution is StateRedistribution.BROADCAST:
                    self.broadcast.setdefault(handle.state_name, {})[index] = handle
        self.split = [[] for _ in range(self.parallelism)]
        if self.parallelism != self.state.parallelism:
            self.split = deal_elements(
                (h for h in self._handles() if h.redistribution is StateRedistribution.SPLIT), self.parallelism
            )

    def of(self, index: int) -> RestoredOperator:
        slices = [*self._own_split(index), *self.union, *self._broadcast(index)]
        return RestoredOperator(
            keyed=tuple(self.segments(index)),
            operator=tuple(handle for handle, _, _ in slices),
            slices=tuple((first, end) for _, first, end in slices),
        )

    def _handles(self) -> Iterable[OperatorStateHandle]:
        for index in sorted(self.state.subtasks):
            yield from self.state.subtasks[index].operator

    def _own_split(self, index: int) -> list[_Slice]:
        if self.parallelism != self.state.parallelism:
            return self.split[index]
        own = self.state.subtasks.get(index)
        handles = own.operator if own else ()
        return [(h, 0, h.elements) for h in handles if h.redistribution is StateRedistribution.SPLIT]

    def _broadcast(self, index: int) -> list[_Slice]:
        """Returns the copies for a subtask: its own copy of each state when there is one, else copy ``index mod copies``."""
        dealt: list[_Slice] = []
        for copies in self.broadcast.values():
            holders = sorted(copies)
            keeps_own = self.parallelism == self.state.parallelism and index in copies
            handle = copies[index if keeps_own else holders[index % len(holders)]]
            dealt.append((handle, 0, handle.elements))
        return dealt

    def segments(self, index: int) -> Iterable[SegmentHandle]:
        wanted = range_of(index, self.max_parallelism, self.parallelism)
        if wanted.size == 0:
            return
        old_parallelism, old_max = self.state.parallelism, self.state.max_parallelism
        first = subtask_of(min(wanted.start, old_max - 1), old_max, old_parallelism)
        last = subtask_of(min(wanted.end, old_max - 1), old_max, old_parallelism)
        for old in range(first, last + 1):
            snapshot = self.state.subtasks.get(old)
            for segment in snapshot.keyed if snapshot else ():
                if concerns(segment, wanted):
                    yield segment


def concerns(segment: SegmentHandle, wanted: KeyGroupRange) -> bool:
    """Tells whether a segment matters for a range of key groups: it has rows there, or it is a delta.

    A delta may delete rows of lower levels; a delta of windows does so without a row of its own.
    """
    common = segment.key_groups.intersect(wanted)
    if common.size == 0:
        return False
    if segment.level:
        return True
    base = segment.key_groups.start
    return segment.offsets[common.end - base + 1] > segment.offsets[common.start - base]


def deal_elements(handles: Iterable[OperatorStateHandle], parallelism: int) -> list[list[_Slice]]:
    """Assigns list state to ``parallelism`` subtasks: for each state name the elements in order are cut into even runs.

    The subtasks that get the longer runs move on from name to name.
    """
    dealt: list[list[_Slice]] = [[] for _ in range(parallelism)]
    by_name: dict[str, list[OperatorStateHandle]] = {}
    for handle in handles:
        by_name.setdefault(handle.state_name, []).append(handle)
    start = 0
    for _, group in sorted(by_name.items()):
        total = sum(handle.elements for handle in group)
        base, remainder = divmod(total, parallelism)
        queue = iter([handle for handle in group if handle.elements])
        current, taken = next(queue, None), 0
        for turn in range(parallelism):
            subtask = (turn + start) % parallelism
            wanted = base + (1 if turn < remainder else 0)
            while wanted and current is not None:
                count = min(wanted, current.elements - taken)
                dealt[subtask].append((current, taken, taken + count))
                wanted, taken = wanted - count, taken + count
                if taken == current.elements:
                    current, taken = next(queue, None), 0
        start = (start + remainder) % parallelism
    return dealt


__all__ = ["Restore", "StateAssignment", "check_restore", "concerns", "deal_elements"]
