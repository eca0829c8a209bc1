"""The TaskManager's end of a control stream, and the service that subtasks dial (``SubtaskControl``)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import grpc.aio

from taskmanager.machines import task_vocabulary as tv
from taskmanager.runtime.ports import AbortCheckpoint, ConfirmCheckpoint, ConnectInputs, TriggerCheckpoint
from taskmanager.service.blob_cache import BlobCache
from tidegate.aio.pool import Pool
from tidegate.aio.rpc import BLOB_CHUNK_BYTES, abort
from tidegate.model.errors import InternalError, TidegateError
from tidegate.model.ids import AttemptId
from tidegate.model.states import ExecutionState
from tidegate.pb import common_pb2, subtask_pb2, subtask_pb2_grpc
from tidegate.wire.convert import attempt_from_text, enum_from_text, error_from_pb, options_to_pb, producer_to_pb

if TYPE_CHECKING:
    from taskmanager.service.task_executor import TaskExecutor

_log = logging.getLogger(__name__)

Print = Callable[[str, str, bool], None]
"""``(task name, whole lines, is standard error)``; runs in a thread of its own and may block."""


Align = Callable[[common_pb2.AlignWatermarkRequest], Awaitable[common_pb2.AlignWatermarkResponse]]


class SubtaskStream:
    """Messages for one subtask, in order, until ``close``."""

    def __init__(self) -> None:
        self._messages: asyncio.Queue[subtask_pb2.ToSubtask | None] = asyncio.Queue()

    def send(self, message: subtask_pb2.ToSubtask) -> None:
        self._messages.put_nowait(message)

    def close(self) -> None:
        """What was sent before goes out, then the stream ends."""
        self._messages.put_nowait(None)

    async def __aiter__(self) -> AsyncIterator[subtask_pb2.ToSubtask]:
        while (message := await self._messages.get()) is not None:
            yield message


class SubtaskControlService(subtask_pb2_grpc.SubtaskControlServicer):
    """One ``Attach`` for each attempt, for as long as its process lives."""

    def __init__(
        self, executor: TaskExecutor, blobs: BlobCache, printing: Pool, show: Print, align: Align | None = None
    ) -> None:
        """``align``: passes the watermark of a source on to the JobManager."""
        self._executor = executor
        self._align = align
        self._blobs = blobs
        self._printing = printing
        self._show = show

    async def Attach(
        self, requests: AsyncIterator[subtask_pb2.FromSubtask], context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[subtask_pb2.ToSubtask]:
        try:
            first = await anext(requests)
            hello = first.hello
            attempt = attempt_from_text(hello.attempt)
        except (StopAsyncIteration, TidegateError):
            await abort(context, InternalError("a control stream must begin with Hello"))
        stream = SubtaskStream()
        refusal = self._executor.open_stream(tv.StreamOpened(attempt, hello.token, hello.pid, hello.host), stream)
        if refusal is not None:
            await abort(context, refusal.to_exception())
        reader = asyncio.create_task(self._read(attempt, requests, stream))
        try:
            async for message in stream:
                yield message
        finally:
            reader.cancel()
            self._executor.post(tv.StreamBroke(attempt))

    async def FetchBlob(
        self, request: common_pb2.BlobRef, context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[common_pb2.BlobChunk]:
        try:
            content = await self._blobs.get(request.key)
        except (TidegateError, OSError) as error:
            await abort(context, error)
        for start in range(0, len(content), BLOB_CHUNK_BYTES):
            yield common_pb2.BlobChunk(data=content[start : start + BLOB_CHUNK_BYTES])

    async def AlignWatermark(
        self, request: common_pb2.AlignWatermarkRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> common_pb2.AlignWatermarkResponse:
        if self._align is None:
            await abort(context, InternalError("this TaskManager aligns no watermarks"))
        try:
            return await self._align(request)
        except TidegateError as error:
            await abort(context, error)

    async def _read(
        self, attempt: AttemptId, requests: AsyncIterator[subtask_pb2.FromSubtask], stream: SubtaskStream
    ) -> None:
        try:
            async for message in requests:
                if message.HasField("output"):
                    output = message.output
                    show = partial(self._show, self._executor.task_name(attempt), output.text, output.is_error)
                    await self._printing.submit(show)
                else:
                    self._on_message(attempt, message)
        except (grpc.RpcError, asyncio.InvalidStateError):
            pass  # it broke; told below
        finally:
            stream.close()

    def _on_message(self, attempt: AttemptId, message: subtask_pb2.FromSubtask) -> None:
        match message.WhichOneof("message"):
            case "listening":
                self._executor.post(tv.SubtaskListening(attempt, message.listening.address))
            case "state_changed":
                changed = message.state_changed
                error = error_from_pb(changed.error) if changed.HasField("error") else None
                self._executor.post(
                    tv.SubtaskStateChanged(attempt, enum_from_text(ExecutionState, changed.state), error)
                )
            case "metrics":
                self._executor.measures.measured(attempt, message.metrics)
            case "threads":
                self._executor.dumps.told(attempt, message.threads.threads)
            case "acknowledge" | "decline" | "end_of_data":
                self._executor.post(tv.SubtaskTold(attempt, message))
            case other:
                _log.warning("%s sent %s, which is not expected here", self._executor.task_name(attempt), other)


def mail_to_pb(mail: ConnectInputs | TriggerCheckpoint | ConfirmCheckpoint | AbortCheckpoint) -> subtask_pb2.ToSubtask:
    """A mail as a message (``taskmanager.spark.control_stream.mail_from_pb`` is the inverse)."""
    match mail:
        case ConnectInputs(producers):
            connect = subtask_pb2.ToSubtask.Connect(producers=[producer_to_pb(producer) for producer in producers])
            return subtask_pb2.ToSubtask(connect=connect)
        case TriggerCheckpoint(checkpoint_id, timestamp_ms, options):
            trigger = subtask_pb2.ToSubtask.Trigger(
                checkpoint_id=checkpoint_id, timestamp_ms=timestamp_ms, options=options_to_pb(options)
            )
            return subtask_pb2.ToSubtask(trigger=trigger)
        case ConfirmCheckpoint(checkpoint_id, may_finish):
            confirm = subtask_pb2.ToSubtask.Confirm(checkpoint_id=checkpoint_id, may_finish=may_finish)
            return subtask_pb2.ToSubtask(confirm=confirm)
        case AbortCheckpoint(checkpoint_id, latest):
            abort_message = subtask_pb2.ToSubtask.Abort(checkpoint_id=checkpoint_id, latest_completed_id=latest)
            return subtask_pb2.ToSubtask(abort=abort_message)
