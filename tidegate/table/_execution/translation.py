"""The nodes of a compiled plan as operators on streams of Arrow batches. What has no operator yet is refused by name before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pyarrow as pa

from tidegate.datastream.data_stream import DataStream
from tidegate.datastream.stream_execution_environment import StreamExecutionEnvironment
from tidegate.functions.sql.scalar import (
    CompiledFilter,
    CompiledProjection,
    EvaluationContext,
    arrow_schema,
    compile_filter,
    compile_projection,
)
from tidegate.model.errors import InvalidJob
from tidegate.plan import ExecNodeGraph, UnsupportedPlan
from tidegate.plan import nodes as plan_nodes
from tidegate.plan.expressions import Rex, RexLiteral
from tidegate.plan.logical_types import LogicalType
from tidegate.plan.nodes import Node

Sources: TypeAlias = Callable[[Node], DataStream]
Sinks: TypeAlias = Callable[[Node, DataStream], None]

_SCANS = (plan_nodes.TableSourceScan2, plan_nodes.BatchTableSourceScan1)
_CALCS = (plan_nodes.Calc1, plan_nodes.BatchCalc1)
_VALUES = (plan_nodes.Values1, plan_nodes.BatchValues1)
_UNIONS = (plan_nodes.Union1, plan_nodes.BatchUnion1)
_EXCHANGES = (plan_nodes.Exchange1, plan_nodes.BatchExchange1)
_SINKS = (plan_nodes.Sink2, plan_nodes.BatchSink1)
SUPPORTED = (*_SCANS, *_CALCS, *_VALUES, *_UNIONS, *_EXCHANGES, *_SINKS, plan_nodes.WatermarkAssigner1)


def translate(
    plan: ExecNodeGraph, env: StreamExecutionEnvironment, sources: Sources, sinks: Sinks, time_zone: str = "UTC"
) -> None:
    """Adds the operators of a plan to ``env``: a scan becomes what ``sources`` gives for it, a sink what ``sinks`` does with its rows.

    Raises ``UnsupportedPlan``, naming each node without an operator, or the function that is missing.
    """
    missing = [
        f"node {node.id}: {node.kind} is not supported yet: {node.description}"
        for node in plan.nodes
        if not isinstance(node, SUPPORTED)
    ]
    if missing:
        raise UnsupportedPlan("the statement cannot be run:\n  " + "\n  ".join(missing))
    streams: dict[int, DataStream] = {}

    def stream_of(node: Node) -> DataStream:
        if node.id not in streams:
            streams[node.id] = make(node)
        return streams[node.id]

    def make(node: Node) -> DataStream:
        inputs = plan.inputs(node.id)
        if isinstance(node, _SCANS):
            return sources(node)
        if isinstance(node, _VALUES):
            return _values(node, env)
        read = [stream_of(found) for found in inputs]
        if isinstance(node, _CALCS):
            return _calc(node, read[0], inputs[0].output_type, time_zone)
        if isinstance(node, _UNIONS):
            return read[0].union(*(_renamed(stream, node.output_type) for stream in read[1:]))
        if isinstance(node, _EXCHANGES):
            return read[0].global_() if _is_single(node) else read[0].rebalance()
        assert isinstance(node, plan_nodes.WatermarkAssigner1)
        return read[0]  # none of the nodes that there are asks for the time

    for node in plan.sinks:
        if not isinstance(node, _SINKS):
            raise InvalidJob(f"node {node.id}: {node.kind} is no sink, and nothing reads it")
        sinks(node, stream_of(plan.inputs(node.id)[0]))


class CalcFunction:
    """Keeps the rows for which the condition holds, and computes the columns of what is kept; compiled where it runs."""

    def __init__(
        self,
        input_type: LogicalType,
        output_type: LogicalType,
        projection: tuple[Rex, ...],
        condition: Rex | None,
        time_zone: str,
    ) -> None:
        self._arguments = (input_type, output_type, projection, condition, time_zone)
        self._compiled: tuple[CompiledProjection, CompiledFilter | None, pa.Schema] | None = None

    def __getstate__(self) -> tuple[object, ...]:
        return self._arguments

    def __setstate__(self, arguments: tuple[LogicalType, LogicalType, tuple[Rex, ...], Rex | None, str]) -> None:
        self.__init__(*arguments)  # type: ignore[misc]

    def compile(self) -> tuple[CompiledProjection, CompiledFilter | None, pa.Schema]:
        """Raises ``UnsupportedPlan`` that names the function and its types."""
        if self._compiled is None:
            input_type, output_type, projection, condition, time_zone = self._arguments
            context = EvaluationContext(time_zone=time_zone)
            kept = None if condition is None else compile_filter(condition, input_type, context)
            self._compiled = compile_projection(projection, input_type, context), kept, arrow_schema(output_type)
        return self._compiled

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        projection, condition, schema = self.compile()
        if condition is not None:
            batch = batch.filter(condition.evaluate(batch))
        return pa.RecordBatch.from_arrays(projection.evaluate(batch), schema=schema)


def _calc(node: Node, stream: DataStream, input_type: LogicalType, time_zone: str) -> DataStream:
    assert isinstance(node, _CALCS)
    function = CalcFunction(input_type, node.output_type, node.projection, node.condition, time_zone)
    try:
        function.compile()
    except UnsupportedPlan as error:
        raise UnsupportedPlan(f"node {node.id}, {node.kind}: {error.message}: {node.description}") from error
    return stream.map_batches(function, arrow_schema(node.output_type)).name(node.description)


def _values(node: Node, env: StreamExecutionEnvironment) -> DataStream:
    assert isinstance(node, _VALUES)
    schema = arrow_schema(node.output_type)
    empty = LogicalType(node.output_type.root)
    one = pa.RecordBatch.from_arrays([pa.array([0], pa.int8())], names=["unused"])
    rows = [_constants(values, empty, one) for values in node.tuples]
    columns = [
        pa.concat_arrays([row[index].cast(field.type) for row in rows]) if rows else pa.array([], field.type)
        for index, field in enumerate(schema)
    ]
    return env.from_collection(pa.Table.from_arrays(columns, schema=schema)).name(node.description)


def _constants(values: tuple[RexLiteral, ...], input_type: LogicalType, one: pa.RecordBatch) -> list[pa.Array]:
    return compile_projection(values, input_type).evaluate(one)


def _renamed(stream: DataStream, type: LogicalType) -> DataStream:
    schema = arrow_schema(type)
    if stream.get_type().arrow_schema() == schema:
        return stream
    return stream.map_batches(Renamed(schema), schema)


class Renamed:
    """The same columns under the names of another schema."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(
            [column.cast(field.type) for column, field in zip(batch.columns, self._schema, strict=True)],
            schema=self._schema,
        )


def _is_single(node: Node) -> bool:
    return "single" in node.description
