"""Committers of BATCH sinks that commit together when all writers have finished.

sink (writers) ── GLOBAL: what they voted for ──▶ committer, alone in a vertex of parallelism 1
"""

from __future__ import annotations

from tidegate.common import Types
from tidegate.connectors.base import Sink
from tidegate.datastream._graph.stream_graph import StreamGraph
from tidegate.datastream._graph.stream_node import StreamEdge, StreamNode
from tidegate.datastream._graph.transformation import ChainingStrategy
from tidegate.model.graph import Partitioner

VOTE = Types.PRIMITIVE_ARRAY(Types.BYTE())
"""The type of an encoded committable."""


def add_committers(graph: StreamGraph, *, by_stages: bool) -> None:
    """Adds a committer after each sink that needs one, and if the job runs stage by stage, after each that can wait."""
    for node in list(graph.nodes):
        sink = node.options.get("sink")
        if isinstance(sink, Sink) and (sink.commits_together or (by_stages and sink.commits_apart)):
            node.options["commits_apart"] = True
            node.output_type = VOTE
            committer = _committer_of(node, sink, len(graph.nodes))
            graph.nodes.append(committer)
            node.outputs.append(committer.inputs[0])


def _committer_of(node: StreamNode, sink: Sink, node_id: int) -> StreamNode:
    return StreamNode(
        node_id=node_id,
        kind="committer",
        name=f"{node.name}: Committer",
        options={"sink": sink},
        output_type=None,
        parallelism=1,
        max_parallelism=None,
        slot_sharing_group=node.slot_sharing_group,
        chaining=ChainingStrategy.NEVER,
        key=None,
        second_key=None,
        uid=f"{node.uid}-committer" if node.uid else "",
        is_non_parallel=True,
        inputs=[StreamEdge(node.node_id, node_id, Partitioner.GLOBAL, VOTE)],
    )
