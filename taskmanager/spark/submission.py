"""Defines `SparkSubmission`: an attempt of a subtask as it is submitted to Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tidegate.model.graph import SlotResources
from tidegate.model.ids import AttemptId
from tidegate.taskmanager.machines.task_events import StoredEdges


@dataclass(frozen=True, slots=True)
class SubmittedQuery:
    """The vertex's operators that run in the Spark driver. ``load`` returns their pickle (a mapping by operator id).

    It is loaded in the attempt's thread of this process: the only place where a TaskManager's own process runs user code.
    """

    load: Callable[[], bytes]
    configuration: Mapping[str, str]
    is_restored: bool


@dataclass(frozen=True, slots=True)
class SparkSubmission:
    """An attempt to run. ``settings``: the fields of ``WorkerSettings`` as texts."""

    attempt: AttemptId
    task_name: str
    parallelism: int
    token: str
    settings: Mapping[str, str] = field(default_factory=dict)
    query: SubmittedQuery | None = None
    """Operators of Spark, for a vertex with ``from_spark``, ``from_spark_stream`` or ``to_spark``."""
    stored: StoredEdges | None = None
    """Stored inputs and outputs, for a job with blocking exchanges."""
    resources: SlotResources | None = None
    """Resources that the attempt's slot must have."""
    slot_bytes: int = 0
    """Memory of a slot of this TaskManager in bytes; 0: not bounded."""
