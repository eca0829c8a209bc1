"""A non-blocking socket that sends and receives frames. It never blocks: bytes that cannot be written now stay queued.

All calls are made by the I/O thread. Batches are sent and received without a copy in this process.
"""

from __future__ import annotations

import socket
import ssl
from collections import deque
from collections.abc import Callable

from tidegate.security.sockets import TlsSocket
from tidegate.wire.frames import Frame, FrameDecoder, OutgoingFrame, make_header

_READ_BUDGET = 4 * 1024 * 1024
"""Bytes that are read from one socket before others get their turn."""
_MAX_BUFFERS = 64
"""Buffers in one system call. Every platform allows more (IOV_MAX)."""


class FramedSocket:
    """A connected, non-blocking socket that carries frames. It queues what the kernel does not take at once."""

    def __init__(self, sock: socket.socket, decoder: FrameDecoder) -> None:
        self.sock = sock
        self.decoder = decoder
        self._out: deque[memoryview] = deque()
        self._out_bytes = 0
        self._sequence = 0
        self._send: Callable[[list[memoryview]], int] = sock.sendmsg
        self._receive: Callable[[list[memoryview]], int] = lambda buffers: sock.recvmsg_into(buffers)[0]
        self._decrypted: Callable[[], int] = lambda: 0
        """Returns how many bytes TLS has already taken from the socket, which its readiness does not show."""
        if isinstance(sock, TlsSocket):
            self._send, self._receive, self._decrypted = sock.send_buffers, sock.receive_into, sock.pending

    @property
    def unsent_bytes(self) -> int:
        return self._out_bytes

    def put(self, frame: OutgoingFrame, backlog_bytes: int = 0) -> None:
        """Queues a frame after all others; ``write`` sends it. ``backlog_bytes``: sent with the frame, the bytes that the producer still holds for the
        consumer.
        """
        header = make_header(frame, self._sequence, backlog_bytes)
        self._sequence += 1
        self._out.append(memoryview(header))
        self._out_bytes += len(header)
        if frame.size_bytes:
            self._out.append(frame.payload)
            self._out_bytes += frame.size_bytes

    def write(self) -> bool:
        """Sends what the socket accepts. Raises ``OSError`` when the connection is gone.

        Returns ``False`` if it must be called again when the socket accepts more. Returns ``True`` if all was sent, or if TLS has to read from the peer first,
        after which ``write`` is called as well.
        """
        while self._out:
            buffers = [self._out[at] for at in range(min(len(self._out), _MAX_BUFFERS))]
            try:
                sent = self._send(buffers)
            except (BlockingIOError, InterruptedError):
                return False
            except ssl.SSLWantReadError:
                return True
            self._out_bytes -= sent
            while sent:
                head = self._out[0]
                if sent < len(head):
                    self._out[0] = head[sent:]
                    break
                sent -= len(head)
                self._out.popleft()
        return True

    def read(self) -> tuple[list[Frame], bool]:
        """Returns the frames that have arrived, and whether the peer closed the connection. Raises ``OSError`` or ``CorruptFrame``."""
        frames: list[Frame] = []
        budget = _READ_BUDGET
        while budget > 0 or self._decrypted():
            buffers = self.decoder.buffers()
            try:
                count = self._receive(buffers)
            except (BlockingIOError, InterruptedError):
                return frames, False
            if count == 0:
                return frames, True
            frames += self.decoder.received(count)
            budget -= count
            if count < sum(map(len, buffers)) and len(buffers) == 1:
                return frames, False  # a short read into the scratch area: nothing more is there
        return frames, False
