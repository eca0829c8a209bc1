"""Rows of results: kinds, values."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from tidegate.common.row import Row, RowKind
from tidegate.plan.logical_types import parse_type
from tidegate.records.row_kinds import with_kinds
from tidegate.table._execution.rows import rows_left, rows_of, value_text


def test_the_last_column_holds_the_kinds_of_a_changelog() -> None:
    kind = parse_type("ROW<`a` INT>")
    batch = pa.RecordBatch.from_arrays([pa.array([1, 2, 3], pa.int32()), pa.array([0, 1, 3], pa.int8())], ["a", "k"])
    assert [row.get_row_kind() for row in rows_of(batch, kind)] == [
        RowKind.INSERT,
        RowKind.UPDATE_BEFORE,
        RowKind.DELETE,
    ]
    assert rows_of(batch.select(["a"]), kind) == [Row(1), Row(2), Row(3)], "without names, as in PyFlink"


@pytest.mark.parametrize(
    ("value", "type", "text"),
    [
        (None, "INT", "null"),
        (True, "BOOLEAN", "true"),
        (1.0, "DOUBLE", "1.0"),
        (1e20, "DOUBLE", "1.0E20"),
        (Decimal("1.50"), "DECIMAL(10, 2)", "1.50"),
        (datetime.datetime(2024, 1, 2, 3, 4), "TIMESTAMP(3)", "2024-01-02T03:04"),
        (datetime.datetime(2024, 1, 2, 3, 4, 5, 60_000), "TIMESTAMP(3)", "2024-01-02T03:04:05.060"),
        (datetime.datetime(2024, 1, 2, 3, 4, tzinfo=datetime.UTC), "TIMESTAMP_LTZ(3)", "2024-01-02T03:04:00Z"),
        (b"\x01\xff", "BYTES", "[1, -1]"),
        ([1, None], "ARRAY<INT>", "[1, null]"),
        ({"a": 1}, "MAP<STRING, INT>", "{a=1}"),
        (Row(1, "x"), "ROW<`a` INT, `b` STRING>", "+I[1, x]"),
    ],
)
def test_values_have_javas_texts(value: object, type: str, text: str) -> None:
    assert value_text(value, parse_type(type)) == text


def test_the_rows_that_are_left_come_in_the_order_of_their_last_change() -> None:
    kinds = [0, 0, 1, 2, 0, 3, 3]
    changes = pa.RecordBatch.from_arrays(
        [
            pa.array(["a", "b", "a", "a", "b", "b", "z"]),
            pa.array([1, 5, 1, 2, 5, 5, 0]),
            pa.array(kinds, pa.int8()),
        ],
        schema=with_kinds(pa.schema([("k", pa.string()), ("n", pa.int64())])),
    )
    assert rows_left([changes.slice(0, 3), changes.slice(3)]).to_pydict() == {"k": ["b", "a"], "n": [5, 2]}
    assert rows_left([changes.slice(0, 2)]).to_pydict() == {"k": ["a", "b"], "n": [1, 5]}
    inserts = pa.RecordBatch.from_pydict({"k": ["x"]})
    assert rows_left([inserts]).to_pydict() == {"k": ["x"]}
