"""How long a request to each method of the JobManager may be."""

from __future__ import annotations

from tidegate.aio.rpc import BLOB_CHUNK_BYTES, RequestLimits
from tidegate.model.configuration import Configuration
from tidegate.model.options import JobManagerOptions

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


def request_limits(configuration: Configuration) -> RequestLimits:
    most_bytes = configuration.get(JobManagerOptions.MAX_MESSAGE_SIZE)
    return RequestLimits(most_bytes, {**dict.fromkeys(_AS_LONG_AS_ANY, most_bytes), "PutBlob": 4 * BLOB_CHUNK_BYTES})
