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
from tidegate.plan import UnsupportedPlan, decode_plan
from tidegate.table import (
    AggregateFunction,
    DataTypes,
    EnvironmentSettings,
    FunctionContext,
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


@udaf(result_type="BIGINT", func_type="pandas")
def size(values: Any) -> Any:
    return len(values)


def environment(*, is_streaming: bool = True) -> TableEnvironment:
    settings = EnvironmentSettings.in_streaming_mode() if is_streaming else EnvironmentSettings.in_batch_mode()
    made = TableEnvironment.create(settings)
    watermark = ", WATERMARK FOR ts AS ts - INTERVAL '1' SECOND" if is_streaming else ""
    made.execute_sql(
        f"CREATE TABLE v (k STRING, n BIGINT, ts TIMESTAMP(3){watermark}) "
        "WITH ('connector'='filesystem', 'path'='/in/v', 'format'='csv')"
    )
    for name, function in {
        "average": average,
        "collected": collected,
        "mean": mean,
        "size": size,
        "top2": top2,
    }.items():
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
    assert changes(streaming, query, one_by_one=False) == ["+Ia|2|3", "+Ib|5|2"], (
        "of a batch one change, as of a bundle"
    )


_TUMBLE = "TUMBLE(ts, INTERVAL '10' SECOND)"
_SESSION = "SESSION(ts, INTERVAL '3' SECOND)"
_OVER = "OVER (PARTITION BY k ORDER BY ts {})"
_WANTED: dict[str, list[tuple[str | None, ...]]] = {
    "SELECT average(n), average(DISTINCT n), average(n) FILTER (WHERE n > 1) FROM v": [("2", "2", "3")],
    "SELECT c, average(s) FROM (SELECT k, SUM(n) AS s, COUNT(*) AS c FROM v WHERE n IS NOT NULL GROUP BY k) GROUP BY c": [
        ("1", "5"), ("3", "6")
    ],
    "SELECT k, collected(n) FROM v WHERE n IS NOT NULL GROUP BY k": [("a", "1,3,2/3"), ("b", "5/1")],
    f"SELECT k, average(n), collected(n) FROM v WHERE n IS NOT NULL GROUP BY k, {_TUMBLE}": [
        ("a", "2", "1,3/2"), ("a", "2", "2/1"), ("b", "5", "5/1")
    ],
    f"SELECT k, average(n), SESSION_END(ts, INTERVAL '3' SECOND) FROM v GROUP BY k, {_SESSION}": [
        ("a", "2", "2020-01-01 00:00:05.000"), ("a", "2", "2020-01-01 00:00:14.000"), ("b", "5", "2020-01-01 00:00:04.000"),
        ("b", None, "2020-01-01 00:00:15.000"),
    ],
    f"SELECT k, mean(n) FROM v GROUP BY k, {_TUMBLE}": [("a", "2.0"), ("a", "2.0"), ("b", "5.0"), ("b", None)],
    f"SELECT k, n, mean(n) {_OVER.format('ROWS BETWEEN 1 PRECEDING AND CURRENT ROW')} FROM v": [
        ("a", "1", "1.0"), ("a", "2", "2.5"), ("a", "3", "2.0"), ("b", "5", "5.0"), ("b", None, "5.0")
    ],
}  # fmt: skip


@pytest.mark.parametrize("query", list(_WANTED))
def test_the_rows_that_are_left_are_flinks(streaming: TableEnvironment, query: str) -> None:
    assert left(streaming, query) == _WANTED[query]


def test_a_table_aggregate_function_replaces_its_rows(streaming: TableEnvironment) -> None:
    grouped = streaming.from_path("v").group_by(col("k"))
    query = grouped.flat_aggregate(call("top2", col("n")).alias("x", "y")).select(col("k"), col("x"), col("y"))
    assert changes(streaming, query, ROWS[::2]) == ["+Ia|1|1", "-Da|1|1", "+Ia|3|1", "+Ia|1|2"]
    assert left(streaming, query) == [("a", "2", "2"), ("a", "3", "1"), ("b", "5", "1")]
    everything = streaming.from_path("v").flat_aggregate(top2(col("n"))).select(col("r"), col("v"))
    assert left(streaming, everything) == [("1", "5"), ("2", "3")]
    of_rows = grouped.flat_aggregate(top2.alias("x", "y")).select(col("k"), col("x"))
    assert left(streaming, of_rows) == [("a", "2"), ("a", "3"), ("b", "5")]


def test_the_table_api_aggregates_by_windows_and_whole_rows(streaming: TableEnvironment) -> None:
    windows = streaming.from_path("v").window(Tumble.over(lit(10).seconds).on(col("ts")).alias("w"))
    query = windows.group_by(col("k"), col("w")).select(col("k"), average(col("n")), col("w").end)
    assert left(streaming, query)[0] == ("a", "2", "2020-01-01 00:00:10.000")
    row = DataTypes.ROW([DataTypes.FIELD("c", DataTypes.BIGINT()), DataTypes.FIELD("s", DataTypes.BIGINT())])

    class Both(AggregateFunction):
        def create_accumulator(self) -> Row:
            return Row(0, 0)

        def accumulate(self, accumulator: Row, *args: Any) -> None:
            (given,) = args
            assert given[2].__class__ is datetime.datetime
            accumulator[0] += 1
            accumulator[1] += given[1] or 0

        def get_value(self, accumulator: Row) -> Row:
            return accumulator

    both = udaf(Both(), result_type=row, accumulator_type=row)
    query = (
        streaming.from_path("v").group_by(col("k")).aggregate(both.alias("c", "s")).select(col("k"), col("c"), col("s"))
    )
    assert left(streaming, query) == [("a", "3", "6"), ("b", "2", "5")]


def test_batch_mode_runs_functions_of_pandas(batch: TableEnvironment) -> None:
    assert sorted(changes(batch, "SELECT k, mean(n) FROM v GROUP BY k")) == ["+Ia|2.0", "+Ib|5.0"]
    assert changes(batch, "SELECT mean(n) FROM v") == ["+I2.75"]
    both = udaf(
        lambda frame: (frame.n.mean(), frame.k.max()), result_type="ROW<m DOUBLE, x STRING>", func_type="pandas"
    )
    query = batch.from_path("v").group_by(col("k")).aggregate(both.alias("m", "x")).select(col("k"), col("m"), col("x"))
    assert sorted(changes(batch, query)) == ["+Ia|2.0|a", "+Ib|5.0|b"]


_HOP = "HOP(ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND)"
_BATCH: dict[str, list[tuple[str | None, ...]]] = {
    f"SELECT k, mean(n), TUMBLE_START(ts, INTERVAL '10' SECOND) FROM v GROUP BY k, {_TUMBLE}": [
        ("a", "2.0", "2020-01-01 00:00:00.000"), ("a", "2.0", "2020-01-01 00:00:10.000"),
        ("b", "5.0", "2020-01-01 00:00:00.000"), ("b", None, "2020-01-01 00:00:10.000"),
    ],
    f"SELECT mean(n), size(n), TUMBLE_END(ts, INTERVAL '10' SECOND) FROM v GROUP BY {_TUMBLE}": [
        ("2.0", "2", "2020-01-01 00:00:20.000"), ("3.0", "3", "2020-01-01 00:00:10.000")
    ],
    f"SELECT k, size(n), HOP_START(ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND) FROM v WHERE k = 'a' GROUP BY k, {_HOP}": [
        ("a", "1", "2020-01-01 00:00:05.000"), ("a", "1", "2020-01-01 00:00:10.000"), ("a", "2", "2019-12-31 23:59:55.000"),
        ("a", "2", "2020-01-01 00:00:00.000"),
    ],
    f"SELECT k, n, mean(n) {_OVER.format('ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING')} FROM v": [
        ("a", "1", "2.0"), ("a", "2", "2.0"), ("a", "3", "2.0"), ("b", "5", "5.0"), ("b", None, "5.0")
    ],
    f"SELECT k, n, mean(n) {_OVER.format('ROWS BETWEEN 1 PRECEDING AND CURRENT ROW')}, "
    f"size(n) {_OVER.format('ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING')} FROM v": [
        ("a", "1", "1.0", "2"), ("a", "2", "2.5", "2"), ("a", "3", "2.0", "3"), ("b", "5", "5.0", "2"), ("b", None, "5.0", "2")
    ],
    f"SELECT k, n, size(n) {_OVER.format('RANGE BETWEEN INTERVAL ' + repr('2') + ' SECOND PRECEDING AND CURRENT ROW')} FROM v": [
        ("a", "1", "1"), ("a", "2", "1"), ("a", "3", "2"), ("b", "5", "1"), ("b", None, "1")
    ],
    f"SELECT k, n, size(n) {_OVER.format('')} FROM v": [
        ("a", "1", "1"), ("a", "2", "3"), ("a", "3", "2"), ("b", "5", "1"), ("b", None, "2")
    ],
}  # fmt: skip


@pytest.mark.parametrize("query", list(_BATCH))
def test_batch_mode_runs_functions_of_pandas_in_windows_and_over(batch: TableEnvironment, query: str) -> None:
    assert left(batch, query) == _BATCH[query]


def test_what_flink_does_not_plan_is_refused_in_its_words(streaming: TableEnvironment, batch: TableEnvironment) -> None:
    with pytest.raises(InvalidStatement, match="Pandas UDAFs are not supported in streaming mode currently"):
        changes(streaming, "SELECT k, mean(n) FROM v GROUP BY k")
    with pytest.raises(
        UnsupportedPlan, match="Python UDAF is not supported to be used in UNBOUNDED PRECEDING OVER windows"
    ):
        changes(streaming, "SELECT k, mean(n) OVER (PARTITION BY k ORDER BY ts) FROM v")
    with pytest.raises(InvalidStatement, match="non-Pandas UDAFs are not supported in batch mode currently"):
        changes(batch, "SELECT average(n) FROM v")
    with pytest.raises(InvalidStatement, match="Python UDAF and Java/Scala UDAF cannot be used together"):
        changes(batch, "SELECT k, mean(n), COUNT(*) FROM v GROUP BY k")


class Opened(WeightedAverage):
    """The number of values; it fails where it was not opened."""

    def open(self, function_context: FunctionContext) -> None:
        self.opened = True

    def get_value(self, accumulator: Row) -> int:
        assert self.opened
        return int(accumulator[1])


@pytest.mark.parametrize(
    "query", ["SELECT k, opened(n) FROM v GROUP BY k", f"SELECT k, opened(n) FROM v GROUP BY k, {_TUMBLE}"]
)
def test_functions_are_opened_before_they_are_called(streaming: TableEnvironment, query: str) -> None:
    function = udaf(Opened(), name="opened", func_type="general")
    streaming.create_temporary_system_function("opened", function)
    found = left(streaming, query)
    assert ("b", "1") in found
    streaming.drop_temporary_system_function("opened")


def test_accumulators_are_state(streaming: TableEnvironment) -> None:
    query = "SELECT k, average(n), collected(n) FROM v GROUP BY k"
    with started(streaming, query) as run:
        run.push(0, ROWS[:2])
        snapshot = run.harness.snapshot()
    with started(streaming, query, snapshot) as run:
        run.push(0, ROWS[2:3])
        run.finish()
        assert run.changes() == [("-U", ("a", "1", "1/1")), ("+U", ("a", "2", "1,3/2"))]


class Failing(WeightedAverage):
    def accumulate(self, accumulator: Row, *args: Any) -> None:
        raise ValueError("no such value")


def test_errors_name_the_function_the_row_and_the_line(streaming: TableEnvironment) -> None:
    view = streaming.from_path("v")
    failing = udaf(Failing(), name="failing")
    with pytest.raises(
        UserFunctionError, match=r"the function failing \(.*test_udaf.py, line \d+\) raised ValueError: no such value"
    ) as raised:
        changes(streaming, view.group_by(col("k")).select(failing(col("n"))))
    assert raised.value.inputs == ((1,),)
    text = udaf(WeightedAverage(), result_type="STRING", accumulator_type="ROW<s BIGINT>", name="text")
    with pytest.raises(SchemaMismatch, match=r"the function text.*: it returned 1 \(int\) where VARCHAR.* is declared"):
        changes(streaming, view.group_by(col("k")).select(text(col("n"))))

    class NoRetract(Failing):
        def accumulate(self, accumulator: Row, *args: Any) -> None:
            """Nothing."""

        def retract(self, accumulator: Row, *args: Any) -> None:
            AggregateFunction.retract(self, accumulator, *args)

    streaming.create_temporary_view("sums", streaming.sql_query("SELECT k, SUM(n) AS s FROM v GROUP BY k"))
    plain = udaf(NoRetract(), name="plain")
    with pytest.raises(
        UserFunctionError, match="the function plain.* raised RuntimeError: Method retract is not implemented"
    ):
        changes(streaming, streaming.from_path("sums").select(plain(col("s"))))


def test_types_are_checked_when_a_function_is_made() -> None:
    class Untyped(AggregateFunction):
        def create_accumulator(self) -> list[int]:
            return []

        def accumulate(self, accumulator: list[int], *args: Any) -> None:
            """Nothing."""

        def get_value(self, accumulator: list[int]) -> int:
            return 0

    with pytest.raises(RuntimeError, match="Method get_accumulator_type is not implemented"):
        udaf(Untyped(), result_type="INT")
    with pytest.raises(RuntimeError, match="Method get_result_type is not implemented"):
        udaf(Untyped(), accumulator_type="INT")
    with pytest.raises(TypeError, match="result_type and accumulator_type should be DataType or str at the same time"):
        udaf(Untyped(), result_type="INT", accumulator_type=DataTypes.INT())
    with pytest.raises(TypeError, match="Pandas UDAF doesn't support DataType type MAP<STRING, INT> currently"):
        udaf(lambda v: {}, result_type="MAP<STRING, INT>", func_type="pandas")
    with pytest.raises(TypeError, match=r"it has no get_value\(\)"):
        udaf(lambda v: v, result_type="INT")
    with pytest.raises(ValueError, match="must be one of 'general, pandas', got arrow"):
        udaf(Untyped(), func_type="arrow")
    with pytest.raises(ValueError, match="must be 'general', got pandas"):
        udtaf(Top2(), func_type="pandas")
