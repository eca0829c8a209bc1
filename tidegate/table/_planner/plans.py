"""Compiled plans as JSON, including plans with Python nodes, for which Flink has no JSON: nodes with the same fields are substituted for them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate.table._planner.planner import Planner

_BATCH_WINDOWS = ("BatchExecHashWindowAggregate", "BatchExecSortWindowAggregate")
_WITHOUT_JSON = ("ExecPythonGroup", "BatchExecPythonOver", "BatchExecPythonCorrelate", *_BATCH_WINDOWS)
_NAME_ALONE = re.compile(r'"table"\s*:\s*\{\s*"identifier"\s*:\s*"(?:[^"\\]|\\.)*"\s*\}')


def plan_text(j_plan: Any, planner: Planner) -> str:
    """Returns the JSON of a compiled Java plan, with all of its tables. Raises what py4j raises where a node has no JSON."""
    from py4j.protocol import Py4JJavaError

    try:
        text = str(j_plan.asJsonString())
    except Py4JJavaError as error:
        if not any(name in str(error.java_exception) for name in _WITHOUT_JSON):
            raise
        _replace_nodes(j_plan, planner)
        text = str(j_plan.asJsonString())
    if _NAME_ALONE.search(text):
        _hold_temporary_tables(j_plan, planner)
        text = str(j_plan.asJsonString())
    return text


def _internal(j_plan: Any, planner: Planner) -> Any:
    unwrap = j_plan.getClass().getDeclaredMethod("unwrap", planner.array(planner.jvm.Class, []))
    unwrap.setAccessible(True)  # of a class that is not public
    return unwrap.invoke(j_plan, planner.array(planner.jvm.Object, []))


def _place(owner: Any, name: str) -> Any:
    """Returns a field of a Java class by reflection, made accessible."""
    found = owner.getDeclaredField(name)
    found.setAccessible(True)
    return found


def _hold_temporary_tables(j_plan: Any, planner: Planner) -> None:
    """Includes temporary tables in a plan: Flink writes only their names, since it finds their definitions in its session."""
    catalog = planner.jvm.org.apache.flink.table.catalog
    seen: set[int] = set()

    def visit(node: Any) -> None:
        number = int(node.getId())
        if number in seen:
            return
        seen.add(number)
        kind = str(node.getClass().getSimpleName())
        if kind.endswith("ExecTableSourceScan"):
            hold(node.getTableSourceSpec())
        elif kind.endswith("ExecSink"):
            hold(node.getTableSinkSpec())
        elif kind.endswith("ExecLookupJoin"):  # the class above has the field
            hold(_place(node.getClass().getSuperclass(), "temporalTableSourceSpec").get(node).getTableSourceSpec())
        for edge in node.getInputEdges():
            visit(edge.getSource())

    def hold(spec: Any) -> None:
        table = spec.getContextResolvedTable()
        if table.isTemporary() and not table.isAnonymous():
            nowhere = catalog.GenericInMemoryCatalog("tidegate")
            found = catalog.ContextResolvedTable.permanent(table.getIdentifier(), nowhere, table.getResolvedTable())
            _place(spec.getClass(), "contextResolvedTable").set(spec, found)

    plan = _internal(j_plan, planner)
    for root in plan.getExecNodeGraph().getRootNodes():
        visit(root)
    _place(plan.getClass(), "jsonSerializedPlan").set(plan, None)  # what asJsonString() gave


def _replace_nodes(j_plan: Any, planner: Planner) -> None:
    made: dict[int, Any] = {}

    def visit(node: Any) -> Any:
        """Returns the node or its substitute, with inputs that have JSON."""
        number = int(node.getId())
        if number not in made:
            target = _stand_in(node, planner)
            made[number] = target
            edges = planner.jvm.java.util.ArrayList()
            for edge in _first_phase(node).getInputEdges():
                edges.add(
                    planner.jvm.org.apache.flink.table.planner.plan.nodes.exec.ExecEdge(
                        visit(edge.getSource()), target, edge.getShuffle(), edge.getExchangeMode()
                    )
                )
            target.setInputEdges(edges)
        return made[number]

    for root in _internal(j_plan, planner).getExecNodeGraph().getRootNodes():
        visit(root)


def _first_phase(node: Any) -> Any:
    """Returns the node that reads the rows: for a window aggregate in two phases the local one, otherwise the node itself."""
    if str(node.getClass().getSimpleName()) not in _BATCH_WINDOWS or not _place(node.getClass(), "isMerge").get(node):
        return node
    while True:
        node = node.getInputEdges().get(0).getSource()
        if str(node.getClass().getSimpleName()) in _BATCH_WINDOWS:
            return node


def _stand_in(node: Any, planner: Planner) -> Any:
    kind = str(node.getClass().getSimpleName())
    nodes = planner.jvm.org.apache.flink.table.planner.plan.nodes.exec

    def field(name: str) -> Any:
        return _place(node.getClass(), name).get(node)

    def inherited(name: str) -> Any:
        return _place(node.getClass().getSuperclass(), name).get(node)

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
        case "BatchExecHashWindowAggregate" | "BatchExecSortWindowAggregate":
            first = _first_phase(node)
            made = nodes.stream.StreamExecGroupWindowAggregate(
                node.getPersistedConfig(),
                _place(first.getClass(), "grouping").get(first),
                _place(first.getClass(), "aggCalls").get(first),
                field("window"),
                field("namedWindowProperties"),
                False,
                *same(),
            )
        case "BatchExecPythonGroupWindowAggregate":
            made = nodes.stream.StreamExecGroupWindowAggregate(
                node.getPersistedConfig(),
                field("grouping"),
                field("aggCalls"),
                field("window"),
                field("namedWindowProperties"),
                False,
                *same(),
            )
        case "BatchExecPythonOverAggregate":
            made = nodes.batch.BatchExecOverAggregate(node.getPersistedConfig(), inherited("overSpec"), *same())
        case "BatchExecPythonCorrelate":
            made = nodes.batch.BatchExecCorrelate(
                node.getPersistedConfig(),
                inherited("joinType"),
                inherited("invocation"),
                None,
                *same(),
            )
        case _:
            return node
    made.setCompiled(True)
    return made
