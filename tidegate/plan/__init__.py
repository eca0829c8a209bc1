"""Compiled plans of Flink's planner as values: nodes, types and expressions, decoded from JSON. Plans are neither executed nor planned here.

plan = decode_plan(json_text)
print(draw(plan))
"""

from __future__ import annotations

from tidegate.plan.drawing import draw
from tidegate.plan.errors import MalformedPlan, UnsupportedPlan
from tidegate.plan.exec_node_graph import ExecNodeGraph, decode_plan, encode_plan

__all__ = ["ExecNodeGraph", "MalformedPlan", "UnsupportedPlan", "decode_plan", "draw", "encode_plan"]
