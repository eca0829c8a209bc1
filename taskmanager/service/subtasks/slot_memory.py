"""The memory of a slot: its shares, and the watch over what its processes really have.

``taskmanager.memory.process.size / slots`` bounds the resident memory of all subtask processes in a slot together. When they have
more, the largest of them fails, with a message that says so; the others stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import psutil

from tidegate.model.configuration import Configuration
from tidegate.model.errors import ErrorInfo, NoResourceAvailable
from tidegate.model.ids import AllocationId, AttemptId
from tidegate.model.options import TaskManagerOptions
from tidegate.taskmanager.spark.memory import unshared_bytes

WATCH_INTERVAL_S = 0.25
"""Chosen, not measured: short enough that a runaway process is noticed before the machine swaps."""
_OF_TASK_MANAGER = (
    "taskmanager.memory.process.size / slots",
    "give the TaskManager more memory or fewer slots",
)
_OF_GROUP = "by its slot sharing group", "let the group ask for more"


@dataclass(frozen=True, slots=True)
class SlotMemory:
    """Bytes of one slot; 0: not bounded."""

    process_bytes: int = 0
    managed_bytes: int = 0
    network_bytes: int = 0

    @staticmethod
    def of(configuration: Configuration) -> SlotMemory:
        """Equal shares of what the TaskManager has (Flink: ``TaskExecutorProcessUtils.java``)."""
        slots = configuration.get(TaskManagerOptions.NUM_SLOTS)
        process = configuration.get(TaskManagerOptions.PROCESS_SIZE) or 0
        managed = configuration.get(TaskManagerOptions.MANAGED_SIZE)
        if managed is None:
            managed = int(process * configuration.get(TaskManagerOptions.MANAGED_FRACTION))
        network = 0
        if process:
            wanted = int(process * configuration.get(TaskManagerOptions.NETWORK_FRACTION))
            least = configuration.get(TaskManagerOptions.NETWORK_MIN)
            network = min(max(wanted, least), configuration.get(TaskManagerOptions.NETWORK_MAX))
        return SlotMemory(process // slots, managed // slots, network // slots)


def resident_bytes(pid: int) -> int:
    """Memory of a process without what it maps from files; 0 when it is gone."""
    try:
        found = unshared_bytes(pid)
        if found is not None:
            return found
    except (OSError, IndexError, ValueError):
        return 0
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0


def decide_overrun(
    pids: Mapping[AllocationId, Mapping[AttemptId, int]],
    slot_bytes: int,
    bounds: Mapping[AllocationId, int],
    measure: Callable[[int], int] = resident_bytes,
) -> list[tuple[AttemptId, ErrorInfo]]:
    """Attempts that must fail, at most one for each slot, each with its reason. ``pids``: processes by slot; ``bounds``: of slots whose group
    says how much they have."""
    found = []
    for allocation, tasks in pids.items():
        bound_bytes = bounds.get(allocation, slot_bytes)
        if not bound_bytes:
            continue
        sizes = {attempt: measure(pid) for attempt, pid in tasks.items()}
        total = sum(sizes.values())
        if total <= bound_bytes or not sizes:
            continue
        largest = max(sizes, key=lambda attempt: sizes[attempt])
        beside = f", and the others in it {(total - sizes[largest]) >> 20} MiB" if len(sizes) > 1 else ""
        whose, advice = _OF_GROUP if allocation in bounds else _OF_TASK_MANAGER
        text = (
            f"subtask needed more than its slot's {bound_bytes >> 20} MiB ({whose}): it "
            f"has {sizes[largest] >> 20} MiB{beside}; {advice}"
        )
        found.append((largest, ErrorInfo.of(NoResourceAvailable(text))))
    return found
