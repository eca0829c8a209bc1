"""Every expression that was recorded with Flink 2.3.0 has Flink's values, or stands in ``NOT_YET``."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.unit.tidegate.functions.scalar.recorded_expressions import RecordedExpression, recorded_expressions
from tidegate.functions.sql.scalar import EvaluationError, compile_expression
from tidegate.functions.sql.scalar.kernels import python_values
from tidegate.functions.sql.scalar.texts import formatter
from tidegate.plan.errors import UnsupportedPlan
from tidegate.plan.logical_types import LogicalType, TypeRoot

_LISTED = [line.split("\t") for line in (Path(__file__).parent / "not_yet.txt").read_text("utf-8").splitlines()]
NOT_YET = {name: outcome for outcome, name in _LISTED}
"""What is ``refused``, ``fails`` or has other values (``differs``). An entry that has Flink's values must be taken off: the list only shrinks."""


@pytest.mark.parametrize("case", recorded_expressions(), ids=str)
def test_an_expression_has_the_values_of_flink(case: RecordedExpression) -> None:
    assert _outcome(case) == NOT_YET.get(str(case), "equal")


@pytest.mark.parametrize("group", sorted({case.group for case in recorded_expressions()}))
def test_a_value_does_not_depend_on_the_rows_beside_it(group: str) -> None:
    """Slices of a batch, empty ones among them, and batches that are long enough for their distinct values to be looked up."""
    for case in recorded_expressions():
        if case.group != group or NOT_YET.get(str(case)) == "fails":
            continue
        batch = case.batch()
        expression = compile_expression(case.rex, case.input, case.context())
        whole = expression.evaluate(batch)
        for start, length in ((2, 3), (1, 1), (0, 0)):
            part = expression.evaluate(batch.slice(start, length))
            part.validate(full=True)
            assert repr(python_values(part)) == repr(python_values(whole.slice(start, length))), str(case)
        repeated = expression.evaluate(pa.concat_batches([batch] * 5))
        assert repr(python_values(repeated)) == repr(python_values(whole) * 5), str(case)


def test_the_list_names_recorded_expressions_only() -> None:
    assert set(NOT_YET) <= {str(case) for case in recorded_expressions()}


def _outcome(case: RecordedExpression) -> str:
    batch = case.batch()
    try:
        expression = compile_expression(case.rex, case.input, case.context())
    except UnsupportedPlan:
        return "refused"
    try:
        values = expression.evaluate(batch)
    except EvaluationError:
        return "fails"
    values.validate(full=True)
    assert values.type == expression.arrow_type
    if str(case) in NOT_YET:
        return (
            "equal" if _texts(case, expression.type, values) == _ordered(expression.type, case.results) else "differs"
        )
    assert _texts(case, expression.type, values) == _ordered(expression.type, case.results)
    return "equal"


def _texts(case: RecordedExpression, type: LogicalType, values: object) -> list[object]:
    write = formatter(type, case.context().time_zone)
    if type.root in (TypeRoot.BINARY, TypeRoot.VARBINARY):
        write = lambda value: f"x'{value.hex()}'"  # noqa: E731
    return _ordered(type, [None if value is None else write(value) for value in python_values(values)])


def _ordered(type: LogicalType, texts: object) -> list[object]:
    """The entries of a map have no order."""
    assert isinstance(texts, (list, tuple))
    if type.root is not TypeRoot.MAP:
        return list(texts)
    return [None if text is None else sorted(text.strip("{}").split(", ")) for text in texts]
