"""Operators that mini-batches need leave the ids of the others as they are in a plan without them, so that these find their state."""

from __future__ import annotations

from msgspec.structs import replace

from tests.unit.tidegate.table._execution.recorded_changelogs import statement
from tidegate.datastream import DataStream, StreamExecutionEnvironment
from tidegate.functions.sql.scalar import arrow_schema
from tidegate.plan import nodes
from tidegate.plan.exec_node_graph import ExecNodeGraph
from tidegate.plan.specs import MiniBatchInterval
from tidegate.table._execution.translation import translate

NAME = "agg-mini-batch-two-phase"


def ids_by_name(plan: ExecNodeGraph) -> dict[str, str]:
    env = StreamExecutionEnvironment.get_execution_environment()

    def scanned(scan: nodes.Node) -> DataStream:
        return env.from_collection(arrow_schema(scan.output_type).empty_table())

    def ended(_: nodes.Node, stream: DataStream) -> None:
        stream.print()

    translate(plan, env, scanned, ended)
    return {spec.name: spec.operator_id for vertex in env.build().graph.vertices for spec in vertex.operators}


def with_mode(plan: ExecNodeGraph, mode: str) -> ExecNodeGraph:
    marks = MiniBatchInterval(1_000, mode)
    made = tuple(
        replace(node, mini_batch_interval=marks) if isinstance(node, nodes.MiniBatchAssigner1) else node
        for node in plan.nodes
    )
    return ExecNodeGraph(plan.flink_version, made, plan.edges)


def test_what_ends_mini_batches_changes_no_other_id() -> None:
    plan = statement(NAME).plan
    without = ids_by_name(with_mode(plan, "None"))
    for mode in ("ProcTime", "RowTime"):
        found = ids_by_name(with_mode(plan, mode))
        assert found | without == found, mode
        assert len(set(found.values())) == len(found) > len(without)
