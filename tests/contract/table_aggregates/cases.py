"""Aggregate functions of users in windows: programs for PyFlink and for tidegate."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, TypeAlias

_MODULES = ("common", "table", "table.expressions", "table.udf", "table.window")
DELAY_S = 5
"""Rows are at most so much behind others."""
ROWS = [
    ["a", "1", "1.5", "2020-01-01 00:00:01.000"],
    ["b", "5", "null", "2020-01-01 00:00:02.000"],
    ["a", "3", "2.5", "2020-01-01 00:00:04.000"],
    ["a", "2", "0.25", "2020-01-01 00:00:00.000"],
    ["b", "null", "null", "2020-01-01 00:00:06.000"],
    ["null", "7", "4.0", "2020-01-01 00:00:07.000"],
    ["a", "4", "null", "2020-01-01 00:00:09.500"],
    ["a", "null", "3.0", "2020-01-01 00:00:11.000"],
    ["b", "6", "1.0", "2020-01-01 00:00:10.000"],
    ["a", "9", "9.5", "2020-01-01 00:00:21.000"],
    ["null", "null", "null", "2020-01-01 00:00:24.000"],
    ["a", "8", "8.5", "2020-01-01 00:00:23.000"],
    ["a", "10", "2.0", "2020-01-01 00:00:22.000"],
    ["b", "1", "1.0", "2020-01-01 00:00:40.000"],
]
CHANGES = [
    ("+I", ["a", "1", "1.5", "2020-01-01 00:00:01.000"]),
    ("+I", ["a", "3", "2.5", "2020-01-01 00:00:02.000"]),
    ("-U", ["a", "1", "1.5", "2020-01-01 00:00:01.000"]),
    ("+U", ["a", "2", "1.5", "2020-01-01 00:00:01.000"]),
    ("+I", ["b", "5", "0.5", "2020-01-01 00:00:03.000"]),
    ("-D", ["b", "5", "0.5", "2020-01-01 00:00:03.000"]),
    ("+I", ["a", "3", "2.5", "2020-01-01 00:00:12.000"]),
    ("-U", ["a", "3", "2.5", "2020-01-01 00:00:02.000"]),
    ("+U", ["a", "4", "2.5", "2020-01-01 00:00:02.000"]),
    ("+I", ["b", "6", "0.5", "2020-01-01 00:00:13.000"]),
    ("+I", ["a", "3", "2.5", "2020-01-01 00:00:12.000"]),
    ("-D", ["a", "3", "2.5", "2020-01-01 00:00:12.000"]),
]


def api(root: str) -> Any:
    """The names of ``pyflink`` or ``tidegate`` that the programs use."""
    found = SimpleNamespace()
    for module in _MODULES:
        for name, value in vars(importlib.import_module(f"{root}.{module}")).items():
            if not name.startswith("_"):
                setattr(found, name, value)
    return found


def functions(a: Any) -> dict[str, Any]:
    """By name. They are made here so that they travel by value, without ``a``."""
    row, list_view, map_view = a.Row, a.ListView, a.MapView

    class Alone:
        """An average that cannot be merged."""

        def create_accumulator(self) -> Any:
            return [0, 0]

        def accumulate(self, accumulator: Any, *args: Any) -> None:
            if args[0] is not None:
                accumulator[0] += args[0]
                accumulator[1] += 1

        def retract(self, accumulator: Any, *args: Any) -> None:
            if args[0] is not None:
                accumulator[0] -= args[0]
                accumulator[1] -= 1

        def get_value(self, accumulator: Any) -> Any:
            return accumulator[0] // accumulator[1] if accumulator[1] else None

        def get_result_type(self) -> str:
            return "BIGINT"

        def get_accumulator_type(self) -> str:
            return "ARRAY<BIGINT>"

    class Average(Alone):
        def merge(self, accumulator: Any, accumulators: Any) -> None:
            for other in accumulators:
                accumulator[0] += other[0]
                accumulator[1] += other[1]

    class Onward:
        """A sum that takes nothing back."""

        def create_accumulator(self) -> Any:
            return [0]

        def accumulate(self, accumulator: Any, *args: Any) -> None:
            accumulator[0] += args[0] or 0

        def merge(self, accumulator: Any, accumulators: Any) -> None:
            for other in accumulators:
                accumulator[0] += other[0]

        def get_value(self, accumulator: Any) -> Any:
            return accumulator[0]

        def get_result_type(self) -> str:
            return "BIGINT"

        def get_accumulator_type(self) -> str:
            return "ARRAY<BIGINT>"

    class Texts:
        """The values as they come, with the bounds of what was merged."""

        def create_accumulator(self) -> Any:
            return []

        def accumulate(self, accumulator: Any, *args: Any) -> None:
            accumulator.append("/".join(map(str, args)))

        def retract(self, accumulator: Any, *args: Any) -> None:
            accumulator.remove("/".join(map(str, args)))

        def merge(self, accumulator: Any, accumulators: Any) -> None:
            for other in accumulators:
                accumulator.extend(["|", *other])

        def get_value(self, accumulator: Any) -> str:
            return " ".join(accumulator)

        def get_result_type(self) -> str:
            return "STRING"

        def get_accumulator_type(self) -> str:
            return "ARRAY<STRING>"

    class Sorted(Texts):
        """Merged in whatever order, the same."""

        def merge(self, accumulator: Any, accumulators: Any) -> None:
            for other in accumulators:
                accumulator.extend(other)

        def get_value(self, accumulator: Any) -> str:
            return " ".join(sorted(accumulator))

    class Views:
        def create_accumulator(self) -> Any:
            return row(list_view(), map_view())

        def accumulate(self, accumulator: Any, *args: Any) -> None:
            accumulator[0].add(str(args[0]))
            accumulator[1][str(args[0])] = 1

        def merge(self, accumulator: Any, accumulators: Any) -> None:
            for other in accumulators:
                accumulator[0].add_all(list(other[0]))
                for key in other[1].keys():  # noqa: SIM118  (PyFlink's view has no iteration)
                    accumulator[1][key] = 1

        def get_value(self, accumulator: Any) -> str:
            return " ".join(sorted(accumulator[0])) + "; " + " ".join(sorted(accumulator[1].keys()))

    class Both(Average):
        """Takes whole rows."""

        def accumulate(self, accumulator: Any, *args: Any) -> None:
            super().accumulate(accumulator, args[0][1])

        def get_value(self, accumulator: Any) -> Any:
            return row(accumulator[0], accumulator[1])

        def get_result_type(self) -> str:
            return "ROW<s BIGINT, c BIGINT>"

    class Spread:
        """Takes series of pandas."""

        def create_accumulator(self) -> Any:
            return []

        def accumulate(self, accumulator: Any, *args: Any) -> None:
            accumulator.append(args[0].max() - args[0].min())

        def get_value(self, accumulator: Any) -> Any:
            return accumulator[0]

    def ordered(n: Any) -> str:
        return " ".join("-" if value != value else str(int(value)) for value in n)

    class Top:
        def create_accumulator(self) -> Any:
            return []

        def accumulate(self, accumulator: Any, *args: Any) -> None:
            accumulator.append(args[0])

        def emit_value(self, accumulator: Any) -> Any:
            yield row(max(value for value in accumulator if value is not None))

    def made(kind: type, base: Any = a.AggregateFunction) -> Any:
        return type(kind.__name__, (kind, base), {})()

    text = a.DataTypes.STRING()
    views = a.DataTypes.ROW(
        [
            a.DataTypes.FIELD("l", a.DataTypes.LIST_VIEW(text)),
            a.DataTypes.FIELD("m", a.DataTypes.MAP_VIEW(text, a.DataTypes.INT())),
        ]
    )
    udaf = a.udaf
    return {
        "average": udaf(made(Average), name="average"),
        "alone": udaf(made(Alone), name="alone"),
        "onward": udaf(made(Onward), name="onward"),
        "texts": udaf(made(Texts), name="texts"),
        "in_order": udaf(made(Sorted), name="in_order"),
        "views": udaf(made(Views), result_type=text, accumulator_type=views, name="views"),
        "both": udaf(made(Both), name="both"),
        "mean": udaf(lambda n: n.mean(), result_type="DOUBLE", func_type="pandas", name="mean"),
        "size": udaf(lambda n: len(n), result_type="BIGINT", func_type="pandas", name="size"),
        "total": udaf(lambda n, x: n.sum() + x.sum(), result_type="DOUBLE", func_type="pandas", name="total"),
        "ordered": udaf(ordered, result_type="STRING", func_type="pandas", name="ordered"),
        "spread": udaf(made(Spread), result_type="DOUBLE", func_type="pandas", name="spread"),
        "frame": udaf(
            lambda frame: (frame.n.sum(), len(frame)),
            result_type="ROW<s BIGINT, c BIGINT>",
            func_type="pandas",
            name="frame",
        ),
        "top": a.udtaf(
            made(Top, a.TableAggregateFunction),
            result_type="ROW<v BIGINT>",
            accumulator_type="ARRAY<BIGINT>",
            name="top",
        ),
    }


Make: TypeAlias = Callable[[Any, Any], Any]
GENERAL = ("average", "alone", "texts", "in_order", "views")
PANDAS = ("mean", "size", "ordered", "spread")
SPANS = ("tumble", "slide", "slide_once", "slide_panes", "slide_gaps", "session")
COUNTS = ("two", "three_two", "two_three", "one", "four_one")


def windows(a: Any) -> dict[str, Any]:
    """By name, without their names in the program."""

    def s(count: int) -> Any:
        return a.lit(count).seconds

    t, rows = a.col("ts"), a.row_interval
    pt = a.col("pt")
    return {
        "tumble": lambda: a.Tumble.over(s(10)).on(t),
        "slide": lambda: a.Slide.over(s(10)).every(s(5)).on(t),
        "slide_once": lambda: a.Slide.over(s(10)).every(s(10)).on(t),
        "slide_panes": lambda: a.Slide.over(s(15)).every(s(10)).on(t),
        "slide_gaps": lambda: a.Slide.over(s(5)).every(s(10)).on(t),
        "session": lambda: a.Session.with_gap(s(3)).on(t),
        "two": lambda: a.Tumble.over(rows(2)).on(pt),
        "one": lambda: a.Tumble.over(rows(1)).on(pt),
        "three_two": lambda: a.Slide.over(rows(3)).every(rows(2)).on(pt),
        "two_three": lambda: a.Slide.over(rows(2)).every(rows(3)).on(pt),
        "four_one": lambda: a.Slide.over(rows(4)).every(rows(1)).on(pt),
        "rowtime_two": lambda: a.Tumble.over(rows(2)).on(t),
        "rowtime_slide": lambda: a.Slide.over(rows(3)).every(rows(2)).on(t),
        "mixed_slide": lambda: a.Slide.over(rows(3)).every(s(2)).on(pt),
        "zero_rows": lambda: a.Tumble.over(rows(0)).on(pt),
    }


@dataclass(frozen=True)
class Program:
    """``make``: the table of a query over the tables of ``tables``. ``mode``: ``stream``, ``changes``, where the input has updates, or ``batch``."""

    mode: str
    make: Callable[[Any, Any], Any]
    fails: bool = False
    """Whether it is expected to fail, or not to end, when it runs; for the recorder, which runs such ones alone."""


def _query(
    window: str, function: str, *, arguments: tuple[str, ...] = ("n",), keyed: bool = True, bounds: bool = True
) -> Make:
    def make(a: Any, tables: Any) -> Any:
        called = a.call(function, *map(a.col, arguments))
        w = a.col("w")
        edges = [w.start, w.end] if bounds else []
        keys = [a.col("k")] if keyed else []
        made = tables.from_path("v").window(windows(a)[window]().alias("w")).group_by(*keys, w)
        return made.select(*keys, called.alias("r"), *edges)

    return make


def _expression(window: str, *results: Callable[[Any], Any], keyed: bool = True) -> Make:
    def make(a: Any, tables: Any) -> Any:
        keys = [a.col("k")] if keyed else []
        made = tables.from_path("v").window(windows(a)[window]().alias("w")).group_by(*keys, a.col("w"))
        return made.select(*keys, *[result(a) for result in results])

    return make


def _of_rows(window: str, function: str) -> Make:
    def make(a: Any, tables: Any) -> Any:
        made = tables.from_path("v").select(a.col("k"), a.col("n"), a.col("ts"), a.col("pt"))
        grouped = made.window(windows(a)[window]().alias("w")).group_by(a.col("k"), a.col("w"))
        called = grouped.aggregate(functions(a)[function].alias("s", "c"))
        return called.select(a.col("k"), a.col("s"), a.col("c"))

    return make


def _flat(window: str) -> Make:
    def make(a: Any, tables: Any) -> Any:
        grouped = tables.from_path("v").window(windows(a)[window]().alias("w")).group_by(a.col("k"), a.col("w"))
        return grouped.flat_aggregate(a.call("top", a.col("n")).alias("v")).select(a.col("k"), a.col("v"))

    return make


def _sql(query: str) -> Make:
    return lambda a, tables: tables.sql_query(query)


_SQL_WINDOWS = {
    "tumble": "TUMBLE(ts, INTERVAL '10' SECOND)",
    "slide": "HOP(ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND)",
    "session": "SESSION(ts, INTERVAL '3' SECOND)",
}


def programs() -> dict[str, Program]:
    """By name."""
    made: dict[str, Program] = {}
    for window in SPANS:
        for function in GENERAL:
            made[f"{function} {window}"] = Program("stream", _query(window, function))
        for function in ("mean", "ordered"):
            made[f"{function} {window}"] = Program("stream", _query(window, function))
        for function in ("mean", "ordered", "spread"):
            made[f"{function} {window} batch"] = Program("batch", _query(window, function))
    for window in ("tumble", "slide", "session"):
        for function in ("average", "onward", "in_order"):
            made[f"{function} {window} changes"] = Program("changes", _query(window, function))
        made[f"mean {window} changes"] = Program("changes", _query(window, "mean"))
        made[f"average {window} batch"] = Program("batch", _query(window, "average"))
        made[f"in_order {window} without a key"] = Program("stream", _query(window, "in_order", keyed=False))
        made[f"ordered {window} without a key"] = Program("stream", _query(window, "ordered", keyed=False))
        made[f"ordered {window} without a key batch"] = Program("batch", _query(window, "ordered", keyed=False))
        made[f"total {window}"] = Program("stream", _query(window, "total", arguments=("n", "x")))
        made[f"total {window} batch"] = Program("batch", _query(window, "total", arguments=("n", "x")))
        made[f"both of rows {window}"] = Program("stream", _of_rows(window, "both"))
        made[f"frame of rows {window}"] = Program("stream", _of_rows(window, "frame"))
        made[f"frame of rows {window} batch"] = Program("batch", _of_rows(window, "frame"))
        over = _SQL_WINDOWS[window]
        for what, call in {
            "distinct": "in_order(DISTINCT n)",
            "filter": "in_order(n) FILTER (WHERE n > 2)",
            "distinct pandas": "size(DISTINCT n)",
            "filter pandas": "size(n) FILTER (WHERE n > 2)",
        }.items():
            query = f"SELECT k, {call} FROM (SELECT k, MOD(n, 3) AS n, ts FROM v) GROUP BY k, {over}"
            made[f"{what} {window}"] = Program("stream", _sql(query))
        query = f"SELECT k, size(n) FILTER (WHERE n > 2) FROM v GROUP BY k, {over}"
        made[f"filter pandas {window} batch"] = Program("batch", _sql(query))
    for window in COUNTS:
        for function in ("average", "texts", "views", "ordered"):
            made[f"{function} {window}"] = Program("stream", _query(window, function, bounds=False))
    for window in ("two", "three_two"):
        for function in ("average", "ordered", "in_order"):
            made[f"{function} {window} without a key"] = Program(
                "stream", _query(window, function, keyed=False, bounds=False)
            )
        for function in ("average", "onward", "in_order", "mean"):
            made[f"{function} {window} changes"] = Program("changes", _query(window, function, bounds=False))
        for function in ("average", "mean"):
            made[f"{function} {window} batch"] = Program("batch", _query(window, function, bounds=False))
        made[f"count {window} batch"] = Program("batch", _expression(window, lambda a: a.col("n").count))
        made[f"average {window} bounds"] = Program("stream", _query(window, "average"))
        made[f"mean {window} bounds"] = Program("stream", _query(window, "mean"))
        made[f"alone {window}"] = Program("stream", _query(window, "alone", bounds=False))
        made[f"both of rows {window}"] = Program("stream", _of_rows(window, "both"))
        made[f"frame of rows {window}"] = Program("stream", _of_rows(window, "frame"))
        made[f"total {window}"] = Program("stream", _query(window, "total", arguments=("n", "x"), bounds=False))
        made[f"top {window}"] = Program("stream", _flat(window))
    made["top tumble"] = Program("stream", _flat("tumble"))
    every = [lambda a: a.col("n").count, lambda a: a.col("n").sum, lambda a: a.col("n").avg, lambda a: a.col("n").min,
             lambda a: a.col("n").max, lambda a: a.col("n").first_value, lambda a: a.col("n").last_value,
             lambda a: a.col("n").list_agg("+") if hasattr(a.col("n"), "list_agg") else a.col("n").count,
             lambda a: a.col("x").sum, lambda a: a.col("n").sum.distinct]  # fmt: skip
    for window in COUNTS:
        made[f"built in {window}"] = Program("stream", _expression(window, *every[:7], *every[8:]))
    for window in ("two", "three_two"):
        made[f"built in {window} without a key"] = Program(
            "stream", _expression(window, *every[:7], *every[8:], keyed=False)
        )
        made[f"built in {window} changes"] = Program("changes", _expression(window, *every[:5]))
        made[f"built in {window} bounds"] = Program("stream", _expression(window, every[0], lambda a: a.col("w").start))
        made[f"built in {window} proctime"] = Program(
            "stream", _expression(window, every[0], lambda a: a.col("w").proctime)
        )
    for window in ("rowtime_two", "rowtime_slide", "mixed_slide", "zero_rows"):
        made[f"built in {window}"] = Program("stream", _expression(window, every[0]))
        made[f"average {window}"] = Program("stream", _query(window, "average", bounds=False))
        made[f"mean {window}"] = Program("stream", _query(window, "mean", bounds=False))
    for window in ("tumble", "slide", "session", "two"):
        average = lambda a: a.call("in_order", a.col("n"))  # noqa: E731
        for name, at in {"count": 0, "sum": 1, "avg": 2, "min": 3, "first_value": 5}.items():
            made[f"in_order with {name} {window}"] = Program("stream", _expression(window, average, every[at]))
        made[f"in_order with mean {window}"] = Program(
            "stream", _expression(window, average, lambda a: a.call("mean", a.col("n")))
        )
        made[f"mean with count {window}"] = Program(
            "stream", _expression(window, lambda a: a.call("mean", a.col("n")), every[0])
        )
        made[f"mean with size {window}"] = Program(
            "stream", _expression(window, lambda a: a.call("mean", a.col("n")), lambda a: a.call("size", a.col("x")))
        )
        made[f"average with texts {window}"] = Program(
            "stream",
            _expression(window, lambda a: a.call("average", a.col("n")), lambda a: a.call("texts", a.col("x"))),
        )
    fails = {f"alone {window}" for window in ("slide", "slide_once", "slide_panes", "session")}
    fails |= {f"onward {window} changes" for window in ("tumble", "slide", "session", "two", "three_two")}
    fails |= {name for name in made if " with " in name and name.endswith((" slide", " session"))}
    fails |= {f"{function} slide_gaps batch" for function in ("mean", "ordered", "spread")}
    return {name: replace(program, fails=name in fails) for name, program in made.items()}
