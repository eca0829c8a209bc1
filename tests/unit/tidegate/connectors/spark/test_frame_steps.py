"""Which expressions and aggregates have their like in Spark, as SQL. That the results are equal: ``e2e/test_spark_whole_jobs.py``."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidegate.connectors.spark.frame_steps import GroupBy, KeepRows, NotTheSame, Select, group_by, select, where
from tidegate.functions.expressions import Expression, call, coalesce, col, if_else, lit

SCHEMA = pa.schema(
    [
        ("small", pa.int32()),
        ("long", pa.int64()),
        ("x", pa.float64()),
        ("f", pa.float32()),
        ("name", pa.string()),
        ("ok", pa.bool_()),
        ("price", pa.decimal128(10, 2)),
        ("at", pa.timestamp("us", "UTC")),
    ]
)


def sql(expression: Expression) -> str:
    made = select([("made", expression)], SCHEMA)
    return made.columns[0][1]


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (col("price"), "`price`"),
        (col("name") == "ann", "(`name` = 'ann')"),
        (col("name") == "O'Hare", "(`name` = CAST(X'4f2748617265' AS STRING))"),
        (col("long") > 5, "(`long` > CAST(5 AS BIGINT))"),
        (col("small") != col("long"), "(CAST(`small` AS BIGINT) <> `long`)"),
        (
            col("x") > 1,
            "CASE WHEN `x` IS NULL THEN NULL WHEN isnan(`x`) THEN FALSE ELSE (`x` > CAST('1.0' AS DOUBLE)) END",
        ),
        (col("x") * 2.5, "(`x` * CAST('2.5' AS DOUBLE))"),
        (-col("x"), "(- `x`)"),
        (col("f") * 2.0, "(CAST(`f` AS DOUBLE) * CAST('2.0' AS DOUBLE))"),
        (col("long") / 100, "(CAST(`long` AS DOUBLE) / CAST('100.0' AS DOUBLE))"),
        (~col("ok") & col("name").is_null(), "((NOT `ok`) AND (`name` IS NULL))"),
        (col("ok") | col("name").is_not_null(), "(`ok` OR (`name` IS NOT NULL))"),
        (coalesce(col("small"), col("long")), "coalesce(CAST(`small` AS BIGINT), `long`)"),
        (col("small").cast("float64"), "CAST(`small` AS DOUBLE)"),
        (
            if_else(col("ok"), col("long"), 0),
            "CASE WHEN `ok` THEN `long` WHEN NOT `ok` THEN CAST(0 AS BIGINT) END",
        ),
        (
            col("name").is_in(["a", "b"]),
            "CASE WHEN (`name` IS NULL) THEN CAST(NULL AS BOOLEAN) "
            "WHEN NOT (`name` IS NULL) THEN coalesce(`name` IN ('a', 'b'), FALSE) END",
        ),
    ],
)
def test_an_expression_becomes_sql(expression: Expression, text: str) -> None:
    assert sql(expression) == text


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        (col("long") + 1, "whole numbers wrap"),
        (-col("long"), "the smallest number wraps"),
        (col("x") / col("x"), "may divide by zero"),
        (col("x") / 0, "may divide by zero"),
        (col("x") // 2.0, "has no known equivalent"),
        (col("long") > 0.5, "a cast from int64 to double"),
        (col("price") > col("price"), "works on decimal128"),
        (col("x").cast("int64"), "a cast from double to int64"),
        (call("utf8_upper", col("name")), "has no known equivalent"),
        (col("x").is_in([1.0]), "looks for a double among values of double"),
        (lit(float("nan")), "the constant nan"),
    ],
)
def test_what_spark_may_compute_otherwise_is_refused(expression: Expression, why: str) -> None:
    with pytest.raises(NotTheSame, match=why):
        sql(expression)


def test_steps_are_shown_as_they_are_written() -> None:
    assert str(where(col("ok"), SCHEMA)) == "where `ok`"
    assert str(select([("name", col("name")), ("long", col("small"))], SCHEMA)) == "select name, `small` AS long"
    found = group_by(["name"], [("n", "count", None), ("known", "count", "x"), ("low", "min", "long")], SCHEMA)
    assert found == GroupBy(("name",), (("n", "count(1)"), ("known", "count(`x`)"), ("low", "min(`long`)")))
    assert str(found) == "group by name: count(1) AS n, count(`x`) AS known, min(`long`) AS low"
    assert isinstance(where(col("ok"), SCHEMA), KeepRows)
    assert isinstance(select([("a", col("x"))], SCHEMA), Select)


@pytest.mark.parametrize("key", ["x", "f", "price"])
def test_keys_that_both_group_in_their_own_way_are_refused(key: str) -> None:
    with pytest.raises(NotTheSame, match=f"the key '{key}'"):
        group_by([key], [("n", "count", None)], SCHEMA)


def test_columns_that_spark_cannot_tell_apart_are_refused() -> None:
    schema = pa.schema([("a", pa.int64()), ("A", pa.int64())])
    with pytest.raises(NotTheSame, match="differs from 'a' in upper and lower case only"):
        where(col("a") == 1, schema)


def test_sums_of_whole_numbers_wrap_as_here() -> None:
    assert group_by(["name"], [("s", "sum", "small")], SCHEMA).columns == (("s", "sum(CAST(`small` AS BIGINT))"),)
    ((_, text),) = group_by(["name"], [("s", "sum", "long")], SCHEMA).columns
    assert text.startswith("(shiftleft((sum(shiftright(`long`, 32))")
    with pytest.raises(NotTheSame, match="sum"):
        group_by(["name"], [("s", "sum", "price")], SCHEMA)
