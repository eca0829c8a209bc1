"""BATCH jobs that Spark runs as a whole: from one ``from_spark`` through operators of columns to one ``to_spark``.

    from_spark ─▶ filter ─▶ select ─▶ key_by.agg ─▶ to_spark     ──▶     one vertex of one subtask, in which Spark does it all

Everything else runs as it did, and the client logs why: a function in Python, a window, an expression of which it is not known that Spark
gives the same (``tidegate.connectors.spark.frame_steps``).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from tidegate.common.typeinfo import Types
from tidegate.connectors.spark.frame_job import SparkFrameJob
from tidegate.connectors.spark.frame_steps import FrameStep, NotTheSame, group_by, select, where
from tidegate.connectors.spark.sink import SparkSink
from tidegate.connectors.spark.source import SparkSource
from tidegate.datastream._graph.stream_graph import StreamGraph
from tidegate.datastream._graph.stream_node import StreamNode
from tidegate.model.configuration import Configuration
from tidegate.model.graph import Partitioner
from tidegate.model.options import SparkOptions

_log = logging.getLogger(__name__)

_DEALS = frozenset({Partitioner.FORWARD, Partitioner.REBALANCE, Partitioner.RESCALE, Partitioner.HASH})
"""Partitionings that do not influence the result."""


def run_as_one(graph: StreamGraph, configuration: Mapping[str, str]) -> StreamGraph:
    """Returns the graph of a single operator if the job maps to DataFrame operations; otherwise the graph unchanged."""
    if not graph.is_batch or not _is_spark_to_spark(graph.nodes):
        return graph
    if not Configuration.from_strings(configuration).get(SparkOptions.WHOLE_JOBS):
        return graph
    try:
        steps = _steps(graph.nodes)
    except NotTheSame as error:
        _log.info("the job does not run as one Spark query: %s", error)
        return graph
    made = _as_one(graph.nodes, steps)
    _log.info("the job runs as one Spark query: %s", "; ".join(map(str, steps)) or "its rows unchanged")
    return replace(graph, nodes=[made])


def _is_spark_to_spark(nodes: Sequence[StreamNode]) -> bool:
    ends = nodes[0].options.get("source"), nodes[-1].options.get("sink")
    return isinstance(ends[0], SparkSource) and isinstance(ends[1], SparkSink)


def _steps(nodes: Sequence[StreamNode]) -> list[FrameStep]:
    """Translates operators to DataFrame steps. Raises ``NotTheSame``."""
    source = nodes[0].options["source"]
    if source.materialize:
        raise NotTheSame("from_spark has materialize=True, so the rows of its query are kept as files")
    if nodes[0].options["watermark_strategy"] is not None:
        raise NotTheSame("the source has a watermark strategy")
    for before, node in pairwise(nodes):
        if [edge.source for edge in node.inputs] != [before.node_id] or len(before.outputs) != 1:
            raise NotTheSame(
                f"{node.display_name!r} has more than one input, or shares its input with another operator"
            )
        if node.inputs[0].tag or node.inputs[0].partitioner not in _DEALS:
            raise NotTheSame(f"{node.display_name!r} reads a side output, or a stream with its own partitioning")
    return [_step(node) for node in nodes[1:-1]]


def _step(node: StreamNode) -> FrameStep:
    schema = node.inputs[0].type_info.arrow_schema()
    key = node.inputs[0].key
    if key is not None and key.selector is not None:
        raise NotTheSame(f"{node.display_name!r} has a key that a Python function computes")
    match node.kind:
        case "filter_columns":
            return where(node.options["predicate"], schema)
        case "select":
            return select(node.options["columns"], schema)
        case "columnar_aggregate":
            return group_by(node.options["keys"], node.options["aggregates"], schema)
    raise NotTheSame(f"{node.display_name!r} has no equivalent among the operations of a DataFrame")


def _as_one(nodes: Sequence[StreamNode], steps: Sequence[FrameStep]) -> StreamNode:
    """Returns the single operator of a job, which has the ids of the sink."""
    first, last = nodes[0], nodes[-1]
    schema = last.inputs[0].type_info.arrow_schema()
    names = " -> ".join(node.display_name for node in nodes[1:])
    return replace(
        last,
        node_id=0,
        kind="source",
        name=f"{first.name} -> {names} (one DataFrame in Spark)",
        options={
            "source": SparkFrameJob(first.options["source"], steps, last.options["sink"], schema, first.parallelism),
            "watermark_strategy": None,
        },
        output_type=Types.SCHEMA(schema),
        inputs=[],
        outputs=[],
    )
