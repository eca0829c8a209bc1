"""The two ends of an exchange, as the runtime sees them. Neither ever blocks: the caller owns the loop.

    ResultPartition (one for each outgoing edge)  ──subpartition i──▶  channel k of an InputGate (one for each subtask)

Frames of one channel arrive in the order in which they were sent; credit bounds what is on the way in bytes.
"""

from __future__ import annotations

from typing import Protocol

from tidegate.common.batch import ArrowBatch
from tidegate.model.channel_events import ChannelEvent


class ResultPartition(Protocol):
    """All subpartitions of one outgoing edge."""

    def emit(self, batch: ArrowBatch) -> None:
        """Deal the rows to the subpartitions. Small pieces are gathered until a size, ``flush``, or an event."""

    def broadcast(self, event: ChannelEvent) -> None:
        """To every subpartition, behind everything emitted before."""

    def flush(self) -> None:
        """What was gathered leaves now (the runtime calls it by ``execution.buffer-timeout.interval``)."""

    def is_available(self) -> bool:
        """Whether more may be emitted without going over the bound of bytes in flight. The runtime processes no input
        while one of its partitions is not available (backpressure); events are always taken."""

    def is_drained(self) -> bool:
        """Everything, the end of the partition included, was handed to the consumers (or they are gone)."""

    def queued_bytes(self) -> int: ...

    def close(self) -> None: ...


class InputGate(Protocol):
    """All channels of all inputs of one subtask, numbered through in the order of ``TaskDeployment.inputs``."""

    @property
    def channels(self) -> int: ...

    def input_of(self, channel: int) -> int:
        """Index into ``TaskDeployment.inputs``."""

    def poll(self) -> tuple[int, ArrowBatch | ChannelEvent] | None:
        """The next frame of a channel that is not blocked, fair among channels; ``None`` when there is none now.
        Raises ``CorruptFrame``, or ``SubtaskLost`` when a producer's connection broke before its end of partition."""

    def block(self, channel: int) -> None:
        """Hand out nothing of this channel until it is unblocked; it still fills up to its credit."""

    def unblock(self, channel: int) -> None: ...

    def queued_bytes(self) -> int: ...

    def close(self) -> None: ...
