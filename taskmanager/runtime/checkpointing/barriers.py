"""Sends a subtask's barriers on its outputs: in order, announced, or ahead of queued data. Data that a barrier overtakes becomes output channel state.

    UNALIGNED, the edge supports it                 overtakes what is queued: captured
    ALIGNED with a timeout, the edge supports it    in order, announced; ``prioritise`` when its time is over: captured
    either, on an edge that forces alignment        in order, as FORCED_ALIGNED
    else                                            in order

Follows Flink's ``RecordWriterOutput.broadcastEvent`` and ``PipelinedSubpartition.java``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tidegate.model.channel_events import Barrier, CancelBarrier, UserEvent, WatermarkEvent
from tidegate.model.checkpoint import Alignment
from tidegate.model.ids import OperatorId
from tidegate.taskmanager.exchange.ports import Overtaken, ResultPartition
from tidegate.taskmanager.machines.barrier_handler import forced_aligned
from tidegate.taskmanager.runtime.checkpointing.in_flight import ChannelContent, ChannelDescription, Item
from tidegate.wire.channel_messages import decode_event
from tidegate.wire.frames import FrameType, OutgoingFrame, encoded_batch


@dataclass(frozen=True, slots=True)
class OutgoingEdge:
    """Describes an outgoing edge for checkpoints: its operator, the producing subtask, and the parallelisms of both sides."""

    operator_id: OperatorId
    operator: str
    producer: int
    producers: int
    consumers: int
    input_index: int = 0


class BarrierSender:
    """Sends barriers from the subtask's thread. ``edges``: by edge id, those that support unaligned checkpoints."""

    def __init__(self, partitions: Sequence[ResultPartition], edges: Mapping[int, OutgoingEdge] | None = None) -> None:
        self._partitions = partitions
        self._edges = edges or {}

    def send(self, barrier: Barrier) -> list[ChannelContent]:
        """Sends a barrier on all outputs. Returns the data that it overtook."""
        overtaken: list[ChannelContent] = []
        forced = replace(barrier, options=forced_aligned(barrier.options))
        for partition in self._partitions:
            if not partition.supports_unaligned:
                partition.broadcast(forced)
            elif barrier.options.alignment is Alignment.UNALIGNED:
                overtaken += self._contents(partition, partition.overtake(barrier))
            elif has_timeout(barrier):
                partition.announce(barrier)
            else:
                partition.broadcast(barrier)
        return overtaken

    def cancel(self, checkpoint_id: int) -> None:
        for partition in self._partitions:
            partition.broadcast(CancelBarrier(checkpoint_id))

    def holds(self, checkpoint_id: int) -> bool:
        """Tells whether the announced barrier of a checkpoint is still queued for some consumer."""
        return any(partition.supports_unaligned and partition.holds(checkpoint_id) for partition in self._partitions)

    def prioritise(self, barrier: Barrier) -> list[ChannelContent]:
        """Lets an announced barrier overtake queued data, since its aligned timeout is over. Returns the data that it overtook."""
        options = replace(barrier.options, alignment=Alignment.UNALIGNED, aligned_timeout_ms=None)
        overtaken: list[ChannelContent] = []
        for partition in self._partitions:
            if partition.supports_unaligned:
                overtaken += self._contents(partition, partition.prioritise(replace(barrier, options=options)))
        return overtaken

    def _contents(self, partition: ResultPartition, overtaken: Overtaken) -> list[ChannelContent]:
        edge = self._edges[partition.edge_id]
        return [
            ChannelContent(
                edge.operator_id,
                edge.operator,
                ChannelDescription(
                    edge_id=partition.edge_id,
                    producer=edge.producer,
                    consumer=consumer,
                    producers=edge.producers,
                    consumers=edge.consumers,
                    input_index=edge.input_index,
                    direction="output",
                ),
                items,
            )
            for consumer, frames in overtaken
            if (items := items_in_flight(frames))
        ]


def has_timeout(barrier: Barrier) -> bool:
    """Tells whether a barrier is aligned and becomes unaligned after a timeout."""
    return barrier.options.alignment is Alignment.ALIGNED and barrier.options.aligned_timeout_ms is not None


def items_in_flight(frames: list[OutgoingFrame]) -> list[Item]:
    """Returns what is persisted of frames that a barrier overtook: batches, watermarks and user events."""
    items: list[Item] = []
    for frame in frames:
        if frame.type is FrameType.BATCH:
            items.append(encoded_batch(frame))
        else:
            event = decode_event(frame.payload)
            if isinstance(event, (WatermarkEvent, UserEvent)):
                items.append(event)
    return items
