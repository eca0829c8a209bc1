"""The queue of messages of a subtask that its socket has not taken yet, in order. Printed text is merged into larger messages, and bounded.

put ──▶ socket, at once        while nothing waits and there is room: no other thread has to wake up
    └─▶ queue ──run──▶ socket  else
"""

from __future__ import annotations

import socket
import threading
from collections import deque

from tidegate.pb import subtask_pb2
from tidegate.security.sockets import SharedTls
from tidegate.wire import control_frames as frames

PRINTED_BYTES = 1 << 20
"""Limit on unsent printed text in bytes; user code that prints more waits."""
GATHERED_BYTES = 16 << 10
"""Size up to which printed lines are merged into one message, so that a loop of prints sends few messages."""


class ControlOutbox:
    """Sends queued messages in ``run``, until ``close``. Messages for a broken socket are dropped; the reader of the stream reports the break."""

    def __init__(self, connected: socket.socket | SharedTls) -> None:
        self._socket = connected
        self._waiting: deque[bytes | subtask_pb2.FromSubtask] = deque()
        self._condition = threading.Condition()
        self._is_sending = False
        self._printed_bytes = 0
        self._closed = False

    def put(self, message: subtask_pb2.FromSubtask) -> None:
        """Sends or queues a message; returns at once."""
        data = frames.frame(message)
        with self._condition:
            if not self._waiting and not self._is_sending:
                data = data[self._send_now(data) :]
            if data:
                self._waiting.append(data)
                self._condition.notify_all()

    def print(self, text: str, is_error: bool, is_bare: bool = False) -> None:
        """Queues printed text; waits while ``PRINTED_BYTES`` of it are unsent."""
        for start in range(0, len(text), PRINTED_BYTES):  # no message is longer than a peer takes
            self._print(
                subtask_pb2.FromSubtask.Output(
                    text=text[start : start + PRINTED_BYTES], is_error=is_error, is_bare=is_bare
                )
            )

    def _print(self, output: subtask_pb2.FromSubtask.Output) -> None:
        with self._condition:
            self._condition.wait_for(lambda: self._printed_bytes < PRINTED_BYTES or self._closed)
            if self._closed:
                return
            self._printed_bytes += len(output.text)
            last = self._waiting[-1] if self._waiting else None
            if isinstance(last, subtask_pb2.FromSubtask) and _may_grow(last.output, output):
                last.output.text += output.text
            else:
                self._waiting.append(subtask_pb2.FromSubtask(output=output))
            self._condition.notify_all()

    def close(self) -> None:
        """Closes the queue: queued messages are still sent, later prints are dropped."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()

    def run(self) -> None:
        """Sends queued messages until all are sent after ``close``, or the socket broke."""
        while (data := self._take()) is not None:
            try:
                self._socket.sendall(data)
            except OSError:
                return
            with self._condition:
                self._is_sending = False

    def _take(self) -> bytes | None:
        with self._condition:
            self._condition.wait_for(lambda: self._waiting or self._closed)
            if not self._waiting:
                return None
            first = self._waiting.popleft()
            self._is_sending = True
            if isinstance(first, bytes):
                return first
            self._printed_bytes -= len(first.output.text)
            self._condition.notify_all()
        return frames.frame(first)

    def _send_now(self, data: bytes) -> int:
        """Sends as many bytes as the socket takes without waiting; returns their number, or all of them when the socket is broken."""
        try:
            return self._socket.send(data, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0
        except OSError:
            return len(data)


def _may_grow(output: subtask_pb2.FromSubtask.Output, more: subtask_pb2.FromSubtask.Output) -> bool:
    is_alike = (output.is_error, output.is_bare) == (more.is_error, more.is_bare)
    return is_alike and len(output.text) < GATHERED_BYTES
