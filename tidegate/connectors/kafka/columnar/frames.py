"""Answers of a broker put together from what a socket gives, without the copies that kafka-python makes of them.

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
"""Answers that may be of any kind; larger ones are fetched records (or metadata)."""


def take_over(protocol: Any) -> None:
    """Puts ``Frames`` in the place of the parser of a connection (``KafkaConnection``), which has read nothing yet."""
    if not isinstance(protocol.parser, Frames):
        protocol.parser = Frames(protocol.parser)


class Frames:
    """Stands before a parser of kafka-python: copies each answer once, into the buffer that holds it whole, and lets the parser
    decode it from there. Requests are the parser's own."""

    def __init__(self, parser: KafkaProtocol) -> None:
        self._parser = parser
        self.send_request, self.send_bytes = parser.send_request, parser.send_bytes
        self._length = b""
        self._answer: memoryview | None = None
        self._received = 0

    def receive_bytes(self, data: bytes | memoryview) -> list[tuple[int, Committable]]:
        """(correlation id, answer) of those that are complete. ``data`` may be changed afterwards.

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
    """As kafka-python has it: some kinds of answers want it so."""
    found = KafkaBytes(len(content))
    found[:] = content
    return found


class _Answer:
    """What kafka-python reads an answer from: its header by small pieces, the rest as a view."""

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
