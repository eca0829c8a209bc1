"""The calls of clients about snapshots: trigger one, ask for its outcome, dispose of one."""

from __future__ import annotations

import re
from functools import partial

from tidegate.aio.pool import Pool
from tidegate.jobmanager.machines.commands import ReportSnapshot
from tidegate.jobmanager.service.core import JobManagerCore
from tidegate.model.checkpoint import SnapshotType
from tidegate.model.errors import ErrorInfo, Misuse, TidegateError, UnknownJob
from tidegate.model.ids import JobId, parse_job_id
from tidegate.pb import common_pb2
from tidegate.pb import jobmanager_pb2 as pb
from tidegate.pb.jobmanager_pb2_grpc import JobManagerClientServiceServicer
from tidegate.store.checkpoints import CheckpointStorage
from tidegate.wire.convert import ack_of, error_to_pb

_REQUEST_ID = re.compile(r"[0-9a-f]{32}")


class Disposal:
    """Disposes of snapshots that users name."""

    def __init__(self, core: JobManagerCore, storage: CheckpointStorage, pool: Pool) -> None:
        self._core = core
        self._storage = storage
        self._pool = pool

    async def dispose(self, path: str) -> None:
        """Deletes a snapshot, and its shared files that no other checkpoint names.

        Raises ``StorageError`` when there is none or it cannot be deleted, ``Misuse`` while a job may restore it, and for a path that clients
        may not name.
        """
        location = await self._pool.submit(partial(self._storage.location_of_client, path))
        for job in self._core.machine.jobs():
            checkpoints = self._core.machine.checkpoints(job.job_id)
            if job.state.is_terminal or checkpoints is None:
                continue
            needed = (checkpoints.last_completed, checkpoints.last_restored)
            is_same = partial(self._storage.is_same, location)
            if any([c is not None and await self._pool.submit(partial(is_same, c.location)) for c in needed]):
                raise Misuse(
                    f"{location} cannot be removed, since job {job.job_id} would recover from it; cancel or stop the job first"
                )
        unshared = await self._pool.submit(partial(self._storage.shared_by_nobody_else, location))
        await self._pool.submit(partial(self._storage.discard, location))
        unused = [path for path in unshared if not self._core.machine.uses_shared_file(path)]
        await self._pool.submit(partial(self._storage.discard_shared, unused))


class SnapshotServicer(JobManagerClientServiceServicer):
    """Serves the calls of clients that take checkpoints and savepoints, stop jobs with a savepoint, and remove savepoints."""

    def __init__(self, core: JobManagerCore, disposal: Disposal) -> None:
        self._core = core
        self.disposal = disposal

    async def TriggerSavepoint(self, request: pb.TriggerSavepointRequest, context: object) -> pb.SnapshotResponse:
        return await self._savepoint(request, SnapshotType.SAVEPOINT)

    async def StopWithSavepoint(self, request: pb.StopWithSavepointRequest, context: object) -> pb.SnapshotResponse:
        kind = SnapshotType.TERMINATE if request.drain else SnapshotType.SUSPEND
        return await self._savepoint(request, kind)

    async def TriggerCheckpoint(self, request: pb.TriggerJobCheckpointRequest, context: object) -> pb.SnapshotResponse:
        try:
            job_id = known_job(self._core, request.job_id)
            begun = self._core.snapshots.begin(job_id, SnapshotType.CHECKPOINT, is_full=request.full)
            await self._core.ask(begun)
        except TidegateError as error:
            return _refused(error)
        return await self._end_of(job_id, begun.request_id, request.wait_ms)

    async def DisposeSavepoint(self, request: pb.DisposeSavepointRequest, context: object) -> common_pb2.Ack:
        try:
            await self.disposal.dispose(request.path)
        except TidegateError as error:
            return ack_of(error)
        return ack_of()

    async def _savepoint(
        self, request: pb.TriggerSavepointRequest | pb.StopWithSavepointRequest, kind: SnapshotType
    ) -> pb.SnapshotResponse:
        """Starts a savepoint. A repeated request with the same id, to this JobManager or the next one, is the same savepoint."""
        directory, request_id = request.target_directory, request.request_id
        try:
            job_id = known_job(self._core, request.job_id)
            if request_id and not _REQUEST_ID.fullmatch(request_id):
                raise Misuse(f"the request id {request_id!r} does not have 32 hex digits")
            if not directory and not self._core.has_savepoint_directory(job_id):
                raise Misuse(
                    "No savepoint directory configured. You can either specify a directory or configure a default "
                    "via key 'execution.checkpointing.savepoint-dir'."
                )
            target = await self._core.place_of_client(directory) if directory else None
            if not self._core.snapshots.is_known(job_id, request_id):
                begun = self._core.snapshots.begin(job_id, kind, target, request_id=request_id)
                request_id = begun.request_id
                await self._core.ask(begun)
        except TidegateError as error:
            return _refused(error)
        return await self._end_of(job_id, request_id, request.wait_ms)

    async def _end_of(self, job_id: JobId, request_id: str, wait_ms: int) -> pb.SnapshotResponse:
        try:
            return _answer(request_id, await self._core.snapshots.end_of(job_id, request_id, wait_ms))
        except TidegateError as error:
            return _refused(error)


def known_job(core: JobManagerCore, text: str) -> JobId:
    """Parses the id of a known job. Raises ``Misuse`` for a text that is no id, ``UnknownJob``."""
    try:
        job_id = parse_job_id(text)
    except ValueError as error:
        raise Misuse(str(error)) from None
    if not core.is_known(job_id):
        raise UnknownJob(f"this cluster has no job {job_id}; `tidegate list -a` shows all jobs")
    return job_id


def _refused(error: TidegateError) -> pb.SnapshotResponse:
    return pb.SnapshotResponse(error=error_to_pb(ErrorInfo.of(error)))


def _answer(request_id: str, end: ReportSnapshot | None) -> pb.SnapshotResponse:
    if end is None:
        return pb.SnapshotResponse(request_id=request_id, in_progress=True)
    error = None if end.error is None else error_to_pb(end.error)
    return pb.SnapshotResponse(
        error=error, request_id=request_id, checkpoint_id=int(end.checkpoint_id or 0), path=end.path
    )
