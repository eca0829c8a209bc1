"""Drawings of programs as HTML: the operators and the edges between them."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from tidegate.common.typeinfo import PickledBytesTypeInfo, TypeInformation
from tidegate.datastream._graph.transformation import (
    OperatorTransformation,
    PartitionTransformation,
    SideOutputTransformation,
    Transformation,
    UnionTransformation,
)
from tidegate.notebook.graph_svg import DrawnEdge, DrawnNode, graph_svg

_COLORS = {"source": "#3f9a5a", "enumerated_source": "#3f9a5a", "sink": "#3b76c4"}


def program_html(ends: Iterable[Transformation]) -> str:
    """Draws all operators that lead to ``ends``."""
    nodes: dict[int, DrawnNode] = {}
    edges: dict[tuple[str, str, str], DrawnEdge] = {}
    waiting = list(ends)
    while waiting:
        here = waiting.pop()
        for source, target, label in _steps(here):
            edges[str(source.transformation_id), str(target.transformation_id), label] = DrawnEdge(
                str(source.transformation_id), str(target.transformation_id), label
            )
            waiting.append(source)
        for operator in _operators_of(here):
            if operator.transformation_id not in nodes:
                nodes[operator.transformation_id] = _node(operator)
                waiting.append(operator)
    if not nodes:
        return "<i>a program without operators</i>"
    return graph_svg([nodes[key] for key in sorted(nodes)], list(edges.values()))


def stream_html(stream: Transformation, type_info: TypeInformation) -> str:
    """Draws the inputs of a stream, and the columns of its records."""
    if isinstance(type_info, PickledBytesTypeInfo):
        columns = "records of any type"
    else:
        columns = ", ".join(
            f"<b>{escape(field.name)}</b> {escape(str(field.type))}" for field in type_info.arrow_schema()
        )
    return f'<div style="font-size:13px">DataStream of {columns}</div>{program_html([stream])}'


def _operators_of(stream: Transformation) -> list[OperatorTransformation]:
    """Returns the operators that a stream reads, behind virtual steps."""
    return [stream] if isinstance(stream, OperatorTransformation) else [origin for origin, _ in _origins(stream, "")]


def _steps(stream: Transformation) -> list[tuple[OperatorTransformation, OperatorTransformation, str]]:
    """Returns the edges that lead to an operator, with their labels."""
    if not isinstance(stream, OperatorTransformation):
        return []
    return [(origin, stream, label) for one in stream.inputs for origin, label in _origins(one, "")]


def _origins(stream: Transformation, label: str) -> list[tuple[OperatorTransformation, str]]:
    if isinstance(stream, OperatorTransformation):
        return [(stream, label)]
    if isinstance(stream, UnionTransformation):
        return [found for one in stream.inputs for found in _origins(one, label)]
    if isinstance(stream, PartitionTransformation):
        return _origins(stream.input, stream.shown_as or stream.partitioner.value)
    if isinstance(stream, SideOutputTransformation):
        return _origins(stream.input, stream.tag.tag_id)
    return []


def _node(operator: OperatorTransformation) -> DrawnNode:
    name = operator.description or operator.name
    parallelism = f"parallelism {operator.parallelism}" if operator.parallelism else ""
    return DrawnNode(str(operator.transformation_id), name, (parallelism,), _COLORS.get(operator.kind, "#8a8f98"))
