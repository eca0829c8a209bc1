"""Streams as tables and tables as streams: pieces of a program, for PyFlink and for tidegate."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

_MODULES = ("common", "datastream", "datastream.functions", "common.watermark_strategy", "table", "table.expressions")


def api(root: str) -> Any:
    """The names of ``pyflink`` or ``tidegate`` that the pieces use."""
    found = SimpleNamespace()
    for module in _MODULES:
        for name, value in vars(importlib.import_module(f"{root}.{module}")).items():
            if not name.startswith("_"):
                setattr(found, name, value)
    return found


# --- types of streams ----------------------------------------------------------------------------------------------


def kinds(a: Any) -> dict[str, tuple[Any, Any]]:
    """By name: a type of streams and a value of it."""
    t, row = a.Types, a.Row
    return {
        "STRING": (t.STRING(), "a"),
        "BOOLEAN": (t.BOOLEAN(), True),
        "BYTE": (t.BYTE(), 1),
        "SHORT": (t.SHORT(), 2),
        "INT": (t.INT(), 3),
        "LONG": (t.LONG(), 4),
        "FLOAT": (t.FLOAT(), 1.5),
        "DOUBLE": (t.DOUBLE(), 2.5),
        "CHAR": (t.CHAR(), "c"),
        "BIG_INT": (t.BIG_INT(), 12345678901234567890123),
        "BIG_DEC": (t.BIG_DEC(), Decimal("1.50")),
        "INSTANT": (t.INSTANT(), a.Instant(1500, 123000000)),
        "SQL_DATE": (t.SQL_DATE(), date(2021, 3, 4)),
        "SQL_TIME": (t.SQL_TIME(), time(1, 2, 3)),
        "SQL_TIMESTAMP": (t.SQL_TIMESTAMP(), datetime(2021, 3, 4, 5, 6, 7, 123000)),
        "PRIMITIVE_ARRAY(BYTE)": (t.PRIMITIVE_ARRAY(t.BYTE()), b"ab"),
        "PRIMITIVE_ARRAY(INT)": (t.PRIMITIVE_ARRAY(t.INT()), [1, 2]),
        "PRIMITIVE_ARRAY(DOUBLE)": (t.PRIMITIVE_ARRAY(t.DOUBLE()), [1.5]),
        "BASIC_ARRAY(STRING)": (t.BASIC_ARRAY(t.STRING()), ["a", None]),
        "BASIC_ARRAY(INT)": (t.BASIC_ARRAY(t.INT()), [1, 2]),
        "OBJECT_ARRAY(ROW)": (t.OBJECT_ARRAY(t.ROW([t.INT()])), [row(1)]),
        "OBJECT_ARRAY(STRING)": (t.OBJECT_ARRAY(t.STRING()), ["a", None]),
        "LIST(INT)": (t.LIST(t.INT()), [1, 2]),
        "LIST(ROW)": (t.LIST(t.ROW([t.INT()])), [row(1)]),
        "MAP": (t.MAP(t.STRING(), t.INT()), {"a": 1}),
        "ROW": (t.ROW([t.INT(), t.STRING()]), row(1, "a")),
        "ROW_NAMED": (t.ROW_NAMED(["a", "b"], [t.INT(), t.STRING()]), row(1, "a")),
        "TUPLE": (t.TUPLE([t.INT(), t.STRING()]), (1, "a")),
        "PICKLED": (t.PICKLED_BYTE_ARRAY(), {"x": 1}),
    }


def forms(a: Any, kind: Any) -> dict[str, Any]:
    """By name: a type, and types that have it in them."""
    t = a.Types
    return {
        "alone": kind,
        "in row": t.ROW_NAMED(["x", "y"], [kind, t.LONG()]),
        "in tuple": t.TUPLE([kind, t.LONG()]),
        "nested": t.ROW_NAMED(["n"], [t.ROW_NAMED(["x"], [kind])]),
    }


def columns(table: Any) -> str:
    """Names and types of a table's columns."""
    found = table._j_table.getResolvedSchema().getColumns()
    return ", ".join(f"{column.getName()} {column.getDataType()}" for column in found)


def described(value: Any) -> str:
    """A value with its class, and the classes of what is in it."""
    if hasattr(value, "get_row_kind"):
        return f"Row{value.get_row_kind()}{value._fields}({', '.join(map(described, value))})"
    if type(value) is list:
        return f"[{', '.join(map(described, value))}]"
    if type(value) is tuple:
        return f"({', '.join(map(described, value))})"
    if type(value) is dict:
        return "{" + ", ".join(f"{described(key)}: {described(item)}" for key, item in value.items()) + "}"
    return f"{type(value).__name__} {value!r}"


# --- columns of tables ---------------------------------------------------------------------------------------------

SQL = {
    "tiny": "CAST(1 AS TINYINT)",
    "small": "CAST(2 AS SMALLINT)",
    "int": "3",
    "big": "CAST(4 AS BIGINT)",
    "bool": "TRUE",
    "null": "CAST(NULL AS INT)",
    "float": "CAST(1.1 AS FLOAT)",
    "double": "CAST(1.1 AS DOUBLE)",
    "nan": "CAST('NaN' AS DOUBLE)",
    "dec": "CAST(1.10 AS DECIMAL(10, 2))",
    "dec38": "CAST(7 AS DECIMAL(38,18))",
    "dec0": "CAST(1200 AS DECIMAL(10, 0))",
    "chr": "CAST('ab' AS CHAR(4))",
    "txt": "'x'",
    "byt": "CAST(x'00ff10' AS BYTES)",
    "bin": "CAST(x'61' AS BINARY(1))",
    "dat": "DATE '2021-03-04'",
    "tim": "TIME '01:02:03'",
    "ts": "TIMESTAMP '2021-03-04 05:06:07.123'",
    "ts0": "TIMESTAMP '2021-03-04 05:06:07'",
    "ts6": "TIMESTAMP '2021-03-04 05:06:07.123456'",
    "ts9": "CAST('2021-03-04 05:06:07.123456789' AS TIMESTAMP(9))",
    "ltz": "TO_TIMESTAMP_LTZ(1500, 3)",
    "ltz9": "CAST(TIMESTAMP '2021-03-04 05:06:07.123456' AS TIMESTAMP_LTZ(9))",
    "rw": "ROW(1, 'a', CAST(NULL AS STRING))",
    "rowrow": "ROW(ROW(1.5E0))",
    "rowts": "ROW(TIMESTAMP '2021-03-04 05:06:07.123', TO_TIMESTAMP_LTZ(1500, 3), DATE '2021-03-04', TIME '01:02:03')",
    "namedrow": "CAST(ROW(1, 'a') AS ROW<x INT, y STRING>)",
    "nullrow": "CAST(NULL AS ROW<x INT, y STRING>)",
    "arr": "ARRAY[1, 2, CAST(NULL AS INT)]",
    "arrs": "ARRAY['a', 'b']",
    "arrd": "ARRAY[1.5E0]",
    "arrnn": "ARRAY[1, 2]",
    "arrarr": "ARRAY[ARRAY[1]]",
    "arrayrow": "ARRAY[ROW(1, 'a')]",
    "arrts": "ARRAY[TIMESTAMP '2021-03-04 05:06:07.123']",
    "arrltz": "ARRAY[TO_TIMESTAMP_LTZ(1500, 3)]",
    "arrdec": "ARRAY[CAST(1.10 AS DECIMAL(10, 2))]",
    "mp": "MAP['a', 1, 'b', CAST(NULL AS INT)]",
    "mapts": "MAP[1, TIMESTAMP '2021-03-04 05:06:07.123']",
    "maprow": "MAP['k', ROW(1, 'a')]",
    "maparr": "MAP['k', ARRAY[1]]",
    "pt": "PROCTIME()",
}
"""By name: an expression, which becomes a column of that name."""


# --- programs ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Program:
    """``make`` makes a stream, or a table whose columns are asked for, of the table environment and a stream of ``records``. ``fails``: when its job
    runs, it does not come to its end."""

    make: Callable[[Any, Any], Any]
    records: tuple[Any, ...]
    type: Any
    fails: bool = False


def programs(a: Any) -> dict[str, Program]:
    """By name."""
    t, row, schema, col, data_types = a.Types, a.Row, a.Schema, a.col, a.DataTypes
    kind, mode = a.RowKind, a.ChangelogMode
    typed = t.ROW_NAMED(["id", "name", "ts"], [t.LONG(), t.STRING(), t.INSTANT()])
    rows = (row(1, "a", a.Instant(1, 500000000)), row(2, None, a.Instant(2, 0)))
    pair = t.ROW_NAMED(["name", "n"], [t.STRING(), t.INT()])
    inserts = (row("a", 1), row("b", 5), row("a", 3))
    changes = (
        a.Row.of_kind(kind.INSERT, "a", 1),
        a.Row.of_kind(kind.UPDATE_BEFORE, "a", 1),
        a.Row.of_kind(kind.UPDATE_AFTER, "a", 10),
        a.Row.of_kind(kind.DELETE, "a", 10),
    )

    def seconds_of_id(_: Any, value: Any, record_timestamp: int) -> int:
        return int(value[0]) * 1000

    def with_timestamp(_: Any, value: Any, ctx: Any) -> Any:
        yield f"{described(value)} at {ctx.timestamp()}"

    def with_watermark(_: Any, value: Any, ctx: Any) -> Any:
        yield f"{described(value)} behind {ctx.timer_service().current_watermark()}"

    # Their bases are those of the package that runs.
    by_id = type("ById", (a.TimestampAssigner,), {"extract_timestamp": seconds_of_id})
    stamper = type("Stamped", (a.ProcessFunction,), {"process_element": with_timestamp})
    watcher = type("Watcher", (a.ProcessFunction,), {"process_element": with_watermark})

    def timed(stream: Any) -> Any:
        strategy = a.WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(by_id())
        return stream.assign_timestamps_and_watermarks(strategy)

    def stamped(tables: Any, table: Any) -> Any:
        return tables.to_data_stream(table).process(stamper(), t.STRING())

    def built(**given: Any) -> Any:
        made = schema.new_builder()
        for name, type in given.items():
            made = made.column(name, type)
        return made.build()

    def table_of_times(tables: Any, stream: Any) -> Any:
        """A table with the columns name, n and rt, which is second n; watermarks are a second earlier."""
        columns = schema.new_builder().column("name", "STRING").column("n", "INT")
        columns = columns.column_by_expression("rt", "TO_TIMESTAMP_LTZ(n * 1000, 3)")
        return tables.from_data_stream(stream, columns.watermark("rt", "rt - INTERVAL '1' SECOND").build())

    def selected(tables: Any, stream: Any, clauses: str) -> Any:
        tables.create_temporary_view("v", table_of_times(tables, stream))
        return tables.to_data_stream(tables.sql_query(f"SELECT name, n, {clauses}"))

    def summed(tables: Any, stream: Any) -> Any:
        tables.create_temporary_view("v", stream)
        return tables.sql_query("SELECT name, SUM(n) AS s FROM v GROUP BY name")

    rowtime = (
        schema.new_builder()
        .column_by_metadata("rt", "TIMESTAMP_LTZ(3)", "rowtime")
        .watermark("rt", "SOURCE_WATERMARK()")
    )
    keyed = built(name="STRING NOT NULL", n="INT")
    found: dict[str, Callable[[Any, Any], Any]] = {
        "of a stream": lambda e, s: e.to_data_stream(e.from_data_stream(s)),
        "columns in another order": lambda e, s: e.to_data_stream(
            e.from_data_stream(s, built(name="STRING", id="BIGINT"))
        ),
        "columns in another order, declared": lambda e, s: e.from_data_stream(s, built(name="STRING", id="BIGINT")),
        "a type by DataTypes": lambda e, s: e.from_data_stream(s, built(id=data_types.BIGINT().not_null())),
        "fewer digits": lambda e, s: e.to_data_stream(e.from_data_stream(s, built(ts="TIMESTAMP_LTZ(3)"))),
        "a computed column": lambda e, s: e.to_data_stream(
            e.from_data_stream(s, schema.new_builder().column_by_expression("c", "id + 1").build()).select(
                col("id"), col("c")
            )
        ),
        "a computed column, declared": lambda e, s: e.from_data_stream(
            s, schema.new_builder().column_by_expression("c", "id + 1").column_by_expression("p", "PROCTIME()").build()
        ),
        "timestamps": lambda e, s: stamped(
            e, e.from_data_stream(timed(s), rowtime.build()).select(col("id"), col("rt"))
        ),
        "timestamps, declared": lambda e, s: e.from_data_stream(timed(s), rowtime.build()),
        "a watermark of a field": lambda e, s: e.from_data_stream(
            s,
            schema.new_builder().column("ts", "TIMESTAMP_LTZ(3)").watermark("ts", "ts - INTERVAL '1' SECOND").build(),
        ),
        "a watermark of a field, run": lambda e, s: stamped(
            e,
            e.from_data_stream(
                s,
                schema.new_builder()
                .column("ts", "TIMESTAMP_LTZ(3)")
                .watermark("ts", "ts - INTERVAL '1' SECOND")
                .build(),
            ),
        ),
        "a watermark of too many digits": lambda e, s: e.from_data_stream(
            s, schema.new_builder().watermark("ts", "ts - INTERVAL '1' SECOND").build()
        ),
        "a key that may be null": lambda e, s: e.from_data_stream(s, schema.new_builder().primary_key("id").build()),
        "a field that is not there": lambda e, s: e.from_data_stream(s, built(nam="STRING")),
        "names": lambda e, s: e.from_data_stream(s, col("name"), col("id")),
        "names, run": lambda e, s: e.to_data_stream(e.from_data_stream(s, col("name"), col("id"))),
        "other names": lambda e, s: e.from_data_stream(s, col("name").alias("n"), col("ts").alias("t")),
        "positions": lambda e, s: e.from_data_stream(s, col("a"), col("b"), col("c")),
        "fewer positions": lambda e, s: e.to_data_stream(e.from_data_stream(s, col("a"), col("b"))),
        "too many positions": lambda e, s: e.from_data_stream(s, col("a"), col("b"), col("c"), col("d")),
        "a row time": lambda e, s: e.from_data_stream(timed(s), col("id"), col("name"), col("ts"), col("rt").rowtime),
        "a row time, run": lambda e, s: stamped(e, e.from_data_stream(timed(s), col("id"), col("rt").rowtime)),
        "a row time by position": lambda e, s: e.from_data_stream(
            timed(s), col("a"), col("b"), col("c"), col("rt").rowtime
        ),
        "a row time of a field": lambda e, s: e.from_data_stream(timed(s), col("id").rowtime, col("name")),
        "a row time of a text": lambda e, s: e.from_data_stream(timed(s), col("id"), col("name").rowtime),
        "two row times": lambda e, s: e.from_data_stream(timed(s), col("id"), col("x").rowtime, col("y").rowtime),
        "a processing time": lambda e, s: e.from_data_stream(s, col("id"), col("name"), col("ts"), col("p").proctime),
        "a processing time in front": lambda e, s: e.from_data_stream(s, col("p").proctime, col("id")),
        "a name that is not there": lambda e, s: e.from_data_stream(s, col("id"), col("zzz")),
        "one name twice": lambda e, s: e.from_data_stream(s, col("id"), col("id")),
        "a call": lambda e, s: e.from_data_stream(s, col("id") + 1),
        "a view": lambda e, s: (
            e.create_temporary_view("w", s, built(id="BIGINT", name="STRING")),
            e.to_data_stream(e.sql_query("SELECT name, id * 2 AS d FROM w")),
        )[1],
        "a view of names": lambda e, s: (
            e.create_temporary_view("w", s, col("a"), col("b"), col("c")),
            e.sql_query("SELECT c, a FROM w"),
        )[1],
        "a view whose name is taken": lambda e, s: (
            e.create_temporary_view("w", s),
            e.create_temporary_view("w", s),
        )[1],
        "a stream of a table of a stream": lambda e, s: e.from_data_stream(
            e.to_data_stream(e.from_data_stream(s).select(col("id"), col("name").upper_case.alias("u")))
        ),
        "append of rows": lambda e, s: e.to_append_stream(
            e.from_data_stream(s).select(col("id"), col("name")), t.ROW([t.LONG(), t.STRING()])
        ),
        "append of tuples": lambda e, s: e.to_append_stream(
            e.from_data_stream(s).select(col("id"), col("name")).where(col("id") == 1), t.TUPLE([t.LONG(), t.STRING()])
        ),
        "append of values": lambda e, s: e.to_append_stream(e.from_data_stream(s).select(col("id")), t.LONG()),
        "append of another type": lambda e, s: e.to_append_stream(e.from_data_stream(s).select(col("id")), t.STRING()),
        "append of too few": lambda e, s: e.to_append_stream(e.from_data_stream(s), t.ROW([t.LONG()])),
        "objects": lambda e, s: e.from_data_stream(s.map(lambda value: value)),
        "objects by name": lambda e, s: e.from_data_stream(s.map(lambda value: value), col("x")),
        "objects with a schema": lambda e, s: e.from_data_stream(
            s.map(lambda value: value), schema.new_builder().column_by_expression("c", "1").build()
        ),
        "objects declared as a text": lambda e, s: e.from_data_stream(s.map(lambda value: "x"), built(f0="STRING")),
        "a field of objects": lambda e, s: e.from_data_stream(s.map(lambda value: value), built(id="BIGINT")),
        "filtered": lambda e, s: e.to_data_stream(e.from_data_stream(s).select(col("id"), col("name"))).filter(
            lambda value: value.id > 1
        ),
    }
    made = {name: Program(make, rows, typed) for name, make in found.items()}
    changing: dict[str, tuple[Callable[[Any, Any], Any], tuple[Any, ...]]] = {
        "changes": (lambda e, s: e.to_changelog_stream(e.from_changelog_stream(s)), changes),
        "changes, declared": (lambda e, s: e.from_changelog_stream(s), changes),
        "changes by a key": (
            lambda e, s: e.from_changelog_stream(
                s, schema.new_builder().from_schema(keyed).primary_key("name").build(), mode.upsert()
            ),
            changes,
        ),
        "changes by no key": (
            lambda e, s: e.to_changelog_stream(e.from_changelog_stream(s, keyed, mode.upsert())),
            changes,
        ),
        "inserts that are changes": (
            lambda e, s: e.to_changelog_stream(e.from_changelog_stream(s, keyed, mode.insert_only())),
            changes,
        ),
        "sums": (lambda e, s: e.to_changelog_stream(summed(e, s)), inserts),
        "sums as inserts": (lambda e, s: e.to_data_stream(summed(e, s)), inserts),
        "sums appended": (lambda e, s: e.to_append_stream(summed(e, s), pair), inserts),
        "sums by a key": (
            lambda e, s: e.to_changelog_stream(
                summed(e, s),
                schema.new_builder().column("name", "STRING NOT NULL").column("s", "INT").primary_key("name").build(),
                mode.upsert(),
            ),
            inserts,
        ),
        "sums of another type": (
            lambda e, s: e.to_changelog_stream(summed(e, s), built(name="STRING", s="STRING")),
            inserts,
        ),
        "sums retracted": (lambda e, s: e.to_retract_stream(summed(e, s), pair), inserts),
        "sums retracted as tuples": (
            lambda e, s: e.to_retract_stream(summed(e, s), t.TUPLE([t.STRING(), t.INT()])),
            inserts,
        ),
        "sums retracted as too few": (lambda e, s: e.to_retract_stream(summed(e, s), t.ROW([t.STRING()])), inserts),
        "sums retracted as longs": (
            lambda e, s: e.to_retract_stream(summed(e, s), t.ROW([t.STRING(), t.LONG()])),
            inserts,
        ),
    }
    made |= {
        name: Program(make, records, pair, name == "inserts that are changes")
        for name, (make, records) in changing.items()
    }
    timely: dict[str, Callable[[Any, Any], Any]] = {
        "watermarks of a table": lambda e, s: e.to_data_stream(table_of_times(e, s)).process(watcher(), t.STRING()),
        "watermarks behind a filter": lambda e, s: selected(e, s, "rt FROM v WHERE n <> 4").process(
            watcher(), t.STRING()
        ),
        "current watermarks": lambda e, s: selected(e, s, "CURRENT_WATERMARK(rt) FROM v"),
        "rows that are not late": lambda e, s: selected(
            e, s, "rt FROM v WHERE CURRENT_WATERMARK(rt) IS NULL OR rt > CURRENT_WATERMARK(rt)"
        ),
        "sums of current watermarks": lambda e, s: selected(
            e,
            s,
            "w FROM (SELECT 'all' AS name, COUNT(*) AS n, MAX(CURRENT_WATERMARK(rt)) AS w, window_end "
            "FROM TABLE(TUMBLE(TABLE v, DESCRIPTOR(rt), INTERVAL '5' SECOND)) GROUP BY window_start, window_end)",
        ),
    }
    moments = (row("a", 1), row("b", 5), row("a", 3), row("a", 4), row("c", 9), row("b", 8), row("b", 7))
    made |= {name: Program(make, moments, pair) for name, make in timely.items()}
    numbers: dict[str, Callable[[Any, Any], Any]] = {
        "numbers": lambda e, s: e.to_data_stream(e.from_data_stream(s)),
        "numbers by name": lambda e, s: e.from_data_stream(s, col("x")),
        "numbers by two names": lambda e, s: e.from_data_stream(s, col("x"), col("y")),
        "numbers with a row time": lambda e, s: e.from_data_stream(s, col("x"), col("t").rowtime),
        "numbers with a processing time": lambda e, s: e.from_data_stream(s, col("x"), col("p").proctime),
        "numbers with a schema": lambda e, s: e.from_data_stream(s, built(f0="DECIMAL(10, 2)")),
        "numbers with another name": lambda e, s: e.from_data_stream(s, built(x="INT")),
    }
    made |= {name: Program(make, (1, 2), t.INT()) for name, make in numbers.items()}
    for name, (given, _) in kinds(a).items():
        is_row = name in ("ROW", "ROW_NAMED", "TUPLE")
        one = (col("x"), col("y")) if is_row else (col("x"),)
        made[f"{name} by name, alone"] = Program(_named(given, one), (1,), t.INT())
        pair_of = t.ROW_NAMED(["x", "y"], [given, t.LONG()])
        made[f"{name} by name, in row"] = Program(_named(pair_of, (col("x"), col("y"))), (1,), t.INT())
    return made


def _named(type: Any, names: tuple[Any, ...]) -> Callable[[Any, Any], Any]:
    """The table of a stream of the type, with these names of its fields."""
    return lambda tables, stream: tables.from_data_stream(stream.map(lambda value: value, type), *names)
