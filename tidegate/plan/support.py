"""Checks which nodes and functions of a plan are supported; reports all unsupported ones at once."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping

from tidegate.plan.errors import UnsupportedPlan
from tidegate.plan.exec_node_graph import ExecNodeGraph
from tidegate.plan.expressions import AggregateCall, PlanPart, RexCall
from tidegate.plan.nodes import Node


def calls(part: object) -> Iterator[RexCall | AggregateCall]:
    """Yields every function call in a node or an expression, outer ones first. Skips the definition of a table: its expressions are those of nodes
    where they are computed."""
    if isinstance(part, (RexCall, AggregateCall)):
        yield part
    if isinstance(part, PlanPart):
        for name in part.__struct_fields__:
            if name != "resolved_table":
                yield from calls(getattr(part, name))
    elif isinstance(part, tuple):
        for element in part:
            yield from calls(element)
    elif isinstance(part, Mapping):
        for element in part.values():
            yield from calls(element)


def find_unsupported(
    plan: ExecNodeGraph, kinds: Container[type[Node]], has_function: Callable[[Node, RexCall | AggregateCall], bool]
) -> list[str]:
    """Returns a line for each node of an unsupported kind, and for each function of the others that ``has_function`` rejects."""
    found: list[str] = []
    for node in plan.nodes:
        if type(node) not in kinds:
            found.append(f"node {node.id}: {node.kind} is not supported: {node.description}")
            continue
        found += [
            f"node {node.id}, {node.kind}: the function {name} is not supported: {node.description}"
            for name in dict.fromkeys(call.function for call in calls(node) if not has_function(node, call))
        ]
    return found


def check_supported(
    plan: ExecNodeGraph, kinds: Container[type[Node]], has_function: Callable[[Node, RexCall | AggregateCall], bool]
) -> None:
    """Checks that all nodes and functions are supported. Raises ``UnsupportedPlan`` with all lines of ``find_unsupported``."""
    found = find_unsupported(plan, kinds, has_function)
    if found:
        raise UnsupportedPlan("the plan cannot be run:\n  " + "\n  ".join(found))
