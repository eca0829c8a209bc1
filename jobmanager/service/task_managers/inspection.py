"""Reads log files, threads and stack samples of a TaskManager (``TaskManagerInspection``), over a new channel for each call."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import grpc.aio

from tidegate.aio.inspection import LogFile, ThreadInfo
from tidegate.aio.rpc import call, collect, error_of_rpc, open_channel
from tidegate.aio.transport import PLAIN, Transport
from tidegate.model.ids import AttemptId
from tidegate.pb import taskmanager_pb2 as pb
from tidegate.pb.common_pb2 import SampledStack, SampleStacksOptions
from tidegate.pb.taskmanager_pb2_grpc import TaskManagerInspectionStub
from tidegate.wire.convert import attempt_from_text

if TYPE_CHECKING:
    from tidegate.pb.taskmanager_pb2_grpc import TaskManagerInspectionAsyncStub

TIMEOUT_S = 10.0
"""The timeout of a call, in seconds: Flink's default of ``pekko.ask.timeout``."""
SUBTASK_WAIT_MS = 2_000
"""How long a TaskManager waits for the threads of a subtask, in ms; they are left out if it does not answer."""


class Inspector:
    """Inspects TaskManagers. Every method takes the address of one and raises ``TidegateError``.

    ``Unreachable`` when it does not answer, ``StorageError`` for a file that does not exist.
    """

    def __init__(self, transport: Transport = PLAIN) -> None:
        self._transport = transport

    async def logs(self, address: str) -> Sequence[LogFile]:
        async with self._dialed(address) as stub:
            answer = await call(stub.ListLogs(pb.ListLogsRequest(), timeout=TIMEOUT_S), address)
        return [LogFile(file.name, file.size_bytes, file.modified_ms) for file in answer.files]

    async def read_log(self, address: str, name: str) -> bytes:
        """Returns the content of a file that ``logs`` lists."""
        return await self._read(address, pb.ReadLogRequest(name=name))

    async def read_own_log(self, address: str) -> bytes:
        return await self._read(address, pb.ReadLogRequest(own_log=True))

    async def read_stdout(self, address: str) -> bytes:
        return await self._read(address, pb.ReadLogRequest(stdout=True))

    async def threads(self, address: str) -> Sequence[ThreadInfo]:
        """Returns the threads of the TaskManager's subtasks first, then its own."""
        async with self._dialed(address) as stub:
            request = pb.DumpThreadsRequest(wait_ms=SUBTASK_WAIT_MS)
            answer = await call(stub.DumpThreads(request, timeout=TIMEOUT_S), address)
        return [ThreadInfo(thread.name, thread.stack) for thread in answer.threads]

    async def sample(
        self, address: str, attempts: Sequence[AttemptId], options: SampleStacksOptions
    ) -> dict[AttemptId, Sequence[SampledStack]]:
        """Samples the stacks of subtasks, which takes as long as the samples do. Subtasks that did not answer are absent."""
        limit_s = TIMEOUT_S + options.samples * options.delay_ms / 1000
        request = pb.SampleStacksRequest(attempts=[str(attempt) for attempt in attempts], options=options)
        async with self._dialed(address) as stub:
            answer = await call(stub.SampleStacks(request, timeout=limit_s), address)
        return {attempt_from_text(each.attempt): list(each.stacks) for each in answer.subtasks}

    async def _read(self, address: str, request: pb.ReadLogRequest) -> bytes:
        async with self._dialed(address) as stub:
            try:
                return await collect(stub.ReadLog(request, timeout=TIMEOUT_S))
            except grpc.aio.AioRpcError as error:
                raise error_of_rpc(error, address) from None

    @asynccontextmanager
    async def _dialed(self, address: str) -> AsyncIterator[TaskManagerInspectionAsyncStub]:
        channel = open_channel(address, self._transport)
        try:
            yield TaskManagerInspectionStub(channel)
        finally:
            await channel.close()
