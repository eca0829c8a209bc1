"""Column expressions: what they compute, what they say about types before anything runs."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest

from tidegate.datastream import call, coalesce, col, if_else, lit
from tidegate.functions.expressions import Expression
from tidegate.model.errors import InvalidJob, SchemaMismatch

ROWS = pa.record_batch(
    {
        "i": pa.array([7, -7, None], pa.int32()),
        "f": pa.array([2.0, 0.5, 4.0]),
        "s": pa.array(["a", None, "b"]),
        "t": pa.array([0, 3_600_000, 7_199_999], pa.timestamp("ms")),
    }
)

CASES: list[tuple[Expression, list[Any], pa.DataType]] = [
    (col("i"), [7, -7, None], pa.int32()),
    (col("i") + 1, [8, -6, None], pa.int64()),
    (1 - col("i"), [-6, 8, None], pa.int64()),
    (col("i") * col("f"), [14.0, -3.5, None], pa.float64()),
    (col("i") / 2, [3.5, -3.5, None], pa.float64()),
    (col("i") // 2, [3, -4, None], pa.int64()),
    (col("i") // -2, [-4, 3, None], pa.int64()),
    (col("i") % 4, [3, 1, None], pa.int64()),
    (-col("i"), [-7, 7, None], pa.int32()),
    (col("i") > 0, [True, False, None], pa.bool_()),
    ((col("i") > 0) & (col("f") > 1), [True, False, None], pa.bool_()),
    ((col("i") > 0) | (col("f") > 1), [True, False, True], pa.bool_()),
    (~(col("s") == "a"), [False, None, True], pa.bool_()),
    (col("s") != "a", [False, None, True], pa.bool_()),
    (col("s").is_null(), [False, True, False], pa.bool_()),
    (col("s").is_in(["a", "x"]), [True, None, False], pa.bool_()),
    (col("f").between(0.5, 2), [True, True, False], pa.bool_()),
    (col("s").fill_null("-"), ["a", "-", "b"], pa.string()),
    (coalesce(col("i"), 0), [7, -7, 0], pa.int64()),
    (if_else(col("f") > 1, "big", "small"), ["big", "small", "big"], pa.string()),
    (col("i").cast("float64"), [7.0, -7.0, None], pa.float64()),
    (call("utf8_upper", col("s")), ["A", None, "B"], pa.string()),
    (call("hour", col("t")), [0, 1, 1], pa.int64()),
    (lit(5), [5, 5, 5], pa.int64()),
]


@pytest.mark.parametrize(("expression", "values", "kind"), CASES, ids=[repr(case[0]) for case in CASES])
def test_computes_what_its_field_promises(expression: Expression, values: list[Any], kind: pa.DataType) -> None:
    shipped = pickle.loads(pickle.dumps(expression))
    assert shipped.output_field(ROWS.schema) == pa.field(repr(expression) if expression.name != "i" else "i", kind)
    found = shipped.compute(ROWS)
    assert found.type == kind
    assert found.to_pylist() == values


def test_alias_names_the_column() -> None:
    assert (col("i") + 1).alias("next").output_field(ROWS.schema).name == "next"


def test_unknown_column_is_named_with_those_there_are() -> None:
    with pytest.raises(SchemaMismatch, match=r"no column 'x' for add\(col\('x'\), 1\): the stream has i, f, s, t"):
        (col("x") + 1).output_field(ROWS.schema)


def test_types_that_do_not_fit_are_told_before_anything_runs() -> None:
    with pytest.raises(SchemaMismatch, match=r"does not fit the columns \(i: int32, s: string\)"):
        (col("i") + col("s")).output_field(ROWS.schema)


def test_unknown_function() -> None:
    with pytest.raises(InvalidJob, match="no function 'frobnicate'"):
        call("frobnicate", col("i"))


def test_and_is_not_an_operator_of_expressions() -> None:
    with pytest.raises(InvalidJob, match="write & for and"):
        _ = (col("i") > 0) and (col("f") > 0)
