"""What starts and stops TaskManagers for the JobManager."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from tidegate.model.ids import TaskManagerId

Ended = Callable[[TaskManagerId, str], None]
"""Called once for each worker that ends, or that could not be started, with what is known of why."""
CommandLine = Callable[[TaskManagerId, int], Sequence[str]]
"""The command line of a TaskManager with this name and so many slots."""


class WorkerDriver(Protocol):
    """Starts, stops and finds workers. No method raises for what the world does: what fails is reported by ``Ended``."""

    async def find(self) -> Sequence[TaskManagerId]:
        """Returns those of this cluster that run, started by an earlier JobManager. From now on their end is reported, too."""
        ...

    async def start(self, worker_id: TaskManagerId, slots: int) -> None: ...

    async def stop(self, worker_id: TaskManagerId) -> None:
        """Ends one. Again, and for one that is gone: no-op."""
        ...

    async def close(self, *, stop_all: bool) -> None:
        """Reports nothing from now on, and with ``stop_all`` ends those that run."""
        ...
