"""One execution attempt: its state, when it entered each state, and where it runs.

The legal transitions are in ``tidegate.model.states``; an illegal one raises ``IllegalTransition`` with the attempt's history,
since only a bug can cause it.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.model.checkpoint import TaskRestore
from tidegate.model.errors import CorruptData, ErrorInfo, IllegalTransition
from tidegate.model.ids import AllocationId, AttemptId, SubtaskId, TaskManagerId
from tidegate.model.leadership.attempt_report import AttemptReport
from tidegate.model.states import EXECUTION_TRANSITIONS, ExecutionState

DEPLOYED = frozenset(
    {ExecutionState.DEPLOYING, ExecutionState.INITIALIZING, ExecutionState.RUNNING, ExecutionState.CANCELING}
)
"""States in which the attempt may occupy its TaskManager."""

_E = ExecutionState
_BEFORE_IT_RAN = (_E.SCHEDULED, _E.DEPLOYING)
RUNNING_OR_FINISHED = frozenset({ExecutionState.RUNNING, ExecutionState.FINISHED})


class Execution:
    """One execution attempt. Only its own methods change it, and only ``ExecutionGraph.move`` changes its state."""

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
        """Whether the final checkpoint was confirmed, so that the attempt finishes by itself."""
        self.submit_answered = False
        self.missing_reports = 0
        """How many heartbeats of its TaskManager in a row did not list it."""

    @classmethod
    def adopted(cls, report: AttemptReport, task_manager_id: TaskManagerId, now_ms: int) -> Execution:
        """Creates the execution of an attempt that an earlier JobManager deployed. Only the time of its deployment is known."""
        execution = cls(report.attempt, report.deployed_ms or now_ms)
        for state in _way_to(report.state):
            execution.enter(state, execution.timestamps_ms[_E.CREATED] if state in _BEFORE_IT_RAN else now_ms)
        execution.assign(report.allocation_id, task_manager_id)
        execution.address = report.data_address
        execution.at_end_of_data = report.at_end_of_data or report.state is _E.FINISHED
        execution.may_finish = report.may_finish or report.state is _E.FINISHED
        execution.submit_answered = True
        return execution

    @classmethod
    def finished_before(cls, attempt: AttemptId, now_ms: int) -> Execution:
        """Creates the execution of an attempt that had finished according to a checkpoint, and that no TaskManager reports."""
        execution = cls(attempt, now_ms)
        for state in _way_to(_E.FINISHED):
            execution.enter(state, now_ms)
        execution.at_end_of_data = execution.may_finish = True
        return execution

    @property
    def is_deployed(self) -> bool:
        return self.state in DEPLOYED

    @property
    def was_deployed(self) -> bool:
        return _E.DEPLOYING in self.timestamps_ms

    def recall(self, timestamps_ms: Mapping[ExecutionState, int]) -> None:
        """Sets the times at which it entered its states, as noted by an earlier JobManager; for display only."""
        self.timestamps_ms.update({state: timestamps_ms.get(state, at) for state, at in self.timestamps_ms.items()})

    def is_restore_of_damage(self, failure: ErrorInfo) -> bool:
        """Tells whether the attempt failed before it ran because the checkpoint that it was given is corrupt."""
        is_restoring = self.restore is not None and ExecutionState.RUNNING not in self.timestamps_ms
        return is_restoring and failure.code == CorruptData.code

    def assign(self, allocation_id: AllocationId, task_manager_id: TaskManagerId) -> None:
        """Sets the slot in which it is to be deployed."""
        self.allocation_id, self.task_manager_id = allocation_id, task_manager_id

    def restore_from(self, restore: TaskRestore | None, *, finished: bool) -> None:
        """Sets the state with which it starts; ``finished``: it had finished in that checkpoint."""
        self.restore, self.finished_on_restore = restore, finished

    def listen_at(self, address: str) -> None:
        self.address = address

    def reach_end_of_data(self) -> None:
        self.at_end_of_data = True

    def let_finish(self) -> None:
        self.may_finish = True

    def on_submit_answered(self) -> None:
        self.submit_answered = True

    def on_reported(self, *, is_missing: bool) -> int:
        """Handles a heartbeat of its TaskManager; returns how many in a row did not list it."""
        self.missing_reports = self.missing_reports + 1 if is_missing else 0
        return self.missing_reports

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when its state and its slot contradict each other."""
        here = f"{self.attempt} is {self.state.value}"
        placed = self.task_manager_id is not None and self.allocation_id is not None
        assert self.state in self.timestamps_ms, f"{here}, and never entered that state"
        assert placed or not self.is_deployed, f"{here} on {self.task_manager_id} in slot {self.allocation_id}"
        assert not placed or ExecutionState.DEPLOYING in self.timestamps_ms, f"{here}, has a slot, and was not deployed"
        assert not self.may_finish or ExecutionState.DEPLOYING in self.timestamps_ms, f"{here}, and may finish"

    def enter(self, state: ExecutionState, now_ms: int, failure: ErrorInfo | None = None) -> None:
        """Enters a state. Raises ``IllegalTransition`` when the transition table does not allow it."""
        if state not in EXECUTION_TRANSITIONS[self.state]:
            story = ", ".join(f"{s.value} at {at}" for s, at in self.timestamps_ms.items())
            raise IllegalTransition(
                f"execution {self.attempt} cannot go from {self.state.value} to {state.value} at {now_ms} "
                f"(so far: {story}); this is a bug in the JobManager"
            )
        self.state = state
        self.timestamps_ms[state] = now_ms
        self.failure = failure or self.failure


def _way_to(state: ExecutionState) -> tuple[ExecutionState, ...]:
    """Returns the states that an attempt passes through to reach ``state``, that one included."""
    running = (*_BEFORE_IT_RAN, _E.INITIALIZING, _E.RUNNING)
    ways = {
        _E.DEPLOYING: _BEFORE_IT_RAN,
        _E.INITIALIZING: running[:3],
        _E.FINISHED: (*running, _E.FINISHED),
        _E.CANCELING: (*running, _E.CANCELING),
    }
    return ways.get(state, running)
