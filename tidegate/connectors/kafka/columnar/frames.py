"""Assembly of a broker's answers from socket reads, without the copies that kafka-python makes.

    pieces from the socket ─▶ length ─▶ one memory for each answer ─▶ decoded from there, by kafka-python

Its own parser copies every byte seven times before it has the field of an answer; of an answer of megabytes that is most of
what it costs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from kafka.protocol.frame import KafkaBytes
from kafka.protocol.parser import KafkaProtocol

from tidegate.model.values import Committable

_LENGTH_BYTES = 4
_SMALL_BYTES = 16 << 10
"""Answers up to this size may be of any kind; larger ones are fetched records (or metadata)."""


def take_over(protocol: Any) -> None:
    """Replaces the parser of a connection (``KafkaConnection``) by ``Frames``, before anything was read."""
    if not isinstance(protocol.parser, Frames):
        protocol.parser = Frames(protocol.parser)


class Frames:
    """Wraps a parser of kafka-python: copies each answer once, into a buffer of its size, from which the parser decodes it. Requests are the parser's own."""

    def __init__(self, parser: KafkaProtocol) -> None:
        self._parser = parser
        self.send_request, self.send_bytes = parser.send_request, parser.send_bytes
        self._length = b""
        self._answer: memoryview | None = None
        self._received = 0

    def receive_bytes(self, data: bytes | memoryview) -> list[tuple[int, Committable]]:
        """Takes bytes of a socket; returns (correlation id, answer) of the answers that are complete. ``data`` may be reused afterwards.

        Raises ``KafkaError`` for a length out of range, and for what is no answer to a request."""
        left = memoryview(data)
        found = []
        while left:
            if self._answer is None:
                missing = _LENGTH_BYTES - len(self._length)
                self._length += left[:missing]
                left = left[missing:]
                if len(self._length) < _LENGTH_BYTES:
                    break
                size = int.from_bytes(self._length, "big", signed=True)
                self._parser._validate_frame_size(size)
                self._answer, self._received = np.empty(size, np.uint8).data, 0
            size = min(len(self._answer) - self._received, len(left))
            self._answer[self._received : self._received + size] = left[:size]
            self._received += size
            left = left[size:]
            if self._received == len(self._answer):
                answer, self._answer, self._length = self._answer, None, b""
                content = _Answer(answer) if len(answer) > _SMALL_BYTES else _small(answer)
                found.append(self._parser._process_response(content))
        return found


def _small(content: memoryview) -> KafkaBytes:
    """Copies a small answer to kafka-python's own type, which some kinds of answers need."""
    found = KafkaBytes(len(content))
    found[:] = content
    return found


class _Answer:
    """The stream from which kafka-python decodes an answer: the header in small pieces, the rest as a view."""

    def __init__(self, content: memoryview) -> None:
        self._content = content
        self._at = 0

    def read(self, size: int | None = None) -> bytes | memoryview:
        begin = self._at
        if size is None:
            self._at = len(self._content)
            return self._content[begin:]
        self._at = min(begin + size, len(self._content))
        return bytes(self._content[begin : self._at])

    def seek(self, at: int) -> None:
        self._at = at
