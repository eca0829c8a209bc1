"""Pipelined regions: which subtasks restart together.

A region is a connected component of the subtask graph, over edges that are pipelined: with a hash or rebalance edge that is the whole job;
pipelines that are connected by forward edges alone restart one at a time. With blocking exchanges each subtask is a region. Follows Flink's
``PipelinedRegionComputeUtil.java`` and ``RestartPipelinedRegionFailoverStrategy.java``.
"""

from __future__ import annotations

from tidegate.model.graph import JobGraph, producers_of
from tidegate.model.ids import SubtaskId


class Regions:
    """The pipelined regions of a job graph. Linear in subtasks and pointwise edges."""

    def __init__(self, graph: JobGraph) -> None:
        parent = {
            SubtaskId(v.vertex_id, i): SubtaskId(v.vertex_id, i) for v in graph.vertices for i in range(v.parallelism)
        }
        parallelism = {v.vertex_id: v.parallelism for v in graph.vertices}
        for edge in () if graph.has_blocking_exchanges else graph.edges:
            producers, consumers = parallelism[edge.source], parallelism[edge.target]
            if not edge.partitioner.is_pointwise:
                first = SubtaskId(edge.source, 0)
                for i in range(producers):
                    _join(parent, first, SubtaskId(edge.source, i))
                for i in range(consumers):
                    _join(parent, first, SubtaskId(edge.target, i))
                continue
            for consumer in range(consumers):
                for producer in producers_of(edge.partitioner, producers, consumers, consumer):
                    _join(parent, SubtaskId(edge.source, producer), SubtaskId(edge.target, consumer))
        members: dict[SubtaskId, list[SubtaskId]] = {}
        for subtask in parent:
            members.setdefault(_root(parent, subtask), []).append(subtask)
        self.all: tuple[tuple[SubtaskId, ...], ...] = tuple(tuple(region) for region in members.values())
        self._index = {subtask: index for index, region in enumerate(self.all) for subtask in region}

    def of(self, subtask: SubtaskId) -> tuple[SubtaskId, ...]:
        """Returns the region of a subtask, itself included, in the order of the graph."""
        return self.all[self._index[subtask]]

    def index_of(self, subtask: SubtaskId) -> int:
        """Returns the index of a subtask's region in ``all``, which depends only on the graph."""
        return self._index[subtask]


def _root(parent: dict[SubtaskId, SubtaskId], subtask: SubtaskId) -> SubtaskId:
    while parent[subtask] != subtask:
        parent[subtask] = parent[parent[subtask]]
        subtask = parent[subtask]
    return subtask


def _join(parent: dict[SubtaskId, SubtaskId], one: SubtaskId, other: SubtaskId) -> None:
    parent[_root(parent, other)] = _root(parent, one)
