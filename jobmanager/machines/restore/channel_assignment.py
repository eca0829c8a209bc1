"""Assigns the in-flight data of an unaligned checkpoint to the consumers of the job that restores it.

All of it is replayed by consumers, before anything new: of each old channel first what had reached the consumer, then what
the producer still had. An edge is matched by the last operator of the producing chain, the first of the consuming one and the
input; which new consumer gets the channels of old consumer c:

    HASH              those whose key groups touch c's; each takes the rows of its own groups
    FORWARD, RESCALE, REBALANCE   c mod parallelism: exactly one
    GLOBAL            the first
    BROADCAST         new consumer i gets the copy of old consumer ``i mod old consumers``

Follows Flink's ``StateAssignmentOperation.reDistributeInputChannelStates`` and ``SubtaskStateMapper.java``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from tidegate.model.checkpoint import ChannelStateHandle, CheckpointManifest, InFlightEdge
from tidegate.model.graph import JobEdge, JobGraph, JobVertex, Partitioner
from tidegate.model.ids import VertexId
from tidegate.model.keygroups import range_of, subtask_of
from tidegate.model.restore_check import places_of_edges


@dataclass(slots=True)
class _Channels:
    """The in-flight data of one old edge: by old consumer, then by producer, in the order of replay."""

    by_consumer: dict[int, dict[int, list[ChannelStateHandle]]] = field(default_factory=dict)

    def add(self, channel: ChannelStateHandle) -> None:
        self.by_consumer.setdefault(channel.consumer, {}).setdefault(channel.producer, []).append(channel)

    def of(self, consumer: int) -> Iterator[ChannelStateHandle]:
        for _, channels in sorted(self.by_consumer.get(consumer, {}).items()):
            yield from channels


class ChannelAssignment:
    """Assigns in-flight channel data to subtasks; computed per vertex when it is first needed."""

    def __init__(self, graph: JobGraph, manifest: CheckpointManifest) -> None:
        self._channels = _channels_of(manifest)
        self._edges: dict[VertexId, list[tuple[InFlightEdge, JobEdge]]] = {}
        self._dealt: dict[VertexId, list[tuple[ChannelStateHandle, ...]]] = {}
        places = places_of_edges(graph, manifest.edges) if manifest.edges else {}
        for old in manifest.edges:
            if (new := places.get(old.edge_id)) is not None:
                self._edges.setdefault(new.target, []).append((old, new))

    def of(self, vertex: JobVertex, index: int) -> tuple[ChannelStateHandle, ...]:
        """Returns the channels that one subtask replays, in order. ``edge_id`` is that of the new job, everything else is as it was written."""
        if vertex.vertex_id not in self._edges:
            return ()
        if vertex.vertex_id not in self._dealt:
            self._dealt[vertex.vertex_id] = [
                tuple(
                    channel if channel.edge_id == new.edge_id else replace(channel, edge_id=new.edge_id)
                    for old, new in self._edges[vertex.vertex_id]
                    for consumer in old_consumers(old, new.partitioner, vertex, i)
                    for channel in self._channels[old.edge_id].of(consumer)
                )
                for i in range(vertex.parallelism)
            ]
        return self._dealt[vertex.vertex_id][index]


def old_consumers(old: InFlightEdge, partitioner: Partitioner, vertex: JobVertex, index: int) -> range:
    """Returns the old consumers whose channels subtask ``index`` replays. ``partitioner``: of the new edge."""
    everybody = range(old.consumers)
    match partitioner:
        case Partitioner.HASH:
            if old.partitioner is not Partitioner.HASH or old.max_parallelism != vertex.max_parallelism:
                return everybody  # any row may be anywhere
            wanted = range_of(index, vertex.max_parallelism, vertex.parallelism)
            if wanted.size == 0:
                return range(0)
            first = subtask_of(wanted.start, old.max_parallelism, old.consumers)
            return range(first, subtask_of(wanted.end, old.max_parallelism, old.consumers) + 1)
        case Partitioner.GLOBAL:
            return everybody if index == 0 else range(0)
        case Partitioner.BROADCAST:
            copy = index % old.consumers
            return range(copy, copy + 1)
        case Partitioner.FORWARD | Partitioner.RESCALE | Partitioner.REBALANCE | Partitioner.CUSTOM:
            return range(index, old.consumers, vertex.parallelism)


def _channels_of(manifest: CheckpointManifest) -> dict[int, _Channels]:
    """Collects the in-flight channels by old edge. Inputs come before outputs: what had reached the consumer is older."""
    found = {edge.edge_id: _Channels() for edge in manifest.edges}
    snapshots = [snapshot for operator in manifest.operators for snapshot in operator.subtasks.values()]
    for channels in (
        *(snapshot.input_channels for snapshot in snapshots),
        *(snapshot.output_channels for snapshot in snapshots),
    ):
        for channel in channels:
            found.setdefault(channel.edge_id, _Channels()).add(channel)
    return found
