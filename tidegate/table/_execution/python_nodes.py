"""Nodes of a plan that call users' functions, on streams of Arrow batches. A column of row kinds, if the input has one, is passed on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.datastream.data_stream import DataStream
from tidegate.functions.base import Function, RuntimeContext
from tidegate.functions.sql.scalar import (
    CompiledFilter,
    CompiledProjection,
    EvaluationContext,
    arrow_schema,
    batch_of,
    compile_filter,
    compile_projection,
)
from tidegate.model.errors import InvalidJob
from tidegate.plan import UnsupportedPlan
from tidegate.plan import nodes as plan_nodes
from tidegate.plan.expressions import AggregateCall, Rex, RexCall, RexInputRef
from tidegate.plan.logical_types import LogicalType
from tidegate.plan.nodes import Node
from tidegate.plan.support import calls
from tidegate.table._execution.one_to_one import mapped
from tidegate.table._execution.python_aggregates import PythonAggregates
from tidegate.table._execution.python_functions import PythonFunctions, TypedUserFunction, table_rows
from tidegate.table._execution.user_functions import TypedUserCode

Functions: TypeAlias = Mapping[str, TypedUserCode]
"""Users' functions by their names in a plan, in lower case."""

_PYTHON_CALCS = (plan_nodes.PythonCalc1, plan_nodes.PythonAsyncCalc1)
_CALCS = (*_PYTHON_CALCS, plan_nodes.Calc1, plan_nodes.BatchCalc1)
_CORRELATES = (plan_nodes.PythonCorrelate1, plan_nodes.BatchCorrelate1)
PYTHON = (*_PYTHON_CALCS, plan_nodes.PythonCorrelate1)


def python_stream(
    node: Node, stream: DataStream, input_type: LogicalType, time_zone: str, functions: Functions
) -> DataStream:
    """Builds the operator of a node that calls users' functions. Raises ``UnsupportedPlan`` for an unknown function."""
    used = {
        call.function: _function(node, call.function, functions)
        for call in calls(node)
        if isinstance(call, RexCall) and (not call.is_built_in or call.function.lower() in functions)
    }
    function: PythonCalc | PythonCorrelate
    if isinstance(node, _CALCS):
        condition = None if isinstance(node, _PYTHON_CALCS) else node.condition
        function = PythonCalc(input_type, node.output_type, node.projection, condition, time_zone, used)
    else:
        assert isinstance(node, _CORRELATES)
        assert isinstance(node.function_call, RexCall)
        function = PythonCorrelate(
            input_type, node.output_type, node.function_call, node.join_type == "LEFT", time_zone, used
        )
    try:
        function.compile()
    except UnsupportedPlan as error:
        raise UnsupportedPlan(f"node {node.id}, {node.kind}: {error.message}: {node.description}") from error
    schema, given = arrow_schema(node.output_type), stream.get_type().arrow_schema()
    if len(given) > len(input_type.fields):
        schema = schema.append(given.field(len(given) - 1))
    return mapped(stream, function, schema).name(node.description)


def aggregates_of(node: Node, functions: Functions) -> PythonAggregates | None:
    """Returns the users' aggregate functions that a node calls; ``None``: it calls none. Raises ``InvalidJob`` for an unknown one."""
    used = {
        call.function: _function(node, call.function, functions)
        for call in calls(node)
        if isinstance(call, AggregateCall) and not call.is_built_in
    }
    return PythonAggregates(used) if used else None


def calls_functions(node: Node, functions: Functions) -> bool:
    """Returns whether a node calls a user's function."""
    return any(call.function.lower() in functions for call in calls(node))


def _function(node: Node, name: str, functions: Functions) -> TypedUserCode:
    found = functions.get(name.lower())
    if found is None:
        known = ", ".join(sorted(functions)) or "none"
        raise InvalidJob(
            f"node {node.id}, {node.kind}: the function {name} is not known: register it with create_temporary_function() before the plan "
            f"is run; named are: {known}"
        )
    return found


class PythonCalc(Function):
    """Filters rows by a condition and computes columns, with users' functions; compiled in the subtask."""

    def __init__(
        self,
        input_type: LogicalType,
        output_type: LogicalType,
        projection: tuple[Rex, ...],
        condition: Rex | None,
        time_zone: str,
        functions: Functions,
    ) -> None:
        self._input_type, self._output_type = input_type, output_type
        self._projection, self._condition = projection, condition
        self._time_zone = time_zone
        self._functions = PythonFunctions(functions)
        self._compiled: tuple[CompiledProjection, CompiledFilter | None] | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_compiled": None}

    def open(self, runtime_context: RuntimeContext) -> None:
        self._functions.open(runtime_context)

    def close(self) -> None:
        self._functions.close()

    def compile(self) -> tuple[CompiledProjection, CompiledFilter | None]:
        """Compiles projection and condition. Raises ``UnsupportedPlan`` that names the function and its types."""
        if self._compiled is None:
            names = {
                call.function: _names(call, self._input_type)
                for call in calls((self._projection, self._condition))
                if isinstance(call, RexCall)
            }
            typed = {
                name: TypedUserFunction(wrapper, names.get(name, ()))
                for name, wrapper in self._functions.wrappers.items()
            }
            context = EvaluationContext(time_zone=self._time_zone, functions=typed)
            kept = None if self._condition is None else compile_filter(self._condition, self._input_type, context)
            self._compiled = compile_projection(self._projection, self._input_type, context), kept
        return self._compiled

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        projection, kept = self.compile()
        if kept is not None:
            batch = batch.filter(kept.evaluate(batch))
        return _batch(projection.evaluate(batch), batch, self._input_type, arrow_schema(self._output_type))


class PythonCorrelate(Function):
    """Joins each row with the rows that a user's table function returns for it; ``is_left``: with nulls where it returns none."""

    def __init__(
        self,
        input_type: LogicalType,
        output_type: LogicalType,
        call: RexCall,
        is_left: bool,
        time_zone: str,
        functions: Functions,
    ) -> None:
        self._input_type, self._output_type = input_type, output_type
        self._call = call
        self._is_left = is_left
        self._time_zone = time_zone
        self._functions = PythonFunctions(functions)
        self._arguments: CompiledProjection | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_arguments": None}

    def open(self, runtime_context: RuntimeContext) -> None:
        self._functions.open(runtime_context)

    def close(self) -> None:
        self._functions.close()

    def compile(self) -> CompiledProjection:
        """Compiles the arguments of the table function. Raises ``UnsupportedPlan`` for arguments that are not supported."""
        if self._arguments is None:
            typed = {name: TypedUserFunction(wrapper) for name, wrapper in self._functions.wrappers.items()}
            context = EvaluationContext(time_zone=self._time_zone, functions=typed)
            self._arguments = compile_projection(self._call.operands, self._input_type, context)
        return self._arguments

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        wrapper = self._functions.wrappers[self._call.function]
        arguments = self.compile()
        assert self._call.type is not None
        run = table_rows(wrapper, arguments.types, self._call.type, _names(self._call, self._input_type))
        numbers, rows = run(batch.num_rows, arguments.evaluate(batch))
        places = pa.array(np.arange(len(rows)), pa.int64())
        if self._is_left:
            counts = np.bincount(numbers.to_numpy(), minlength=batch.num_rows)
            none = np.flatnonzero(counts == 0)
            all_numbers = np.concatenate([numbers.to_numpy(), none])
            order = np.argsort(all_numbers, kind="stable")
            places = pa.array(np.where(order < len(rows), order, -1), pa.int64())
            places = pc.if_else(pc.less(places, 0), None, places)
            numbers = pa.array(all_numbers[order], pa.int64())
        given = batch.take(numbers)
        columns = [*given.columns[: len(self._input_type.fields)], *rows.take(places).flatten()]
        return _batch(columns, given, self._input_type, arrow_schema(self._output_type))


def _names(call: RexCall, input_type: LogicalType) -> tuple[str, ...]:
    """Returns the names of a call's arguments: those of the input fields, or ``f0``, ``f1`` and so on for computed ones."""
    return tuple(
        input_type.fields[operand.input_index].name if isinstance(operand, RexInputRef) else f"f{number}"
        for number, operand in enumerate(call.operands)
    )


def _batch(
    columns: list[pa.Array], given: pa.RecordBatch, input_type: LogicalType, schema: pa.Schema
) -> pa.RecordBatch:
    made = [column.cast(field.type) for column, field in zip(columns, schema, strict=True)]
    if given.num_columns > len(input_type.fields):
        return pa.RecordBatch.from_arrays(
            [*made, given.columns[-1]], schema=schema.append(given.schema.field(given.num_columns - 1))
        )
    return batch_of(made, schema, given.num_rows)
