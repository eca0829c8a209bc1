"""``call`` takes functions that give one value for each row from that row alone; others are refused when the graph is built."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tidegate.common import Row
from tidegate.common.typeinfo import ArrowTypeInfo
from tidegate.functions.expressions import Call, Expression, call, col
from tidegate.model.errors import InvalidJob, SchemaMismatch
from tidegate.testing import OperatorHarness

NOT_OF_ROWS = sorted(
    name
    for name in pc.list_functions()
    if pc.get_function(name).kind != "scalar"
    and name not in ("cast", "dictionary_decode", "dictionary_encode", "run_end_decode", "run_end_encode")
)
OTHER_NAMES = [
    "random",
    "top_k_unstable",
    "bottom_k_unstable",
    "CastOptions",
    "field",
    "scalar",
    "call_function",
    "register_vector_function",
    "nope",
]


def test_there_are_functions_of_every_other_kind() -> None:
    assert {
        "mean",
        "unique",
        "list_flatten",
        "sort_indices",
        "cumulative_sum",
        "rank",
        "take",
        "hash_sum",
        "index",
    } <= set(NOT_OF_ROWS)


@pytest.mark.parametrize("name", [*NOT_OF_ROWS, *OTHER_NAMES])
def test_a_function_of_whole_columns_is_refused(name: str) -> None:
    with pytest.raises(InvalidJob, match=r"one value for each row|has no function"):
        call(name, col("x"))


@pytest.mark.parametrize(
    ("expression", "values", "wanted"),
    [
        (call("utf8_upper", col("x")), ["a", None], ["A", None]),
        (call("dictionary_decode", call("dictionary_encode", col("x"))), ["a", "b"], ["a", "b"]),
        (call("and_", call("is_valid", col("x")), True), ["a", None], [True, False]),
        (call("coalesce", "a", "b"), [None, "x"], ["a", "a"]),
        (call("if_else", call("is_null", col("x")), "none", col("x")), ["a", None], ["a", "none"]),
        (call("utf8_zfill", col("x"), width=3), ["7", None], ["007", None]),
    ],
    ids=repr,
)
def test_functions_of_single_values_are_called(expression: Expression, values: list[Any], wanted: list[Any]) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array(values, pa.string())], ["x"])
    assert expression.output_field(batch.schema).type == pa.array(wanted).type
    assert expression.compute(batch).to_pylist() == wanted


class OneMore(Call):
    """A function of which no name says that it gives a row too many."""

    def __init__(self) -> None:
        super().__init__("negate", [col("x")])

    def _evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        return pa.concat_arrays([batch.column("x"), pa.array([1])])


def test_the_number_of_values_is_checked_when_the_graph_is_built_and_for_each_batch() -> None:
    batch = pa.RecordBatch.from_pydict({"x": [1, 2]})
    with pytest.raises(SchemaMismatch, match="2 values for 1 rows"):
        OneMore().output_field(batch.schema)
    with pytest.raises(SchemaMismatch, match="3 values for 2 rows"):
        OneMore().compute(batch)


def test_a_stream_refuses_it_before_it_runs() -> None:
    types = ArrowTypeInfo(pa.schema([("x", pa.int64())]))
    with pytest.raises(InvalidJob, match="windows, or map_batches"):
        OperatorHarness(lambda stream: stream.filter(col("x") >= call("mean", col("x"))), types)
    with OperatorHarness(lambda stream: stream.select(y=call("negate", col("x"))), types) as harness:
        harness.push(Row(x=1))
        assert harness.output == [Row(y=-1)]
