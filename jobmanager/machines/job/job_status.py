"""The state of a job, the time at which it entered each state, and its failures.

Which events are allowed in a state, and where they lead, is the table ``JOB_TRANSITIONS`` (docs/state-machines.md draws it). Events
without an entry change nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from enum import Enum

from tidegate.jobmanager.machines.command_buffer import CommandBuffer
from tidegate.jobmanager.machines.views import FailureView, JobHistory
from tidegate.model.errors import ErrorInfo
from tidegate.model.ids import AttemptId, JobId
from tidegate.model.states import JobState

FAILURES_REMEMBERED = 16
"""How many failures are kept: Flink's default of ``web.exception-history-size``."""


class JobEvent(Enum):
    """The events that change the state of a job."""

    ACCEPTED = "accepted"
    REFUSED = "cannot be restored"
    SCHEDULED = "slots are asked for"
    AWAITED = "its subtasks may be running"
    RECONCILED = "who runs is known"
    RESTART_DECIDED = "a task failed, and some are to restart"
    RESTARTED = "those are over, and the backoff too"
    FAILED_FOR_GOOD = "a task failed, and nothing restarts"
    CANCEL_REQUESTED = "a user cancels it"
    TASKS_FINISHED = "all tasks have finished"
    TASKS_OVER = "all tasks are over"


_J, _E = JobState, JobEvent
JOB_TRANSITIONS: Mapping[JobState, Mapping[JobEvent, JobState]] = {
    _J.INITIALIZING: {_E.ACCEPTED: _J.CREATED, _E.REFUSED: _J.FAILED},
    _J.CREATED: {_E.SCHEDULED: _J.RUNNING, _E.AWAITED: _J.RECONCILING},
    _J.RECONCILING: {_E.RECONCILED: _J.RUNNING},
    _J.RUNNING: {
        _E.RESTART_DECIDED: _J.RESTARTING,
        _E.FAILED_FOR_GOOD: _J.FAILING,
        _E.CANCEL_REQUESTED: _J.CANCELLING,
        _E.TASKS_FINISHED: _J.FINISHED,
    },
    _J.RESTARTING: {
        _E.RESTART_DECIDED: _J.RESTARTING,
        _E.RESTARTED: _J.RUNNING,
        _E.FAILED_FOR_GOOD: _J.FAILING,
        _E.CANCEL_REQUESTED: _J.CANCELLING,
    },
    _J.FAILING: {_E.CANCEL_REQUESTED: _J.CANCELLING, _E.TASKS_OVER: _J.FAILED},
    _J.CANCELLING: {_E.TASKS_OVER: _J.CANCELED},
    _J.FAILED: {},
    _J.CANCELED: {},
    _J.FINISHED: {},
    _J.SUSPENDED: {},
}


class JobStatusHistory:
    """The state of one job, when it entered each of its states, and its failures."""

    def __init__(self, job_id: JobId, name: str, buffer: CommandBuffer) -> None:
        self._job_id = job_id
        self._name = name
        self._buffer = buffer
        self.state = JobState.INITIALIZING
        self.timestamps_ms = {JobState.INITIALIZING: buffer.now_ms}
        self.failures: deque[FailureView] = deque(maxlen=FAILURES_REMEMBERED)
        self.restarts = 0

    def recall(self, history: JobHistory) -> None:
        """Takes over the start time, restarts and failures of earlier JobManagers."""
        self.timestamps_ms[JobState.INITIALIZING] = min(history.start_ms, self._buffer.now_ms)
        self.restarts = history.restarts
        self.failures.extend(history.failures)

    def may(self, event: JobEvent) -> bool:
        """Tells whether the event is allowed in the current state."""
        return event in JOB_TRANSITIONS[self.state]

    def on(self, event: JobEvent, why: str = "") -> bool:
        """Enters the state to which the event leads; returns ``False`` when the event is not allowed in the current state. ``why``: for the log."""
        state = JOB_TRANSITIONS[self.state].get(event)
        if state is None:
            return False
        if state is not self.state:
            cause = f": {why}" if why else ""
            self._buffer.log("INFO", f"job {self._name!r} is {state.value}{cause}", job=self._job_id)
            self.state = state
            self.timestamps_ms[state] = self._buffer.now_ms
            self._buffer.changed(self._job_id)
        return True

    def count_restart(self) -> None:
        self.restarts += 1

    def remember(self, failure: ErrorInfo, attempt: AttemptId | None) -> None:
        """Adds a failure to the history. One of the same attempt, known from an earlier JobManager, is replaced."""
        before = next((known for known in self.failures if attempt is not None and known.attempt == attempt), None)
        if before is not None:
            self.failures.remove(before)
        self.failures.append(FailureView(before.at_ms if before else self._buffer.now_ms, failure, attempt))

    def amend(self, failure: ErrorInfo) -> None:
        """Replaces the last failure by the same failure with its consequence."""
        last = self.failures.pop()
        self.failures.append(FailureView(last.at_ms, failure, last.attempt))

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when the state is not the one that was entered last."""
        latest_ms = max(self.timestamps_ms.values())
        assert self.timestamps_ms.get(self.state) == latest_ms, (
            f"{self.state.value} is not the newest of {self.timestamps_ms}"
        )
        assert self.restarts >= 0, self.restarts
