"""`SlotSharingGroup`: operators that may share slots (PyFlink: ``pyflink.datastream.slot_sharing_group``).

A slot of a group with resources has them, or its subtasks do not start: on a cluster of Spark each of them is a task with its share of the CPUs and external
resources, and in each the processes have the memory of the group.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tidegate.model.errors import InvalidJob

__all__ = ["MemorySize", "SlotSharingGroup"]

_UNITS = ((2**40, "tb"), (2**30, "gb"), (2**20, "mb"), (2**10, "kb"))


@dataclass(frozen=True, order=True)
class MemorySize:
    """A number of bytes, with views in larger units that round down (PyFlink: ``MemorySize``)."""

    bytes_size: int

    @staticmethod
    def of_mebi_bytes(mebi_bytes: int) -> MemorySize:
        """Creates a size from a number of MiB."""
        return MemorySize(mebi_bytes << 20)

    def get_bytes(self) -> int:
        """Returns the size in bytes."""
        return self.bytes_size

    def get_kibi_bytes(self) -> int:
        """Returns the size in KiB, rounded down."""
        return self.bytes_size >> 10

    def get_mebi_bytes(self) -> int:
        """Returns the size in MiB, rounded down."""
        return self.bytes_size >> 20

    def get_gibi_bytes(self) -> int:
        """Returns the size in GiB, rounded down."""
        return self.bytes_size >> 30

    def get_tebi_bytes(self) -> int:
        """Returns the size in TiB, rounded down."""
        return self.bytes_size >> 40

    def __str__(self) -> str:
        for size, unit in _UNITS:
            if self.bytes_size and self.bytes_size % size == 0:
                return f"{self.bytes_size // size} {unit}"
        return f"{self.bytes_size} bytes"


@dataclass(frozen=True)
class SlotSharingGroup:
    """A group of operators that may share slots, with the resources of such a slot (PyFlink: ``SlotSharingGroup``). A
    resource that is ``None`` is not requested."""

    name: str
    cpu_cores: float | None = None
    task_heap_memory: MemorySize | None = None
    task_off_heap_memory: MemorySize | None = None
    managed_memory: MemorySize | None = None
    external_resources: dict[str, float] = field(default_factory=dict, hash=False)

    def get_name(self) -> str:
        """Returns the name by which operators join the group."""
        return self.name

    def get_cpu_cores(self) -> float | None:
        """Returns the number of CPU cores, or ``None``."""
        return self.cpu_cores

    def get_task_heap_memory(self) -> MemorySize | None:
        """Returns the heap memory of tasks, or ``None``."""
        return self.task_heap_memory

    def get_task_off_heap_memory(self) -> MemorySize | None:
        """Returns the off-heap memory of tasks, or ``None``."""
        return self.task_off_heap_memory

    def get_managed_memory(self) -> MemorySize | None:
        """Returns the managed memory, or ``None``."""
        return self.managed_memory

    def get_external_resources(self) -> dict[str, float]:
        """Returns the amounts of external resources, such as GPUs, by name."""
        return dict(self.external_resources)

    @staticmethod
    def builder(name: str) -> Builder:
        """Returns a builder of a group without resources."""
        return Builder(name)

    class Builder:
        """Builds a ``SlotSharingGroup``. ``build`` raises ``InvalidJob`` unless CPU cores and heap memory are both set, or no resource is."""

        def __init__(self, name: str) -> None:
            self._group = SlotSharingGroup(name)

        def set_cpu_cores(self, cpu_cores: float) -> Builder:
            """Requests CPU cores. Raises ``InvalidJob`` unless there is more than 0."""
            if cpu_cores <= 0:
                raise InvalidJob(f"slot sharing group {self._group.name!r}: {cpu_cores} CPU cores; give more than 0")
            return self._with(cpu_cores=float(cpu_cores))

        def set_task_heap_memory(self, task_heap_memory: MemorySize) -> Builder:
            """Requests heap memory for tasks. Raises ``InvalidJob`` unless there is more than 0."""
            if task_heap_memory.bytes_size <= 0:
                raise InvalidJob(f"slot sharing group {self._group.name!r}: the task heap memory must be more than 0")
            return self._with(task_heap_memory=task_heap_memory)

        def set_task_heap_memory_mb(self, task_heap_memory_mb: int) -> Builder:
            """Requests heap memory for tasks, in MiB."""
            return self.set_task_heap_memory(MemorySize.of_mebi_bytes(task_heap_memory_mb))

        def set_task_off_heap_memory(self, task_off_heap_memory: MemorySize) -> Builder:
            """Requests off-heap memory for tasks."""
            return self._with(task_off_heap_memory=task_off_heap_memory)

        def set_task_off_heap_memory_mb(self, task_off_heap_memory_mb: int) -> Builder:
            """Requests off-heap memory for tasks, in MiB."""
            return self.set_task_off_heap_memory(MemorySize.of_mebi_bytes(task_off_heap_memory_mb))

        def set_managed_memory(self, managed_memory: MemorySize) -> Builder:
            """Requests managed memory."""
            return self._with(managed_memory=managed_memory)

        def set_managed_memory_mb(self, managed_memory_mb: int) -> Builder:
            """Requests managed memory, in MiB."""
            return self.set_managed_memory(MemorySize.of_mebi_bytes(managed_memory_mb))

        def set_external_resource(self, name: str, value: float) -> Builder:
            """Requests an amount of an external resource, such as GPUs."""
            return self._with(external_resources={**self._group.external_resources, name: value})

        def build(self) -> SlotSharingGroup:
            """Returns the group. Raises ``InvalidJob`` when only some of the resources are set without CPU cores and
            heap memory."""
            group = self._group
            resources = (group.task_off_heap_memory, group.managed_memory, group.external_resources or None)
            needed = (group.cpu_cores, group.task_heap_memory)
            if any(needed + resources) and not all(needed):
                raise InvalidJob(
                    f"slot sharing group {group.name!r}: with resources, both CPU cores and task heap memory must be set"
                )
            zero = MemorySize(0)
            if not all(needed):
                return group
            return replace(
                group,
                task_off_heap_memory=group.task_off_heap_memory or zero,
                managed_memory=group.managed_memory or zero,
            )

        def _with(self, **changes: object) -> Builder:
            self._group = replace(self._group, **changes)  # type: ignore[arg-type]  # each is a field of its type
            return self


Builder = SlotSharingGroup.Builder
SlotSharingGroupBuilder = SlotSharingGroup.Builder
