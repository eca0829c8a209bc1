"""The execution plan as JSON, in the form of Flink's ``JSONGenerator``: what ``get_execution_plan`` returns."""

from __future__ import annotations

import json
from typing import Any

from tidegate.datastream.stream_graph import StreamGraph, StreamNode


def execution_plan(graph: StreamGraph) -> str:
    return json.dumps({"nodes": [_node(node) for node in graph.nodes]}, indent=2)


def _node(node: StreamNode) -> dict[str, Any]:
    pact = {"source": "Data Source", "sink": "Data Sink"}.get(node.kind, "Operator")
    found: dict[str, Any] = {
        "id": node.node_id + 1,
        "type": node.display_name,
        "pact": pact,
        "contents": node.display_name,
        "parallelism": node.parallelism,
    }
    if node.inputs:
        found["predecessors"] = [
            {"id": edge.source + 1, "ship_strategy": edge.shown_as or edge.partitioner.value, "side": "second"}
            for edge in node.inputs
        ]
    return found
