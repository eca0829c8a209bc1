"""The memory of a slot: its shares, and the check of what its processes really use.

``taskmanager.memory.process.size / slots`` bounds the resident memory of all subtask processes in a slot together. When they use more, the largest of them
fails, with a message that says so; the others run on. Without a configured size only the machine's memory bounds them
(``tidegate.taskmanager.spark.memory.machine``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tidegate.model.configuration import Configuration
from tidegate.model.errors import ErrorInfo, NoResourceAvailable
from tidegate.model.ids import AllocationId, AttemptId
from tidegate.model.options import RuntimeOptions, TaskManagerOptions
from tidegate.model.units import show_size_bytes
from tidegate.taskmanager.machines.memory.slot_bound import describe_excess
from tidegate.taskmanager.spark.memory.limits import resident_bytes


@dataclass(frozen=True, slots=True)
class SlotMemory:
    """The memory bounds of one slot in bytes, 0 where it has none, together with the memory of the machine and what of it has to stay free."""

    process_bytes: int = 0
    managed_bytes: int = 0
    network_bytes: int = 0
    machine_bytes: int = 0
    """The setting ``tidegate.taskmanager.memory.machine-size``; 0: not set."""
    reserve_bytes: int = -1
    """The setting ``tidegate.taskmanager.memory.reserve``; -1: not set."""

    def __str__(self) -> str:
        """Returns what the log says of each slot."""
        size = f"{show_size_bytes(self.process_bytes)} each" if self.process_bytes else "without a bound of memory"
        parts = [(self.managed_bytes, "managed"), (self.network_bytes, "for the network")]
        shares = [f"{show_size_bytes(share)} {what}" for share, what in parts if share]
        return f"{size} ({', '.join(shares)})" if shares else size

    @staticmethod
    def of(configuration: Configuration) -> SlotMemory:
        """Returns equal shares of the TaskManager's memory (Flink: ``TaskExecutorProcessUtils.java``)."""
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
        machine, reserve = (
            configuration.get(RuntimeOptions.MACHINE_SIZE),
            configuration.get(RuntimeOptions.MEMORY_RESERVE),
        )
        return SlotMemory(
            process // slots, managed // slots, network // slots, machine or 0, -1 if reserve is None else reserve
        )


def decide_overrun(
    pids: Mapping[AllocationId, Mapping[AttemptId, int]],
    slot_bytes: int,
    bounds: Mapping[AllocationId, int],
    name: Callable[[AttemptId], str],
    measure: Callable[[int], int] = resident_bytes,
) -> list[tuple[AttemptId, ErrorInfo]]:
    """Returns the attempts that must fail because their slots use too much memory, at most one for each slot, with the reason.

    ``pids``: processes by slot; ``bounds``: of slots whose slot sharing group sets their memory; ``name``: returns the name of an attempt for the message.
    """
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
        text = describe_excess(
            name(largest),
            sizes[largest],
            bound_bytes,
            is_of_group=allocation in bounds,
            others_bytes=total - sizes[largest],
        )
        found.append((largest, ErrorInfo.of(NoResourceAvailable(text))))
    return found
