"""Rows of Python as tables: types, shapes and refusals."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from tidegate.model.errors import InvalidJob, SchemaMismatch
from tidegate.table import DataTypes, Row
from tidegate.table._execution.elements import sql_type, table_of


def test_types_are_pyflinks() -> None:
    moment = datetime.datetime(2024, 1, 2, 3, 4, 5)
    found = table_of([(1, 1.5, "a", True, Decimal("1.5"), moment, [1], {"k": 1})], list("abcdefgh"))
    assert [sql_type(field) for field in found.schema] == [
        "BIGINT", "DOUBLE", "STRING", "BOOLEAN", "DECIMAL(38, 18)", "TIMESTAMP(6)", "ARRAY<BIGINT>", "ROW<`k` BIGINT>",
    ]  # fmt: skip


def test_a_row_type_decides() -> None:
    schema = DataTypes.ROW(
        [
            DataTypes.FIELD("a", DataTypes.INT()),
            DataTypes.FIELD("m", DataTypes.MAP(DataTypes.STRING(), DataTypes.INT())),
        ]
    )
    found = table_of([(1, {"x": 2}), (None, None)], schema)
    assert [sql_type(field) for field in found.schema] == ["INT", "MAP<STRING, INT>"]
    assert found.to_pylist() == [{"a": 1, "m": [("x", 2)]}, {"a": None, "m": None}]


def test_names_come_from_rows_and_dicts() -> None:
    assert table_of([Row(b=1, a="x")], None).schema.names == ["b", "a"]
    assert table_of([{"b": 1, "a": "x"}], None).schema.names == ["a", "b"]
    assert table_of([(1, 2)], None).schema.names == ["_1", "_2"]


def test_values_that_do_not_fit_are_refused() -> None:
    with pytest.raises(SchemaMismatch, match="has 1 values, and there are 2 columns"):
        table_of([(1, 2), (3,)], ["a", "b"])
    with pytest.raises(SchemaMismatch, match="column 'a'"):
        table_of([("x",)], DataTypes.ROW([DataTypes.FIELD("a", DataTypes.INT())]))
    with pytest.raises(InvalidJob, match="needs rows with columns"):
        table_of([], None)
    with pytest.raises(InvalidJob, match="do not have the type month_day_nano_interval"):
        sql_type(pa.field("a", pa.month_day_nano_interval()))
