"""The producer's connections: accepts consumers, checks them, then sends one subpartition as credit allows. Used in the I/O thread only.

    accepted ──Hello──▶ serving ──end of partition sent, peer closes──▶ done
        │ no Hello in time, wrong token, attempt, edge, ...   └── peer closes before ──▶ the subpartition is gone
        └──▶ refused, closed, counted

Before its token is verified, a peer gets 4 KiB of memory and a few seconds. Afterwards it can only send credit, and upstream events, which are passed on
undecoded.
"""

from __future__ import annotations

import errno
import hmac
import logging
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tidegate.model.channel_events import ChannelUnavailable
from tidegate.model.errors import TidegateError
from tidegate.model.ids import AttemptId, parse_attempt_id
from tidegate.security.handshakes import reason_of_loss
from tidegate.taskmanager.exchange.addresses import tune
from tidegate.taskmanager.exchange.exchange_settings import ExchangeSettings
from tidegate.taskmanager.exchange.framed_socket import FramedSocket
from tidegate.taskmanager.exchange.io_loop import READ, WRITE, EventLoop
from tidegate.taskmanager.exchange.subpartition import Subpartition
from tidegate.wire.channel_messages import (
    MAX_CONSUMER_BYTES,
    PROTOCOL_VERSION,
    Credit,
    Hello,
    RefusalCode,
    Refused,
    decode_message,
    encode_message,
)
from tidegate.wire.frames import (
    Frame,
    FrameDecoder,
    FrameFlags,
    FrameType,
    OutgoingFrame,
    event_frame,
    make_frame,
)

log = logging.getLogger(__name__)

_SEND_BUDGET = 1024 * 1024
"""Bytes that are taken from a subpartition at a time. Bytes passed to the socket cannot be overtaken."""
_ACCEPTS = 64
_ACCEPT_PAUSE_MS = 100.0
"""Pause in milliseconds when the process has no descriptor left. Chosen, not measured."""


OnTaskEvent = Callable[[int, bytes], None]
"""Takes an event that a consumer sent upstream: the id of its edge, and the payload. Called from the I/O thread."""


def nobody_listens(edge_id: int, payload: bytes) -> None:
    """Ignores an upstream event, for an endpoint whose subtask takes none."""


@dataclass(slots=True)
class ServerCounts:
    """Counts the connections of a data server."""

    accepted: int = 0
    refused: int = 0
    """Peers that were turned away, for whatever reason."""


@dataclass(slots=True)
class DataServer:
    """Accepts the connections of consumers at a producer, and gives each the subpartition that it requests. All its methods run in the I/O thread.

    ``outputs`` has every subpartition of the attempt; one is served to a single consumer, once. ``token``: what a consumer must present.
    """

    loop: EventLoop
    settings: ExchangeSettings
    attempt: AttemptId
    token: str
    outputs: Mapping[tuple[int, int], Subpartition]
    """Subpartitions by edge id and subtask index of the consumer."""
    on_task_event: OnTaskEvent = nobody_listens
    counts: ServerCounts = field(default_factory=ServerCounts)
    open_handshakes: set[_Peer] = field(default_factory=set)

    serving: set[_Peer] = field(default_factory=set)

    def listen_on(self, listener: socket.socket) -> None:
        self.loop.register(listener, READ, lambda _: self._accept(listener))

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(_ACCEPTS):
            try:
                sock, _address = listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    raise
                log.warning("no file descriptor is left for a data connection (ulimit -n raises the limit): %s", error)
                self.loop.pause(listener)
                self.loop.call_at(self.settings.clock() + _ACCEPT_PAUSE_MS, lambda: self.listen_on(listener))
                return
            if len(self.open_handshakes) >= self.settings.max_handshakes:
                self.counts.refused += 1
                sock.close()
                continue
            sock.setblocking(False)
            tune(sock)
            self.open_handshakes.add(_Peer(self, sock))

    def lose(self, reason: str) -> None:
        """Notifies each consumer that still waits for data, as far as its socket accepts it now, that the attempt failed and its queued data is lost."""
        frame = event_frame(ChannelUnavailable(reason))
        for peer in tuple(self.serving):
            peer.lose(frame)

    def check(self, hello: Hello) -> Subpartition | Refused:
        """Checks a handshake; returns the requested subpartition, or the refusal. The token is checked first, so that a peer without it learns nothing else."""
        if not hmac.compare_digest(hello.token.encode(), self.token.encode()):
            return Refused(RefusalCode.BAD_TOKEN, "the token is not that of this job")
        if hello.protocol_version != PROTOCOL_VERSION:
            message = (
                f"the consumer speaks version {hello.protocol_version} of the exchange, the producer {PROTOCOL_VERSION}"
            )
            return Refused(RefusalCode.VERSION, message)
        if hello.producer != str(self.attempt) or hello.job_id != self.attempt.job_id:
            return Refused(RefusalCode.UNKNOWN_ATTEMPT, f"this is attempt {self.attempt}, not {hello.producer}")
        found = self.outputs.get((hello.edge_id, hello.consumer_index))
        if found is None or not _is_consumer(hello):
            message = f"attempt {self.attempt} has no subpartition for {hello.consumer} on edge {hello.edge_id}"
            return Refused(RefusalCode.UNKNOWN_EDGE, message)
        if found.taken_by:
            message = f"the subpartition was taken by {found.taken_by} already; it can be read once"
            return Refused(RefusalCode.ALREADY_TAKEN, message)
        return found


class _Peer:
    """An accepted connection of a consumer."""

    def __init__(self, server: DataServer, sock: socket.socket) -> None:
        self._server = server
        self._framed = FramedSocket(sock, FrameDecoder("a consumer's connection", MAX_CONSUMER_BYTES))
        self._subpartition: Subpartition | None = None
        self._edge_id = -1
        self._interest = READ
        self._end_taken = False
        self._closed = False
        server.loop.register(sock, READ, self._on_ready)
        server.loop.call_at(server.settings.clock() + server.settings.handshake_timeout_ms, self._on_timeout)

    def lose(self, frame: OutgoingFrame) -> None:
        if self._end_taken:
            return
        self._framed.put(frame)
        try:
            self._framed.write()
        except OSError as error:
            self._close(str(error))

    def _on_ready(self, readiness: int) -> None:
        try:
            if readiness & READ:
                self._read()
            if readiness & WRITE and not self._closed:
                self._pump()
        except OSError as error:
            if self._subpartition is None and isinstance(error, ssl.SSLError):
                log.warning("refused a data connection: %s", reason_of_loss(error))
            self._close(reason_of_loss(error))
        except TidegateError as error:
            log.warning("closed the data connection of a consumer: %s", error.message)
            self._close(error.message)

    def _on_timeout(self) -> None:
        if self._subpartition is None:
            self._close("no handshake in time")

    def _read(self) -> None:
        frames, ended = self._framed.read()
        for frame in frames:
            if self._closed:
                return
            self._on_frame(frame)
        if ended and not self._closed:
            self._close("closed by the consumer")
        elif self._subpartition is not None:
            self._pump()

    def _on_frame(self, frame: Frame) -> None:
        if self._subpartition is None:
            self._on_hello(frame)
        elif frame.type is FrameType.CREDIT:
            credit = decode_message(memoryview(frame.payload), Credit)
            self._subpartition.credit.on_credit(credit.granted_bytes, credit.consumed_bytes)
        elif frame.type is FrameType.EVENT:
            self._server.on_task_event(self._edge_id, frame.payload.to_pybytes())
        else:
            self._close(f"a consumer sent a {frame.type.name} frame")

    def _on_hello(self, frame: Frame) -> None:
        if frame.type is not FrameType.HELLO:
            self._close(f"a {frame.type.name} frame instead of a handshake")
            return
        hello = decode_message(memoryview(frame.payload), Hello)
        answer = self._server.check(hello)
        if isinstance(answer, Refused):
            log.warning("refused a data connection (%s): %s", answer.code.value, answer.message)
            self._framed.put(make_frame(FrameType.REFUSED, encode_message(answer)))
            self._framed.write()
            self._close(answer.message)
            return
        self._server.open_handshakes.discard(self)
        self._server.counts.accepted += 1
        self._server.serving.add(self)
        self._subpartition, self._edge_id = answer, hello.edge_id
        self._framed.decoder.where = f"the connection of consumer {hello.consumer}"
        self._framed.put(make_frame(FrameType.ACCEPTED))
        answer.attach(hello.consumer, lambda: self._server.loop.call_soon(self._pump_safely))

    def _pump_safely(self) -> None:
        if not self._closed:
            self._on_ready(WRITE)

    def _pump(self) -> None:
        """Sends until the queue or the credit is empty or the socket is full."""
        subpartition = self._subpartition
        all_sent = self._framed.write()
        while all_sent and subpartition is not None:
            taken = subpartition.take(_SEND_BUDGET)
            for frame, backlog in taken:
                self._framed.put(frame, backlog)
                self._end_taken |= bool(frame.flags & FrameFlags.END)
            if not taken:
                waiting = subpartition.waits_for_credit()
                if not waiting:
                    break
                self._framed.put(make_frame(FrameType.BACKLOG), waiting)
            all_sent = self._framed.write()
        self._want(READ if all_sent else READ | WRITE)

    def _want(self, interest: int) -> None:
        if interest != self._interest:
            self._interest = interest
            self._server.loop.modify(self._framed.sock, interest, self._on_ready)

    def _close(self, reason: str) -> None:
        if self._closed:
            return
        self._closed = True
        self._server.open_handshakes.discard(self)
        self._server.serving.discard(self)
        if self._subpartition is None:
            self._server.counts.refused += 1
        self._server.loop.forget(self._framed.sock)
        if self._subpartition is None:
            return
        end_was_sent = self._end_taken and not self._framed.unsent_bytes
        if not end_was_sent:
            log.info("consumer %s went away: %s", self._subpartition.taken_by, reason)
        self._subpartition.detach(end_was_sent=end_was_sent)


def _is_consumer(hello: Hello) -> bool:
    """Tells whether a consumer may read the subpartition that it requests: its attempt belongs to this job, and is one of that subtask."""
    try:
        consumer = parse_attempt_id(hello.consumer)
    except ValueError:
        return False
    return consumer.job_id == hello.job_id and consumer.subtask == hello.consumer_index
