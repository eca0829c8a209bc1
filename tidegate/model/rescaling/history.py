"""The history of a job's rescalings.

Names and meanings are those of Flink 2.3's ``adaptive/timeline`` (``Rescale.java``, ``TriggerCause.java``, ``TerminatedReason.java``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from tidegate.model.errors import ErrorInfo
from tidegate.model.ids import VertexId
from tidegate.model.rescaling.bounds import ParallelismBounds
from tidegate.model.stats_summary import NO_SAMPLES, StatsSummary


class TriggerCause(Enum):
    """Why a rescale began."""

    INITIAL_SCHEDULE = "the job is started"
    UPDATE_REQUIREMENT = "another parallelism was asked for"
    NEW_RESOURCE_AVAILABLE = "there are more slots"
    RECOVERABLE_FAILOVER = "a failure restarts it"


class TerminalState(Enum):
    """How a rescale ended."""

    COMPLETED = "the job runs with it"
    FAILED = "it was tried in vain"
    IGNORED = "something else happened first"


class TerminatedReason(Enum):
    """Why a rescale ended."""

    SUCCEEDED = "all subtasks run"
    EXCEPTION_OCCURRED = "an exception"
    RESOURCE_REQUIREMENTS_UPDATED = "yet another parallelism was asked for"
    NO_RESOURCES_OR_PARALLELISMS_CHANGE = "the job has the parallelism that it can have"
    JOB_FINISHED = "the job has finished"
    JOB_FAILED = "the job has failed"
    JOB_CANCELED = "the job was canceled"
    JOB_FAILOVER_RESTARTING = "a failure restarted the job"

    @property
    def terminal_state(self) -> TerminalState:
        match self:
            case TerminatedReason.SUCCEEDED:
                return TerminalState.COMPLETED
            case TerminatedReason.EXCEPTION_OCCURRED:
                return TerminalState.FAILED
            case _:
                return TerminalState.IGNORED


class SchedulerState(Enum):
    """The values are the names of the states of Flink's ``AdaptiveScheduler``, as its REST API has them."""

    CREATED = "Created"
    WAITING_FOR_RESOURCES = "WaitingForResources"
    CREATING_EXECUTION_GRAPH = "CreatingExecutionGraph"
    EXECUTING = "Executing"
    RESTARTING = "Restarting"
    FAILING = "Failing"
    CANCELING = "Canceling"
    FINISHED = "Finished"


@dataclass(frozen=True, slots=True)
class SchedulerStateSpan:
    """A period in one scheduler state. ``left_ms``: ``None`` while the job is in this state. ``error``: why it was entered."""

    state: SchedulerState
    entered_ms: int
    left_ms: int | None = None
    error: ErrorInfo | None = None


@dataclass(frozen=True, slots=True)
class VertexRescale:
    """The parallelism of one vertex ``before`` (``None``: it did not run yet) and ``after`` (``None``: it does not run with it, or not yet)."""

    vertex_id: VertexId
    name: str
    slot_sharing_group: str
    bounds: ParallelismBounds
    before: int | None
    after: int | None = None


@dataclass(frozen=True, slots=True)
class Rescale:
    """One rescaling. ``attempt`` counts those for the same requirements. ``ended_ms`` and ``reason``: ``None`` while it is in progress."""

    rescale_id: str
    requirements_id: str
    attempt: int
    trigger: TriggerCause
    started_ms: int
    vertices: tuple[VertexRescale, ...]
    spans: tuple[SchedulerStateSpan, ...] = ()
    ended_ms: int | None = None
    reason: TerminatedReason | None = None


@dataclass(frozen=True, slots=True)
class Rescales:
    """The rescalings of a job. ``history``: the latest ones, newest first. Counts and durations, in ms, include older ones."""

    history: tuple[Rescale, ...] = ()
    latest: Mapping[TerminalState, Rescale] = field(default_factory=dict)
    counts: Mapping[TerminalState, int] = field(default_factory=dict)
    in_progress: int = 0
    durations: Mapping[TerminalState, StatsSummary] = field(default_factory=dict)
    all_durations: StatsSummary = NO_SAMPLES
