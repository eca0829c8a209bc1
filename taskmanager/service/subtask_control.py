"""The TaskManager's end of the control streams: a listener that subtasks dial, and one connection for each attempt.

subtask ──FromSubtask──▶ SubtaskControl ──event──▶ TaskExecutor
        ◀──ToSubtask──── SubtaskStream  ◀──mail──
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Protocol

from tidegate.aio.listening import port_error
from tidegate.aio.pool import Pool
from tidegate.aio.rpc import BLOB_CHUNK_BYTES
from tidegate.model.errors import CorruptFrame, ErrorInfo, InternalError, TidegateError
from tidegate.model.ids import AttemptId
from tidegate.model.options import RuntimeOptions
from tidegate.model.states import ExecutionState
from tidegate.pb import common_pb2, subtask_pb2
from tidegate.security.handshakes import check_pins, reason_of
from tidegate.taskmanager.exchange.addresses import UNIX, give_up_in_time, tune
from tidegate.taskmanager.machines import task_events as tv
from tidegate.taskmanager.service.blob_cache import BlobCache
from tidegate.taskmanager.service.subtasks.subtask_stream import SubtaskStream
from tidegate.taskmanager.service.task_executor import TaskExecutor
from tidegate.wire import control_frames as frames
from tidegate.wire.convert import (
    attempt_from_text,
    enum_from_text,
    error_from_pb,
    error_to_pb,
)
from tidegate.wire.convert_events import operator_event_from_pb

if TYPE_CHECKING:
    from tidegate.security.reloading import Reloaded
    from tidegate.security.tls import Material

_log = logging.getLogger(__name__)

BACKLOG = 4096
HELLO_TIMEOUT_S = 10.0
"""Seconds within which a process that connects must send its hello. Chosen, not measured."""

Print = Callable[[str, str, bool], None]
"""Prints output of a subtask: ``(task name, whole lines, is standard error)``. Runs in a thread of its own and may block."""


class KvStatePort(Protocol):
    """The registry of queryable state that a control stream uses (``tidegate.taskmanager.service.kv_states``)."""

    async def register(self, attempt: AttemptId, info: common_pb2.KvStateInfo) -> None: ...

    def answered(self, queried: subtask_pb2.FromSubtask.StateQueried) -> None: ...

    def lost(self, attempt: AttemptId) -> None:
        """Forgets an attempt whose stream broke."""


Align = Callable[[common_pb2.AlignWatermarkRequest], Awaitable[common_pb2.AlignWatermarkResponse]]


class SubtaskControl:
    """Serves the control streams of subtasks, each (``serve``) for as long as the subtask's process lives."""

    def __init__(
        self,
        executor: TaskExecutor,
        blobs: BlobCache,
        printing: Pool,
        show: Print,
        align: Align | None = None,
        kv_states: KvStatePort | None = None,
    ) -> None:
        """Connects the streams of subtasks to the parts of the TaskManager. ``align``: reports the watermark of a source to the JobManager. ``kv_states``: the
        registry of queryable state.
        """
        self._kv_states = kv_states
        self._executor = executor
        self._align = align
        self._blobs = blobs
        self._printing = printing
        self._show = show
        self._answering: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = writer.get_extra_info("socket")
        tune(connection)
        give_up_in_time(connection)
        stream = SubtaskStream(writer)
        try:
            attempt = await self._admit(reader, stream)
            if attempt is not None:
                await self._attached(attempt, reader, stream)
        except (OSError, EOFError, TimeoutError):
            pass  # it broke, or never said who it is
        except CorruptFrame as error:
            _log.warning("closed the connection of a subtask's process, whose message cannot be read: %s", error)
        finally:
            stream.close()

    async def _admit(self, reader: asyncio.StreamReader, stream: SubtaskStream) -> AttemptId | None:
        """Returns the attempt that sent its hello; ``None`` when it was refused."""
        try:
            async with asyncio.timeout(HELLO_TIMEOUT_S):
                first = await _receive(reader, frames.HELLO_MAX_BYTES)
            hello = first.hello
            attempt = attempt_from_text(hello.attempt)
        except TidegateError as error:
            _log.warning("refused the connection of a subtask's process: %s", error)
            _refuse(stream, ErrorInfo.of(InternalError("a control stream must begin with Hello")))
            return None
        refusal = self._executor.open_stream(tv.StreamOpened(attempt, hello.token, hello.pid, hello.host), stream)
        if refusal is not None:
            _refuse(stream, refusal)
            return None
        return attempt

    async def _attached(self, attempt: AttemptId, reader: asyncio.StreamReader, stream: SubtaskStream) -> None:
        try:
            while True:
                message = await _receive(reader)
                if message.HasField("output"):
                    output = message.output
                    name = "" if output.is_bare else self._executor.task_name(attempt)
                    show = partial(self._show, name, output.text, output.is_error)
                    await self._printing.submit(show)
                elif message.HasField("request"):
                    self._begin(self._answer(attempt, message.request, stream))
                elif message.HasField("state_queried"):
                    if self._kv_states is not None:
                        self._kv_states.answered(message.state_queried)
                else:
                    self._on_message(attempt, message)
        finally:
            self._executor.post(tv.StreamBroke(attempt))
            if self._kv_states is not None:
                self._kv_states.lost(attempt)

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
            case "interrupted":
                self._executor.post(tv.SubtaskInterrupted(attempt, message.interrupted.stack))
            case "metrics":
                self._executor.measures.measured(attempt, message.metrics)
            case "threads":
                self._executor.dumps.answered(attempt, message.threads.threads)
            case "stacks":
                self._executor.samples.answered(attempt, message.stacks.stacks)
            case "acknowledge":
                number = message.acknowledge.checkpoint_id
                self._executor.post(tv.SubtaskReported(attempt, message, acknowledged=number))
            case "operator_event":
                event = operator_event_from_pb(message.operator_event)
                self._executor.post(tv.SubtaskReported(attempt, message, event=event))
            case "decline" | "end_of_data" as kind:
                self._executor.post(tv.SubtaskReported(attempt, message, is_end_of_data=kind == "end_of_data"))
            case other:
                _log.warning(
                    "%s sent the message %s, which a TaskManager does not take",
                    self._executor.task_name(attempt),
                    other,
                )

    # ---- requests of a subtask ---------------------------------------------------------------------------------------

    def _begin(self, answering: Coroutine[object, None, None]) -> None:
        task = asyncio.create_task(answering)
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _answer(
        self, attempt: AttemptId, request: subtask_pb2.FromSubtask.Request, stream: SubtaskStream
    ) -> None:
        call_id = request.call_id
        try:
            if request.HasField("align_watermark"):
                _tell(stream, call_id, watermark=await self._lowest(request.align_watermark))
            elif request.HasField("register_kv_state"):
                if self._kv_states is not None:
                    await self._kv_states.register(attempt, request.register_kv_state)
                _tell(stream, call_id)
            else:
                await self._send_blob(request.fetch_blob.key, call_id, stream)
        except ConnectionError:
            pass  # nobody is there to be answered
        except (TidegateError, OSError) as error:
            _tell(stream, call_id, error=error_to_pb(ErrorInfo.of(error)))

    async def _lowest(self, request: common_pb2.AlignWatermarkRequest) -> common_pb2.AlignWatermarkResponse:
        if self._align is None:
            raise InternalError("a subtask asked for watermark alignment, for which this TaskManager has no JobManager")
        return await self._align(request)

    async def _send_blob(self, key: str, call_id: int, stream: SubtaskStream) -> None:
        content = await self._blobs.get(key)
        last = max(0, len(content) - 1) // BLOB_CHUNK_BYTES
        for number in range(last + 1):
            data = content[number * BLOB_CHUNK_BYTES : (number + 1) * BLOB_CHUNK_BYTES]
            _tell(stream, call_id, blob=common_pb2.BlobChunk(data=data), is_last=number == last)
            await stream.room()


async def listen_for_subtasks(
    control: SubtaskControl, listen: str, advertised: str, tls: Reloaded[Material] | None = None
) -> tuple[asyncio.Server, str]:
    """Starts the listener for the control streams of subtasks; returns it with the address that subtasks dial.

    ``listen``: ``unix:/path``, or ``host:port`` (port 0: a free one), which subtasks dial at the host ``advertised``; with TLS and certificates at both ends
    if ``tls`` is given. Raises ``ExternalError`` when the port is not available.
    """
    if listen.startswith(UNIX):
        return await asyncio.start_unix_server(control.serve, listen.removeprefix(UNIX), backlog=BACKLOG), listen
    host, _, port = listen.rpartition(":")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host.strip("[]"), int(port)), family=family, backlog=BACKLOG)
    except OSError as error:
        raise port_error(host, int(port), "listener for subtasks", error, RuntimeOptions.CONTROL_PORT.key) from None
    shown = f"[{advertised}]" if ":" in advertised else advertised
    address = f"{shown}:{listener.getsockname()[1]}"
    if tls is None:
        return await asyncio.start_server(control.serve, sock=listener), address
    from tidegate.security.tls import renewing_context

    context, serve = renewing_context(tls, is_mutual=True), partial(_serve_believed, control, tls)
    server = await asyncio.start_server(serve, sock=listener, ssl=context, ssl_handshake_timeout=HELLO_TIMEOUT_S)
    return server, address


async def _serve_believed(
    control: SubtaskControl, tls: Reloaded[Material], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Serves a TLS peer after checking its certificate against the pinned fingerprints, if any; closes the connection of a peer that fails the check."""
    try:
        check_pins(writer.get_extra_info("ssl_object").getpeercert(binary_form=True), tls.get().pins)
    except OSError as error:
        _log.warning("refused the connection of a subtask's process: %s", reason_of(error))
        writer.close()
        return
    await control.serve(reader, writer)


async def _receive(reader: asyncio.StreamReader, max_bytes: int = frames.MESSAGE_MAX_BYTES) -> subtask_pb2.FromSubtask:
    """Returns the next message. Raises ``EOFError`` at the end, ``OSError``, ``CorruptFrame``."""
    length = frames.payload_bytes(await reader.readexactly(frames.HEADER_BYTES), max_bytes)
    return frames.parse(subtask_pb2.FromSubtask, await reader.readexactly(length))


def _refuse(stream: SubtaskStream, error: ErrorInfo) -> None:
    stream.send(subtask_pb2.ToSubtask(refused=subtask_pb2.ToSubtask.Refused(error=error_to_pb(error))))


def _tell(
    stream: SubtaskStream,
    call_id: int,
    *,
    error: common_pb2.Error | None = None,
    blob: common_pb2.BlobChunk | None = None,
    watermark: common_pb2.AlignWatermarkResponse | None = None,
    is_last: bool = True,
) -> None:
    answer = subtask_pb2.ToSubtask.Answer(call_id=call_id, is_last=is_last, error=error, blob=blob, watermark=watermark)
    stream.send(subtask_pb2.ToSubtask(answer=answer))
