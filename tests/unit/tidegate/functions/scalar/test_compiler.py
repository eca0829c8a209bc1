"""What is compiled, refused and evaluated, apart from what single functions compute."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.unit.tidegate.functions.scalar.recorded_expressions import decode_rex
from tidegate.functions.sql.scalar import (
    EvaluationContext,
    EvaluationError,
    arrow_schema,
    arrow_type,
    compile_expression,
    compile_filter,
    compile_projection,
)
from tidegate.plan.errors import UnsupportedPlan
from tidegate.plan.expressions import Rex
from tidegate.plan.logical_types import LogicalType, parse_type

INPUT = parse_type("ROW<`a` INT, `b` INT, `t` VARCHAR(2147483647), `ok` BOOLEAN>")


def ref(index: int, type: str) -> dict[str, Any]:
    return {"kind": "INPUT_REF", "inputIndex": index, "type": type}


def literal(value: Any, type: str) -> dict[str, Any]:
    return {"kind": "LITERAL", "value": value, "type": type}


def call(name: str, type: str, *operands: Any) -> dict[str, Any]:
    return {"kind": "CALL", "internalName": f"${name}$1", "operands": list(operands), "type": type}


def registered(name: str, type: str, *operands: Any) -> dict[str, Any]:
    return {"kind": "CALL", "systemName": name, "operands": list(operands), "type": type}


def rex(value: dict[str, Any]) -> Rex:
    return decode_rex(value)


A, B, T, OK = ref(0, "INT"), ref(1, "INT"), ref(2, "VARCHAR(2147483647)"), ref(3, "BOOLEAN")


def batch(*rows: tuple[Any, ...]) -> pa.RecordBatch:
    schema = arrow_schema(INPUT)
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    return pa.RecordBatch.from_arrays(
        [pa.array(list(column), field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )


ROWS = batch((6, 2, "x", True), (6, 0, "12", None), (None, 0, None, False), (-7, 2, "", True))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CHAR(3)", pa.string()),
        ("VARBINARY(7)", pa.binary()),
        ("DECIMAL(38, 18)", pa.decimal128(38, 18)),
        ("TIMESTAMP(0)", pa.timestamp("ms")),
        ("TIMESTAMP(3)", pa.timestamp("ms")),
        ("TIMESTAMP(6)", pa.timestamp("us")),
        ("TIMESTAMP(9)", pa.timestamp("ns")),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", pa.timestamp("ms", tz="UTC")),
        ("TIME(0)", pa.time32("ms")),
        ("DATE", pa.date32()),
        ("INTERVAL DAY(2) TO SECOND(3)", pa.duration("ms")),
        ("INTERVAL YEAR(2) TO MONTH", pa.int32()),
        ("ARRAY<SMALLINT>", pa.list_(pa.int16())),
        ("MAP<VARCHAR(5), FLOAT>", pa.map_(pa.string(), pa.float32())),
        ("MULTISET<DOUBLE>", pa.map_(pa.float64(), pa.int32())),
        ("ROW<`x` TINYINT, `y` BOOLEAN NOT NULL>", pa.struct([("x", pa.int8()), ("y", pa.bool_())])),
    ],
)
def test_a_logical_type_has_an_arrow_type(text: str, expected: pa.DataType) -> None:
    assert arrow_type(parse_type(text)) == expected


def test_a_type_without_columns_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedPlan, match=r"TIMESTAMP\(6\) WITH TIME ZONE"):
        arrow_type(parse_type("TIMESTAMP(6) WITH TIME ZONE"))


def test_the_result_is_an_array_of_the_length_of_the_batch_also_for_a_constant() -> None:
    for count in (0, 4):
        found = compile_expression(rex(literal(7, "INT NOT NULL")), INPUT).evaluate(ROWS.slice(0, count))
        assert found.equals(pa.array([7] * count, pa.int32()))


def test_slices_and_empty_batches_are_evaluated_as_whole_ones() -> None:
    expressions = [
        rex(call("+", "INT", A, B)),
        rex(call("UPPER", "VARCHAR(2147483647)", T)),
        rex(call("CASE", "INT", OK, A, B)),
        rex(call("TRY_CAST", "INT", T)),
        rex(call("ARRAY", "ARRAY<INT>", A, B)),
        rex(call("ITEM", "INT", call("ARRAY", "ARRAY<INT>", A, B), literal(2, "INT NOT NULL"))),
    ]
    projection = compile_projection(expressions, INPUT)
    whole = projection.evaluate(ROWS)
    for start, length in ((0, 0), (1, 2), (3, 1)):
        for all_rows, some in zip(whole, projection.evaluate(ROWS.slice(start, length)), strict=True):
            assert some.to_pylist() == all_rows.slice(start, length).to_pylist()


def test_an_unknown_function_is_refused_with_its_name_and_types() -> None:
    with pytest.raises(UnsupportedPlan, match=r"\$NO_SUCH\$1\(INT, VARCHAR\(2147483647\)\) is not supported"):
        compile_expression(rex(call("NO_SUCH", "INT", A, T)), INPUT)


def test_a_known_function_refuses_types_that_it_has_no_kernel_for() -> None:
    with pytest.raises(UnsupportedPlan, match=r"\$CAST\$1\(BOOLEAN\) is not supported"):
        compile_expression(rex(call("CAST", "DATE", OK)), INPUT)


@pytest.mark.parametrize(
    "guarded",
    [
        call(
            "CASE",
            "INT",
            call("<>", "BOOLEAN", B, literal(0, "INT NOT NULL")),
            call("/", "INT", A, B),
            literal(None, "INT"),
        ),
        call(
            "IF",
            "INT",
            call("<>", "BOOLEAN", B, literal(0, "INT NOT NULL")),
            call("/", "INT", A, B),
            literal(None, "INT"),
        ),
    ],
    ids=["CASE", "IF"],
)
def test_a_branch_is_evaluated_for_its_own_rows_only(guarded: dict[str, Any]) -> None:
    assert compile_expression(rex(guarded), INPUT).evaluate(ROWS).to_pylist() == [3, None, None, -3]


def test_and_and_or_do_not_evaluate_what_is_decided() -> None:
    quotient = call(">", "BOOLEAN", call("/", "INT", A, B), literal(0, "INT NOT NULL"))
    both = call("AND", "BOOLEAN", call("<>", "BOOLEAN", B, literal(0, "INT NOT NULL")), quotient)
    either = call("OR", "BOOLEAN", call("=", "BOOLEAN", B, literal(0, "INT NOT NULL")), quotient)
    assert compile_expression(rex(both), INPUT).evaluate(ROWS).to_pylist() == [True, False, False, False]
    assert compile_expression(rex(either), INPUT).evaluate(ROWS).to_pylist() == [True, True, True, False]


def test_what_fails_in_flink_fails_without_a_restart_and_names_the_function() -> None:
    with pytest.raises(EvaluationError, match="division by zero") as division:
        compile_expression(rex(call("/", "INT", A, B)), INPUT).evaluate(ROWS)
    assert not division.value.retriable
    with pytest.raises(EvaluationError, match="'x' cannot be read as INT; use TRY_CAST"):
        compile_expression(rex(call("CAST", "INT", T)), INPUT).evaluate(ROWS)


def test_a_null_divisor_or_dividend_is_no_division() -> None:
    rows = batch((None, 0, None, None), (1, None, None, None), (-2147483648, -1, None, None))
    with pytest.raises(EvaluationError):
        compile_expression(rex(call("/", "INT", B, B)), INPUT).evaluate(rows.slice(0, 1))
    found = compile_expression(rex(call("/", "INT", A, B)), INPUT).evaluate(rows.slice(1))
    assert found.to_pylist() == [None, -2147483648]


def test_a_filter_does_not_take_what_is_unknown() -> None:
    assert compile_filter(rex(OK), INPUT).evaluate(ROWS).to_pylist() == [True, False, False, True]
    with pytest.raises(UnsupportedPlan, match="a condition must be of type BOOLEAN, not INT"):
        compile_filter(rex(A), INPUT)


def test_a_registered_function_takes_arrays_and_is_called_once_for_equal_expressions() -> None:
    calls = []

    def double(values: pa.Array) -> pa.Array:
        calls.append(len(values))
        return pc.multiply(values, 2)

    context = EvaluationContext(functions={"twice": double})
    twice = registered("twice", "BIGINT", A)
    projection = compile_projection([rex(twice), rex(call("+", "BIGINT", twice, A))], INPUT, context)
    first, second = projection.evaluate(ROWS)
    assert (first.type, first.to_pylist()) == (pa.int64(), [12, 12, None, -14])
    assert second.to_pylist() == [18, 18, None, -21]
    assert calls == [4]


def test_a_registered_function_is_known_and_keeps_its_promise() -> None:
    with pytest.raises(UnsupportedPlan, match="the function twice is not registered; registered are: half"):
        compile_expression(
            rex(registered("twice", "INT", A)), INPUT, EvaluationContext(functions={"half": lambda values: values})
        )
    short = EvaluationContext(functions={"twice": lambda values: values.slice(1)})
    with pytest.raises(EvaluationError, match="the function twice returned 3 values for 4 rows"):
        compile_expression(rex(registered("twice", "INT", A)), INPUT, short).evaluate(ROWS)
    wrong = EvaluationContext(functions={"twice": lambda values: pa.array(["no"] * len(values))})
    with pytest.raises(EvaluationError, match="the function twice returned string where int32 was declared"):
        compile_expression(rex(registered("twice", "INT", A)), INPUT, wrong).evaluate(ROWS)


def test_the_clock_is_asked_once_for_a_batch() -> None:
    times = iter([1_700_000_000_123, 1_700_000_001_000])
    now = call("CURRENT_TIMESTAMP", "TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL")
    context = EvaluationContext("Europe/Berlin", now_ms=lambda: next(times))
    projection = compile_projection(
        [rex(now), rex(call("UNIX_TIMESTAMP", "BIGINT NOT NULL")), rex(call("CURRENT_DATE", "DATE NOT NULL"))],
        INPUT,
        context,
    )
    first = projection.evaluate(ROWS)
    assert {value.value for value in first[0]} == {1_700_000_000_123}
    assert set(first[1].to_pylist()) == {1_700_000_000}
    assert projection.evaluate(ROWS)[1].to_pylist() == [1_700_000_001] * 4


def test_decimals_with_more_digits_than_a_type_holds_are_null() -> None:
    row: LogicalType = parse_type("ROW<`m` DECIMAL(38, 0)>")
    rows = pa.RecordBatch.from_arrays(
        [pa.array([Decimal(10**38 - 1), Decimal(-5), None], pa.decimal128(38, 0))], schema=arrow_schema(row)
    )
    m = ref(0, "DECIMAL(38, 0)")
    assert compile_expression(rex(call("+", "DECIMAL(38, 0)", m, m)), row).evaluate(rows).to_pylist() == [
        None,
        Decimal(-10),
        None,
    ]
    assert compile_expression(rex(call("*", "DECIMAL(38, 0)", m, m)), row).evaluate(rows).to_pylist() == [
        None,
        Decimal(25),
        None,
    ]
