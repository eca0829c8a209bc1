"""How long a request to each method of the JobManager may be."""

from __future__ import annotations

from tidegate.aio.rpc import BLOB_CHUNK_BYTES, RequestLimits

_AS_LONG_AS_ANY = (
    "SubmitJob",
    "RegisterTaskManager",
    "Heartbeat",
    "UpdateTaskState",
    "AcknowledgeCheckpoint",
    "DeclineCheckpoint",
    "SendOperatorEvent",
    "RegisterKvState",
)
"""They carry graphs, states, or lists of subtasks with their figures."""


def request_limits(most_bytes: int) -> RequestLimits:
    return RequestLimits(most_bytes, {**dict.fromkeys(_AS_LONG_AS_ANY, most_bytes), "PutBlob": 4 * BLOB_CHUNK_BYTES})
