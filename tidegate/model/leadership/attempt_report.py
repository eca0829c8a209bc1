"""The report of an attempt by its TaskManager to a JobManager that has taken the lead: enough to adopt the attempt, or to see that it cannot.

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
    """The state of an attempt. ``state`` is CANCELING for an attempt that is being stopped for any reason. Ids of checkpoints are 0 for none."""

    attempt: AttemptId
    allocation_id: AllocationId
    state: ExecutionState
    deployed_ms: int = 0
    data_address: str | None = None
    restored_id: int = 0
    acknowledged: tuple[tuple[int, Generation], ...] = ()
    """The checkpoints that it acknowledged, from the last confirmed one on, with the JobManager of each, since an id may have been used twice."""
    confirmed_id: int = 0
    newest_id: int = 0
    """The highest checkpoint id in a message to or from it. Its region may contain barriers of it."""
    at_end_of_data: bool = False
    may_finish: bool = False
    """Whether a confirmation allows it to finish."""
    is_being_stopped: bool = False
    """Whether it was triggered for the savepoint with which the job ends, so that its sources emit nothing more."""
    error: ErrorInfo | None = None
    """The error with which it FAILED."""
    events: CoordinatorReport = field(default_factory=CoordinatorReport)

    def holds(self, checkpoint_id: int, generation: str | None) -> bool:
        """Returns whether its state continues from this checkpoint, which ``generation`` completed; 0: from the beginning of the job."""
        if self.restored_id == checkpoint_id:
            return True
        return generation is not None and (checkpoint_id, generation) in self.acknowledged
