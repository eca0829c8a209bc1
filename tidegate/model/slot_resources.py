"""What a slot of a slot sharing group is to have, as its program said (Flink: ``SlotSharingGroup``, ``ResourceProfile.java``)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SlotResources:
    """``vertices``: as many have a subtask in such a slot, each a process of its own. ``external``: amounts by name, of GPUs for instance."""

    group: str
    vertices: int
    cpu_cores: float
    task_heap_bytes: int
    task_off_heap_bytes: int = 0
    managed_bytes: int = 0
    external: Mapping[str, float] = field(default_factory=dict)

    @property
    def memory_bytes(self) -> int:
        """Of all processes in the slot together."""
        return self.task_heap_bytes + self.task_off_heap_bytes + self.managed_bytes

    @property
    def cpus_of_subtask(self) -> int:
        """Whole cores, as Spark counts them: an equal share of the slot's, at least one."""
        return max(1, math.ceil(self.cpu_cores / self.vertices))

    @property
    def external_of_subtask(self) -> dict[str, float]:
        """An equal share of the slot's."""
        return {name: amount / self.vertices for name, amount in self.external.items()}
