"""Resources of slot sharing groups for the job graph (Flink: ``ResourceProfile`` of a ``SlotSharingGroup``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from tidegate.datastream._graph.chaining import Chain
from tidegate.datastream.slot_sharing_group import MemorySize, SlotSharingGroup
from tidegate.model.graph import SlotResources


def slot_resources_of(chains: Sequence[Chain], groups: Mapping[str, SlotSharingGroup]) -> dict[str, SlotResources]:
    """Returns the slot resources of each group by name; groups without operators are left out."""
    vertices = Counter(chain.head.slot_sharing_group for chain in chains)
    return {name: _resources(group, vertices[name]) for name, group in groups.items() if vertices[name]}


def _resources(group: SlotSharingGroup, vertices: int) -> SlotResources:
    assert group.cpu_cores is not None, f"{group.name} asks for nothing"
    return SlotResources(
        group=group.name,
        vertices=vertices,
        cpu_cores=group.cpu_cores,
        task_heap_bytes=_bytes(group.task_heap_memory),
        task_off_heap_bytes=_bytes(group.task_off_heap_memory),
        managed_bytes=_bytes(group.managed_memory),
        external=group.get_external_resources(),
    )


def _bytes(size: MemorySize | None) -> int:
    return 0 if size is None else size.get_bytes()
