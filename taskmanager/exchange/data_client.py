"""The consumer's connections, one for each channel. Used in the I/O thread only.

connecting ──▶ hello sent ──Accepted──▶ reading ──end of partition──▶ ended (this side closes: all was received)
    │ ▲             │                      └── connection breaks ──▶ SubtaskLost
    ▼ │ backoff     └── Refused ──▶ failed
  waiting ── for too long ──▶ Unreachable
"""

from __future__ import annotations

import errno
import os
import socket
import ssl
from collections.abc import Callable

from tidegate.model.deployment import ProducerAddress
from tidegate.model.errors import CorruptFrame, SubtaskLost, TidegateError, Unreachable, VersionMismatch
from tidegate.security.handshakes import reason_of_loss
from tidegate.taskmanager.exchange.addresses import is_unix
from tidegate.taskmanager.exchange.exchange_settings import ExchangeSettings
from tidegate.taskmanager.exchange.framed_socket import FramedSocket
from tidegate.taskmanager.exchange.input_gate import ChannelInputGate
from tidegate.taskmanager.exchange.io_loop import READ, WRITE, EventLoop
from tidegate.taskmanager.machines.credit import GrantCredit
from tidegate.wire.channel_messages import Credit, Hello, RefusalCode, Refused, decode_message, encode_message
from tidegate.wire.frames import Frame, FrameDecoder, FrameType, OutgoingFrame, make_frame

_FIRST_BACKOFF_MS = 5.0
"""First wait before another attempt to connect, in milliseconds. It doubles up to ``_MAX_BACKOFF_MS``. Chosen, not measured."""
_MAX_BACKOFF_MS = 500.0
"""Longest wait before another attempt to connect, in milliseconds. Chosen, not measured."""


class DataClient:
    """The connection of one channel to its producer."""

    def __init__(
        self,
        loop: EventLoop,
        settings: ExchangeSettings,
        gate: ChannelInputGate,
        channel: int,
        producer: ProducerAddress,
        hello: Hello,
        on_connected: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._settings = settings
        self._gate = gate
        self._channel = channel
        self._producer = producer
        self._hello = hello
        self._on_connected = on_connected
        self._name = f"channel {channel} from producer {producer.attempt} at {producer.address}"
        self._framed: FramedSocket | None = None
        self._interest = 0
        self._is_connecting = False
        self._accepted = False
        self._closed = False
        self._last_reason = "it does not answer"
        self._backoff_ms = _FIRST_BACKOFF_MS
        self._give_up_ms = settings.clock() + settings.connect_timeout_ms

    def open(self) -> None:
        """Begins to connect; gives up after ``connect_timeout_ms``."""
        self._loop.call_at(self._give_up_ms, self._on_time_up)
        self._connect()

    def _connect(self) -> None:
        """Tries to connect, and again later when there is no listener yet."""
        if self._closed:
            return
        try:
            sock, target = self._loop.make_client(self._producer.address)
        except (OSError, ValueError) as error:
            self._fail(Unreachable(f"{self._name}: {error}"))
            return
        try:
            code = sock.connect_ex(target)
        except OSError as error:  # a host name that cannot be resolved
            self._try_again(sock, str(error))
            return
        if code in (0, errno.EISCONN, errno.EINPROGRESS):
            self._framed = FramedSocket(sock, FrameDecoder(self._name, self._settings.max_payload_bytes))
            self._is_connecting = code == errno.EINPROGRESS
            self._interest = READ | WRITE if self._is_connecting else READ
            self._loop.register(sock, self._interest, self._on_ready)
            if not self._is_connecting:  # as by a Unix socket
                self._greet(self._framed)
        else:
            self._try_again(sock, os.strerror(code))

    def grant(self, credit: GrantCredit) -> None:
        if self._framed is None or self._closed:
            return
        self._send(make_frame(FrameType.CREDIT, encode_message(Credit(credit.granted_bytes, credit.consumed_bytes))))

    def send_event(self, payload: bytes) -> None:
        """Sends an event upstream, if the connection is still open."""
        self._send(make_frame(FrameType.EVENT, payload))

    def _send(self, frame: OutgoingFrame) -> None:
        framed = self._framed
        if framed is None or self._closed or not self._accepted:
            return
        framed.put(frame)
        try:
            self._write()
        except OSError as error:
            self._broken(framed, error)

    def _on_ready(self, readiness: int) -> None:
        framed = self._framed
        if framed is None or self._closed:
            return
        try:
            if self._is_connecting:
                code = framed.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if code:
                    self._try_again(framed.sock, os.strerror(code))
                    return
                self._is_connecting = False
                self._greet(framed)
            if readiness & READ:
                self._read(framed)
            if not self._closed:
                self._write()
        except OSError as error:
            self._lost(self._why(error))
        except TidegateError as error:
            self._fail(error)

    def _greet(self, framed: FramedSocket) -> None:
        """Sends the handshake, as far as the socket accepts it now."""
        framed.put(make_frame(FrameType.HELLO, encode_message(self._hello)))
        try:
            self._write()
        except OSError as error:
            self._broken(framed, error)

    def _read(self, framed: FramedSocket) -> None:
        frames, peer_closed = framed.read()
        if frames and not self._accepted:
            self._on_answer(frames.pop(0))
        if frames and self._gate.on_frames(self._channel, frames):
            self._close()
        elif peer_closed:
            self._lost("the producer closed it")

    def _on_answer(self, frame: Frame) -> None:
        if frame.type is FrameType.REFUSED:
            raise _refusal(self._name, decode_message(memoryview(frame.payload), Refused))
        if frame.type is not FrameType.ACCEPTED:
            raise CorruptFrame(
                f"{self._name}: the producer answered the handshake with a {frame.type.name} frame, and not with ACCEPTED or REFUSED"
            )
        self._accepted = True
        self.grant(self._gate.open_channel(self._channel, is_local=is_unix(self._producer.address)))
        self._on_connected()

    def _write(self) -> None:
        framed = self._framed
        if framed is None or self._closed:
            return
        interest = READ if framed.write() else READ | WRITE
        if interest != self._interest:
            self._interest = interest
            self._loop.modify(framed.sock, interest, self._on_ready)

    def _try_again(self, sock: socket.socket, reason: str) -> None:
        self._loop.forget(sock)
        self._framed = None
        self._last_reason = reason
        self._loop.call_at(self._settings.clock() + self._backoff_ms, self._connect)
        self._backoff_ms = min(self._backoff_ms * 2, _MAX_BACKOFF_MS)

    def _on_time_up(self) -> None:
        if not self._accepted:
            waited_ms = self._settings.connect_timeout_ms
            self._fail(Unreachable(f"{self._name} cannot be reached for {waited_ms:.0f} ms: {self._last_reason}"))

    def _broken(self, framed: FramedSocket, error: OSError) -> None:
        """Handles a socket that cannot be written to. What the producer sent before, such as the reason, is read first."""
        if isinstance(error, ssl.SSLError):  # there is nothing else that it could have sent
            self._lost(self._why(error))
            return
        try:
            self._read(framed)
        except OSError as second:
            self._lost(self._why(second))
        except TidegateError as reported:
            self._fail(reported)
        else:
            self._lost(self._why(error))

    def _why(self, error: OSError) -> str:
        """Returns the reason of a lost connection. In TLS 1.3 a server checks the client's certificate after the client's handshake is done, and its answer may
        be lost with the connection.
        """
        is_tls = self._framed is not None and isinstance(self._framed.sock, ssl.SSLSocket)
        if is_tls and not self._accepted and not isinstance(error, ssl.SSLError):
            return "it closed the connection before it answered; it may have refused our certificate: see its log"
        return reason_of_loss(error)

    def _lost(self, reason: str) -> None:
        self._fail(SubtaskLost(f"{self._name} was lost before the end of the partition: {reason}"))

    def _fail(self, error: TidegateError) -> None:
        if not self._closed:
            self._close()
            self._gate.on_failure(error)

    def _close(self) -> None:
        self._closed = True
        if self._framed is not None:
            self._loop.forget(self._framed.sock)
            self._framed = None


def _refusal(name: str, refused: Refused) -> TidegateError:
    message = f"{name} was refused ({refused.code.value}): {refused.message}"
    match refused.code:
        case RefusalCode.VERSION:
            return VersionMismatch(message)
        case RefusalCode.UNKNOWN_ATTEMPT | RefusalCode.ALREADY_TAKEN:
            return SubtaskLost(message)
        case RefusalCode.BAD_TOKEN | RefusalCode.UNKNOWN_EDGE:
            return Unreachable(message)
