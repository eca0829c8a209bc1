"""Chaining: which operators share a task; and the ids of operators.

Rules of Flink's ``StreamingJobGraphGenerator.isChainable``: the consumer has this one input, the edge is FORWARD, parallelism,
maximum parallelism and slot sharing group are equal, and neither side refuses. A chain is a tree: an operator may feed
several others of its chain.

Ids follow the idea of ``StreamGraphHasherV2``: a hash of the uid; without one, of the operator's place in the graph (its
number, its kind and the ids of its inputs). An id therefore survives a change of names, parallelism and functions, but not
an operator added before it: what has state should have a uid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.datastream._graph.stream_graph import StreamGraph
from tidegate.datastream._graph.stream_node import StreamEdge, StreamNode
from tidegate.datastream._graph.transformation import ChainingStrategy
from tidegate.model.graph import Partitioner
from tidegate.model.ids import OperatorId, hex_id


@dataclass(frozen=True)
class Chain:
    """Operators that share a task. ``nodes[0]`` is the head; every other node follows its producer, which ``links`` names."""

    nodes: tuple[StreamNode, ...]
    links: tuple[StreamEdge, ...]

    @property
    def head(self) -> StreamNode:
        """Returns the first operator, which reads the chain's input or is its source."""
        return self.nodes[0]

    def position_of(self, node_id: int) -> int:
        """Returns the place of a node in the chain, counted from 0."""
        return next(index for index, node in enumerate(self.nodes) if node.node_id == node_id)


def make_chains(graph: StreamGraph) -> list[Chain]:
    """Groups all nodes into chains, ordered by their heads."""
    heads = [node for node in graph.nodes if not any(is_chainable(graph, edge) for edge in node.inputs)]
    chains = []
    for head in heads:
        nodes: list[StreamNode] = []
        links: list[StreamEdge] = []
        _collect(graph, head, nodes, links)
        chains.append(Chain(tuple(nodes), tuple(links)))
    return chains


def is_chainable(graph: StreamGraph, edge: StreamEdge) -> bool:
    """Decides whether an edge joins two operators in one task, by the rules of Flink's
    ``StreamingJobGraphGenerator.isChainable``."""
    source, target = graph.nodes[edge.source], graph.nodes[edge.target]
    return (
        graph.is_chaining_enabled
        and len(target.inputs) == 1
        and edge.partitioner is Partitioner.FORWARD
        and source.parallelism == target.parallelism
        and source.max_parallelism == target.max_parallelism
        and source.slot_sharing_group == target.slot_sharing_group
        and source.chaining is not ChainingStrategy.NEVER
        and target.chaining is ChainingStrategy.ALWAYS
    )


def operator_ids(nodes: Sequence[StreamNode]) -> list[OperatorId]:
    """Returns the operator id of each node; the same program has the same ids on every machine."""
    ids: list[OperatorId] = []
    seen: list[OperatorId] = []  # by what reads a node: a check is not there
    checks = 0
    for node in nodes:
        inputs = [f"{edge.input_index}:{edge.tag}:{seen[edge.source]}" for edge in node.inputs]
        if node.is_check:
            checks += 1
            found = OperatorId(hex_id("check", *inputs))
            while found in ids:  # another check of the same input
                found = OperatorId(hex_id("check", found))
            ids.append(found)
            seen.append(seen[node.inputs[0].source])
            continue
        if node.uid_hash:
            found = OperatorId(node.uid_hash)
        elif node.uid:
            found = OperatorId(hex_id("uid", node.uid))
        else:
            found = OperatorId(hex_id("place", str(len(ids) - checks), node.kind, *inputs))
        ids.append(found)
        seen.append(found)
    return ids


def chain_name(chain: Chain) -> str:
    """Returns the name of a vertex as Flink forms it: ``Source: numbers -> Map -> (Filter, Sink: print)``."""

    def named(node: StreamNode) -> str:
        consumers = [
            named(chain.nodes[chain.position_of(edge.target)]) for edge in chain.links if edge.source == node.node_id
        ]
        if not consumers:
            return node.display_name
        return f"{node.display_name} -> {consumers[0] if len(consumers) == 1 else '(' + ', '.join(consumers) + ')'}"

    return named(chain.head)


def _collect(graph: StreamGraph, node: StreamNode, nodes: list[StreamNode], links: list[StreamEdge]) -> None:
    nodes.append(node)
    for edge in node.outputs:
        if is_chainable(graph, edge):
            links.append(edge)
            _collect(graph, graph.nodes[edge.target], nodes, links)
