"""The module name of PyFlink's ``pyflink.table.resolved_expression``, whose classes are refused."""

from __future__ import annotations

from tidegate.common.names.java_only import refusing
from tidegate.records.data_types import DataType as DataType
from tidegate.table.expression import Expression as Expression

_NAMES = "ResolvedExpression"

__all__ = [*_NAMES.split()]

__getattr__ = refusing(__name__, _NAMES, "expressions are resolved by Flink's planner: Table.explain() shows them")
