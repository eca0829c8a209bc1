"""Flink's aggregate functions over changelogs: accumulate, retract, merge, and value.

Accumulators are lists of plain values, so that state and a first phase can hold them as they are.
"""

from tidegate.functions.sql.aggregates.calls import CompiledAggregates, UserAggregates, compile_aggregates
from tidegate.functions.sql.aggregates.functions import SqlAggregate, form_of

__all__ = ["CompiledAggregates", "SqlAggregate", "UserAggregates", "compile_aggregates", "form_of"]
