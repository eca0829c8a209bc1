"""Triggers checkpoints, savepoints and stops, and disposes of savepoints: all of them asynchronous operations."""

from __future__ import annotations

import secrets
from enum import Enum

from tidegate.jobmanager.machines.commands import ReportSnapshot
from tidegate.jobmanager.machines.events import JobCancelRequested
from tidegate.jobmanager.rest.backend import Backend
from tidegate.jobmanager.rest.handlers.operations import Operations
from tidegate.jobmanager.rest.http.errors import bad_request, not_found
from tidegate.jobmanager.rest.http.request import RestRequest, choice_of, flag_of, text_of, trigger_id_of
from tidegate.jobmanager.rest.responses.checkpoints import external_path
from tidegate.jobmanager.rest.routes import Route, reads, writes
from tidegate.model.checkpoint import SnapshotType
from tidegate.model.errors import UnknownJob
from tidegate.model.ids import JobId, hex_id
from tidegate.model.options import CheckpointingOptions
from tidegate.model.values import JsonObject

_WAIT_MS = 60_000
"""How long one round of waiting for the end of a snapshot takes, in ms."""
_NO_DIRECTORY = (
    "Config key [execution.checkpointing.savepoint-dir] is not set. Property [target-directory] must be provided."
)


class CheckpointType(Enum):
    """The types of checkpoint that a trigger may request."""

    CONFIGURED = "CONFIGURED"
    FULL = "FULL"
    INCREMENTAL = "INCREMENTAL"


class SavepointFormat(Enum):
    """Flink's savepoint formats; here there is one format, which serves for both."""

    CANONICAL = "CANONICAL"
    NATIVE = "NATIVE"


class SnapshotHandlers:
    """Answers the asynchronous operations: checkpoints on demand, savepoints, stops with a savepoint, and the disposal of savepoints."""

    def __init__(self, backend: Backend, operations: Operations) -> None:
        self._backend = backend
        self._operations = operations

    def routes(self) -> list[Route]:
        return [
            writes("POST", "/jobs/:jobid/checkpoints", self._trigger_checkpoint),
            reads("/jobs/:jobid/checkpoints/:triggerid", self._checkpoint_status),
            writes("POST", "/jobs/:jobid/savepoints", self._trigger_savepoint),
            writes("POST", "/jobs/:jobid/stop", self._trigger_stop),
            reads("/jobs/:jobid/savepoints/:triggerid", self._savepoint_status),
            writes("POST", "/savepoint-disposal", self._dispose, 200),
            reads("/savepoint-disposal/:triggerid", self._disposal_status),
        ]

    def _trigger_checkpoint(self, request: RestRequest) -> JsonObject:
        """Triggers a checkpoint. As in Flink, an unknown job is reported by the operation's result, not by its trigger."""
        job_id, body = request.job_id(), request.json_object()
        is_full = choice_of(body, "checkpointType", CheckpointType, CheckpointType.CONFIGURED) is CheckpointType.FULL

        async def work() -> JsonObject:
            end = await self._take(job_id, SnapshotType.CHECKPOINT, None, is_full=is_full)
            return {"checkpointId": end.checkpoint_id}

        return self._operations.begin(f"checkpoint-{job_id}", trigger_id_of(body), work)

    def _checkpoint_status(self, request: RestRequest) -> JsonObject:
        return self._status(request, "checkpoint", "failureCause")

    def _trigger_savepoint(self, request: RestRequest) -> JsonObject:
        body = request.json_object()
        target, cancels = text_of(body, "target-directory"), flag_of(body, "cancel-job")
        return self._savepoint(request, body, target, SnapshotType.SAVEPOINT, cancels=cancels)

    def _trigger_stop(self, request: RestRequest) -> JsonObject:
        """Triggers a stop; its status is that of a savepoint. (Flink names the fields of this request differently.)"""
        body = request.json_object()
        kind = SnapshotType.TERMINATE if flag_of(body, "drain") else SnapshotType.SUSPEND
        return self._savepoint(request, body, text_of(body, "targetDirectory"), kind)

    def _savepoint(
        self, request: RestRequest, body: JsonObject, target: str | None, kind: SnapshotType, *, cancels: bool = False
    ) -> JsonObject:
        """Triggers a savepoint.

        ``cancels``: the job is canceled once the savepoint is complete, which Flink has deprecated: what another checkpoint commits
        meanwhile comes again after a restore. A stop does not have that gap.
        """
        job_id, directory = request.job_id(), target or None
        choice_of(body, "formatType", SavepointFormat, SavepointFormat.CANONICAL)
        if directory is None and self._has_no_directory(job_id):
            raise bad_request(_NO_DIRECTORY)

        trigger_id = trigger_id_of(body) or secrets.token_hex(16)

        async def work() -> JsonObject:
            end = await self._take(job_id, kind, directory, request_id=hex_id(job_id, trigger_id))
            if cancels:
                await self._backend.ask(JobCancelRequested(job_id))
            return {"location": external_path(end.path)}

        return self._operations.begin(f"savepoint-{job_id}", trigger_id, work)

    def _savepoint_status(self, request: RestRequest) -> JsonObject:
        """Answers the status of a savepoint, also of one that was triggered at an earlier JobManager and is not over."""
        job_id, trigger_id = request.job_id(), request.hex_id("triggerid")
        kind, request_id = f"savepoint-{job_id}", hex_id(job_id, trigger_id)

        async def work() -> JsonObject:
            return {"location": external_path((await self._end_of(job_id, request_id)).path)}

        if self._operations.find(kind, trigger_id) is None and self._backend.snapshots.is_known(job_id, request_id):
            self._operations.begin(kind, trigger_id, work)
        return self._status(request, "savepoint", "failure-cause")

    def _dispose(self, request: RestRequest) -> JsonObject:
        body = request.json_object()
        path = text_of(body, "savepoint-path")
        if not path:
            raise bad_request("Request did not match expected format: savepoint-path is missing.")

        async def work() -> JsonObject:
            await self._backend.dispose(path.removeprefix("file:") if path.startswith("file:/") else path)
            return {}

        return self._operations.begin("disposal", trigger_id_of(body), work)

    def _disposal_status(self, request: RestRequest) -> JsonObject:
        trigger_id = request.hex_id("triggerid")
        operation = self._operations.find("disposal", trigger_id)
        if operation is None:
            raise not_found(f"There is no savepoint disposal operation with triggerId={trigger_id}.")
        return operation.status("failure-cause")

    # ---- steps -------------------------------------------------------------------------------------------------------

    def _status(self, request: RestRequest, kind: str, failure_key: str) -> JsonObject:
        job_id, trigger_id = request.job_id(), request.hex_id("triggerid")
        operation = self._operations.find(f"{kind}-{job_id}", trigger_id)
        if operation is None:
            raise not_found(f"There is no {kind} operation with triggerId={trigger_id} for job {job_id}.")
        return operation.status(failure_key)

    def _has_no_directory(self, job_id: JobId) -> bool:
        """Tells whether a job has no savepoint directory; for an unknown job, the cluster's setting counts."""
        if self._backend.views.job(job_id) is None:
            return self._backend.configuration.get(CheckpointingOptions.SAVEPOINT_DIRECTORY) is None
        return not self._backend.has_savepoint_directory(job_id)

    async def _take(
        self,
        job_id: JobId,
        snapshot_type: SnapshotType,
        directory: str | None,
        *,
        is_full: bool = False,
        request_id: str = "",
    ) -> ReportSnapshot:
        """Takes a snapshot and waits until it is over. Raises its error."""
        if self._backend.views.job(job_id) is None:
            raise UnknownJob(f"Could not find Flink job ({job_id})")
        target = None if directory is None else await self._backend.place_of_client(directory)
        begun = self._backend.snapshots.begin(job_id, snapshot_type, target, is_full=is_full, request_id=request_id)
        await self._backend.ask(begun)
        return await self._end_of(job_id, begun.request_id)

    async def _end_of(self, job_id: JobId, request_id: str) -> ReportSnapshot:
        """Waits until a snapshot is over. Raises its error."""
        while True:
            end = await self._backend.snapshots.end_of(job_id, request_id, _WAIT_MS)
            if end is not None:
                break
        if end.error is not None:
            raise end.error.to_exception()
        return end
