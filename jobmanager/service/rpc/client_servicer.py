"""The gRPC service for clients (``JobManagerClientService``); its calls about snapshots are in ``SnapshotServicer``."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence

from tidegate.aio.pool import Pool
from tidegate.aio.process import Shutdown
from tidegate.aio.rpc import ServerContext, abort
from tidegate.high_availability.port import Deposed
from tidegate.jobmanager.machines.events import JobCancelRequested, RescaleRequested
from tidegate.jobmanager.programs.blobs import BlobStore
from tidegate.jobmanager.rest.history import History
from tidegate.jobmanager.rest.requested_bounds import bounds_with
from tidegate.jobmanager.service.clients import status
from tidegate.jobmanager.service.clients.submission import Submission
from tidegate.jobmanager.service.core import JobManagerCore
from tidegate.jobmanager.service.high_availability.services import HighAvailability
from tidegate.jobmanager.service.rpc.snapshot_servicer import Disposal, SnapshotServicer, known_job
from tidegate.jobmanager.web.archived import items_of
from tidegate.jobmanager.web.findings import JobFinding
from tidegate.model.errors import ErrorInfo, InvalidJob, Misuse, StorageError, TidegateError, Unreachable
from tidegate.model.ids import JobId
from tidegate.model.job_configuration import hide
from tidegate.model.options import FileOptions
from tidegate.model.states import JobState
from tidegate.pb import common_pb2
from tidegate.pb import jobmanager_pb2 as pb
from tidegate.store.checkpoints import CheckpointStorage
from tidegate.wire.convert import ack_of, error_to_pb, graph_to_pb
from tidegate.wire.convert_kv_state import kv_state_to_pb, places_to_pb

WATCH_INTERVAL_MS = 1_000
"""The longest time between two messages of a watch, in ms: counters change without an event of the machine."""
WATCH_PAUSE_MS = 50
"""The shortest time between two messages of a watch, in ms. It delays a message after its change, so that work in progress,
such as a checkpoint, goes first.
"""
WATCH_PAUSE_FACTOR = 20
"""The pause is also at least this many times what it took to build the message: a watcher of ten thousand starting
subtasks must not occupy the loop.
"""

_log = logging.getLogger(__name__)


class ClientServicer(SnapshotServicer):
    """Answers clients from the machine's views; changes go through events."""

    def __init__(
        self,
        core: JobManagerCore,
        submission: Submission,
        blobs: BlobStore,
        storage: CheckpointStorage,
        pool: Pool,
        shutdown: Shutdown,
        availability: HighAvailability,
    ) -> None:
        super().__init__(core, Disposal(core, storage, pool))
        self._submission = submission
        self._blobs = blobs
        self._shutdown = shutdown
        self._availability = availability
        self._pool = pool
        self._submitting = asyncio.Lock()
        self.rest_port = 0
        self.history: History | None = None
        """Archived jobs that have ended."""
        self.findings_of: Callable[[JobId], Sequence[JobFinding]] = lambda job_id: ()
        """Returns what is wrong with how a job works."""

    async def SubmitJob(self, request: pb.SubmitJobRequest, context: object) -> pb.SubmitJobResponse:
        try:
            async with self._submitting:
                submitted, directories = await self._submission.check(request)
                await self._keep(submitted.graph.job_id, request)
                self._core.submit(submitted, directories)
        except TidegateError as error:
            _log.info("refused job %r: %s", request.graph.name, error.message)
            return pb.SubmitJobResponse(error=error_to_pb(ErrorInfo.of(error)))
        return pb.SubmitJobResponse(job_id=submitted.graph.job_id)

    async def _keep(self, job_id: JobId, request: pb.SubmitJobRequest) -> None:
        """Stores a job for the next JobManager. A job that cannot be stored is refused.

        Its blobs stay when another leader may have accepted it: that one needs them, or removes them.
        """
        try:
            await self._blobs.keep(job_id)
            await self._availability.jobs.add(job_id, request)
        except Deposed as error:
            raise Unreachable(f"this JobManager is no longer the leader; ask the new one ({error.message})") from None
        except InvalidJob:
            raise
        except TidegateError:
            self._blobs.release(job_id)
            raise

    async def CancelJob(self, request: pb.JobRequest, context: object) -> common_pb2.Ack:
        try:
            job_id = self._known(request.job_id)
            state = self._core.machine.state_of(job_id)
            if state is not None and state.is_terminal and state is not JobState.CANCELED:
                raise Misuse(f"job {job_id} cannot be cancelled: it is {state.value} already")
            await self._core.ask(JobCancelRequested(job_id))
        except TidegateError as error:
            return ack_of(error)
        return ack_of()

    async def RescaleJob(self, request: pb.RescaleJobRequest, context: object) -> pb.RescaleJobResponse:
        try:
            job = self._core.machine.job(self._known(request.job_id))
            assert job is not None, request.job_id
            bounds = bounds_with(job, request.parallelism, request.vertices)
            event = RescaleRequested(job.job_id, bounds)
            if refusal := self._core.machine.refusal_of(event):
                raise Misuse(f"job {job.job_id} was not rescaled: {refusal}")
            await self._core.ask(event)
        except TidegateError as error:
            return pb.RescaleJobResponse(error=error_to_pb(ErrorInfo.of(error)))
        return pb.RescaleJobResponse(parallelism={vertex_id: both.upper for vertex_id, both in bounds.items()})

    async def ListJobs(self, request: pb.ListJobsRequest, context: object) -> pb.ListJobsResponse:
        jobs = self._core.machine.summaries()
        listed = [job for job in jobs if request.include_terminal or not job.state.is_terminal]
        ended = self.history if request.include_terminal else None
        archived = [] if ended is None else items_of(ended, [job.job_id for job in jobs])
        found = self.findings_of if request.with_findings else lambda job_id: ()
        return pb.ListJobsResponse(
            jobs=[
                *(status.job_summary(job, found(job.job_id)) for job in listed),
                *map(status.archived_summary, archived),
            ]
        )

    async def WatchJob(self, request: pb.JobRequest, context: object) -> AsyncIterator[pb.JobStatus]:
        try:
            job_id = self._known(request.job_id)
        except TidegateError as error:
            yield pb.JobStatus(error=error_to_pb(ErrorInfo.of(error)))
            return
        with self._core.watchers.watch(job_id) as changed:
            while True:
                began_s = time.perf_counter()
                job = self._core.machine.job(job_id)
                if job is None:
                    return
                changed.clear()
                if job.state.is_terminal and not self._core.is_durable(job_id):
                    await changed.wait()
                    continue
                attempts = self._core.attempts
                found = status.job_status(job, attempts.metrics_of, attempts.late_records(job_id))
                took_ms = (time.perf_counter() - began_s) * 1000
                yield found
                if job.state.is_terminal:
                    return
                await _wait(changed, WATCH_INTERVAL_MS - WATCH_PAUSE_MS)
                await self._settled(job_id, job.state, changed, max(WATCH_PAUSE_MS, took_ms * WATCH_PAUSE_FACTOR))

    async def _settled(self, job_id: JobId, state: JobState, changed: asyncio.Event, pause_ms: float) -> None:
        """Waits for the pause between two messages, or until the job has another state."""
        until = asyncio.get_running_loop().time() + pause_ms / 1000
        while self._core.machine.state_of(job_id) is state:
            left_ms = (until - asyncio.get_running_loop().time()) * 1000
            if left_ms <= 0:
                return
            changed.clear()
            await _wait(changed, left_ms)

    async def ListCheckpoints(self, request: pb.ListCheckpointsRequest, context: object) -> pb.CheckpointList:
        try:
            checkpoints = self._core.machine.checkpoints(self._known(request.job_id))
            assert checkpoints is not None, request.job_id
            return status.checkpoint_list(checkpoints, request.subtasks_of if request.HasField("subtasks_of") else None)
        except TidegateError as error:
            return pb.CheckpointList(error=error_to_pb(ErrorInfo.of(error)))

    async def GetJobGraph(self, request: pb.JobRequest, context: object) -> pb.JobGraphAnswer:
        try:
            graph = self._core.machine.graph_of(self._known(request.job_id))
            assert graph is not None, request.job_id
        except TidegateError as error:
            return pb.JobGraphAnswer(error=error_to_pb(ErrorInfo.of(error)))
        answer = pb.JobGraphAnswer(graph=graph_to_pb(graph))
        hide(answer.graph.configuration)
        return answer

    async def GetKvStateLocation(self, request: pb.KvStateLocationRequest, context: object) -> pb.KvStateLocationAnswer:
        core = self._core
        try:
            job_id = self._known(request.job_id)
        except TidegateError as error:
            return pb.KvStateLocationAnswer(error=error_to_pb(ErrorInfo.of(error)))
        state, checkpoints = core.machine.state_of(job_id), core.machine.checkpoints(job_id)
        found = core.kv_states.locate(job_id, request.name, core.attempts.is_current)
        last = None if checkpoints is None else checkpoints.last_completed or checkpoints.last_restored
        return pb.KvStateLocationAnswer(
            job_state="" if state is None else state.value,
            info=None if found is None else kv_state_to_pb(found.info),
            places=[] if found is None else places_to_pb(found),
            checkpoint_id=0 if last is None else last.checkpoint_id,
            checkpoint_path="" if last is None else last.location,
            names=core.kv_states.names(job_id),
        )

    async def GetCluster(self, request: pb.GetClusterRequest, context: object) -> pb.ClusterStatus:
        answer = status.cluster_status(self._core.machine.cluster(), self.rest_port)
        available = self._availability
        answer.high_availability, answer.term, answer.process = (
            available.type.value,
            available.term.number,
            available.process,
        )
        for standby in [] if available.lookup is None else await available.lookup.standbys():
            answer.standbys.add(process=standby.process, rpc=standby.rpc, rest=standby.rest)
        return answer

    async def Shutdown(self, request: pb.ShutdownRequest, context: object) -> common_pb2.Ack:
        self._shutdown.ask("a client asked for it")
        return ack_of()

    async def PutBlob(
        self, request_iterator: AsyncIterator[common_pb2.BlobChunk], context: ServerContext
    ) -> common_pb2.BlobRef:
        try:
            upload = self._blobs.begin()
            try:
                async for chunk in request_iterator:
                    if upload.size_bytes + len(chunk.data) > self._blobs.max_bytes:
                        too_large = f"a file of a job has more than {self._blobs.max_bytes} bytes; set {FileOptions.BLOB_MAX_SIZE.key}"
                        await abort(context, Misuse(too_large))
                    upload.add(chunk.data)
                key = self._blobs.finish(upload)
            finally:
                upload.close()
        except OSError as error:
            await abort(context, StorageError(f"cannot store a job file: {error.strerror or error}"))
        return common_pb2.BlobRef(key=key, size_bytes=upload.size_bytes)

    def _known(self, text: str) -> JobId:
        return known_job(self._core, text)


async def _wait(changed: asyncio.Event, timeout_ms: float) -> None:
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            await changed.wait()
    except TimeoutError:
        return
