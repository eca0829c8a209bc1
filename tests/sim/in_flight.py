"""Data in flight of unaligned checkpoints in the simulation: what one subtask persists of its channels, at both ends, and what a
restored one replays."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field, replace

from tests.sim.channel import EVERYTHING, Channel, Row
from tests.sim.job import OPERATOR_OF, target_of
from tidegate.model.checkpoint import ChannelStateHandle, CheckpointManifest, StateHandle, SubtaskSnapshot
from tidegate.model.deployment import TaskDeployment
from tidegate.model.graph import Partitioner


@dataclass(slots=True)
class Flight:
    """Of one checkpoint."""

    awaits_channels: bool = False
    """It persists what is in front of its barriers, and not all of them came."""
    snapshot: SubtaskSnapshot | None = None
    """Written, but not acknowledged yet."""
    inputs: list[ChannelStateHandle] = field(default_factory=list)
    outputs: list[ChannelStateHandle] = field(default_factory=list)


class Flights:
    def __init__(self, deployment: TaskDeployment, inputs: dict[int, Channel]) -> None:
        self._subtask = deployment.attempt.subtask
        self._deployment = deployment
        self._inputs = inputs
        self._flights: dict[int, Flight] = {}
        self.lines: dict[int, int] = {}
        """By channel: what is in front of its newest barrier."""

    def of(self, checkpoint_id: int) -> Flight:
        return self._flights.setdefault(checkpoint_id, Flight())

    def forget(self, checkpoint_id: int) -> None:
        if self._flights.pop(checkpoint_id, Flight()).awaits_channels:
            for channel in self._inputs.values():
                channel.recording = None

    def begin(self, channel: int) -> None:
        self._inputs[channel].record()

    def end(self, checkpoint_id: int, channel: int) -> None:
        source = self._inputs[channel]
        rows = source.recorded(self.lines.get(channel, EVERYTHING))
        edge = self._deployment.inputs[0].edge_id
        self._add(self.of(checkpoint_id).inputs, edge, source.producer.attempt.subtask, self._subtask, rows)

    def overtaken(self, checkpoint_id: int, edge: int, consumer: int, rows: list[Row]) -> None:
        self._add(self.of(checkpoint_id).outputs, edge, self._subtask, consumer, rows)

    def complete(self, checkpoint_id: int, snapshot: SubtaskSnapshot) -> SubtaskSnapshot:
        """With what was in flight."""
        flight = self._flights.pop(checkpoint_id, Flight())
        if not (flight.inputs or flight.outputs):
            return snapshot
        return SubtaskSnapshot(
            {
                operator_id: replace(state, input_channels=tuple(flight.inputs), output_channels=tuple(flight.outputs))
                for operator_id, state in snapshot.operators.items()
            }
        )

    def _add(self, to: list[ChannelStateHandle], edge: int, producer: int, consumer: int, rows: list[Row]) -> None:
        if rows:
            data = pickle.dumps([tuple(row) for row in rows])
            to.append(ChannelStateHandle(edge, producer, consumer, len(rows), StateHandle(len(data), "", data=data)))


def replayed(deployment: TaskDeployment) -> list[Row]:
    """What a restored subtask processes before anything new: where rows are dealt by key, those of its own key groups."""
    restore = deployment.restore
    operator = restore.operators.get(OPERATOR_OF[deployment.attempt.vertex_id]) if restore else None
    rows = [Row(*row) for channel in (operator.channels if operator else ()) for row in _rows(channel)]
    if any(edge.partitioner is Partitioner.HASH for edge in deployment.inputs):
        return [row for row in rows if is_mine(row, deployment)]
    return rows


def is_mine(row: Row, deployment: TaskDeployment) -> bool:
    return target_of(row.key, deployment.parallelism) == deployment.attempt.subtask


def rows_in_flight(manifest: CheckpointManifest) -> int:
    snapshots = [snapshot for operator in manifest.operators for snapshot in operator.subtasks.values()]
    return sum(c.batches for s in snapshots for c in (*s.input_channels, *s.output_channels))


def _rows(channel: ChannelStateHandle) -> list[tuple[int, int, int, int]]:
    rows: list[tuple[int, int, int, int]] = pickle.loads(channel.handle.data or b"")
    return rows
