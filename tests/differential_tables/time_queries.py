"""Random queries over event time."""

from __future__ import annotations

import random

from tests.differential_tables.queries import aggregates
from tests.differential_tables.tables import Table


def windows(r: random.Random, t: Table, _: Table) -> tuple[str, bool]:
    window = r.choice(
        [
            "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)",
            "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '3' SECOND)",
            "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '15' SECOND)",
            "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '20' SECOND, INTERVAL '60' SECOND)",
            "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '30' SECOND)",
        ]
    )
    calls = aggregates(r, t, r.randint(1, 3), merges=True)
    key = r.choice(["k, ", ""])
    items = ", ".join(f"{call} AS a{i}" for i, call in enumerate(calls))
    return (
        f"SELECT {key}window_start, window_end, {items} FROM TABLE({window}) GROUP BY {key}window_start, window_end",
        False,
    )


def sessions(r: random.Random, t: Table, _: Table) -> tuple[str, bool]:
    key = r.choice(["k", ""])
    by = " PARTITION BY k" if key else ""
    items = ", ".join(
        f"{call} AS a{i}" for i, call in enumerate(aggregates(r, t, r.randint(1, 3), is_distinct=False, merges=True))
    )
    window = f"SESSION(TABLE t{by}, DESCRIPTOR(ts), INTERVAL '{r.choice([3, 8])}' SECOND)"
    comma = f"{key}, " if key else ""
    return (
        f"SELECT {comma}window_start, window_end, {items} FROM TABLE({window}) GROUP BY {comma}window_start, window_end",
        False,
    )


def legacy_windows(r: random.Random, t: Table, _: Table) -> tuple[str, bool]:
    group, function = r.choice(
        [
            ("TUMBLE(ts, INTERVAL '10' SECOND)", "TUMBLE"),
            ("HOP(ts, INTERVAL '5' SECOND, INTERVAL '15' SECOND)", "HOP"),
            ("SESSION(ts, INTERVAL '5' SECOND)", "SESSION"),
        ]
    )
    start, end = (group.replace(function, f"{function}_{what}", 1) for what in ("START", "END"))
    items = ", ".join(
        f"{call} AS a{i}" for i, call in enumerate(aggregates(r, t, r.randint(1, 3), is_distinct=False, merges=True))
    )
    key = r.choice(["k, ", ""])
    return f"SELECT {key}{start} AS s, {end} AS e, {items} FROM t GROUP BY {key}{group}", False


def over(r: random.Random, t: Table, _: Table) -> tuple[str, bool]:
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
        for c in aggregates(r, t, r.randint(1, 3), is_distinct=False)
        if "FILTER" not in c and "COLLECT" not in c and "LISTAGG" not in c
    ]
    calls = calls or ["COUNT(*)"]
    items = ", ".join(f"{call} OVER w AS a{i}" for i, call in enumerate(calls))
    return f"SELECT id, k, {items} FROM t WINDOW w AS ({by}ORDER BY ts {frame})", False


def interval_join(r: random.Random, t: Table, u: Table) -> tuple[str, bool]:
    how = r.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
    bounds = r.choice(
        [
            "u.ts - INTERVAL '5' SECOND AND u.ts + INTERVAL '5' SECOND",
            "u.ts AND u.ts + INTERVAL '10' SECOND",
            "u.ts - INTERVAL '8' SECOND AND u.ts",
        ]
    )
    return f"SELECT t.id, u.id AS ui, t.k FROM t {how} u ON t.k = u.k AND t.ts BETWEEN {bounds}", False


def windows_again(r: random.Random, t: Table, _: Table) -> tuple[str, bool]:
    """Windows of the results of windows, sets of keys in windows, and windows alone."""
    inner = (
        "SELECT k, window_start AS ws, window_end AS we, window_time AS wt, COUNT(*) AS n, MAX(id) AS m FROM "
        "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY k, window_start, window_end, window_time"
    )
    window = f"{r.choice(['TUMBLE', 'CUMULATE'])}(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '30' SECOND)"
    window = window if "CUMULATE" in window else "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)"
    calls = ", ".join(f"{call} AS a{i}" for i, call in enumerate(aggregates(r, t, 2, is_distinct=False, merges=True)))
    counted = (
        f"SELECT k, window_start, window_end, COUNT(*) AS n FROM TABLE({window}) GROUP BY k, window_start, window_end"
    )
    sets = r.choice(["GROUPING SETS ((k), ())", "CUBE (k)", "ROLLUP (k)"])
    return r.choice(
        [
            (
                f"WITH a AS ({inner}) SELECT window_start, window_end, SUM(n) AS s, COUNT(DISTINCT k) AS d, MIN(m) AS x FROM "
                f"TABLE(TUMBLE(TABLE a, DESCRIPTOR(wt), INTERVAL '20' SECOND)) GROUP BY window_start, window_end",
                False,
            ),
            (f"SELECT k, window_start, window_end, {calls} FROM TABLE({window}) GROUP BY window_start, window_end, {sets}", False),
            (f"SELECT id, k, window_start, window_end, window_time FROM TABLE({window})", False),
            (f"SELECT k, COUNT(*) AS c, {calls} FROM TABLE({window}) GROUP BY k, window_end, window_start HAVING COUNT(*) > 1", False),
            (f"SELECT window_start, SUM(n) AS s FROM ({counted}) GROUP BY window_start", False),
        ]
    )  # fmt: skip


def window_ranks(r: random.Random, t: Table, _: Table) -> tuple[str, bool]:
    window = r.choice(
        [
            "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '20' SECOND)",
            "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '20' SECOND)",
            "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '20' SECOND)",
        ]
    )
    by = f"PARTITION BY {r.choice(['', 'k, '])}window_start, window_end"
    rank = r.choice(["rn <= 2", "rn = 1", "rn <= 3"])
    counted = f"SELECT k, window_start, window_end, COUNT(*) AS n, MAX(id) AS id FROM TABLE({window}) GROUP BY k, window_start, window_end"
    order = r.choice(["ASC", "DESC"])
    number = f"ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY n {order}, id)"
    return r.choice(
        [
            (f"SELECT id, k, window_start, rn FROM (SELECT *, ROW_NUMBER() OVER ({by} ORDER BY id {order}) AS rn FROM TABLE({window})) WHERE {rank}", False),
            (f"SELECT id, n, window_start FROM (SELECT *, {number} AS rn FROM ({counted})) WHERE {rank}", False),
            (f"SELECT id, k, window_start FROM (SELECT *, ROW_NUMBER() OVER ({by} ORDER BY ts {order}) AS rn FROM TABLE({window})) WHERE rn = 1", False),
        ]
    )  # fmt: skip


def window_joins(r: random.Random, t: Table, u: Table) -> tuple[str, bool]:
    def of(name: str) -> str:
        return f"SELECT * FROM TABLE(TUMBLE(TABLE {name}, DESCRIPTOR(ts), INTERVAL '20' SECOND))"

    on = "a.k = b.k AND a.window_start = b.window_start AND a.window_end = b.window_end"
    how = r.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "EXISTS", "NOT EXISTS", "IN"])
    if r.random() < 0.3:
        on += " AND a.id <= b.id"
    if "EXISTS" in how:
        return (
            f"SELECT id, k, window_start FROM ({of('t')}) a WHERE {how} (SELECT * FROM ({of('u')}) b WHERE {on})",
            False,
        )
    if how == "IN":
        same = "a.window_start = b.window_start AND a.window_end = b.window_end"
        return (
            f"SELECT id, k, window_start FROM ({of('t')}) a WHERE a.k IN (SELECT k FROM ({of('u')}) b WHERE {same})",
            False,
        )
    return (
        f"SELECT a.id, b.id AS bi, a.k, COALESCE(a.window_start, b.window_start) AS ws FROM ({of('t')}) a {how} ({of('u')}) b ON {on}",
        False,
    )


def temporal_join(r: random.Random, t: Table, u: Table) -> tuple[str, bool]:
    how = r.choice(["JOIN", "LEFT JOIN"])
    more = r.choice(["", "", " AND u.id < 9"])
    return f"SELECT t.id, t.k, u.id AS ui FROM t {how} u FOR SYSTEM_TIME AS OF t.ts ON t.k = u.k{more}", False
