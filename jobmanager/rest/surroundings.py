"""What the endpoint reaches beyond the JobManager's machine: the process itself, storage, TaskManagers, programs, the archive."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tidegate.aio.admission import Admission
from tidegate.jobmanager.programs.runs import ProgramRuns
from tidegate.jobmanager.rest.faults import FaultDesk
from tidegate.jobmanager.rest.handlers.processes import TaskManagerInspector
from tidegate.jobmanager.rest.history import History


@dataclass(frozen=True, slots=True)
class Surroundings:
    """``dispose`` removes a savepoint, ``shutdown`` ends the process for a reason. ``programs``: ``None`` where none may be uploaded.
    ``history``: jobs of JobManagers before this one, where they are archived. ``faults``: ``None`` where none may be made
    on purpose. ``admission``: ``None`` where there are no users, and each request may do everything."""

    shutdown: Callable[[str], None]
    dispose: Callable[[str], Awaitable[None]]
    inspector: TaskManagerInspector
    programs: ProgramRuns | None = None
    history: History | None = None
    faults: FaultDesk | None = None
    admission: Admission | None = None
