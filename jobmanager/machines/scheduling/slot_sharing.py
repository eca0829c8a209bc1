"""Slot sharing: one slot holds one subtask of each vertex of its group, so a group needs as many slots as its widest
vertex has subtasks, and a job the sum over its groups. Follows Flink's ``SlotSharingExecutionSlotAllocator.java``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidegate.model.graph import JobGraph
from tidegate.model.ids import SubtaskId


@dataclass(frozen=True, slots=True, order=True)
class SharedSlot:
    """The ``index``-th slot of a slot sharing group; it holds the subtasks with that index."""

    group: str
    index: int


class SlotSharing:
    """The positions of a job's subtasks in its slots."""

    def __init__(self, graph: JobGraph) -> None:
        self._slot_of: dict[SubtaskId, SharedSlot] = {}
        self._subtasks: dict[SharedSlot, list[SubtaskId]] = {}
        for vertex in graph.vertices:
            for index in range(vertex.parallelism):
                slot = SharedSlot(vertex.slot_sharing_group, index)
                self._slot_of[SubtaskId(vertex.vertex_id, index)] = slot
                self._subtasks.setdefault(slot, []).append(SubtaskId(vertex.vertex_id, index))

    @property
    def slots(self) -> Iterable[SharedSlot]:
        """Returns all slots that the job needs."""
        return self._subtasks

    def slot_of(self, subtask: SubtaskId) -> SharedSlot:
        return self._slot_of[subtask]

    def subtasks_of(self, slot: SharedSlot) -> tuple[SubtaskId, ...]:
        return tuple(self._subtasks[slot])
