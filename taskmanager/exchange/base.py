"""The two ends of an exchange, as the runtime sees them. Neither ever blocks: the caller owns the loop.

    ResultPartition (one for each outgoing edge)  ──subpartition i──▶  channel k of an InputGate (one for each subtask)

Frames of one channel arrive in the order in which they were sent; credit bounds what is on the way in bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tidegate.model.channel_events import Barrier, ChannelEvent, UserEvent, WatermarkEvent
from tidegate.records.batch import ArrowBatch
from tidegate.taskmanager.exchange.counts import ReceivedFrames
from tidegate.wire.frames import EncodedBatch, OutgoingFrame

Overtaken = list[tuple[int, list[OutgoingFrame]]]
"""By consumer subtask index: the frames that a barrier overtook, oldest first."""


@dataclass(frozen=True, slots=True)
class RecordingEnded:
    """The end of the partition came while a channel was recorded: all that it will ever deliver is there."""

    checkpoint_id: int


InFlightItem = EncodedBatch | WatermarkEvent | UserEvent
"""What is persisted of a channel."""


class ResultPartition(Protocol):
    """All subpartitions of one outgoing edge."""

    def emit(self, batch: ArrowBatch) -> None:
        """Deal the rows to the subpartitions. Small pieces are gathered until a size, ``flush``, or an event."""

    def broadcast(self, event: ChannelEvent) -> None:
        """To every subpartition, behind everything emitted before."""

    def flush(self) -> None:
        """What was gathered leaves now (the runtime calls it by ``execution.buffer-timeout.interval``)."""

    @property
    def edge_id(self) -> int: ...

    @property
    def supports_unaligned(self) -> bool:
        """Barriers may overtake data here. The next four are only for such edges, and ``holds`` for all."""

    def overtake(self, barrier: Barrier) -> Overtaken:
        """Like ``broadcast``, in front of everything that waits."""

    def announce(self, barrier: Barrier) -> None:
        """Like ``broadcast``; ``prioritise`` may follow while it ``holds`` the barrier."""

    def prioritise(self, barrier: Barrier) -> Overtaken:
        """Where the barrier that was announced still waits, ``barrier`` overtakes in its place."""

    def holds(self, checkpoint_id: int) -> bool: ...

    def is_available(self) -> bool:
        """Whether more may be emitted without going over the bound of bytes in flight. The runtime processes no input
        while one of its partitions is not available (backpressure); events are always taken."""

    def is_drained(self) -> bool:
        """Everything, the end of the partition included, was handed to the consumers (or they are gone)."""

    def queued_bytes(self) -> int: ...

    def queued_frames(self) -> int: ...

    def used_share(self) -> float:
        """How full the fullest subpartition is, of the bytes that it may hold: 0 to 1."""

    @property
    def sent_frames(self) -> int:
        """Frames of records that were queued so far, once for each consumer."""

    def close(self) -> None: ...


class InputGate(Protocol):
    """All channels of all inputs of one subtask, numbered through in the order of ``TaskDeployment.inputs``."""

    @property
    def channels(self) -> int: ...

    def input_of(self, channel: int) -> int:
        """Index into ``TaskDeployment.inputs``."""

    def poll(self, gather_bytes: int = 0) -> tuple[int, ArrowBatch | ChannelEvent | RecordingEnded] | None:
        """The next frame of a channel that is not blocked, fair among channels; ``None`` when there is none now. Batches
        that wait one behind the other in their channel come as one, up to ``gather_bytes`` together.
        Raises ``CorruptFrame``, or ``SubtaskLost`` when a producer's connection broke before its end of partition."""

    def poll_priority(self) -> tuple[int, ChannelEvent | RecordingEnded] | None:
        """The next event that overtakes data, of any channel, blocked ones too; costs next to nothing when there is none.
        ``poll`` gives these first as well."""

    def persist(self, channel: int, checkpoint_id: int) -> None:
        """Record what this channel has in front of the barrier of this checkpoint and what will come in front of it. A
        barrier that is found, or comes, behind data is handed out at once, as if it had overtaken; so is ``RecordingEnded``
        when the end of the partition does."""

    def take_persisted(self, checkpoint_id: int) -> list[tuple[int, list[InFlightItem]]]:
        """What was recorded, by channel, oldest first. Recording ends."""

    def block(self, channel: int) -> None:
        """Hand out nothing of this channel until it is unblocked; it still fills up to its credit."""

    def unblock(self, channel: int) -> None: ...

    @property
    def received(self) -> ReceivedFrames: ...

    def queued_bytes(self) -> int: ...

    def queued_frames(self) -> int: ...

    def used_share(self) -> float:
        """How much of what may be in flight on all channels together is queued here: 0 to 1."""

    def close(self) -> None: ...
