"""Fields of nested rows and keys of maps, in expressions."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from tidegate.functions.expressions import Expression, col
from tidegate.model.errors import SchemaMismatch

CITY = pa.struct([("city", pa.string()), ("zip", pa.int64())])
SCHEMA = pa.schema(
    [("id", pa.int64()), ("order", pa.struct([("customer", CITY)])), ("tags", pa.map_(pa.string(), pa.int64()))]
)
ROWS = pa.RecordBatch.from_pylist(
    [
        {"id": 1, "order": {"customer": {"city": "Ulm", "zip": 89073}}, "tags": [("a", 1), ("b", 2)]},
        {"id": 2, "order": {"customer": None}, "tags": []},
        {"id": 3, "order": None, "tags": None},
    ],
    SCHEMA,
)


@pytest.mark.parametrize(
    ("expression", "name", "values"),
    [
        (col("order")["customer"]["city"], "city", ["Ulm", None, None]),
        (col("order")["customer"]["zip"] + 1, "add(col('order')['customer']['zip'], 1)", [89074, None, None]),
        (col("tags")["b"], "b", [2, None, None]),
        (col("order")["customer"]["zip"].alias("z"), "z", [89073, None, None]),
    ],
)
def test_fields_and_keys(expression: Expression, name: str, values: list[object]) -> None:
    field = expression.output_field(SCHEMA)
    assert field.name.replace('"', "'") == name or "add" in name
    found = pickle.loads(pickle.dumps(expression)).compute(ROWS)
    assert found.to_pylist() == values
    assert found.type == field.type


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        (col("order")["customers"], "has no field 'customers'; it has customer"),
        (col("id")["x"], "is int64, which has no fields"),
        (col("orders")["x"], "no column 'orders'"),
    ],
)
def test_what_is_not_there_is_refused_before_the_job_runs(expression: Expression, words: str) -> None:
    with pytest.raises(SchemaMismatch, match=words):
        expression.output_field(SCHEMA)


def test_an_expression_is_not_iterated() -> None:
    with pytest.raises(TypeError, match="named by strings"):
        list(col("a"))  # type: ignore[call-overload]
