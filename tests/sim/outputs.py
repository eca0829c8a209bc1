"""The output side of a simulated subtask: its channels, and how a barrier gets onto each of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.sim.channel import Channel, Item, Row
from tests.sim.in_flight import Flights
from tests.sim.operators import Operator
from tests.sim.world import World
from tidegate.model.channel_events import Barrier, EndOfPartition
from tidegate.model.checkpoint import Alignment
from tidegate.model.deployment import OutputDeployment
from tidegate.taskmanager.machines.barrier_handler import forced_aligned

if TYPE_CHECKING:
    from tests.sim.model_subtask import ModelSubtask


class Outputs:
    def __init__(self, task: ModelSubtask, world: World, flights: Flights) -> None:
        self._world = world
        self._flights = flights
        self._outputs = [
            (output, {consumer: Channel(task) for consumer in output.consumers}) for output in task.deployment.outputs
        ]

    def __iter__(self) -> Iterator[Channel]:
        return (channel for _, channels in self._outputs for channel in channels.values())

    @property
    def has_room(self) -> bool:
        return all(channel.has_room for channel in self)

    @property
    def are_drained(self) -> bool:
        return all(not channel.queue for channel in self)

    def have_sent(self, checkpoint_id: int) -> bool:
        return all(channel.last_barrier == checkpoint_id for channel in self)

    def to(self, consumer: ModelSubtask) -> Channel:
        edge = consumer.deployment.inputs[0].edge_id
        return next(chs[consumer.attempt.subtask] for output, chs in self._outputs if output.edge_id == edge)

    def unfinished(self) -> Iterator[ModelSubtask]:
        """Consumers that were not told of the end."""
        for channel in self:
            if channel.consumer is not None and not any(isinstance(item, EndOfPartition) for item in channel.queue):
                yield channel.consumer

    def push(self, row: Row, operator: Operator) -> None:
        for output, channels in self._outputs:
            channels[output.consumers[operator.target(row, output)]].push(row)

    def broadcast(self, item: Item) -> None:
        for channel in self:
            channel.push(item)

    def emit(self, barrier: Barrier) -> None:
        for output, channels in self._outputs:
            for consumer, channel in channels.items():
                self._emit_on(channel, barrier, output, consumer)

    def _emit_on(self, channel: Channel, barrier: Barrier, output: OutputDeployment, consumer: int) -> None:
        options = barrier.options
        if not output.supports_unaligned:
            channel.push(replace(barrier, options=forced_aligned(options)))
        elif options.alignment is Alignment.UNALIGNED:
            with_consumer = self._world.between(0, len(channel.queue))
            rows = channel.overtake(barrier, with_consumer)
            self._flights.overtaken(barrier.checkpoint_id, output.edge_id, consumer, rows)
        else:
            channel.push(barrier)
            if options.aligned_timeout_ms is not None:
                channel.announce(barrier)
