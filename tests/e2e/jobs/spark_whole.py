"""A bounded job from Spark to Spark, of columns alone: expressions and totals over values at the edges of their types."""

from __future__ import annotations

import argparse
import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.datastream import RuntimeExecutionMode, StreamExecutionEnvironment, col
from tidegate.datastream.aggregates import Aggregate, avg, count, max, min, sum
from tidegate.functions.expressions import Expression, coalesce, if_else

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.connectors.spark.sink import SparkEpoch

ROWS = 20_000
KEYS = ("name", "ok", "at")
NAN, INFINITY = float("nan"), float("inf")
NUMBERS = [None, 0.0, -0.0, 1.5, -2.25, NAN, INFINITY, -INFINITY, 1e300, 2.0, 3.0]
WHOLE = [None, 0, 1, -1, 2**63 - 1, -(2**63), 2**53 + 1, 7, 2**62]
TEXTS = [None, "", "ann", "Ann", "O'Hare", "back\\slash", "größe", "a b"]
DAYS = [None, datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999), datetime.datetime(2026, 11, 26, 12)]


def values() -> list[tuple[Any, ...]]:
    """Rows whose values meet each other, as their lists have lengths without a common divisor."""
    return [
        (
            n,
            WHOLE[n % len(WHOLE)],
            None if n % 5 == 0 else n % 97 - 48,
            NUMBERS[n % len(NUMBERS)],
            NUMBERS[n // len(NUMBERS) % len(NUMBERS)],
            TEXTS[n % len(TEXTS)],
            [None, True, False][n % 3],
            DAYS[n // 7 % len(DAYS)],
        )
        for n in range(ROWS)
    ]


def edges(spark: SparkSession) -> DataFrame:
    schema = "id long, whole long, small int, x double, y double, name string, ok boolean, at timestamp_ntz"
    return spark.createDataFrame(values(), schema)


def kept() -> Expression:
    """The sums of ``y`` are then finite."""
    is_finite = (col("y") > -1e299) & (col("y") < 1e299)
    return (col("id") >= 17) & (col("name").is_null() | (col("name") != "Ann")) & (col("y").is_null() | is_finite)


def totals() -> list[Aggregate]:
    return [count(), *(made(name) for name in ("whole", "small", "x", "y") for made in (count, sum, min, max, avg))]


def expressions() -> dict[str, Expression]:
    x, y, whole, small, name, ok = (col(one) for one in ("x", "y", "whole", "small", "name", "ok"))
    compared = {
        "equal": x == y,
        "other": x != y,
        "less": x < y,
        "at_most": x <= y,
        "more": x > y,
        "at_least": x >= y,
        "above_one": x > 1,
        "not_zero": x != 0.0,
        "whole_small": whole > small,
        "whole_seven": whole == 7,
        "hare": name == "O'Hare",
        "below": name < "b",
        "slash": name != "back\\slash",
        "named": name.is_in(["ann", "größe"]),
        "listed": whole.is_in([7, 2**53 + 1]),
        "between": small.between(-3, 3),
        "early": col("at") < col("at"),
    }
    logic = {
        "both": ok & (x > y),
        "either": ok | (whole > 0),
        "neither": ~ok,
        "unknown": x.is_null(),
        "known": name.is_not_null(),
    }
    numbers = {
        "sum_xy": x + y,
        "minus": x - y,
        "times": x * y,
        "tripled": x * 3,
        "opposite": -x,
        "euros": whole / 100,
        "half": x / 2,
        "filled": small.fill_null(0),
        "first": coalesce(x, y),
        "either_number": if_else(ok, x, y),
        "wider": small.cast("int64"),
        "fraction": small.cast("float64"),
    }
    return {**compared, **logic, **numbers}


class ByEpoch:
    """An epoch overwrites its own directory. While the file of the name ``broken`` is there, it raises."""

    def __init__(self, output: str) -> None:
        self.output = output

    def __call__(self, rows: DataFrame, epoch: SparkEpoch) -> None:
        if Path(self.output, "broken").exists():
            raise OSError("the table is locked")
        rows.write.mode("overwrite").parquet(f"{self.output}/{epoch.number}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", required=True)
    parser.add_argument("--totals", action="store_true")
    arguments = parser.parse_args()
    env = StreamExecutionEnvironment.get_execution_environment().set_runtime_mode(RuntimeExecutionMode.BATCH)
    rows = env.from_spark(edges)
    if arguments.totals:
        written = rows.filter(kept()).key_by(*KEYS).agg(*totals())
    else:
        written = rows.select("id", "at", **expressions())
    written.to_spark(ByEpoch(arguments.output)).uid("table")
    env.execute("whole")


if __name__ == "__main__":
    main()
