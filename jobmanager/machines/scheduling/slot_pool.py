"""The slots that one job holds or has requested, by their position in its slot sharing (Flink: ``DeclarativeSlotPool.java``)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidegate.jobmanager.machines.resources.task_managers import Placement
from tidegate.jobmanager.machines.scheduling.slot_sharing import SharedSlot
from tidegate.model.ids import AllocationId, TaskManagerId


@dataclass(slots=True)
class Allocation:
    """A slot that a job holds or has requested."""

    allocation_id: AllocationId
    placement: Placement
    slot: SharedSlot
    is_ready: bool = False
    """Whether the TaskManager has confirmed the slot."""
    idle_since_ms: int | None = None

    def confirm(self) -> None:
        self.is_ready = True

    def rest_since(self, now_ms: int) -> None:
        """Notes that everything in the slot has finished."""
        self.idle_since_ms = now_ms

    def use(self) -> None:
        self.idle_since_ms = None


class SlotPool:
    """The slots that one job holds or has requested."""

    def __init__(self) -> None:
        self._by_slot: dict[SharedSlot, Allocation] = {}
        self._by_id: dict[AllocationId, Allocation] = {}
        self._by_manager: dict[TaskManagerId, dict[AllocationId, Allocation]] = {}
        self._previous: dict[SharedSlot, Placement] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    @property
    def allocations(self) -> list[Allocation]:
        return list(self._by_id.values())

    def of(self, slot: SharedSlot) -> Allocation | None:
        return self._by_slot.get(slot)

    def find(self, allocation_id: AllocationId) -> Allocation | None:
        return self._by_id.get(allocation_id)

    def missing(self, slots: Iterable[SharedSlot]) -> list[SharedSlot]:
        return [slot for slot in slots if slot not in self._by_slot]

    def unready(self, slots: Iterable[SharedSlot]) -> list[SharedSlot]:
        return [slot for slot in slots if slot not in self._by_slot or not self._by_slot[slot].is_ready]

    def previous(self, slot: SharedSlot) -> Placement | None:
        """Returns the last TaskManager slot at this position, since state that is cached there may be used again."""
        return self._previous.get(slot)

    def add(self, slot: SharedSlot, allocation_id: AllocationId, placement: Placement) -> Allocation:
        allocation = Allocation(allocation_id, placement, slot)
        self._by_slot[slot] = self._by_id[allocation_id] = allocation
        self._by_manager.setdefault(placement.task_manager_id, {})[allocation_id] = allocation
        return allocation

    def remove(self, allocation_id: AllocationId) -> Allocation | None:
        allocation = self._by_id.pop(allocation_id, None)
        if allocation is not None:
            del self._by_slot[allocation.slot]
            self._by_manager[allocation.placement.task_manager_id].pop(allocation_id)
            self._previous[allocation.slot] = allocation.placement
        return allocation

    def on_task_manager(self, task_manager_id: TaskManagerId) -> list[Allocation]:
        """Returns the allocations on a TaskManager. Called at every heartbeat, so it must not depend on the size of the job."""
        return list(self._by_manager.get(task_manager_id, {}).values())

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when the three indexes of allocations contradict each other."""
        by_slot = {allocation.allocation_id: allocation for allocation in self._by_slot.values()}
        by_manager = {n: allocation for found in self._by_manager.values() for n, allocation in found.items()}
        assert by_slot == self._by_id, f"by place {sorted(by_slot)}, by id {sorted(self._by_id)}"
        assert by_manager == self._by_id, f"by TaskManager {sorted(by_manager)}, by id {sorted(self._by_id)}"
