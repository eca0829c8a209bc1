"""The interface of drivers that start and stop TaskManagers for the JobManager."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from tidegate.model.ids import TaskManagerId

Ended = Callable[[TaskManagerId, str], None]
"""Called once for each worker that has ended or could not be started, with the reason as far as it is known."""
CommandLine = Callable[[TaskManagerId, int], Sequence[str]]
"""Returns the command line of a TaskManager with this id and number of slots."""


class WorkerDriver(Protocol):
    """Starts, stops and finds workers. Failures are reported by ``Ended`` and not raised."""

    async def find(self) -> Sequence[TaskManagerId]:
        """Returns running workers of this cluster that an earlier JobManager started. From now on their ends are reported too."""
        ...

    async def start(self, worker_id: TaskManagerId, slots: int) -> None: ...

    async def stop(self, worker_id: TaskManagerId) -> None:
        """Stops a worker. Idempotent; no-op for one that has ended."""
        ...

    async def close(self, *, stop_all: bool) -> None:
        """Stops reporting, and with ``stop_all`` stops all running workers."""
        ...
