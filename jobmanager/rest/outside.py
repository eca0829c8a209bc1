"""What the endpoint reaches beyond the JobManager's machine: the process itself, storage, TaskManagers, programs, the archive."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from jobmanager.rest.process_handlers import TaskManagerInspector


@dataclass(frozen=True, slots=True)
class Outside:
    """``dispose`` removes a savepoint, ``shutdown`` ends the process for a reason."""

    shutdown: Callable[[str], None]
    dispose: Callable[[str], Awaitable[None]]
    inspector: TaskManagerInspector
