"""What readers and their enumerator say to each other, and that each message counts once.

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
"""Chosen, not measured: readers often run some milliseconds before their enumerator does."""
LAST_REPEAT_MS = 2_000.0
"""Chosen, not measured: bounds what a JobManager that is away for long finds in its queue."""


@dataclass(frozen=True, slots=True)
class Register:
    """A reader runs, on this host."""

    host: str


@dataclass(frozen=True, slots=True)
class AskForSplit:
    """A reader wants a split."""

    host: str


@dataclass(frozen=True, slots=True)
class TellEnumerator:
    """``content``: the user's object, pickled."""

    content: bytes


@dataclass(frozen=True, slots=True)
class ReachEnd:
    """Everything was read and emitted."""


ReaderMessage = Register | AskForSplit | TellEnumerator | ReachEnd


@dataclass(frozen=True, slots=True)
class EncodedSplit:
    """A split as it travels: ``payload`` is the version of its format, and its bytes."""

    split_id: str
    payload: StateValue


@dataclass(frozen=True, slots=True)
class GiveSplits:
    """The splits are the reader's from now on."""

    splits: tuple[EncodedSplit, ...]


@dataclass(frozen=True, slots=True)
class EndSplits:
    """None will follow."""


@dataclass(frozen=True, slots=True)
class TellReader:
    """``content``: the user's object, pickled."""

    content: bytes


@dataclass(frozen=True, slots=True)
class Heard:
    """The enumerator has taken the reader's messages up to this one."""

    number: int


EnumeratorMessage = GiveSplits | EndSplits | TellReader | Heard


@dataclass(frozen=True, slots=True)
class ForReader:
    """A record between the enumerator and its readers; ``subtask`` is where it goes."""

    subtask: int
    message: EnumeratorMessage


SAID = Types.PICKLED_BYTE_ARRAY()
"""The type of the edge between them."""


class ReaderLink:
    """The reader's side: repeats what is not acknowledged, less and less often."""

    def __init__(self, send: Callable[[bytes], None], now_ms: Callable[[], float]) -> None:
        self._send = send
        self._now_ms = now_ms
        self._last_number = 0
        self._open: deque[tuple[int, ReaderMessage]] = deque()
        self._wait_ms = FIRST_REPEAT_MS
        self._repeat_at_ms = 0.0

    def say(self, message: ReaderMessage) -> None:
        """Sends a message at once, and keeps it until the enumerator has acknowledged it."""
        self._last_number += 1
        self._open.append((self._last_number, message))
        if len(self._open) == 1:
            self._wait_ms = FIRST_REPEAT_MS
            self._repeat_at_ms = self._now_ms() + self._wait_ms
        self._send(pickle.dumps(self._open[-1]))

    def on_acknowledged(self, number: int) -> None:
        """Forgets the messages up to this one."""
        while self._open and self._open[0][0] <= number:
            self._open.popleft()
        self._wait_ms = FIRST_REPEAT_MS
        self._repeat_at_ms = self._now_ms() + self._wait_ms

    def repeat_when_due(self) -> None:
        """Called again and again."""
        if not self._open or self._now_ms() < self._repeat_at_ms:
            return
        self._wait_ms = min(2 * self._wait_ms, LAST_REPEAT_MS)
        self._repeat_at_ms = self._now_ms() + self._wait_ms
        for numbered in self._open:
            self._send(pickle.dumps(numbered))


class Arrivals:
    """The enumerator's side: takes each message of each reader once, in order."""

    def __init__(self) -> None:
        self._taken: dict[int, int] = {}

    def take(self, subtask: int, content: bytes) -> tuple[ReaderMessage | None, Heard]:
        """Returns the message unless it came before or too early, and what the reader is to hear. Raises ``CorruptData``."""
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
            f"a reader sent a {type(message).__name__} to its enumerator, which is no message of this version"
        )
    return int(number), message


def reader_of(said: ForReader) -> int:
    """The reader that a record of the enumerator is for: the key of the edge between them."""
    return said.subtask


def as_named(subtask: int, readers: int) -> int:
    """The subtask of that edge to which such a record goes."""
    return subtask
