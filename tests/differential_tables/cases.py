"""Random statements over small random tables, each from a seed alone.

seed ─▶ Case ─▶ Flink 2.3 (``flink_side.py``): the plan and its changelog ─┐
            └─▶ the plan in one process (``replay``) ──────────────────────┴─▶ the same changes, or the seed is printed
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.differential_tables.expressions import Scope, condition, expression

Cells = Sequence[Sequence[str]]
NULL = "NULL"
"""The text of a null in the files."""
ZONES = ("UTC", "UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata")
DOUBLES = ("NaN", "-0.0", "0.0", "1.5", "-2.125", "Infinity", "-Infinity", "100.0", "0.125", "3.0")
TEXTS = (
    "",
    "a",
    "b",
    "ab",
    "A b",
    "ä€",
    "😀x",
    "%_",
    "12",
    "-7.5",
    " 7 ",
    "true",
    "2024-02-29",
    "x,y",
    'q"q',
    "NaN",
    "1e3",
)
_VALUES: Mapping[str, Callable[[random.Random], str]] = {
    "TINYINT": lambda r: str(r.choice([-128, 127, r.randint(-5, 5)])),
    "SMALLINT": lambda r: str(r.choice([-32768, 32767, r.randint(-9, 9)])),
    "INT": lambda r: str(r.choice([-(2**31), 2**31 - 1, r.randint(-9, 9), r.randint(-9, 9), r.randint(-9, 9)])),
    "BIGINT": lambda r: str(r.choice([-(2**63), 2**63 - 1, r.randint(-99, 99), r.randint(-99, 99), 2**53 + 1])),
    "DOUBLE": lambda r: r.choice(DOUBLES),
    "FLOAT": lambda r: r.choice(("NaN", "-0.0", "0.0", "1.5", "-2.125", "Infinity", "0.1", "16777216")),
    "DECIMAL(10, 2)": lambda r: r.choice(["0.00", "99999999.99", "-99999999.99", f"{r.randint(-99, 99)}.{r.randint(10, 99)}"]),
    "DECIMAL(5, 0)": lambda r: r.choice(["0", "99999", "-1", str(r.randint(-99, 99))]),
    "DECIMAL(38, 10)": lambda r: r.choice(["0", "1.5", "-12345678901234567890.0123456789", "0.0000000001", "7"]),
    "STRING": lambda r: r.choice(TEXTS),
    "BOOLEAN": lambda r: r.choice(["true", "false"]),
    "DATE": lambda r: r.choice(["2024-02-29", "1970-01-01", "1969-12-31", "1900-03-01", "9999-12-31", f"2023-{r.randint(1, 12):02d}-28"]),
    "TIME(0)": lambda r: r.choice(["00:00:00", "23:59:59", f"{r.randint(0, 23):02d}:30:05"]),
    "TIMESTAMP(3)": lambda r: r.choice(
        ["2024-02-29 23:59:59.999", "1969-12-31 23:59:59.001", "2023-03-26 02:30:00.000", "2023-10-29 02:30:00.000", "2024-12-30 00:00:00.000"]
    ),
}  # fmt: skip
_KEYS: Mapping[str, Callable[[random.Random], str]] = {
    "INT": lambda r: str(r.randint(0, 3)),
    "BIGINT": lambda r: str(r.choice([0, 1, 2, -(2**63)])),
    "STRING": lambda r: r.choice(["", "a", "b", "ä"]),
    "BOOLEAN": lambda r: r.choice(["true", "false"]),
    "DATE": lambda r: r.choice(["2024-02-29", "1969-12-31", "1970-01-01"]),
    "DECIMAL(10, 2)": lambda r: r.choice(["0.00", "1.10", "-1.10"]),
    "TINYINT": lambda r: str(r.randint(-1, 1)),
}


@dataclass(frozen=True)
class Table:
    """``columns``: name and type, of which ``id`` comes first and differs from row to row, ``k`` is a key with few values, and ``ts`` the event time."""

    name: str
    columns: tuple[tuple[str, str], ...]
    rows: Cells
    delay_s: int = 30
    """The watermark is so long behind the newest event time."""

    def named(self, *types: str) -> list[str]:
        """The names of its columns, except ``ts``, whose types begin like this."""
        return [name for name, type in self.columns if type.startswith(types) and name != "ts"]

    @property
    def ddl(self) -> str:
        """With ``{path}`` for its file."""
        columns = [f"`{name}` {type}" for name, type in self.columns]
        columns.append(f"WATERMARK FOR `ts` AS `ts` - INTERVAL '{self.delay_s}' SECOND")
        return (
            f"CREATE TABLE {self.name} ({', '.join(columns)}) WITH ('connector' = 'filesystem', 'path' = '{{path}}', "
            f"'format' = 'csv', 'csv.null-literal' = '{NULL}')"
        )


@dataclass(frozen=True)
class Case:
    """``is_exact``: the changelog is the same in every run of Flink; otherwise the rows that it leaves are."""

    seed: int
    kind: str
    tables: tuple[Table, ...]
    query: str
    is_streaming: bool
    is_exact: bool
    options: Mapping[str, str] = field(default_factory=dict)


def case_of(seed: int) -> Case:
    """Returns the case of a seed."""
    r = random.Random(seed)
    key = r.choice(list(_KEYS))
    wide = r.sample(list(_VALUES), r.randint(3, 6))
    tables = tuple(_table(r, name, key, wide) for name in ("t", "u"))
    kind = r.choice(list(_KINDS))
    is_streaming = r.random() < (0.7 if kind not in _STREAMING else 2)
    options = {"table.local-time-zone": r.choice(ZONES)}
    query, is_exact = _KINDS[kind](r, *tables)
    if not is_streaming:  # rows are sorted by key there, and which one comes first is not said
        query = query.replace("FIRST_VALUE", "MIN").replace("LAST_VALUE", "MAX")
    if is_streaming and kind in ("aggregate", "nested", "windows") and r.random() < 0.25:
        options |= _MINI_BATCH
        is_exact = False
        if r.random() < 0.5:
            options["table.optimizer.distinct-agg.split.enabled"] = "true"
    return Case(seed, kind, tables, query, is_streaming, is_exact and is_streaming, options)


_MINI_BATCH = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "1 s",
    "table.exec.mini-batch.size": "5",
    "table.optimizer.agg-phase-strategy": "TWO_PHASE",
}


def _table(r: random.Random, name: str, key: str, wide: Sequence[str]) -> Table:
    columns = [("id", "INT"), ("k", key), ("ts", "TIMESTAMP(3)"), *((f"c{i}", type) for i, type in enumerate(wide))]
    nulls = r.choice([0.0, 0.15, 0.5])
    rows, at = [], 0
    for number in range(r.choice([0, 1, 6, 12, 18]) if r.random() < 0.5 else r.randint(5, 16)):
        at += r.choice([0, 1, 1, 3, 7, 25])
        seconds = max(at - r.choice([0, 0, 0, 4, 20]), 0)
        cells = [
            str(number),
            NULL if r.random() < nulls else _KEYS[key](r),
            f"2024-03-01 00:{seconds // 60:02d}:{seconds % 60:02d}.000",
        ]
        cells += [NULL if r.random() < nulls else _VALUES[type](r) for type in wide]
        rows.append(cells)
    return Table(name, tuple(columns), rows)


# --- queries ---------------------------------------------------------------------------------------


def _scope(table: Table, alias: str = "") -> Scope:
    return Scope(tuple((f"{alias}{name}", type) for name, type in table.columns if name != "ts"))


def _where(r: random.Random, scope: Scope) -> str:
    return f" WHERE {condition(r, scope)}" if r.random() < 0.5 else ""


def _projection(r: random.Random, t: Table, _: Table) -> tuple[str, bool]:
    scope = _scope(t)
    items = [f"{expression(r, scope)} AS e{i}" for i in range(r.randint(2, 6))]
    return f"SELECT id, {', '.join(items)} FROM t{_where(r, scope)}", True


def _aggregates(
    r: random.Random, t: Table, count: int, *, alias: str = "", is_distinct: bool = True, merges: bool = False
) -> list[str]:
    """``merges``: only those that Flink can merge, as sessions and sliding windows do."""
    found = []
    for _ in range(count):
        name = r.choice([name for name, type in t.columns if name != "ts"])
        type = dict(t.columns)[name]
        makers = ["COUNT", "MIN", "MAX", *(() if merges else ("FIRST_VALUE", "LAST_VALUE"))]
        if type.startswith(("TINY", "SMALL", "INT", "BIG", "DECIMAL")):
            makers += ["SUM", "AVG", "SUM", "AVG", "SUM0"]
        if type == "DOUBLE":
            makers += ["SUM", "AVG"]
        if type in ("STRING", "BOOLEAN", "INT"):
            makers += ["COLLECT"] if r.random() < 0.3 else []
        function = r.choice(makers)
        if type == "STRING" and r.random() < 0.3:
            function = "LISTAGG"
        argument = f"{alias}`{name}`"
        distinct = (
            "DISTINCT " if is_distinct and r.random() < 0.3 and function in ("COUNT", "SUM", "AVG", "LISTAGG") else ""
        )
        call = "COUNT(*)" if function == "COUNT" and r.random() < 0.4 else f"{function}({distinct}{argument})"
        if function == "SUM0":
            call = f"SUM({argument})"
        if r.random() < 0.3:
            call += f" FILTER (WHERE {condition(r, _scope(t, alias))})"
        found.append(call)
    return found


def _aggregate(r: random.Random, t: Table, _: Table) -> tuple[str, bool]:
    scope = _scope(t)
    keys = r.choice([[], ["k"], ["k"], ["k", "f"], ["f"]])
    calls = _aggregates(r, t, r.randint(1, 4))
    inner = f"SELECT *, {expression(r, scope)} AS f FROM t{_where(r, scope)}" if "f" in keys else "SELECT * FROM t"
    grouping = f" GROUP BY {', '.join(keys)}" if keys else ""
    if len(keys) == 2 and r.random() < 0.5:
        grouping = f" GROUP BY {r.choice(['GROUPING SETS ((k, f), (k), ())', 'CUBE (k, f)', 'ROLLUP (k, f)'])}"
    having = f" HAVING COUNT(*) {r.choice(['> 1', '<> 2', '< 3'])}" if keys and r.random() < 0.3 else ""
    items = [*keys, *(f"{call} AS a{i}" for i, call in enumerate(calls))]
    return f"SELECT {', '.join(items)} FROM ({inner}){grouping}{having}", True


def _distinct(r: random.Random, t: Table, _: Table) -> tuple[str, bool]:
    names = r.sample([name for name, _ in t.columns if name not in ("id", "ts")], 2)
    return f"SELECT DISTINCT {', '.join(names)}, {expression(r, _scope(t))} AS e FROM t", True


def _join(r: random.Random, t: Table, u: Table) -> tuple[str, bool]:
    how = r.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI", "ANTI", "IN", "NOT IN", "CROSS JOIN"])
    both = Scope(
        (
            *((f"t.{n}", type) for n, type in t.columns if n != "ts"),
            *((f"u.{n}", type) for n, type in u.columns if n != "ts"),
        )
    )
    name = r.choice([name for name, _ in t.columns if name not in ("id", "ts")])
    on = r.choice(
        [
            "t.k = u.k",
            "t.k = u.k",
            "t.id = u.id",
            f"t.{name} = u.{name}",
            "t.k = u.k AND t.id < u.id",
            "t.k IS NOT DISTINCT FROM u.k",
        ]
    )
    if r.random() < 0.3 and how != "FULL JOIN":
        on += f" AND {condition(r, both)}"
    if how in ("SEMI", "ANTI"):
        return (
            f"SELECT id, k, {expression(r, _scope(t))} AS e FROM t WHERE {'NOT ' * (how == 'ANTI')}EXISTS (SELECT 1 FROM u WHERE {on})",
            False,
        )
    if how in ("IN", "NOT IN"):
        return f"SELECT id, k FROM t WHERE k {how} (SELECT k FROM u{_where(r, _scope(u))})", False
    if how == "CROSS JOIN":
        return "SELECT t.id, u.id AS ui, u.k FROM t CROSS JOIN u WHERE u.id < 3", False
    return f"SELECT t.id, u.id AS ui, t.k, u.k AS uk, {expression(r, both)} AS e FROM t {how} u ON {on}", False


def _sets(r: random.Random, t: Table, u: Table) -> tuple[str, bool]:
    names = ", ".join(r.sample([name for name, _ in t.columns if name not in ("id", "ts")], r.randint(1, 2)))
    how = r.choice(["UNION", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"])
    return f"SELECT {names} FROM t{_where(r, _scope(t))} {how} SELECT {names} FROM u", False


def _top(r: random.Random, t: Table, _: Table) -> tuple[str, bool]:
    name = r.choice([name for name, type in t.columns if name not in ("id", "k", "ts") and type != "BOOLEAN"] or ["id"])
    order = f"{name} {r.choice(['ASC', 'DESC'])}{r.choice(['', ' NULLS LAST', ' NULLS FIRST'])}, id {r.choice(['ASC', 'DESC'])}"
    if r.random() < 0.4:
        return (
            f"SELECT id, {name} AS x, k FROM t ORDER BY {order} LIMIT {r.randint(1, 5)}{r.choice(['', ' OFFSET 2'])}",
            True,
        )
    rank = r.choice(["rn <= 2", "rn = 1", "rn <= 3", "rn BETWEEN 2 AND 3"])
    shown = r.choice([", rn", ""])
    source = r.choice(["t", "t", f"(SELECT k, id, MAX(id) AS m, MIN({name}) AS {name} FROM t GROUP BY k, id)"])
    return (
        f"SELECT id, k, {name} AS x{shown} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY {order}) AS rn FROM {source}) WHERE {rank}",
        True,
    )


def _deduplicate(r: random.Random, t: Table, _: Table) -> tuple[str, bool]:
    return (
        f"SELECT id, k FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts {r.choice(['ASC', 'DESC'])}) AS rn FROM t) WHERE rn = 1",
        False,
    )


def _windows(r: random.Random, t: Table, _: Table) -> tuple[str, bool]:
    window = r.choice(
        [
            "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)",
            "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '3' SECOND)",
            "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '15' SECOND)",
            "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '20' SECOND, INTERVAL '60' SECOND)",
            "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '30' SECOND)",
        ]
    )
    calls = _aggregates(r, t, r.randint(1, 3), merges=True)
    key = r.choice(["k, ", ""])
    items = ", ".join(f"{call} AS a{i}" for i, call in enumerate(calls))
    return (
        f"SELECT {key}window_start, window_end, {items} FROM TABLE({window}) GROUP BY {key}window_start, window_end",
        False,
    )


def _sessions(r: random.Random, t: Table, _: Table) -> tuple[str, bool]:
    key = r.choice(["k", ""])
    by = " PARTITION BY k" if key else ""
    items = ", ".join(
        f"{call} AS a{i}" for i, call in enumerate(_aggregates(r, t, r.randint(1, 3), is_distinct=False, merges=True))
    )
    window = f"SESSION(TABLE t{by}, DESCRIPTOR(ts), INTERVAL '{r.choice([3, 8])}' SECOND)"
    comma = f"{key}, " if key else ""
    return (
        f"SELECT {comma}window_start, window_end, {items} FROM TABLE({window}) GROUP BY {comma}window_start, window_end",
        False,
    )


def _legacy_windows(r: random.Random, t: Table, _: Table) -> tuple[str, bool]:
    group, function = r.choice(
        [
            ("TUMBLE(ts, INTERVAL '10' SECOND)", "TUMBLE"),
            ("HOP(ts, INTERVAL '5' SECOND, INTERVAL '15' SECOND)", "HOP"),
            ("SESSION(ts, INTERVAL '5' SECOND)", "SESSION"),
        ]
    )
    start, end = (group.replace(function, f"{function}_{what}", 1) for what in ("START", "END"))
    items = ", ".join(
        f"{call} AS a{i}" for i, call in enumerate(_aggregates(r, t, r.randint(1, 3), is_distinct=False, merges=True))
    )
    key = r.choice(["k, ", ""])
    return f"SELECT {key}{start} AS s, {end} AS e, {items} FROM t GROUP BY {key}{group}", False


def _over(r: random.Random, t: Table, _: Table) -> tuple[str, bool]:
    frame = r.choice(
        [
            "",
            "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
            "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
            "RANGE BETWEEN INTERVAL '10' SECOND PRECEDING AND CURRENT ROW",
            "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
        ]
    )
    by = r.choice(["PARTITION BY k ", ""])
    calls = [
        c
        for c in _aggregates(r, t, r.randint(1, 3), is_distinct=False)
        if "FILTER" not in c and "COLLECT" not in c and "LISTAGG" not in c
    ]
    calls = calls or ["COUNT(*)"]
    items = ", ".join(f"{call} OVER w AS a{i}" for i, call in enumerate(calls))
    return f"SELECT id, k, {items} FROM t WINDOW w AS ({by}ORDER BY ts {frame})", False


def _interval_join(r: random.Random, t: Table, u: Table) -> tuple[str, bool]:
    how = r.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
    bounds = r.choice(
        [
            "u.ts - INTERVAL '5' SECOND AND u.ts + INTERVAL '5' SECOND",
            "u.ts AND u.ts + INTERVAL '10' SECOND",
            "u.ts - INTERVAL '8' SECOND AND u.ts",
        ]
    )
    return f"SELECT t.id, u.id AS ui, t.k FROM t {how} u ON t.k = u.k AND t.ts BETWEEN {bounds}", False


def _nested(r: random.Random, t: Table, u: Table) -> tuple[str, bool]:
    first, second = (", ".join(f"{c} AS a{i}" for i, c in enumerate(_aggregates(r, x, 2))) for x in (t, u))
    inner = f"SELECT k, COUNT(*) AS n, {first} FROM t GROUP BY k"
    other = f"SELECT k, COUNT(*) AS n, {second} FROM u GROUP BY k"
    return r.choice(
        [
            (f"SELECT n, COUNT(*) AS m, MAX(k) AS x, MIN(k) AS y FROM ({inner}) GROUP BY n", True),
            (
                f"SELECT COUNT(*) AS c, SUM(n) AS s, MAX(n) AS x, AVG(n) AS av, COUNT(DISTINCT n) AS d FROM ({inner})",
                True,
            ),
            (
                f"SELECT p.k, p.n, q.n AS qn FROM ({inner}) p {r.choice(['LEFT ', 'FULL ', ''])}JOIN ({other}) q ON p.k = q.k",
                False,
            ),
            (f"SELECT id, k FROM t WHERE id {r.choice(['>', '<='])} (SELECT AVG(id) FROM u)", False),
            (f"SELECT k, n FROM ({inner}) UNION ALL SELECT k, n FROM ({other})", False),
            (
                f"SELECT k, n, COUNT(*) AS c FROM (SELECT k, n FROM ({inner}) UNION ALL SELECT k, n FROM ({other})) GROUP BY k, n",
                False,
            ),
            (
                "SELECT k, SUM(id) FILTER (WHERE id > 1) AS f, COUNT(DISTINCT id) AS d FROM (SELECT k, MAX(id) AS id FROM t GROUP BY k, id) GROUP BY k",
                True,
            ),
        ]
    )


def _unnest(r: random.Random, t: Table, _: Table) -> tuple[str, bool]:
    scope = _scope(t)
    value = expression(r, scope, r.choice(["INT", "STRING", "BIGINT"]))
    how = r.choice(["CROSS JOIN", "CROSS JOIN", "LEFT JOIN"])
    on = " ON TRUE" if how == "LEFT JOIN" else ""
    return f"SELECT id, v FROM t {how} UNNEST(ARRAY[{value}, {value}]) AS x (v){on}{_where(r, scope)}", False


_KINDS: Mapping[str, Callable[[random.Random, Table, Table], tuple[str, bool]]] = {
    "projection": _projection,
    "projections": _projection,
    "values": _projection,
    "aggregate": _aggregate,
    "aggregates": _aggregate,
    "distinct": _distinct,
    "join": _join,
    "sets": _sets,
    "top": _top,
    "deduplicate": _deduplicate,
    "windows": _windows,
    "sessions": _sessions,
    "legacy windows": _legacy_windows,
    "over": _over,
    "interval join": _interval_join,
    "nested": _nested,
    "unnest": _unnest,
}
_STREAMING = ("top", "deduplicate", "sessions", "legacy windows", "over", "interval join")
