"""The states of a job and of an execution, with their legal transitions as data.

    INITIALIZING ─▶ CREATED ─▶ RUNNING ─▶ FINISHED            CREATED ─▶ SCHEDULED ─▶ DEPLOYING ─▶ INITIALIZING ─▶ RUNNING ─▶ FINISHED
         │             │        │  ▲                              │           │            │             │            │
         │             │        ▼  │                              └─────┬─────┘            └─────────────┴────────────┤
         │             │     RESTARTING                                 ▼                                             ▼
         └─────────────┴────────┴──▶ FAILING ─▶ FAILED               CANCELED ◀──────────────────────────────── CANCELING
       any not terminal ─▶ CANCELLING ─▶ CANCELED                     any not terminal ─▶ FAILED

Follows Flink's ``JobStatus.java``, ``DefaultExecutionGraph.java`` and ``ExecutionState.java``.
"""

from __future__ import annotations

from enum import Enum


class JobState(Enum):
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

    @property
    def is_terminal(self) -> bool:
        """Globally terminal: nobody will run this job again (SUSPENDED is not)."""
        return self in (JobState.FAILED, JobState.CANCELED, JobState.FINISHED)


class ExecutionState(Enum):
    """Hashed by identity: it is the key of counts that are looked up for every message of a task."""

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


_J = JobState
JOB_TRANSITIONS: dict[JobState, frozenset[JobState]] = {
    _J.INITIALIZING: frozenset({_J.CREATED, _J.FAILING, _J.FAILED, _J.CANCELLING, _J.SUSPENDED}),
    _J.CREATED: frozenset({_J.RUNNING, _J.FAILING, _J.CANCELLING, _J.SUSPENDED}),
    _J.RUNNING: frozenset({_J.RESTARTING, _J.FAILING, _J.CANCELLING, _J.FINISHED, _J.SUSPENDED}),
    _J.RESTARTING: frozenset({_J.RUNNING, _J.FAILING, _J.CANCELLING, _J.SUSPENDED}),
    _J.FAILING: frozenset({_J.FAILED, _J.CANCELLING, _J.SUSPENDED}),
    _J.CANCELLING: frozenset({_J.CANCELED, _J.SUSPENDED}),
    _J.FAILED: frozenset(),
    _J.CANCELED: frozenset(),
    _J.FINISHED: frozenset(),
    _J.SUSPENDED: frozenset(),
}

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
