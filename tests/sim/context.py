"""What every subtask of a simulation shares."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.sim.job import SimJob
from tests.sim.storage import External, Storage
from tests.sim.watch import Watch
from tests.sim.world import World
from tidegate.model.ids import AttemptId

if TYPE_CHECKING:
    from tests.sim.model_subtask import ModelSubtask


@dataclass(slots=True)
class TaskContext:
    world: World
    job: SimJob
    storage: Storage
    external: External
    watch: Watch
    live: dict[AttemptId, ModelSubtask] = field(default_factory=dict)

    def began(self, task: ModelSubtask) -> None:
        self.watch.on_began(task.attempt)
        self.live[task.attempt] = task
        self.watch.alive.add(task.attempt)

    def ended(self, task: ModelSubtask) -> None:
        self.live.pop(task.attempt, None)
        self.watch.alive.discard(task.attempt)
