"""The maximum size of a request to each gRPC method of the JobManager."""

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
"""Methods whose requests may be large: they carry graphs, states, or lists of subtasks with their metrics."""


def request_limits(configuration: Configuration) -> RequestLimits:
    most_bytes = configuration.get(JobManagerOptions.MAX_MESSAGE_SIZE)
    return RequestLimits(most_bytes, {**dict.fromkeys(_AS_LONG_AS_ANY, most_bytes), "PutBlob": 4 * BLOB_CHUNK_BYTES})
