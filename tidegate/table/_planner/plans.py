"""Compiled plans as JSON, also those with nodes of Python for which Flink has no JSON: another node of the same fields stands for each in the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate.table._planner.session import Planner

_NODES = "org.apache.flink.table.planner.plan.nodes.exec"


def plan_text(j_plan: Any, planner: Planner) -> str:
    """The JSON of a compiled plan of Java. Raises what py4j raises where a node has none."""
    from py4j.protocol import Py4JJavaError

    try:
        return str(j_plan.asJsonString())
    except Py4JJavaError as error:
        if "ExecPythonGroup" not in str(error.java_exception):
            raise
        _replace_nodes(j_plan, planner)
        return str(j_plan.asJsonString())


def _replace_nodes(j_plan: Any, planner: Planner) -> None:
    classes = planner.array(planner.jvm.Class, [])
    unwrap = j_plan.getClass().getDeclaredMethod("unwrap", classes)  # of a class that is not public
    unwrap.setAccessible(True)
    graph = unwrap.invoke(j_plan, planner.array(planner.jvm.Object, [])).getExecNodeGraph()
    made: dict[int, Any] = {}

    def visit(node: Any) -> Any:
        """The node, or the one that stands for it, with inputs that have JSON."""
        number = int(node.getId())
        if number not in made:
            target = _stand_in(node, planner)
            made[number] = target
            edges = planner.jvm.java.util.ArrayList()
            for edge in node.getInputEdges():
                edges.add(
                    planner.jvm.org.apache.flink.table.planner.plan.nodes.exec.ExecEdge(
                        visit(edge.getSource()), target, edge.getShuffle(), edge.getExchangeMode()
                    )
                )
            target.setInputEdges(edges)
        return made[number]

    for root in graph.getRootNodes():
        visit(root)


def _stand_in(node: Any, planner: Planner) -> Any:
    kind = str(node.getClass().getSimpleName())
    nodes = planner.jvm.org.apache.flink.table.planner.plan.nodes.exec

    def field(name: str) -> Any:
        found = node.getClass().getDeclaredField(name)
        found.setAccessible(True)
        return found.get(node)

    def same() -> tuple[Any, ...]:
        return node.getInputProperties().get(0), node.getOutputType(), node.getDescription()

    match kind:
        case "StreamExecPythonGroupTableAggregate":
            made = nodes.stream.StreamExecPythonGroupAggregate(
                node.getPersistedConfig(),
                field("grouping"),
                field("aggCalls"),
                field("aggCallNeedRetractions"),
                field("generateUpdateBefore"),
                field("needRetraction"),
                *same(),
            )
        case "BatchExecPythonGroupAggregate":
            source = node.getInputEdges().get(0).getSource()
            made = nodes.batch.BatchExecHashAggregate(
                node.getPersistedConfig(),
                field("grouping"),
                planner.array(planner.jvm.int, []),  # Flink has the grouping there, a second time
                field("aggCalls"),
                source.getOutputType(),
                False,
                True,
                False,
                *same(),
            )
        case _:
            return node
    made.setCompiled(True)
    return made
