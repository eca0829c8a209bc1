"""One execution attempt: its state, when it entered each, and where it runs.

The legal transitions are in ``tidegate.model.states``; an illegal one raises ``IllegalTransition`` with the story of the
attempt, since only a mistake of ours can lead there.
"""

from __future__ import annotations

from tidegate.model.checkpoint import TaskRestore
from tidegate.model.errors import CorruptData, ErrorInfo, IllegalTransition
from tidegate.model.ids import AllocationId, AttemptId, SubtaskId, TaskManagerId
from tidegate.model.states import EXECUTION_TRANSITIONS, ExecutionState

DEPLOYED = frozenset(
    {ExecutionState.DEPLOYING, ExecutionState.INITIALIZING, ExecutionState.RUNNING, ExecutionState.CANCELING}
)
"""States in which something of the attempt may live on its TaskManager."""

RUNNING_OR_FINISHED = frozenset({ExecutionState.RUNNING, ExecutionState.FINISHED})


class Execution:
    """Mutable, but only ``ExecutionGraph.move`` changes its state."""

    __slots__ = (
        "address",
        "allocation_id",
        "at_end_of_data",
        "attempt",
        "failure",
        "finished_on_restore",
        "may_finish",
        "missing_reports",
        "restore",
        "state",
        "submit_answered",
        "subtask_id",
        "task_manager_id",
        "timestamps_ms",
    )

    def __init__(self, attempt: AttemptId, now_ms: int) -> None:
        self.attempt = attempt
        self.subtask_id: SubtaskId = attempt.subtask_id
        self.state = ExecutionState.CREATED
        self.timestamps_ms: dict[ExecutionState, int] = {ExecutionState.CREATED: now_ms}
        self.task_manager_id: TaskManagerId | None = None
        self.allocation_id: AllocationId | None = None
        self.address: str | None = None
        self.failure: ErrorInfo | None = None
        self.restore: TaskRestore | None = None
        self.finished_on_restore = False
        self.at_end_of_data = False
        self.may_finish = False
        """Its final checkpoint was confirmed: it finishes by itself now."""
        self.submit_answered = False
        self.missing_reports = 0
        """Heartbeats in a row of its TaskManager that did not list it."""

    @property
    def is_deployed(self) -> bool:
        return self.state in DEPLOYED

    def is_restore_of_damage(self, failure: ErrorInfo) -> bool:
        """It has failed before it ran, over bytes of the checkpoint that it was given."""
        is_restoring = self.restore is not None and ExecutionState.RUNNING not in self.timestamps_ms
        return is_restoring and failure.code == CorruptData.code

    def enter(self, state: ExecutionState, now_ms: int) -> None:
        """Raises ``IllegalTransition`` when the table has no such step."""
        if state not in EXECUTION_TRANSITIONS[self.state]:
            story = ", ".join(f"{s.value} at {at}" for s, at in self.timestamps_ms.items())
            raise IllegalTransition(
                f"execution {self.attempt} cannot go from {self.state.value} to {state.value} at {now_ms} "
                f"(so far: {story}); this is a bug in the JobManager"
            )
        self.state = state
        self.timestamps_ms[state] = now_ms
