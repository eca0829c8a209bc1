"""The compiler from row expressions to kernels: compiled once for an operator, evaluated for each batch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.functions.sql.scalar import functions
from tidegate.functions.sql.scalar.arrow_types import RowType, arrow_type
from tidegate.functions.sql.scalar.context import EvaluationContext, EvaluationError, PythonFunction, TypedFunction
from tidegate.functions.sql.scalar.literals import literal_scalar, literal_value
from tidegate.functions.sql.scalar.registry import Datum, Evaluate, Operand, Rows, ScalarCall, as_array
from tidegate.plan.errors import UnsupportedPlan
from tidegate.plan.expressions import Rex, RexCall, RexCorrelVariable, RexFieldAccess, RexInputRef, RexLiteral
from tidegate.plan.logical_types import TypeRoot


class CompiledProjection:
    """Expressions over one input, compiled; common parts are computed once for a batch."""

    def __init__(self, operands: Sequence[Operand], context: EvaluationContext) -> None:
        self._operands: Final = tuple(operands)
        self._context: Final = context
        self.types: Final = tuple(operand.type for operand in operands)

    def evaluate(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """Evaluates each expression to an array of the batch's length. Columns are found by position, so the batch may have further ones behind those
        of the input type. Raises ``EvaluationError`` for values for which Flink's function fails too."""
        rows = _rows(batch, self._context)
        return [operand.values(rows) for operand in self._operands]


class CompiledExpression:
    """An expression over one input, compiled; ``type``: of its values."""

    def __init__(self, operand: Operand, context: EvaluationContext) -> None:
        self._projection: Final = CompiledProjection([operand], context)
        self.type: Final = operand.type
        self.arrow_type: Final = operand.arrow

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        """Evaluates the expression; see ``CompiledProjection.evaluate``."""
        return self._projection.evaluate(batch)[0]


class CompiledFilter:
    """A condition over one input, compiled."""

    def __init__(self, operand: Operand, context: EvaluationContext) -> None:
        self._expression: Final = CompiledExpression(operand, context)

    def evaluate(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Evaluates the condition to a mask without nulls: rows for which it is unknown are not taken."""
        mask = self._expression.evaluate(batch)
        return pc.fill_null(mask, False) if mask.null_count else mask


def compile_expression(rex: Rex, input_type: RowType, context: EvaluationContext | None = None) -> CompiledExpression:
    """Compiles an expression over rows of ``input_type``. Raises ``UnsupportedPlan`` that names the function and its types."""
    context = context or EvaluationContext()
    return CompiledExpression(_Compiler(input_type, context).operand(rex), context)


def compile_projection(
    rexes: Sequence[Rex], input_type: RowType, context: EvaluationContext | None = None
) -> CompiledProjection:
    """Compiles expressions over the same rows. Raises ``UnsupportedPlan`` that names the function and its types."""
    context = context or EvaluationContext()
    compiler = _Compiler(input_type, context)
    return CompiledProjection([compiler.operand(rex) for rex in rexes], context)


def compile_filter(rex: Rex, input_type: RowType, context: EvaluationContext | None = None) -> CompiledFilter:
    """Compiles a condition. Raises ``UnsupportedPlan`` that names the function and its types."""
    context = context or EvaluationContext()
    operand = _Compiler(input_type, context).operand(rex)
    if operand.type.root is not TypeRoot.BOOLEAN:
        raise UnsupportedPlan(f"a condition must be of type BOOLEAN, not {operand.type}")
    return CompiledFilter(operand, context)


class _Compiler:
    """Compiles the expressions of one operator; equal ones share an operand."""

    def __init__(self, input_type: RowType, context: EvaluationContext) -> None:
        self._input = input_type
        self._context = context
        self._operands: dict[Rex, Operand] = {}

    def operand(self, rex: Rex) -> Operand:
        found = self._operands.get(rex)
        if found is None:
            found = self._operands[rex] = self._compile(rex)
        return found

    def _compile(self, rex: Rex) -> Operand:
        match rex:
            case RexInputRef():
                if not 0 <= rex.input_index < len(self._input.fields):
                    raise UnsupportedPlan(
                        f"field {rex.input_index} is not among the {len(self._input.fields)} fields of the input {self._input}"
                    )
                arrow_type(rex.type)
                return Operand(rex.type, partial(_column, rex.input_index, arrow_type(rex.type)))
            case RexLiteral():
                value = literal_value(rex)
                if rex.sarg is not None or rex.symbol is not None:
                    return Operand(rex.type, _no_column, is_literal=True, literal=value)
                scalar = literal_scalar(value, rex.type)
                return Operand(rex.type, lambda rows: scalar, is_literal=True, literal=value)
            case RexFieldAccess():
                return self._field(rex)
            case RexCall():
                return self._call(rex)
            case RexCorrelVariable():
                raise UnsupportedPlan(
                    f"the expression takes the row {rex.correl} of another table, which only a correlated join gives it; this is not supported here"
                )
            case _:
                raise UnsupportedPlan(f"{type(rex).__name__} is not supported in an expression over rows")

    def _field(self, rex: RexFieldAccess) -> Operand:
        row = self.operand(rex.expr)
        if row.type.root is not TypeRoot.ROW:
            raise UnsupportedPlan(
                f"the field {rex.name} cannot be taken from a value of {row.type}, which is not a row"
            )
        names = row.type.field_names
        if rex.name not in names:
            raise UnsupportedPlan(f"the row {row.type} has no field {rex.name}")
        index = names.index(rex.name)
        field = row.type.fields[index].type

        def evaluate(rows: Rows) -> Datum:
            return pc.struct_field(row.values(rows), index)

        return Operand(field.with_nullable(field.nullable or row.type.nullable), evaluate, may_fail=row.may_fail)

    def _call(self, rex: RexCall) -> Operand:
        if rex.function == "$AS$1":  # a name says nothing of the value
            return self.operand(rex.operands[0])
        operands = tuple(self.operand(operand) for operand in rex.operands)
        if rex.type is None:
            raise UnsupportedPlan(f"the function {rex.function} is not supported in an expression over rows")
        call = ScalarCall(rex.function, rex.type, operands, self._context)
        if not rex.is_built_in or rex.function in self._context.functions:
            return _shared(_registered(call))
        found = functions.FUNCTIONS.get(rex.function)
        if found is None:
            raise call.refuse()
        arrow_type(rex.type)
        evaluate = found.build(call)
        may_fail = found.may_fail or any(operand.may_fail for operand in operands)
        return _shared(Operand(rex.type, _named(evaluate, call), may_fail=may_fail, function=rex.function))


def _rows(batch: pa.RecordBatch, context: EvaluationContext) -> Rows:
    now: list[int] = []

    def now_ms() -> int:
        if not now:
            now.append(context.now_ms())
        return now[0]

    return Rows(batch.columns, batch.num_rows, now_ms)


def _column(index: int, type: pa.DataType, rows: Rows) -> Datum:
    column = rows.column(index)
    return column if column.type == type else column.cast(type)


def _no_column(rows: Rows) -> Datum:
    raise AssertionError("the plan takes the value of a symbol or of a search argument, and these have none")


def _named(evaluate: Evaluate, call: ScalarCall) -> Evaluate:
    """Wraps an evaluation so that Arrow's errors name the function."""

    def named(rows: Rows) -> Datum:
        try:
            return evaluate(rows)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError, ValueError, ArithmeticError) as error:
            raise EvaluationError(f"{call.name}: {error}") from error

    return named


def _shared(operand: Operand) -> Operand:
    """Returns an operand that is computed once for the same rows."""
    evaluate = operand.evaluate

    def remembered(rows: Rows) -> Datum:
        found = rows.computed.get(key)
        if found is None:
            found = rows.computed[key] = evaluate(rows)
        return found

    shared = Operand(operand.type, remembered, may_fail=operand.may_fail, function=operand.function)
    key = id(shared)
    return shared


def _registered(call: ScalarCall) -> Operand:
    """Compiles a call of a function that the program registered."""
    function = call.context.functions.get(call.name)
    if function is None:
        known = ", ".join(sorted(call.context.functions)) or "none"
        raise UnsupportedPlan(f"the function {call.name} is not registered; registered are: {known}")
    wanted, name = arrow_type(call.type), call.name
    if isinstance(function, TypedFunction):
        bound = function.bind([operand.type for operand in call.operands], call.type)

        def evaluate_typed(rows: Rows) -> Datum:
            return bound(rows.count, [operand.values(rows) for operand in call.operands])

        return Operand(call.type, evaluate_typed, may_fail=True)
    run: PythonFunction = function

    def evaluate(rows: Rows) -> Datum:
        result = as_array(run(*(operand.values(rows) for operand in call.operands)), rows.count)
        if len(result) != rows.count:
            raise EvaluationError(f"the function {name} returned {len(result)} values for {rows.count} rows")
        if result.type == wanted:
            return result
        try:
            return result.cast(wanted)
        except pa.ArrowException as error:
            raise EvaluationError(
                f"the function {name} returned {result.type} where {wanted} was declared: {error}"
            ) from error

    return Operand(call.type, evaluate, may_fail=True)
