"""A data channel between two subtasks: ordered, bounded, and broken when one end dies."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from tidegate.model.channel_events import Barrier, CancelBarrier, EndOfData, EndOfPartition

if TYPE_CHECKING:
    from tests.sim.subtask import SimTask

CAPACITY = 6


class Row(NamedTuple):
    """``split`` and ``offset`` say where it came from, for the checkers; key and number are the data."""

    split: int
    offset: int
    key: int
    number: int


Item = Row | Barrier | CancelBarrier | EndOfData | EndOfPartition


class Channel:
    __slots__ = ("consumer", "producer", "queue")

    def __init__(self, producer: SimTask) -> None:
        self.producer = producer
        self.consumer: SimTask | None = None
        self.queue: deque[Item] = deque()

    @property
    def has_room(self) -> bool:
        return len(self.queue) < CAPACITY

    def push(self, item: Item) -> None:
        self.queue.append(item)
        if self.consumer is not None:
            self.consumer.wake()
