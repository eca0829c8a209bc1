"""Aggregate functions of users: planned by Flink's planner, run by the operators of the plan without a cluster.

``wanted`` is what PyFlink 2.3.0 gives for the same programs with the import replaced, folded, at parallelism 1.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from tests.unit.tidegate.table._execution.plan_run import PlanRun, folded
from tidegate.common.row import Row
from tidegate.model.errors import SchemaMismatch, UserFunctionError
from tidegate.plan import decode_plan
from tidegate.table import (
    AggregateFunction,
    DataTypes,
    EnvironmentSettings,
    ListView,
    MapView,
    Table,
    TableAggregateFunction,
    TableEnvironment,
)
from tidegate.table._connectors.registry import COLLECT
from tidegate.table._planner import InvalidStatement
from tidegate.table._planner.plans import plan_text
from tidegate.table.expressions import call, col, lit
from tidegate.table.udf import udaf, udtaf
from tidegate.table.window import Tumble
from tidegate.testing import HarnessSnapshot

pytestmark = pytest.mark.timeout(300)

ROWS = [("a", "1", "2020-01-01 00:00:00"), ("b", "5", "2020-01-01 00:00:01"), ("a", "3", "2020-01-01 00:00:02"),
        ("a", "2", "2020-01-01 00:00:11"), ("b", None, "2020-01-01 00:00:12")]  # fmt: skip
Given = Sequence[Sequence[str | None]]


class WeightedAverage(AggregateFunction):
    """The sum, rounded toward zero by the count of rows; null without rows."""

    def create_accumulator(self) -> Row:
        return Row(0, 0)

    def accumulate(self, accumulator: Row, *args: Any) -> None:
        if args[0] is not None:
            accumulator[0] += args[0]
            accumulator[1] += 1

    def retract(self, accumulator: Row, *args: Any) -> None:
        if args[0] is not None:
            accumulator[0] -= args[0]
            accumulator[1] -= 1

    def merge(self, accumulator: Row, accumulators: Iterable[Row]) -> None:
        for other in accumulators:
            accumulator[0] += other[0]
            accumulator[1] += other[1]

    def get_value(self, accumulator: Row) -> int | None:
        return accumulator[0] // accumulator[1] if accumulator[1] else None

    def get_result_type(self) -> str:
        return "BIGINT"

    def get_accumulator_type(self) -> str:
        return "ROW<s BIGINT, n BIGINT>"


class Collected(AggregateFunction):
    """Values in order, with how often each is there."""

    def create_accumulator(self) -> Row:
        return Row(ListView(), MapView())

    def accumulate(self, accumulator: Row, *args: Any) -> None:
        accumulator[0].add(str(args[0]))
        seen = accumulator[1]
        seen[args[0]] = seen[args[0]] + 1 if args[0] in seen else 1

    def retract(self, accumulator: Row, *args: Any) -> None:
        kept = list(accumulator[0])
        kept.remove(str(args[0]))
        accumulator[0].clear()
        accumulator[0].add_all(kept)
        del accumulator[1][args[0]]

    def get_value(self, accumulator: Row) -> str:
        return ",".join(accumulator[0]) + f"/{len(list(accumulator[1].keys()))}"


class Top2(TableAggregateFunction):
    """The two largest values, with their ranks."""

    def create_accumulator(self) -> list[int]:
        return []

    def accumulate(self, accumulator: list[int], *args: Any) -> None:
        value = args[0][1] if isinstance(args[0], Row) else args[0]
        if value is not None:
            accumulator.append(value)

    def retract(self, accumulator: list[int], *args: Any) -> None:
        accumulator.remove(args[0])

    def emit_value(self, accumulator: list[int]) -> Iterable[Row]:
        for rank, value in enumerate(sorted(accumulator, reverse=True)[:2], 1):
            yield Row(value, rank)

    def get_result_type(self) -> str:
        return "ROW<v BIGINT, r INT>"

    def get_accumulator_type(self) -> str:
        return "ARRAY<BIGINT>"


average = udaf(WeightedAverage(), name="average")
collected = udaf(
    Collected(),
    result_type=DataTypes.STRING(),
    accumulator_type=DataTypes.ROW(
        [
            DataTypes.FIELD("l", DataTypes.LIST_VIEW(DataTypes.STRING())),
            DataTypes.FIELD("m", DataTypes.MAP_VIEW(DataTypes.BIGINT(), DataTypes.INT())),
        ]
    ),
)
top2 = udtaf(Top2())


@udaf(result_type="DOUBLE", func_type="pandas")
def mean(values: Any) -> Any:
    return values.mean()


def environment(*, is_streaming: bool = True) -> TableEnvironment:
    settings = EnvironmentSettings.in_streaming_mode() if is_streaming else EnvironmentSettings.in_batch_mode()
    made = TableEnvironment.create(settings)
    watermark = ", WATERMARK FOR ts AS ts - INTERVAL '1' SECOND" if is_streaming else ""
    made.execute_sql(
        f"CREATE TABLE v (k STRING, n BIGINT, ts TIMESTAMP(3){watermark}) "
        "WITH ('connector'='filesystem', 'path'='/in/v', 'format'='csv')"
    )
    for name, function in {"average": average, "collected": collected, "mean": mean, "top2": top2}.items():
        made.create_temporary_system_function(name, function)
    return made


@pytest.fixture(scope="module")
def streaming() -> TableEnvironment:
    return environment()


@pytest.fixture(scope="module")
def batch() -> TableEnvironment:
    return environment(is_streaming=False)


def started(tables: TableEnvironment, query: str | Table, restore: HarnessSnapshot | None = None) -> PlanRun:
    table = tables.sql_query(query) if isinstance(query, str) else query
    with tables.planner.errors():
        target = tables.planner.api.TableDescriptor.forConnector(COLLECT).build()
        text = plan_text(table._j_table.insertInto(target).compilePlan(), tables.planner)
    return PlanRun(decode_plan(text), restore=restore, functions=tables._known.by_plan_name())


def changes(tables: TableEnvironment, query: str | Table, rows: Given = ROWS, *, one_by_one: bool = True) -> list[str]:
    with started(tables, query) as run:
        run.push_files({"v": rows}, one_by_one=one_by_one)
        return [kind + "|".join(str(value) for value in row) for kind, row in run.changes()]


def left(tables: TableEnvironment, query: str | Table) -> list[tuple[str | None, ...]]:
    with started(tables, query) as run:
        run.push_files({"v": ROWS})
        return folded(run.changes())


def test_rows_by_key_are_aggregated_as_they_come(streaming: TableEnvironment) -> None:
    query = "SELECT k, average(n), COUNT(*) FROM v GROUP BY k"
    assert changes(streaming, query) == [
        "+Ia|1|1", "+Ib|5|1", "-Ua|1|1", "+Ua|2|2", "-Ua|2|2", "+Ua|2|3", "-Ub|5|1", "+Ub|5|2"
    ]  # fmt: skip
    assert changes(streaming, query, one_by_one=False) == ["+Ia|2|3", "+Ib|5|2"], "of a batch one change, as of a bundle"
