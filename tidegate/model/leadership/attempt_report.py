"""What a TaskManager reports of an attempt to a JobManager that has taken the lead: enough to go on with it, or to see that it cannot.

Flink has a like of it for slots alone (``SlotReport``); its subtasks end with their JobMaster, except in batch jobs (FLIP-383).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.model.coordinators.operator_events import CoordinatorReport
from tidegate.model.errors import ErrorInfo
from tidegate.model.ids import AllocationId, AttemptId, Generation
from tidegate.model.states import ExecutionState


@dataclass(frozen=True, slots=True)
class AttemptReport:
    """``state`` is CANCELING for an attempt that is being stopped for any reason. Ids of checkpoints are 0 for none."""

    attempt: AttemptId
    allocation_id: AllocationId
    state: ExecutionState
    deployed_ms: int = 0
    data_address: str | None = None
    restored_id: int = 0
    acknowledged: tuple[tuple[int, Generation], ...] = ()
    """Checkpoints that it acknowledged, from the last confirmed one on, and to which JobManager: an id alone may have been given twice."""
    confirmed_id: int = 0
    newest_id: int = 0
    """The highest id that a message to it, or from it, named. Its region may hold barriers of it."""
    at_end_of_data: bool = False
    may_finish: bool = False
    """A confirmation has let it finish."""
    is_being_stopped: bool = False
    """It was triggered for a savepoint with which the job ends: its sources emit nothing more."""
    error: ErrorInfo | None = None
    """Why it FAILED."""
    events: CoordinatorReport = field(default_factory=CoordinatorReport)

    def holds(self, checkpoint_id: int, generation: str | None) -> bool:
        """Its state goes on from this checkpoint, which ``generation`` completed; 0: from the beginning of the job."""
        if self.restored_id == checkpoint_id:
            return True
        return generation is not None and (checkpoint_id, generation) in self.acknowledged
