"""Services beyond the JobManager's machine that the REST endpoint needs: process, storage, TaskManagers, programs, archive."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tidegate.aio.admission import Admission
from tidegate.jobmanager.programs.runs import ProgramRuns
from tidegate.jobmanager.rest.fault_service import FaultService
from tidegate.jobmanager.rest.handlers.processes import TaskManagerInspector
from tidegate.jobmanager.rest.history import History


@dataclass(frozen=True, slots=True)
class BackendServices:
    """Services beyond the JobManager's machine that the REST endpoint needs.

    ``dispose``: deletes a savepoint; ``shutdown``: ends the process for a reason. ``programs``: ``None`` when uploads are disabled.
    ``history``: archived jobs of earlier JobManagers. ``faults``: ``None`` when faults are not allowed. ``admission``: ``None`` when there
    are no users, and each request may do everything.
    """

    shutdown: Callable[[str], None]
    dispose: Callable[[str], Awaitable[None]]
    inspector: TaskManagerInspector
    programs: ProgramRuns | None = None
    history: History | None = None
    faults: FaultService | None = None
    admission: Admission | None = None
