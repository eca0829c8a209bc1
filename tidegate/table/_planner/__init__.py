"""Flink's planner, run in a Java process of the client: it turns statements into compiled plans. No row passes through it.

planner = running_planner()
environment = make_table_environment(planner, {"parallelism.default": "1"}, is_streaming=True)
"""

from __future__ import annotations

from tidegate.table._planner.environments import make_table_environment
from tidegate.table._planner.errors import InvalidStatement, PlannerUnavailable
from tidegate.table._planner.planner import Planner, running_planner

__all__ = ["InvalidStatement", "Planner", "PlannerUnavailable", "make_table_environment", "running_planner"]
