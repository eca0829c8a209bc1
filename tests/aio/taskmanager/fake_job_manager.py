"""A JobManager that takes every TaskManager, gives it blobs and remembers what it was told."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc.aio

from tidegate.aio.rpc import abort, open_channel, start_server
from tidegate.aio.transport import PLAIN, Transport
from tidegate.model.errors import CorruptData, ErrorInfo, UnknownAttempt, VersionMismatch
from tidegate.pb import common_pb2, jobmanager_pb2, taskmanager_pb2
from tidegate.pb.jobmanager_pb2_grpc import JobManagerServiceServicer, add_JobManagerServiceServicer_to_server
from tidegate.pb.taskmanager_pb2_grpc import TaskManagerStub
from tidegate.wire.convert import ack_of, error_to_pb

WAIT_S = 90.0


class FakeJobManager(JobManagerServiceServicer):
    """``told`` holds the requests in the order in which they came. Switches: ``refuse``, ``reject_updates``."""

    def __init__(
        self,
        generation: str = "g1",
        heartbeat_timeout_ms: int = 5_000,
        loss_grace_ms: int = 0,
        reconnect_ms: int = 0,
        transport: Transport = PLAIN,
    ) -> None:
        self._transport = transport
        self.generation = generation
        self.heartbeat_timeout_ms = heartbeat_timeout_ms
        self.loss_grace_ms = loss_grace_ms
        self.reconnect_ms = reconnect_ms
        self.registrations: list[jobmanager_pb2.RegisterTaskManagerRequest] = []
        self.beats: list[jobmanager_pb2.TaskManagerHeartbeat] = []
        self.sent: list[Any] = []
        self.blobs: dict[str, bytes] = {}
        self.refuse: list[ErrorInfo] = []
        self.reject_updates = False
        self.is_silent = False
        self.lost = 0
        self.goodbyes = 0
        self.asked_for_blobs = 0
        self.gives_blobs = asyncio.Event()
        self.gives_blobs.set()
        self.takes_acknowledgements = asyncio.Event()
        self.takes_acknowledgements.set()
        self.takes_updates = asyncio.Event()
        self.takes_updates.set()
        self._changed = asyncio.Condition()
        self._server: grpc.aio.Server | None = None
        self._channel: grpc.aio.Channel | None = None
        self.port = 0

    async def start(self, port: int = 0) -> int:
        def register(server: grpc.aio.Server) -> None:
            add_JobManagerServiceServicer_to_server(self, server)

        self._server, self.port = await start_server(
            "127.0.0.1", port, register, "fake JobManager", transport=self._transport
        )
        return self.port

    async def stop(self) -> None:
        if self._channel is not None:
            await self._channel.close()
        if self._server is not None:
            await self._server.stop(None)

    def put_blob(self, content: bytes) -> str:
        key = hashlib.sha256(content).hexdigest()
        self.blobs[key] = content
        return key

    def task_manager(self) -> Any:
        """A stub for the TaskManager that registered last."""
        if self._channel is None:
            self._channel = open_channel(self.registrations[-1].address, self._transport)
        return TaskManagerStub(self._channel)

    async def wait_for(self, condition: Callable[[], Any], timeout_s: float = WAIT_S) -> Any:
        """Until the condition holds after something was told; its value."""
        async with asyncio.timeout(timeout_s), self._changed:
            await self._changed.wait_for(lambda: bool(condition()))
        return condition()

    def states(self, attempt: str) -> list[str]:
        updates = [told for told in self.sent if isinstance(told, jobmanager_pb2.UpdateTaskStateRequest)]
        return [update.state for update in updates if update.attempt == attempt]

    def last_update(self, attempt: str) -> jobmanager_pb2.UpdateTaskStateRequest:
        updates = [told for told in self.sent if isinstance(told, jobmanager_pb2.UpdateTaskStateRequest)]
        return [update for update in updates if update.attempt == attempt][-1]

    def of(self, kind: type[Any]) -> list[Any]:
        return [told for told in self.sent if isinstance(told, kind)]

    async def notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _keep(self, request: Any) -> common_pb2.Ack:
        self.sent.append(request)
        await self.notify()
        return ack_of()

    async def SendOperatorEvent(self, request: Any, context: Any) -> common_pb2.Ack:
        return await self._keep(request)

    # ---- JobManagerService -------------------------------------------------------------------------------------------

    async def RegisterTaskManager(self, request: Any, context: Any) -> jobmanager_pb2.RegisterTaskManagerResponse:
        self.registrations.append(request)
        await self.notify()
        if self.refuse:
            return jobmanager_pb2.RegisterTaskManagerResponse(error=error_to_pb(self.refuse.pop(0)))
        return jobmanager_pb2.RegisterTaskManagerResponse(
            generation=self.generation,
            heartbeat_interval_ms=100,
            heartbeat_timeout_ms=self.heartbeat_timeout_ms,
            loss_grace_ms=self.loss_grace_ms,
            reconnect_ms=self.reconnect_ms,
        )

    async def Heartbeat(self, requests: Any, context: Any) -> AsyncIterator[jobmanager_pb2.JobManagerHeartbeat]:
        try:
            async for beat in requests:
                self.beats.append(beat)
                self.goodbyes += beat.is_last
                await self.notify()
                if not self.is_silent:
                    yield jobmanager_pb2.JobManagerHeartbeat(generation=self.generation)
        finally:
            self.lost += 1

    async def UpdateTaskState(self, request: Any, context: Any) -> common_pb2.Ack:
        await self._keep(request)
        await self.takes_updates.wait()
        return ack_of(UnknownAttempt("not mine")) if self.reject_updates else ack_of()

    async def SlotFreed(self, request: Any, context: Any) -> common_pb2.Ack:
        return await self._keep(request)

    async def AcknowledgeCheckpoint(self, request: Any, context: Any) -> jobmanager_pb2.AcknowledgeCheckpointAnswer:
        await self._keep(request)
        await self.takes_acknowledgements.wait()
        return jobmanager_pb2.AcknowledgeCheckpointAnswer()

    async def DeclineCheckpoint(self, request: Any, context: Any) -> common_pb2.Ack:
        return await self._keep(request)

    async def EndOfData(self, request: Any, context: Any) -> common_pb2.Ack:
        return await self._keep(request)

    async def AlignWatermark(
        self, request: common_pb2.AlignWatermarkRequest, context: Any
    ) -> common_pb2.AlignWatermarkResponse:
        if request.group != "known":
            await abort(context, UnknownAttempt(f"{request.attempt} has no group {request.group}"))
        return common_pb2.AlignWatermarkResponse(lowest_ms=request.watermark_ms - request.interval_ms)

    async def RegisterKvState(self, request: jobmanager_pb2.RegisterKvStateRequest, context: Any) -> common_pb2.Ack:
        return await self._keep(request)

    async def GetBlob(self, request: common_pb2.BlobRef, context: Any) -> AsyncIterator[common_pb2.BlobChunk]:
        self.asked_for_blobs += 1
        await self.notify()
        await self.gives_blobs.wait()
        content = self.blobs.get(request.key)
        if content is None:
            await abort(context, CorruptData(f"no blob {request.key}"))
        for start in range(0, len(content), 1000):
            yield common_pb2.BlobChunk(data=content[start : start + 1000])


VERSION_MISMATCH = ErrorInfo.of(VersionMismatch("the JobManager is tidegate 9"))


def slot_request(job_id: str, allocation: str, index: int, generation: str) -> taskmanager_pb2.AllocateSlotRequest:
    return taskmanager_pb2.AllocateSlotRequest(
        generation=generation, job_id=job_id, allocation_id=allocation, slot_index=index
    )
