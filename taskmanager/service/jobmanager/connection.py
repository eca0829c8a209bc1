"""The TaskManager's connection to the JobManager: registers, keeps the heartbeat stream, and sends messages in order.

    register ──refused──▶ wait ──┐        ┌── outbox: one call after the other, again until answered
       ▲                         │        │
       └─────────────────────────┘  ok ──▶ session of one generation ──stream broke, silent──▶ lost: tasks go on ──▶ register
                                          └── heartbeats both ways

Laws:
1. The order of messages is kept; an unanswered call is repeated, also on a new connection, so that it may arrive twice.
2. When the session ends, messages wait until a JobManager of the same generation registers this TaskManager again; when one of another generation does, they
   are dropped.
3. It registers again at once, with a report of its tasks, as long as they run; once they are being stopped (the grace period of the lost JobManager is over),
   only after all are gone.
4. A JobManager of an older generation than the last one is not accepted again.

Follows Flink's ``RetryingRegistration.java`` and ``HeartbeatManagerImpl.java``; there an unreachable JobManager is tried every
``cluster.registration.error-delay``, here the pause doubles up to it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import grpc.aio
from google.protobuf.message import Message

from tidegate.aio.probing import until_refused
from tidegate.aio.rpc import call, collect, error_of_rpc, open_channel
from tidegate.aio.transport import PLAIN, Transport
from tidegate.model.errors import ErrorInfo, ExternalError, TidegateError, Unreachable, VersionMismatch
from tidegate.model.ids import Generation
from tidegate.pb import common_pb2, jobmanager_pb2, jobmanager_pb2_grpc
from tidegate.taskmanager.service.jobmanager.leader_retrieval import LeaderRetrieval
from tidegate.taskmanager.service.jobmanager.outbox import JobManagerOutbox
from tidegate.wire.convert import error_from_pb

_log = logging.getLogger(__name__)

METRICS_INTERVAL_S = 1.0
"""Most seconds between two heartbeats, which carry metrics. Chosen, not measured: metrics on pages are at most this old."""
ALIGN_TIMEOUT_S = 5.0
"""Seconds for the answer to a watermark's report; after that the source keeps its limit. Chosen, not measured."""
RETRY_FIRST_S = 0.05
"""Seconds before the first retry of a call; the pause doubles up to ``RETRY_LAST_S``. Chosen, not measured."""
RETRY_LAST_S = 1.0
"""Most seconds between two retries. Chosen, not measured."""
CLOSED = "it closed the connection"
"""Reason of a session's end if the JobManager has ended it itself."""
GOODBYE_S = 1.0
"""Seconds to wait for the JobManager's answer to the last heartbeat, before the connection is closed. Chosen, not measured."""
BLOB_PATIENCE_S = 10.0
"""Seconds for which fetching a blob is retried. Chosen, not measured: a JobManager that comes back does so within a few seconds."""
HOLDING_PAUSE_MS = 500
"""Milliseconds between two attempts to register while tasks wait for a JobManager. Chosen: a new one waits for several of them."""

Refusal = tuple[str, ErrorInfo]
"""The attempt that was refused (empty: none), and why."""


@dataclass(frozen=True, slots=True)
class RegistrationTimes:
    """The settings ``cluster.registration.*`` and ``taskmanager.registration.timeout``, in milliseconds."""

    initial_timeout_ms: int = 100
    max_timeout_ms: int = 30_000
    error_delay_ms: int = 10_000
    refused_delay_ms: int = 30_000
    give_up_ms: int = 300_000


class Resident(Protocol):
    """The part of the task executor that this connection uses to register and report."""

    def registration(self) -> jobmanager_pb2.RegisterTaskManagerRequest: ...

    def heartbeat(self, generation: Generation) -> jobmanager_pb2.TaskManagerHeartbeat: ...

    def on_found(self, generation: Generation, loss_grace_ms: int, reconnect_ms: int) -> ErrorInfo | None:
        """Takes a JobManager that was found. Returns why it is not accepted; ``None`` if it is."""

    def on_lost(self, reason: str, *, is_over: bool) -> None:
        """Takes the loss of the JobManager. ``is_over``: it has ended the session, or its process is gone; this may be called again once that is known."""

    @property
    def holds_tasks(self) -> bool:
        """Whether tasks go on without a JobManager."""

    async def wait_ready(self) -> None:
        """Waits until no task is being stopped because of the loss of the JobManager."""

    def on_rejected(self, attempt: str) -> None: ...


_Heartbeats: TypeAlias = (
    "grpc.aio.StreamStreamCall[jobmanager_pb2.TaskManagerHeartbeat, jobmanager_pb2.JobManagerHeartbeat]"
)


class JobManagerConnection:
    """The connection to the JobManager that leads. ``run`` goes on until it is cancelled, or raises: ``VersionMismatch``, or ``ExternalError`` when no
    JobManager accepted this TaskManager for ``taskmanager.registration.timeout``.
    """

    def __init__(self, retrieval: LeaderRetrieval, times: RegistrationTimes, transport: Transport = PLAIN) -> None:
        self._retrieval, self.transport = retrieval, transport
        self._address = ""
        self._peer = "the JobManager"
        self._times = times
        self._channel: grpc.aio.Channel | None = None
        self._stub_of_channel: jobmanager_pb2_grpc.JobManagerServiceAsyncStub | None = None
        self._outbox = JobManagerOutbox()
        self._has_news = asyncio.Event()
        self._generation: Generation | None = None
        self._last_generation: Generation | None = None
        """The generation to which the outbox belongs: of the JobManager that leads or is lost."""
        self.allows_faults = False
        """Whether the JobManager that leads was started with ``--allow-faults``."""
        self.on_accepted: Callable[[Generation], None] = lambda _: None
        """Called when a JobManager has accepted this TaskManager."""

    @property
    def generation(self) -> Generation | None:
        return self._generation

    async def run(self, resident: Resident) -> None:
        while True:
            probing = (
                asyncio.create_task(self._probe(resident), name="probe") if self._last_generation is not None else None
            )
            try:
                answer = await self._register(resident)
            finally:
                if probing is not None:
                    probing.cancel()
            reason = await self._live(answer, resident)
            _log.warning("lost %s: %s", self._peer, reason)
            resident.on_lost(reason, is_over=reason == CLOSED)

    async def _probe(self, resident: Resident) -> None:
        """Waits until the lost JobManager's process is gone, while a JobManager is searched for, and reports that."""
        resident.on_lost(await until_refused(self._address, hello=self.transport.hello()), is_over=True)

    async def close(self) -> None:
        """Closes the connection for good, which the JobManager sees at once."""
        await self._hang_up()
        await self._retrieval.close()

    async def _hang_up(self) -> None:
        if self._channel is not None:
            await self._channel.close()
            self._channel = self._stub_of_channel = None

    def tell(self, method: str, request: Message) -> None:
        """Sends ``request`` after everything sent before. While the JobManager is lost it waits for it; before the first one is found it is dropped."""
        if self._last_generation is not None:
            self._outbox.put(method, request)
            self._has_news.set()

    async def fetch_blob(self, key: str) -> bytes:
        """Fetches a blob, with retries for ``BLOB_PATIENCE_S`` if the connection breaks. Raises the ``TidegateError`` of a failure."""
        gives_up_at = time.monotonic() + BLOB_PATIENCE_S
        while True:
            channel = self._channel
            try:
                return await collect(self._stub().GetBlob(common_pb2.BlobRef(key=key)))
            except grpc.aio.AioRpcError as error:
                failure = error_of_rpc(error, self._peer)
                if not isinstance(failure, Unreachable) or time.monotonic() >= gives_up_at:
                    raise failure from None
            except asyncio.CancelledError:  # also what a call says whose channel was closed to make a new one
                asking = asyncio.current_task()
                if self._channel is channel or (asking is not None and asking.cancelling()):
                    raise
            await asyncio.sleep(RETRY_FIRST_S)

    async def align_watermark(self, request: common_pb2.AlignWatermarkRequest) -> common_pb2.AlignWatermarkResponse:
        """Reports a watermark for alignment. Raises the ``TidegateError`` of a failure."""
        return await call(self._stub().AlignWatermark(request, timeout=ALIGN_TIMEOUT_S), self._peer)

    async def register_kv_state(self, request: jobmanager_pb2.RegisterKvStateRequest) -> ErrorInfo | None:
        """Registers queryable state. Returns why it is refused; ``None`` if it is not. Raises ``Unreachable``."""
        request.generation = self._generation or ""
        answer = await call(self._stub().RegisterKvState(request, timeout=ALIGN_TIMEOUT_S), self._peer)
        return error_from_pb(answer.error) if answer.HasField("error") else None

    # ---- registration ------------------------------------------------------------------------------------------------

    async def _register(self, resident: Resident) -> jobmanager_pb2.RegisterTaskManagerResponse:
        gives_up_at = time.monotonic() + self._times.give_up_ms / 1000
        timeout_ms = pause_ms = self._times.initial_timeout_ms
        logged = ""
        while True:
            await resident.wait_ready()
            answer, failure = await self._try_to_register(resident, max(timeout_ms, 1000))
            if answer is not None and not answer.HasField("error"):
                refusal = self._accept(answer, resident)
                if refusal is None:
                    return answer
                failure, wait_ms = refusal.message, self._times.error_delay_ms
            elif answer is not None:
                refusal = error_from_pb(answer.error)
                if refusal.code == VersionMismatch.code:
                    raise refusal.to_exception()
                failure, wait_ms = refusal.message, self._times.refused_delay_ms
                timeout_ms = pause_ms = self._times.initial_timeout_ms
            else:
                wait_ms = min(pause_ms, self._times.error_delay_ms)
                timeout_ms = min(2 * timeout_ms, self._times.max_timeout_ms)
                pause_ms *= 2
            if resident.holds_tasks:
                wait_ms = min(wait_ms, HOLDING_PAUSE_MS)
            if failure != logged:
                _log.warning("not registered yet: %s; trying again and again", failure)
                logged = failure
            if time.monotonic() + wait_ms / 1000 >= gives_up_at:
                raise ExternalError(
                    f"{self._peer} did not register this TaskManager within {self._times.give_up_ms / 1000:g} s "
                    f"(taskmanager.registration.timeout): {failure}"
                )
            await asyncio.sleep(wait_ms / 1000)

    async def _try_to_register(
        self, resident: Resident, timeout_ms: int
    ) -> tuple[jobmanager_pb2.RegisterTaskManagerResponse | None, str]:
        try:
            await self._look_for_the_leader()
            request = resident.registration()
            return await call(self._stub().RegisterTaskManager(request, timeout=timeout_ms / 1000), self._peer), ""
        except TidegateError as error:
            await self._hang_up()  # a new connection next time: the old one may wait long before it looks again
            found = ""
            if isinstance(error, Unreachable):
                found = await asyncio.to_thread(self.transport.diagnose, self._address, error.message)
            return None, found or error.message

    async def _look_for_the_leader(self) -> None:
        address = await self._retrieval.address()
        if address != self._address:
            await self._hang_up()
            self._address, self._peer = address, f"the JobManager at {address}"

    def _accept(self, answer: jobmanager_pb2.RegisterTaskManagerResponse, resident: Resident) -> ErrorInfo | None:
        """Directs messages to the JobManager that accepted the registration. Returns why it must not be followed; ``None`` if it is."""
        kept, last = self._outbox, self._last_generation
        if answer.generation != last:
            self._outbox = JobManagerOutbox()
        self._generation = self._last_generation = Generation(answer.generation)
        self.allows_faults = answer.allow_faults
        refusal = resident.on_found(self._generation, answer.loss_grace_ms, answer.reconnect_ms)
        if refusal is not None:
            self._generation, self._last_generation, self._outbox = None, last, kept
        else:
            self.on_accepted(self._generation)
        return refusal

    def _stub(self) -> jobmanager_pb2_grpc.JobManagerServiceAsyncStub:
        """Returns the stub of the connection, made once, since making one takes longer than a call."""
        if self._channel is None or self._stub_of_channel is None:
            self._channel = open_channel(self._address, self.transport)
            self._stub_of_channel = jobmanager_pb2_grpc.JobManagerServiceStub(self._channel)
        return self._stub_of_channel

    # ---- a session ---------------------------------------------------------------------------------------------------

    async def _live(self, answer: jobmanager_pb2.RegisterTaskManagerResponse, resident: Resident) -> str:
        """Runs a session until it ends. Returns why it ended."""
        generation = Generation(answer.generation)
        _log.info("registered at %s, generation %s", self._peer, generation)
        stream = self._stub().Heartbeat()
        is_leaving = asyncio.Event()
        tasks = [
            asyncio.create_task(
                self._send_heartbeats(stream, resident, generation, answer.heartbeat_interval_ms / 1000, is_leaving)
            ),
            asyncio.create_task(self._read_heartbeats(stream, answer.heartbeat_timeout_ms / 1000)),
            asyncio.create_task(self._drain_outbox(resident)),
            asyncio.create_task(self._watch_leader()),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            return _first_reason(done)
        except asyncio.CancelledError:
            is_leaving.set()
            await asyncio.wait(tasks[:2], timeout=GOODBYE_S)  # the JobManager ends the stream behind the last heartbeat
            raise
        finally:
            self._generation = None
            self._outbox.take_back()
            stream.cancel()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _send_heartbeats(
        self,
        stream: _Heartbeats,
        resident: Resident,
        generation: Generation,
        interval_s: float,
        is_leaving: asyncio.Event,
    ) -> str:
        """Sends heartbeats until ``is_leaving``. The last one says so, so that the JobManager does not wait for this TaskManager."""
        pause_s = min(interval_s or METRICS_INTERVAL_S, METRICS_INTERVAL_S)
        try:
            while not is_leaving.is_set():
                await stream.write(self._beat(resident.heartbeat(generation)))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause_s):
                        await is_leaving.wait()
            last = self._beat(resident.heartbeat(generation))
            last.is_last = True
            await stream.write(last)
            await stream.done_writing()
            return "this TaskManager is shutting down"
        except (grpc.RpcError, asyncio.InvalidStateError) as error:
            return _reason(error)

    def _beat(self, beat: jobmanager_pb2.TaskManagerHeartbeat) -> jobmanager_pb2.TaskManagerHeartbeat:
        """Adds attempts with unreported states to a heartbeat, which may overtake reports: the JobManager would take them for lost otherwise."""
        beat.attempts.extend(sorted(self._outbox.unreported().difference(beat.attempts)))
        return beat

    async def _read_heartbeats(self, stream: _Heartbeats, timeout_s: float) -> str:
        try:
            while True:
                async with asyncio.timeout(timeout_s or None):
                    beat = await stream.read()
                if beat is grpc.aio.EOF:
                    return CLOSED
        except TimeoutError:
            return f"it has been silent for {timeout_s:g} s (heartbeat.timeout)"
        except grpc.RpcError as error:
            return _reason(error)

    async def _watch_leader(self) -> str:
        return f"the JobManager at {await self._retrieval.moved(self._address)} leads now"

    async def _drain_outbox(self, resident: Resident) -> str:
        while True:
            while self._outbox:
                method, request = self._outbox.take()
                for attempt, refusal in await self._tell_once(method, request):
                    self._on_refusal(method, attempt, refusal, resident)
                self._outbox.answered()
            self._has_news.clear()
            await self._has_news.wait()

    async def _tell_once(self, method: str, request: Message) -> list[Refusal]:
        """Repeats a call until it is answered. Returns the refusals."""
        pause_s = RETRY_FIRST_S
        while True:
            try:
                return _refusals(request, await call(getattr(self._stub(), method)(request), self._peer))
            except TidegateError as error:
                if error.code != "unreachable":
                    return [(getattr(request, "attempt", ""), ErrorInfo.of(error))]
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, RETRY_LAST_S)

    def _on_refusal(self, method: str, attempt: str, refusal: ErrorInfo, resident: Resident) -> None:
        _log.info("%s refused %s%s: %s", self._peer, method, f" of {attempt}" if attempt else "", refusal.message)
        if method == "UpdateTaskState" and refusal.code in ("fenced", "unknown-attempt", "unknown-job"):
            resident.on_rejected(attempt)


def _refusals(request: Message, answer: common_pb2.Ack | jobmanager_pb2.AcknowledgeCheckpointAnswer) -> list[Refusal]:
    if isinstance(answer, jobmanager_pb2.AcknowledgeCheckpointAnswer) and not answer.HasField("error"):
        return [(attempt, error_from_pb(error)) for attempt, error in answer.attempts.items()]
    return [(getattr(request, "attempt", ""), error_from_pb(answer.error))] if answer.HasField("error") else []


def _first_reason(done: Iterable[asyncio.Task[str]]) -> str:
    reasons = []
    for task in done:
        error = task.exception()
        if error is not None:
            raise error
        reasons.append(task.result())
    return reasons[0]


def _reason(error: BaseException) -> str:
    if isinstance(error, grpc.aio.AioRpcError):
        return error.details() or error.code().name
    return "the connection broke"
