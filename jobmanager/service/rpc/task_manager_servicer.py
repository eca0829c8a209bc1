"""The gRPC service for TaskManagers (``JobManagerService``). Every message is fenced by generation, those of tasks by attempt too."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable

from tidegate.aio.rpc import BLOB_CHUNK_BYTES, ServerContext, abort
from tidegate.jobmanager.machines import events as ev
from tidegate.jobmanager.programs.blobs import BlobStore
from tidegate.jobmanager.service.core import JobManagerCore
from tidegate.jobmanager.service.task_managers.heartbeats import HeartbeatStream
from tidegate.model.checkpoint import DeclineReason
from tidegate.model.errors import ErrorInfo, Fenced, TidegateError, UnknownAttempt, VersionMismatch
from tidegate.model.ids import AllocationId, AttemptId, CheckpointId, JobId, TaskManagerId
from tidegate.model.options import HeartbeatOptions, RuntimeOptions
from tidegate.model.states import ExecutionState
from tidegate.pb import common_pb2
from tidegate.pb import jobmanager_pb2 as pb
from tidegate.pb.jobmanager_pb2_grpc import JobManagerServiceServicer
from tidegate.wire import convert
from tidegate.wire.convert_events import operator_event_from_pb
from tidegate.wire.convert_kv_state import kv_state_from_pb
from tidegate.wire.versions import PYTHON_VERSION, VERSION

_log = logging.getLogger(__name__)


class TaskManagerServicer(JobManagerServiceServicer):
    """Converts messages of TaskManagers into events of the machine."""

    def __init__(self, core: JobManagerCore, blobs: BlobStore) -> None:
        self._core = core
        self._blobs = blobs
        self._heartbeat_interval_ms = core.configuration.get(HeartbeatOptions.INTERVAL)
        self._heartbeat_timeout_ms = core.configuration.get(HeartbeatOptions.TIMEOUT)
        may_return = core.configuration.get(RuntimeOptions.RECONNECT_TIMEOUT) > 0
        self._reconnect_ms = self._heartbeat_timeout_ms if may_return else 0
        """How long a TaskManager tries to reconnect, in ms. A JobManager that was suspended has not counted the time, so it is gone earlier only
        if its port is closed.
        """
        self._allows_faults = core.configuration.get(RuntimeOptions.ALLOW_FAULTS)
        self.fenced = 0
        """How many messages were refused because of their generation or attempt."""

    async def RegisterTaskManager(
        self, request: pb.RegisterTaskManagerRequest, context: object
    ) -> pb.RegisterTaskManagerResponse:
        if (request.version, request.python_version) != (VERSION, PYTHON_VERSION):
            error = VersionMismatch(
                f"TaskManager {request.task_manager_id} is tidegate {request.version} on Python {request.python_version}, "
                f"the JobManager is tidegate {VERSION} on Python {PYTHON_VERSION}; install the same on both"
            )
            _log.warning("refused a TaskManager: %s", error.message)
            return pb.RegisterTaskManagerResponse(error=convert.error_to_pb(ErrorInfo.of(error)))
        task_manager_id = TaskManagerId(request.task_manager_id)
        try:
            attempts = tuple(map(convert.attempt_report_from_pb, request.attempts))
        except TidegateError as error:
            return pb.RegisterTaskManagerResponse(error=convert.error_to_pb(ErrorInfo.of(error)))
        self._core.session_opened(task_manager_id, request.session, request.address)
        self._core.registered(
            ev.TaskManagerRegistered(
                task_manager_id,
                request.session,
                request.address,
                request.host,
                _slots(request.slots),
                request.pid,
                request.memory_bytes,
                attempts,
            ),
            [one.metrics if one.HasField("metrics") else None for one in request.attempts],
        )
        return pb.RegisterTaskManagerResponse(
            generation=self._core.generation,
            heartbeat_interval_ms=self._heartbeat_interval_ms,
            heartbeat_timeout_ms=self._heartbeat_timeout_ms,
            loss_grace_ms=self._core.loss_grace_ms,
            reconnect_ms=self._reconnect_ms,
            allow_faults=self._allows_faults,
        )

    async def Heartbeat(
        self, request_iterator: AsyncIterator[pb.TaskManagerHeartbeat], context: ServerContext
    ) -> AsyncIterator[pb.JobManagerHeartbeat]:
        first = await anext(aiter(request_iterator), None)
        if first is None:
            return
        task_manager_id = TaskManagerId(first.task_manager_id)
        try:
            self._check_generation(first.generation)
            if not self._core.is_current_session(task_manager_id, first.session):
                raise Fenced(f"TaskManager {task_manager_id} is not registered in this session; register again")
        except TidegateError as error:
            await abort(context, error)
        self._core.session_alive(task_manager_id, first.session)
        stream = self._core.streams.opened(task_manager_id, first.session)
        self._beat(first)
        if first.is_last:
            stream.end()
        reader = asyncio.create_task(self._read(request_iterator, stream), name=f"heartbeats-{task_manager_id}")
        try:
            while not stream.closed.is_set():
                yield pb.JobManagerHeartbeat(generation=self._core.generation)
                await _wait(stream.closed, self._heartbeat_interval_ms)
        finally:
            reader.cancel()
            self._ended(stream)

    async def UpdateTaskState(self, request: pb.UpdateTaskStateRequest, context: object) -> common_pb2.Ack:
        try:
            attempt = self._checked(request.generation, request.attempt)
            state = convert.enum_from_text(ExecutionState, request.state)
        except TidegateError as error:
            return convert.ack_of(error)
        failure = convert.error_from_pb(request.error) if request.HasField("error") else None
        address = request.data_address if request.HasField("data_address") else None
        if request.HasField("metrics"):  # before the state: with the last of them the job may be over
            self._core.attempts.measured_last(attempt, request.metrics)
        self._core.post(ev.TaskStateChanged(attempt, state, failure, address))
        return convert.ack_of()

    async def SlotFreed(self, request: pb.SlotFreedRequest, context: object) -> common_pb2.Ack:
        try:
            self._check_generation(request.generation)
        except TidegateError as error:
            return convert.ack_of(error)
        self._core.post(ev.SlotFreed(TaskManagerId(request.task_manager_id), AllocationId(request.allocation_id)))
        return convert.ack_of()

    async def AcknowledgeCheckpoint(
        self, request: pb.AcknowledgeCheckpointRequest, context: object
    ) -> pb.AcknowledgeCheckpointAnswer:
        answer = pb.AcknowledgeCheckpointAnswer()
        try:
            self._check_generation(request.generation)
        except TidegateError as error:
            return pb.AcknowledgeCheckpointAnswer(error=convert.error_to_pb(ErrorInfo.of(error)))
        for one in request.acknowledgements:
            try:
                attempt = self._current(one.attempt)
                snapshot = convert.snapshot_from_pb(one.snapshot)
            except TidegateError as error:
                answer.attempts[one.attempt].CopyFrom(convert.error_to_pb(ErrorInfo.of(error)))
                continue
            metrics = convert.checkpoint_metrics_from_pb(one.metrics)
            self._core.post(
                ev.SubtaskAcknowledged(attempt, CheckpointId(one.checkpoint_id), snapshot, metrics, one.held_ms)
            )
        return answer

    async def DeclineCheckpoint(self, request: pb.DeclineCheckpointRequest, context: object) -> common_pb2.Ack:
        try:
            attempt = self._checked(request.generation, request.attempt)
            reason = convert.enum_from_text(DeclineReason, request.reason)
        except TidegateError as error:
            return convert.ack_of(error)
        failure = convert.error_from_pb(request.error) if request.HasField("error") else None
        self._core.post(ev.SubtaskDeclined(attempt, CheckpointId(request.checkpoint_id), reason, failure))
        return convert.ack_of()

    async def EndOfData(self, request: pb.EndOfDataRequest, context: object) -> common_pb2.Ack:
        try:
            attempt = self._checked(request.generation, request.attempt)
        except TidegateError as error:
            return convert.ack_of(error)
        self._core.post(ev.EndOfDataReached(attempt))
        return convert.ack_of()

    async def SendOperatorEvent(self, request: common_pb2.OperatorEventRequest, context: object) -> common_pb2.Ack:
        try:
            attempt = self._checked(request.generation, request.attempt)
            event = operator_event_from_pb(request.event)
        except TidegateError as error:
            return convert.ack_of(error)
        self._core.post(ev.OperatorEventReceived(attempt, event))
        return convert.ack_of()

    async def AlignWatermark(
        self, request: common_pb2.AlignWatermarkRequest, context: ServerContext
    ) -> common_pb2.AlignWatermarkResponse:
        try:
            attempt = self._current(request.attempt)
        except TidegateError as error:
            await abort(context, error)
        reports = self._core.watermarks
        event, lowest_ms = reports.begin(attempt, request.group, request.watermark_ms, request.interval_ms)
        self._core.post(event)
        return common_pb2.AlignWatermarkResponse(lowest_ms=await lowest_ms)

    async def RegisterKvState(self, request: pb.RegisterKvStateRequest, context: object) -> common_pb2.Ack:
        try:
            attempt = self._checked(request.generation, request.attempt)
            info = kv_state_from_pb(request.info)
            self._core.kv_states.register(attempt, info, request.address, self._core.attempts.is_current)
        except TidegateError as error:
            return convert.ack_of(error)
        return convert.ack_of()

    async def GetBlob(self, request: common_pb2.BlobRef, context: ServerContext) -> AsyncIterator[common_pb2.BlobChunk]:
        try:
            for data in self._blobs.read(request.key, BLOB_CHUNK_BYTES):
                yield common_pb2.BlobChunk(data=data)
        except TidegateError as error:
            await abort(context, error)

    async def _read(self, beats: AsyncIterator[pb.TaskManagerHeartbeat], stream: HeartbeatStream) -> None:
        try:
            async for beat in beats:
                self._beat(beat)
                if beat.is_last:
                    stream.end()
            stream.close("its heartbeat stream ended")  # which is also what gRPC says where the connection was reset
        except Exception as error:  # noqa: BLE001  (a driver: whatever broke the stream, it is broken)
            stream.close(f"its heartbeat stream broke: {error}")
        finally:
            self._ended(stream)

    def _beat(self, beat: pb.TaskManagerHeartbeat) -> None:
        self._check_generation(beat.generation)
        for text, metrics in beat.metrics.items():
            self._core.attempts.measured(convert.attempt_from_text(text), metrics)
        if beat.process_metrics:
            self._core.attempts.process_measured(TaskManagerId(beat.task_manager_id), dict(beat.process_metrics))
        attempts = tuple(convert.attempt_from_text(text) for text in beat.attempts)
        leaving = tuple(convert.attempt_from_text(text) for text in beat.leaving)
        owner = TaskManagerId(beat.task_manager_id)
        self._core.post(ev.TaskManagerHeartbeat(owner, beat.session, _slots(beat.slots), attempts, leaving))

    def _ended(self, stream: HeartbeatStream) -> None:
        if self._core.streams.ended(stream):
            reason = stream.reason or "its connection broke"
            self._core.session_broken(stream.task_manager_id, stream.session, reason, is_over=stream.is_over)

    def _checked(self, generation: str, attempt_text: str) -> AttemptId:
        self._check_generation(generation)
        return self._current(attempt_text)

    def _current(self, attempt_text: str) -> AttemptId:
        attempt = convert.attempt_from_text(attempt_text)
        if not self._core.attempts.is_current(attempt):
            self.fenced += 1
            raise UnknownAttempt(f"{attempt} is not the current attempt of its subtask; cancel it")
        return attempt

    def _check_generation(self, generation: str) -> None:
        if generation != self._core.generation:
            self.fenced += 1
            raise Fenced("this message is for another JobManager process; register again")


def _slots(reports: Iterable[pb.SlotReport]) -> tuple[ev.ReportedSlot, ...]:
    return tuple(
        ev.ReportedSlot(
            report.slot_index,
            AllocationId(report.allocation_id) if report.allocation_id else None,
            JobId(report.job_id) if report.job_id else None,
        )
        for report in reports
    )


async def _wait(closed: asyncio.Event, timeout_ms: int) -> None:
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            await closed.wait()
    except TimeoutError:
        return
