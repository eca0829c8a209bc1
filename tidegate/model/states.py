"""The states of a job and of an execution; those of an execution with their legal transitions as data (docs/state-machines.md draws them).

Follows Flink's ``JobStatus.java``, ``DefaultExecutionGraph.java`` and ``ExecutionState.java``.
"""

from __future__ import annotations

from enum import Enum


class JobState(Enum):
    """The states of a job (Flink: ``JobStatus``)."""

    INITIALIZING = "INITIALIZING"
    CREATED = "CREATED"
    RUNNING = "RUNNING"
    FAILING = "FAILING"
    FAILED = "FAILED"
    CANCELLING = "CANCELLING"
    CANCELED = "CANCELED"
    FINISHED = "FINISHED"
    RESTARTING = "RESTARTING"
    SUSPENDED = "SUSPENDED"
    RECONCILING = "RECONCILING"
    """A JobManager has taken the lead, and waits for TaskManagers' reports of the job's subtasks."""

    @property
    def is_terminal(self) -> bool:
        """Returns whether the state is globally terminal: the job will never run again (SUSPENDED is not)."""
        return self in (JobState.FAILED, JobState.CANCELED, JobState.FINISHED)


class ExecutionState(Enum):
    """The states of an execution attempt. Hashed by identity, since counts by state are looked up for every message of a task."""

    CREATED = "CREATED"
    SCHEDULED = "SCHEDULED"
    DEPLOYING = "DEPLOYING"
    INITIALIZING = "INITIALIZING"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    CANCELING = "CANCELING"
    CANCELED = "CANCELED"
    FAILED = "FAILED"

    __hash__ = object.__hash__

    @property
    def is_terminal(self) -> bool:
        return self in (ExecutionState.FINISHED, ExecutionState.CANCELED, ExecutionState.FAILED)


_E = ExecutionState
EXECUTION_TRANSITIONS: dict[ExecutionState, frozenset[ExecutionState]] = {
    _E.CREATED: frozenset({_E.SCHEDULED, _E.CANCELED, _E.FAILED}),
    _E.SCHEDULED: frozenset({_E.DEPLOYING, _E.CANCELED, _E.FAILED}),
    _E.DEPLOYING: frozenset({_E.INITIALIZING, _E.RUNNING, _E.FINISHED, _E.CANCELING, _E.FAILED}),
    _E.INITIALIZING: frozenset({_E.RUNNING, _E.FINISHED, _E.CANCELING, _E.FAILED}),
    _E.RUNNING: frozenset({_E.FINISHED, _E.CANCELING, _E.FAILED}),
    _E.CANCELING: frozenset({_E.CANCELED, _E.FAILED, _E.FINISHED}),
    _E.FINISHED: frozenset(),
    _E.CANCELED: frozenset(),
    _E.FAILED: frozenset(),
}
