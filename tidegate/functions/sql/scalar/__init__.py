"""Flink's scalar expressions over Arrow columns.

An expression of a compiled plan (``tidegate.plan.expressions``) is compiled once, against the type of its input, and evaluated for each
batch. What cannot be computed is refused when it is compiled.

    row expression ─▶ compiler ─▶ one kernel for each call (registry: name → kind, builder) ─▶ Arrow arrays

Which values a function gives for nulls, extremes and errors is Flink's; ``tests/unit`` replays what Flink 2.3 gave.
"""

from tidegate.functions.sql.scalar.arrow_types import arrow_schema, arrow_type, batch_of
from tidegate.functions.sql.scalar.compiler import (
    CompiledExpression,
    CompiledFilter,
    CompiledProjection,
    compile_expression,
    compile_filter,
    compile_projection,
)
from tidegate.functions.sql.scalar.context import EvaluationContext, EvaluationError, PythonFunction, TypedFunction

__all__ = [
    "CompiledExpression",
    "CompiledFilter",
    "CompiledProjection",
    "EvaluationContext",
    "EvaluationError",
    "PythonFunction",
    "TypedFunction",
    "arrow_schema",
    "arrow_type",
    "batch_of",
    "compile_expression",
    "compile_filter",
    "compile_projection",
]
