"""The outbox of one TaskManager: sends calls in order: submit < trigger n < abort or confirm n.

Nothing is sent before ``open``, or from ``suspend`` to the next ``open``. A call starts when the one before it was answered or given up. A
confirm is repeated until the TaskManager answers or is lost; the others are tried three times. A call that is given up is answered with
``Unreachable``, so that the machine gets one answer for every ``call_id``, unless the TaskManager was closed. A TaskManager whose connection
broke refuses everything as fenced until it is registered again, which may arrive here before the break is noticed: such a refusal is no
answer, nor is a try that failed while the connection was broken. While a confirm waits for its next try, later calls are sent.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import grpc.aio

from tidegate.aio.rpc import error_of_rpc, open_channel
from tidegate.aio.stimulus import belonging_to, current_stimulus
from tidegate.aio.transport import Transport
from tidegate.jobmanager.machines.commands import (
    ConfirmCheckpoint,
    SubmitTask,
)
from tidegate.jobmanager.machines.events import CallAnswered
from tidegate.jobmanager.service.storage.inline_state import Reading
from tidegate.jobmanager.service.task_managers.calls import TaskManagerCall, send
from tidegate.model.errors import ErrorInfo, Fenced, TidegateError, Unreachable
from tidegate.model.ids import AttemptId
from tidegate.pb.taskmanager_pb2_grpc import TaskManagerStub

if TYPE_CHECKING:
    from tidegate.pb.taskmanager_pb2_grpc import TaskManagerAsyncStub

TRIES = 3
"""How often a call is tried. Chosen, not measured: a broken connection is opened again; a TaskManager that is gone is noticed by its heartbeats."""
RETRY_MS = 200
"""The pause before a call is repeated, in ms. Chosen, not measured."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Link:
    """A connection to a TaskManager's service: its stub, and how to close it."""

    stub: TaskManagerAsyncStub
    close: Callable[[], Awaitable[None]]


def dial(address: str, transport: Transport) -> Link:
    """Opens a gRPC channel to a TaskManager; it connects when it is first used."""
    channel = open_channel(address, transport)

    async def close() -> None:
        await channel.close()

    return Link(TaskManagerStub(channel), close)


@dataclass(frozen=True, slots=True)
class CallResponse:
    """The answer of a TaskManager: an error of the whole call, or errors of single attempts."""

    error: ErrorInfo | None = None
    attempts: Mapping[AttemptId, ErrorInfo] = field(default_factory=dict)


class TaskManagerOutbox:
    """Sends calls in order to one session of a TaskManager."""

    def __init__(
        self,
        name: str,
        link: Link,
        generation: str,
        on_answer: Callable[[CallAnswered], None],
        *,
        address: str = "",
        call_timeout_ms: int = 10_000,
        confirm_retry_ms: int = 1_000,
        may_commit: asyncio.Event | None = None,
    ) -> None:
        """Starts the outbox, closed until ``open``. ``may_commit``: while it is not set, no confirm is sent. ``address``: of the TaskManager."""
        self._name = name
        self.address = address
        self._generation = generation
        self._on_answer = on_answer
        self._call_timeout_ms = call_timeout_ms
        self._confirm_retry_ms = confirm_retry_ms
        self._may_commit = may_commit
        self._link = link
        self._waiting: deque[tuple[TaskManagerCall, Reading | None, asyncio.Future[None] | None, str]] = deque()
        """Calls to send, each with what it needs and the id of the event that caused it (``tidegate.aio.stimulus``)."""
        self._wakeup = asyncio.Event()
        self._is_open = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name=f"outbox-{name}")
        self._repeats: set[asyncio.Task[None]] = set()

    def put(
        self, call: TaskManagerCall, reading: Reading | None = None, permit: asyncio.Future[None] | None = None
    ) -> None:
        """Sends a call after all earlier ones.

        ``reading``: supplies the inline state of a SubmitTask; ``permit``: a write that must be durable first.
        """
        self._waiting.append((call, reading, permit, current_stimulus()))
        self._wakeup.set()

    def open(self) -> None:
        """Starts to send. Idempotent. Before its TaskManager knows that it is registered, it would refuse everything as fenced."""
        self._is_open.set()

    def suspend(self) -> None:
        """Stops sending until ``open``, because the TaskManager's connection broke."""
        self._is_open.clear()

    def stop(self) -> None:
        """Drops all calls and sends nothing more."""
        self._waiting.clear()
        for task in (self._task, *self._repeats):
            task.cancel()

    async def close(self) -> None:
        """Stops sending and answering, and closes the connection."""
        self.stop()
        await asyncio.gather(self._task, *self._repeats, return_exceptions=True)
        await self._link.close()

    async def _run(self) -> None:
        while True:
            await self._wakeup.wait()
            self._wakeup.clear()
            while self._waiting:
                call, reading, permit, stimulus = self._waiting.popleft()
                with belonging_to(stimulus):
                    await self._begin(call, reading, permit)
                del reading  # it may hold all inline state of a checkpoint

    async def _begin(self, call: TaskManagerCall, reading: Reading | None, permit: asyncio.Future[None] | None) -> None:
        if permit is not None and not await self._is_permitted(call, permit):
            return
        if reading is not None and isinstance(call, SubmitTask):
            await self._submit(call, reading)
        else:
            await self._deliver(call)

    async def _is_permitted(self, call: TaskManagerCall, permit: asyncio.Future[None]) -> bool:
        try:
            await asyncio.shield(permit)
        except TidegateError as error:
            self._answered(call, CallResponse(ErrorInfo.of(error)))
            return False
        return True

    async def _submit(self, call: SubmitTask, reading: Reading) -> None:
        try:
            filled = await reading.fill(call)
        except TidegateError as error:
            self._answered(call, CallResponse(ErrorInfo.of(error)))
            return
        await self._deliver(filled)

    async def _deliver(self, call: TaskManagerCall) -> None:
        is_confirm = isinstance(call, ConfirmCheckpoint)
        failed = 0
        while True:
            answer = await self._try(call)
            if isinstance(answer, CallResponse):
                self._answered(call, answer)
                return
            counts = self._is_open.is_set() and not isinstance(answer, Fenced)
            failed += counts
            if is_confirm or failed == TRIES:
                break
            await asyncio.sleep(RETRY_MS * max(1, failed) / 1000)
        if is_confirm:
            repeat = asyncio.create_task(self._repeat(call), name=f"confirm-{self._name}")
            self._repeats.add(repeat)
            repeat.add_done_callback(self._repeats.discard)
        else:
            self._answered(call, CallResponse(ErrorInfo.of(answer, self._name)))

    async def _repeat(self, call: TaskManagerCall) -> None:
        while True:
            await asyncio.sleep(self._confirm_retry_ms / 1000)
            answer = await self._try(call)
            if isinstance(answer, CallResponse):
                self._answered(call, answer)
                return

    async def _try(self, call: TaskManagerCall) -> CallResponse | TidegateError:
        """Tries a call once; returns the TaskManager's answer, or the error that prevented one."""
        await self._is_open.wait()
        if self._may_commit is not None and isinstance(call, ConfirmCheckpoint):
            await self._may_commit.wait()
        try:
            error, attempts = await send(self._link.stub, self._generation, call, self._call_timeout_ms)
        except grpc.aio.AioRpcError as failure:
            why = error_of_rpc(failure, f"TaskManager {self._name}")
            _log.warning(
                "the call %s (number %d) to TaskManager %s failed: %s",
                type(call).__name__,
                call.call_id,
                self._name,
                why.message,
            )
            return why if isinstance(why, Unreachable) else CallResponse(ErrorInfo.of(why, self._name))
        if error is not None and error.code == Fenced.code:
            return Fenced(error.message)
        return CallResponse(error, attempts)

    def _answered(self, call: TaskManagerCall, answer: CallResponse) -> None:
        self._on_answer(CallAnswered(call.call_id, answer.error, answer.attempts))
