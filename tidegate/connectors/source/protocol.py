"""The messages between readers and their enumerator, each of which is processed exactly once.

    reader ── (number, message) ── by the JobManager, which may lose it or bring it twice ──▶ enumerator
    reader ◀── ForReader, a record of the edge between them: in order, once, and in checkpoints ── enumerator

Laws. A message is taken in order and once: the enumerator takes the next number only, and acknowledges the last one that it took; the
reader repeats what is not acknowledged. Both restart together, from one checkpoint, and then count from the beginning.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from tidegate.common.typeinfo import Types
from tidegate.model.errors import CorruptData
from tidegate.model.values import StateValue

FIRST_REPEAT_MS = 100.0
"""The pause before the first repetition, in ms. Chosen, not measured: readers often start some milliseconds before their enumerator."""
LAST_REPEAT_MS = 2_000.0
"""The longest pause between repetitions, in ms. Chosen, not measured: bounds the queue of a JobManager that was away for long."""


@dataclass(frozen=True, slots=True)
class Register:
    """Reader to enumerator: registers, with its host."""

    host: str


@dataclass(frozen=True, slots=True)
class AskForSplit:
    """Reader to enumerator: requests a split."""

    host: str


@dataclass(frozen=True, slots=True)
class TellEnumerator:
    """Reader to enumerator: an object of the user's. ``content``: pickled."""

    content: bytes


@dataclass(frozen=True, slots=True)
class ReachEnd:
    """Reader to enumerator: everything was read and emitted."""


ReaderMessage = Register | AskForSplit | TellEnumerator | ReachEnd


@dataclass(frozen=True, slots=True)
class EncodedSplit:
    """A serialized split: ``payload`` is the version of its format, and its bytes."""

    split_id: str
    payload: StateValue


@dataclass(frozen=True, slots=True)
class GiveSplits:
    """Enumerator to reader: assigns splits."""

    splits: tuple[EncodedSplit, ...]


@dataclass(frozen=True, slots=True)
class EndSplits:
    """Enumerator to reader: no further splits follow."""


@dataclass(frozen=True, slots=True)
class TellReader:
    """Enumerator to reader: an object of the user's. ``content``: pickled."""

    content: bytes


@dataclass(frozen=True, slots=True)
class Heard:
    """Enumerator to reader: acknowledges the messages up to this number."""

    number: int


EnumeratorMessage = GiveSplits | EndSplits | TellReader | Heard


@dataclass(frozen=True, slots=True)
class ForReader:
    """A record on the edge from the enumerator to the readers; ``subtask``: its receiver."""

    subtask: int
    message: EnumeratorMessage


SAID = Types.PICKLED_BYTE_ARRAY()
"""The type of the edge from the enumerator to the readers."""


class ReaderLink:
    """The reader's side of the connection: repeats unacknowledged messages, less and less often."""

    def __init__(self, send: Callable[[bytes], None], now_ms: Callable[[], float]) -> None:
        self._send = send
        self._now_ms = now_ms
        self._last_number = 0
        self._open: deque[tuple[int, ReaderMessage]] = deque()
        self._wait_ms = FIRST_REPEAT_MS
        self._repeat_at_ms = 0.0

    def say(self, message: ReaderMessage) -> None:
        """Sends a message, and keeps it until it is acknowledged."""
        self._last_number += 1
        self._open.append((self._last_number, message))
        if len(self._open) == 1:
            self._wait_ms = FIRST_REPEAT_MS
            self._repeat_at_ms = self._now_ms() + self._wait_ms
        self._send(pickle.dumps(self._open[-1]))

    def on_acknowledged(self, number: int) -> None:
        """Drops the messages up to an acknowledged number."""
        while self._open and self._open[0][0] <= number:
            self._open.popleft()
        self._wait_ms = FIRST_REPEAT_MS
        self._repeat_at_ms = self._now_ms() + self._wait_ms

    def repeat_when_due(self) -> None:
        """Sends unacknowledged messages again if the pause is over."""
        if not self._open or self._now_ms() < self._repeat_at_ms:
            return
        self._wait_ms = min(2 * self._wait_ms, LAST_REPEAT_MS)
        self._repeat_at_ms = self._now_ms() + self._wait_ms
        for numbered in self._open:
            self._send(pickle.dumps(numbered))


class Arrivals:
    """The enumerator's side of the connection: processes each message of each reader once, in order."""

    def __init__(self) -> None:
        self._taken: dict[int, int] = {}

    def take(self, subtask: int, content: bytes) -> tuple[ReaderMessage | None, Heard]:
        """Returns the message, unless it is a duplicate or out of order, and the acknowledgement. Raises ``CorruptData``."""
        number, message = _decoded(content)
        taken = self._taken.get(subtask, 0)
        if number != taken + 1:
            return None, Heard(taken)
        self._taken[subtask] = number
        return message, Heard(number)


def _decoded(content: bytes) -> tuple[int, ReaderMessage]:
    number, message = pickle.loads(content)
    if not isinstance(message, ReaderMessage):
        raise CorruptData(
            f"a reader sent a {type(message).__name__} to its enumerator, which this version of tidegate does not know; install the same version on all "
            "machines"
        )
    return int(number), message


def reader_of(said: ForReader) -> int:
    """Returns the reader that a record is for: the key of the edge."""
    return said.subtask


def as_named(subtask: int, readers: int) -> int:
    """Partitions that edge: the key is the subtask."""
    return subtask
