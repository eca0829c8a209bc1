"""Statements of scalar functions over a row, with the results of Flink 2.3.0 (``recorded_statements.json``).

The first literal of each expression was a column of a file, so that the planner could not compute it; the compiled plans are those of
``tests/unit/tidegate/plan/recorded.tar.xz``. ``rows`` are the fields of the file that the plan reads, ``expected`` the text of the results, ``null`` for NULL;
without a result the statement failed when it ran."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.tidegate.plan.recorded import plan_text
from tidegate.functions.sql.scalar import (
    EvaluationContext,
    EvaluationError,
    arrow_type,
    compile_filter,
    compile_projection,
)
from tidegate.functions.sql.scalar.casts import caster
from tidegate.functions.sql.scalar.kernels import python_values
from tidegate.functions.sql.scalar.registry import ScalarCall
from tidegate.functions.sql.scalar.texts import formatter
from tidegate.plan.exec_node_graph import decode_plan
from tidegate.plan.logical_types import LogicalType, TypeRoot
from tidegate.plan.nodes import Calc1

_STRING = LogicalType(TypeRoot.VARCHAR, length=2147483647)


@cache
def _statements() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(__file__).parent / "recorded_statements.json").read_text("utf-8"))
    return found


@pytest.mark.parametrize("name", _statements())
def test_a_statement_has_the_results_of_flink(name: str) -> None:
    statement = _statements()[name]
    if statement["expected"]:
        assert _unordered(_results(name)) == _unordered(statement["expected"])
    else:
        with pytest.raises(EvaluationError):
            _results(name)


def _results(name: str) -> list[list[str | None]]:
    statement = _statements()[name]
    plan = decode_plan(plan_text(f"vectors/{name}.json"))
    (calc,) = (node for node in plan.nodes if isinstance(node, Calc1))
    (source,) = plan.inputs(calc.id)
    input_type: LogicalType = source.output_type
    context = EvaluationContext(statement["zone"])
    batch = _batch(input_type, statement["rows"], context)
    if calc.condition is not None:
        batch = batch.filter(compile_filter(calc.condition, input_type, context).evaluate(batch))
    projection = compile_projection(calc.projection, input_type, context)
    columns = [
        _texts(type, array, context.time_zone)
        for type, array in zip(projection.types, projection.evaluate(batch), strict=True)
    ]
    return [list(row) for row in zip(*columns, strict=True)]


def _unordered(results: list[list[str | None]]) -> list[list[object]]:
    """Results with the entries of maps in order: a map has none."""
    return [
        [sorted(text[1:-1].split(", ")) if text and re.fullmatch(r"\{\w+=.*\}", text) else text for text in row]
        for row in results
    ]


def _batch(input_type: LogicalType, rows: list[list[str | None]], context: EvaluationContext) -> pa.RecordBatch:
    """The rows as the CSV format reads them: an empty field of another type than STRING is null."""
    columns = []
    for index, field in enumerate(input_type.fields):
        is_text = field.type.root in (TypeRoot.CHAR, TypeRoot.VARCHAR)
        texts = pa.array([row[index] if row[index] or is_text else None for row in rows], pa.string())
        cast = caster(_STRING, field.type, context, ScalarCall("CSV", field.type, (), context))
        columns.append(texts if cast is None else cast(texts).cast(arrow_type(field.type)))
    return pa.RecordBatch.from_arrays(columns, names=list(input_type.field_names))


def _texts(type: LogicalType, array: pa.Array, time_zone: str) -> list[str | None]:
    write = formatter(type, time_zone)
    return [None if value is None else write(value) for value in python_values(array)]
