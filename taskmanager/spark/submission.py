"""`SparkSubmission`: an attempt of a subtask, as Spark is given it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tidegate.model.graph import SlotResources
from tidegate.model.ids import AttemptId
from tidegate.taskmanager.machines.task_events import StoredEdges


@dataclass(frozen=True, slots=True)
class SubmittedQuery:
    """``load`` gives the pickled operators of the vertex that are Spark's, by operator id; it is called, and opened, in the
    attempt's thread of this Spark driver: the one place of a TaskManager's own process that runs user code."""

    load: Callable[[], bytes]
    configuration: Mapping[str, str]
    is_restored: bool


@dataclass(frozen=True, slots=True)
class SparkSubmission:
    """One attempt to run. ``settings`` are those of ``WorkerSettings``, as texts."""

    attempt: AttemptId
    task_name: str
    parallelism: int
    token: str
    settings: Mapping[str, str] = field(default_factory=dict)
    query: SubmittedQuery | None = None
    """For ``from_spark``."""
    stored: StoredEdges | None = None
    """For a job whose exchanges block."""
    resources: SlotResources | None = None
    """What its slot is to have."""
    slot_bytes: int = 0
    """Memory of a slot of this TaskManager; 0: not bounded."""
