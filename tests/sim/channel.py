"""A data channel between two subtasks: ordered, bounded, and broken when one end dies.

What is queued is partly with the producer and partly with the consumer; where the line runs is drawn when an unaligned barrier
overtakes it. Items are numbered, so that both ends know what is in front of a barrier.

    consumer ◀── queue: [first, first + 1, ... | line ...] ◀── producer        priority: barriers and announcements
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from tidegate.model.channel_events import Barrier, CancelBarrier, EndOfData, EndOfPartition

if TYPE_CHECKING:
    from tests.sim.model_subtask import ModelSubtask

CAPACITY = 6
EVERYTHING = 2**62


class Row(NamedTuple):
    """``split`` and ``offset`` say where it came from, for the checkers; key and number are the data."""

    split: int
    offset: int
    key: int
    number: int


Item = Row | Barrier | CancelBarrier | EndOfData | EndOfPartition


class Urgent(NamedTuple):
    """Is taken before anything queued. ``line``: what is numbered from there on was still with the producer."""

    barrier: Barrier
    line: int
    is_announcement: bool


class Channel:
    __slots__ = ("consumer", "first", "last_barrier", "producer", "queue", "recording", "urgent")

    def __init__(self, producer: ModelSubtask) -> None:
        self.producer = producer
        self.consumer: ModelSubtask | None = None
        self.queue: deque[Item] = deque()
        self.urgent: deque[Urgent] = deque()
        self.first = 0
        self.last_barrier = 0
        self.recording: list[tuple[int, Row]] | None = None

    @property
    def has_room(self) -> bool:
        return len(self.queue) < CAPACITY

    def push(self, item: Item) -> None:
        if isinstance(item, Barrier):
            self.last_barrier = item.checkpoint_id
        elif self.recording is not None and isinstance(item, Row):
            self.recording.append((self.first + len(self.queue), item))
        self.queue.append(item)
        if self.consumer is not None:
            self.consumer.wake()

    def pop(self) -> Item:
        self.first += 1
        return self.queue.popleft()

    def announce(self, barrier: Barrier) -> None:
        self._tell(Urgent(barrier, EVERYTHING, is_announcement=True))

    def overtake(self, barrier: Barrier, with_consumer: int) -> list[Row]:
        """The barrier passes everything. Returns the rows that were still with the producer: all but the oldest so many."""
        self.last_barrier = barrier.checkpoint_id
        self._tell(Urgent(barrier, self.first + with_consumer, is_announcement=False))
        return [item for item in islice(self.queue, with_consumer, None) if isinstance(item, Row)]

    def record(self) -> None:
        """Remember what waits, and what will come."""
        self.recording = [(self.first + i, item) for i, item in enumerate(self.queue) if isinstance(item, Row)]

    def recorded(self, line: int) -> list[Row]:
        """Stop. What was in front of ``line``."""
        assert self.recording is not None
        rows = [row for number, row in self.recording if number < line]
        self.recording = None
        return rows

    def _tell(self, urgent: Urgent) -> None:
        self.urgent.append(urgent)
        if self.consumer is not None:
            self.consumer.wake()
