"""Names and descriptions of a subtask's input channels, as checkpoints record them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegate.model.deployment import TaskDeployment
from tidegate.model.ids import OperatorId
from tidegate.taskmanager.exchange.ports import InFlightItem
from tidegate.taskmanager.machines.alignment import AlignmentEvent, BarrierArrived, ChannelDrained, ChannelEnded
from tidegate.taskmanager.runtime.checkpointing.in_flight import ChannelContent, ChannelDescription, Item

_NOBODY = OperatorId("")


@dataclass(frozen=True, slots=True)
class InputChannels:
    """``names[i]``: name of channel i, such as ``Source: fast (2/2)``; ``described[i]``: its description. Their in-flight data belongs to the head of the
    chain.
    """

    names: tuple[str, ...]
    described: tuple[ChannelDescription, ...] = ()
    operator_id: OperatorId = _NOBODY
    operator: str = ""

    @staticmethod
    def unnamed(channels: int) -> InputChannels:
        names = tuple(f"channel {index}" for index in range(channels))
        described = tuple(ChannelDescription(0, index, 0, channels, 1, 0, "input") for index in range(channels))
        return InputChannels(names, described)

    @staticmethod
    def of(deployment: TaskDeployment, operator_id: OperatorId, operator: str) -> InputChannels:
        names: list[str] = []
        described: list[ChannelDescription] = []
        for edge in deployment.inputs:
            for producer in edge.producers:
                names.append(f"{edge.source_name} ({producer.subtask + 1}/{edge.source_parallelism})")
                about = ChannelDescription(
                    edge_id=edge.edge_id,
                    producer=producer.subtask,
                    consumer=deployment.attempt.subtask,
                    producers=edge.source_parallelism,
                    consumers=deployment.parallelism,
                    input_index=edge.input_index,
                    direction="input",
                )
                described.append(about)
        return InputChannels(tuple(names), tuple(described), operator_id, operator)

    def name_of(self, channel: int) -> str:
        return self.names[channel]

    def last(self, event: AlignmentEvent) -> str:
        """Returns the name of the channel whose event completed an alignment; empty with a single channel, or for other events."""
        if len(self.names) > 1 and isinstance(event, (BarrierArrived, ChannelEnded, ChannelDrained)):
            return self.names[event.channel]
        return ""

    def contents(
        self, at_hand: Mapping[int, Sequence[Item]], recorded: Sequence[tuple[int, Sequence[InFlightItem]]]
    ) -> list[ChannelContent]:
        """Returns the in-flight data of each channel that has some: what was at hand, followed by what the gate recorded."""
        items: dict[int, list[Item]] = {channel: list(found) for channel, found in at_hand.items()}
        for channel, found in recorded:
            items.setdefault(channel, []).extend(found)
        return [
            ChannelContent(self.operator_id, self.operator, self.described[channel], found)
            for channel, found in sorted(items.items())
            if found
        ]
