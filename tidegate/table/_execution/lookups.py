"""Translation of lookup join nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tidegate.datastream.data_stream import DataStream
from tidegate.model.errors import InvalidJob
from tidegate.plan import UnsupportedPlan
from tidegate.plan import nodes as plan_nodes
from tidegate.plan.logical_types import LogicalType
from tidegate.records.arrow_type import ArrowTypeInfo
from tidegate.table._execution.one_to_one import follow_input, mapped
from tidegate.table._execution.relational import has_row_kinds, table_schema
from tidegate.table._lookup.async_join import AsyncLookup, AsyncLookupJoinFunction
from tidegate.table._lookup.join import LookupJoin, LookupJoinFunction, LookupNode
from tidegate.table._lookup.port import LookupTable

Lookups: TypeAlias = Callable[[LookupNode], LookupTable | AsyncLookup]
LOOKUPS = (plan_nodes.LookupJoin1, plan_nodes.BatchLookupJoin1)


def no_lookups(node: LookupNode) -> LookupTable:
    """Raises ``InvalidJob``: the plan is translated without lookup tables."""
    raise InvalidJob(
        f"node {node.id}, {node.kind}: a plan that is run without its program cannot look up rows in tables of the program: {node.description}"
    )


def looked_up(
    node: LookupNode, stream: DataStream, row_type: LogicalType, time_zone: str, lookups: Lookups
) -> DataStream:
    """Joins the rows of a stream with those of a lookup table. Raises ``UnsupportedPlan`` for what is not supported."""
    join = LookupJoin(node, row_type, time_zone)
    try:
        join.compile()
        if isinstance(node, plan_nodes.LookupJoin1) and node.require_upsert_materialize:
            raise UnsupportedPlan(
                "a lookup join that keeps what it has found, for rows that are updated, is not supported: leave "
                "'table.optimizer.non-deterministic-update.strategy' at IGNORE"
            )
        if node.prefer_custom_shuffle:
            raise UnsupportedPlan("the hint 'shuffle' = 'true' is not supported: leave it out")
    except UnsupportedPlan as error:
        raise UnsupportedPlan(f"node {node.id}, {node.kind}: {error.message}: {node.description}") from error
    schema = table_schema(node.output_type, has_updates=has_row_kinds(stream))
    table = lookups(node)
    if not isinstance(table, AsyncLookup):
        return mapped(stream, LookupJoinFunction(join, table), schema).name(node.description)
    function = AsyncLookupJoinFunction(join, table)
    made = stream._transform("async_batches", "LookupJoin", {"func": function}, ArrowTypeInfo(schema))
    follow_input(made)
    return made.name(node.description)


__all__ = ["LOOKUPS", "Lookups", "looked_up", "no_lookups"]
