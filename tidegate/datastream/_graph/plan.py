"""The execution plan as JSON, in the form of Flink's ``JSONGenerator``, for ``get_execution_plan``.

PyFlink has operators of its own that add the key of a selector to a record and take it off again; here a key belongs to
its edge. The plan shows them all the same, where PyFlink has them:

    map ──HASH──▶ reduce      map ─FORWARD─▶ _stream_key_by_map_operator ─HASH─▶ reduce
    map ──HASH──▶ sink        map ─FORWARD─▶ _stream_key_by_map_operator ─HASH─▶ _keyed_stream_values_operator ─FORWARD─▶ sink
"""

from __future__ import annotations

import json

from tidegate.datastream._graph.stream_graph import StreamGraph
from tidegate.datastream._graph.stream_node import StreamEdge, StreamNode
from tidegate.model.graph import Partitioner
from tidegate.model.values import JsonObject

_ADDS_KEY = {
    Partitioner.HASH: "_stream_key_by_map_operator",
    Partitioner.CUSTOM: "_stream_partition_custom_map_operator",
}
_TAKES_KEY_OFF = "_keyed_stream_values_operator"
_KINDS = {"source": "Data Source", "enumerated_source": "Data Source", "sink": "Data Sink"}


def execution_plan(graph: StreamGraph) -> str:
    """Renders a stream graph as the JSON that Flink's plan visualizer reads."""
    plan = _Plan(graph.nodes)
    for node in graph.nodes:
        plan.add(node)
    return json.dumps({"nodes": plan.shown}, indent=2)


class _Plan:
    """The nodes of a plan in the order of the program, numbered from 1."""

    def __init__(self, nodes: list[StreamNode]) -> None:
        self.shown: list[JsonObject] = []
        self._nodes = nodes
        self._ids: dict[int, int] = {}  # of operators: node id -> shown id
        self._keyed: dict[tuple[int, int], int] = {}  # (node id, identity of the key) -> shown id

    def add(self, node: StreamNode) -> None:
        inputs = [self._input(edge, node) for edge in node.inputs]
        pact = _KINDS.get(node.kind, "Operator")
        self._ids[node.node_id] = self._show(node.display_name, pact, node.parallelism, inputs)

    def _input(self, edge: StreamEdge, target: StreamNode) -> tuple[int, str]:
        """Returns the plan node that ``target`` reads through this edge, and how records are distributed."""
        way = edge.shown_as or edge.partitioner.value
        if edge.key is None or edge.key.selector is None or edge.partitioner not in _ADDS_KEY:
            return self._ids[edge.source], way
        with_key = self._with_key(edge)
        reads_key = target.key if edge.input_index == 0 else target.second_key
        if reads_key is not None:
            return with_key, way
        values = self._show(_TAKES_KEY_OFF, "Operator", target.parallelism, [(with_key, way)])
        return values, Partitioner.FORWARD.value

    def _with_key(self, edge: StreamEdge) -> int:
        identity = (edge.source, id(edge.key))
        if identity not in self._keyed:
            source = [(self._ids[edge.source], Partitioner.FORWARD.value)]
            parallelism = self._nodes[edge.source].parallelism
            self._keyed[identity] = self._show(_ADDS_KEY[edge.partitioner], "Operator", parallelism, source)
        return self._keyed[identity]

    def _show(self, name: str, pact: str, parallelism: int, inputs: list[tuple[int, str]]) -> int:
        shown_id = len(self.shown) + 1
        found: JsonObject = {
            "id": shown_id,
            "type": name,
            "pact": pact,
            "contents": name,
            "parallelism": parallelism,
        }
        if inputs:
            found["predecessors"] = [{"id": one, "ship_strategy": way, "side": "second"} for one, way in inputs]
        self.shown.append(found)
        return shown_id
