"""Checks of a streaming query's plan through Py4J: only sources and stateless operators are allowed.

Spark's own check for unsupported operators is for its own engine: run as a batch, an aggregation over a stream would silently count each
batch for itself. So every node of the plan must be known here, and every expression must give the same value in a replay.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from tidegate.model.errors import InvalidJob

JavaObject: TypeAlias = Any
"""An object of the JVM, as Py4J represents it."""

STREAM_V2 = "StreamingRelationV2"
STREAM_V1 = "StreamingRelation"
STATELESS = frozenset(
    [
        "Project",
        "Filter",
        "SubqueryAlias",
        "View",
        "Generate",
        "Expand",
        "Union",
        "Sample",
        "TypedFilter",
        "MapPartitions",
        "MapElements",
        "DeserializeToObject",
        "SerializeFromObject",
        "MapInArrow",
        "MapInPandas",
        "PythonMapInArrow",
        "BatchEvalPython",
        "ArrowEvalPython",
        "ResolvedHint",
        "UnresolvedHint",
        "EventTimeWatermark",
        "CollectMetrics",
        "WithCTE",
    ]
)
"""Operators that work row by row, so that a batch gives what the rows of its range give."""
_AFTER = "do it behind the source, with key_by and windows, where it is under this job's checkpoints"
_CLOCKS = frozenset(
    [
        "CurrentTimestamp",
        "CurrentTimestampLike",
        "Now",
        "LocalTimestamp",
        "CurrentDate",
        "CurrentTime",
        "CurrentBatchTimestamp",
    ]
)


def children(node: JavaObject) -> list[JavaObject]:
    """Returns the child nodes of a plan node."""
    found = node.children()
    return [found.apply(i) for i in range(found.size())]


def name_of(node: JavaObject) -> str:
    """Returns the class name of a node."""
    return str(node.getClass().getSimpleName()).removesuffix("$")


def is_stream(node: JavaObject) -> bool:
    """Returns whether a node is a source of the stream."""
    return name_of(node) in (STREAM_V1, STREAM_V2)


def streams_in(plan: JavaObject) -> list[JavaObject]:
    """Returns the sources of the stream, in the order of the plan."""
    return [node for node in _nodes(plan) if is_stream(node)]


def check_plan(plan: JavaObject) -> None:
    """Raises ``InvalidJob`` for an operator that needs state, or an expression that a replay may evaluate otherwise."""
    if not streams_in(plan):
        raise InvalidJob(
            "the query of from_spark_stream reads no stream: begin it with spark.readStream, or use from_spark"
        )
    for node in _nodes(plan):
        if bool(node.isStreaming()):
            _check_node(node)


def _check_node(node: JavaObject) -> None:
    name = name_of(node)
    if name == "Join":
        if all(bool(child.isStreaming()) for child in children(node)):
            raise InvalidJob(f"the query of from_spark_stream joins two streams: {_AFTER}")
        if str(node.joinType().toString()) not in ("Inner", "LeftOuter", "RightOuter", "LeftSemi", "LeftAnti", "Cross"):
            raise InvalidJob(f"the query of from_spark_stream has a {node.joinType()} join with a stream: {_AFTER}")
        side = "left" if bool(children(node)[0].isStreaming()) else "right"
        if str(node.joinType().toString()) in ("LeftOuter", "RightOuter") and not str(
            node.joinType()
        ).lower().startswith(side):
            raise InvalidJob(
                "the query of from_spark_stream has an outer join that keeps the unmatched rows of a table beside a stream, which would come out in each "
                "batch again: turn the join round, so that it keeps the stream's rows"
            )
    elif name not in STATELESS and not is_stream(node):
        raise InvalidJob(
            f"the query of from_spark_stream has the operator {name} over a stream, which needs state or all rows: {_AFTER}"
        )
    expressions = node.expressions()
    for i in range(expressions.size()):
        _check_expression(expressions.apply(i))


def _check_expression(expression: JavaObject) -> None:
    for found in _nodes(expression):
        if name_of(found) in _CLOCKS:
            raise InvalidJob(
                f"the query of from_spark_stream uses {found.prettyName()}(), which gives another value when a batch is read again: "
                "take the time behind the source"
            )
    if not bool(expression.deterministic()):
        raise InvalidJob(
            f"the query of from_spark_stream has the non-deterministic expression {expression.sql()}, which gives another value when "
            "a batch is read again: compute it behind the source"
        )


def _nodes(tree: JavaObject) -> Iterator[JavaObject]:
    yield tree
    for child in children(tree):
        yield from _nodes(child)
