"""Identifiers, as immutable values.

Texts follow Flink: a job, vertex, operator and allocation id is 32 lower-case hex digits; an execution attempt id is
``<job>_<vertex>_<subtask>_<attempt>`` (``ExecutionAttemptID.java``; our first part is the job's id, since a tidegate
job has one graph). A TaskManager id is free text, ``host:port-<6 hex>`` by default.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import NewType

JobId = NewType("JobId", str)
VertexId = NewType("VertexId", str)
OperatorId = NewType("OperatorId", str)
AllocationId = NewType("AllocationId", str)
TaskManagerId = NewType("TaskManagerId", str)
BlobKey = NewType("BlobKey", str)
"""The ``sha256`` of the blob's content, 64 hex digits."""
CheckpointId = NewType("CheckpointId", int)
"""The id of a checkpoint, which counts from 1 within a job and is never reused."""
Generation = NewType("Generation", str)
"""The id of one JobManager process (Flink: the fencing token), 32 hex digits; messages of another one are refused."""

_HEX32 = re.compile(r"[0-9a-fA-F]{32}")
_ATTEMPT = re.compile(r"([0-9a-f]{32})_([0-9a-f]{32})_(\d+)_(\d+)")


@dataclass(frozen=True, slots=True, order=True)
class SubtaskId:
    """A subtask of the graph: ``index`` (from 0) of a vertex, whatever the attempt."""

    vertex_id: VertexId
    index: int


@dataclass(frozen=True, slots=True, order=True)
class AttemptId:
    """An attempt to run a subtask. ``attempt`` counts from 0 and grows by one with every restart."""

    job_id: JobId
    vertex_id: VertexId
    subtask: int
    attempt: int

    def __str__(self) -> str:
        return f"{self.job_id}_{self.vertex_id}_{self.subtask}_{self.attempt}"

    @property
    def subtask_id(self) -> SubtaskId:
        return SubtaskId(self.vertex_id, self.subtask)


def parse_attempt_id(text: str) -> AttemptId:
    """Parses an attempt id. Raises ``ValueError`` when the text has another form."""
    found = _ATTEMPT.fullmatch(text)
    if found is None:
        raise ValueError(f"not an execution attempt id: {text!r} (expected <job>_<vertex>_<subtask>_<attempt>)")
    job, vertex, subtask, attempt = found.groups()
    return AttemptId(JobId(job), VertexId(vertex), int(subtask), int(attempt))


def parse_job_id(text: str) -> JobId:
    """Parses a job id in either case, to lower case. Raises ``ValueError`` when the text is not 32 hex digits."""
    if _HEX32.fullmatch(text) is None:
        raise ValueError(f"not a job id: {text[:100]!r} (expected [0-9a-fA-F]{{32}})")
    return JobId(text.lower())


def hex_id(*parts: str) -> str:
    """Returns 32 hex digits that depend on ``parts`` only, so that the same graph has the same ids on every machine."""
    return hashlib.sha256("\x00".join(parts).encode()).hexdigest()[:32]
