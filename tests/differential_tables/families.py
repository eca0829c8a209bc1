"""Statements by kind, each of a template and its parameters: joins, rankings, OVER, sets, subqueries, patterns, over rows that change, are late, tie or are
null.

Tables ``t``, ``u`` and ``v`` only grow; ``p`` and ``q`` change and have the key ``id``, ``c`` and ``d`` change and have none; ``h`` is a table of versions with
the key ``k``; rows of ``l`` are late.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product

from tests.differential_tables.cases import Case
from tests.differential_tables.tables import NULL, Table, changing

_COLUMNS = (("id", "INT"), ("k", "STRING"), ("n", "INT"), ("x", "DECIMAL(8, 2)"), ("ts", "TIMESTAMP(3)"))
_MINI_BATCH = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "1 s",
    "table.exec.mini-batch.size": "4",
}
_TTL = {"table.exec.state.ttl": "1 h"}
"""Nothing expires while a statement runs; the state is kept otherwise all the same."""
_JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI", "ANTI")

Statement = tuple[str, Mapping[str, str]]
"""A query, and options. The name of its kind says with ``(exact)`` that its changelog is the same in every run of Flink, with ``(batch)`` its mode."""


def families() -> list[Case]:
    """Returns the cases of all kinds; their numbers stand for seeds."""
    tables = _tables()
    made: list[Case] = []
    for kind, statements in _KINDS.items():
        for query, options in statements():
            used = tuple(table for table in tables if re.search(rf"\b{table.name}\b(?!\.)", query))
            name = kind.partition(" (")[0]
            zone = {"table.local-time-zone": "UTC"}
            is_streaming = "(batch)" not in kind
            is_exact = "(exact)" in kind and "table.exec.mini-batch.enabled" not in options
            made.append(Case(len(made), name, used, query, is_streaming, is_exact, {**zone, **options}))
    return made


def _tables() -> list[Table]:
    r = random.Random(38)
    growing = [_growing(r, name) for name in ("t", "u", "v")]
    late = _growing(r, "l", delay_s=4, back=(0, 0, 2, 9, 15))
    changing = [_changing(r, name, key) for name, key in (("p", "id"), ("q", "id"), ("c", ""), ("d", ""), ("h", "k"))]
    return [*growing, late, *changing]


def _row(r: random.Random, number: int, second: int) -> list[str]:
    key = r.choice(["a", "a", "b", "c", NULL])
    n, x = (r.choice(["1", "2", "2", "5", NULL]), r.choice(["0.50", "1.25", "-3.00", NULL]))
    return [str(number), key, n, x, f"2024-03-01 00:{second // 60:02d}:{second % 60:02d}.000"]


def _growing(r: random.Random, name: str, *, delay_s: int = 30, back: Sequence[int] = (0, 0, 3)) -> Table:
    rows, at = [], 0
    for number in range(18):
        at += r.choice([0, 1, 2, 6])
        rows.append(_row(r, number, max(at - r.choice(back), 0)))
    return Table(name, _COLUMNS, rows, delay_s=delay_s)


def _changing(r: random.Random, name: str, key: str) -> Table:
    """Those without a key come several times; those of ``k`` have versions whose times grow."""
    columns = tuple((column, f"{type} NOT NULL" if column == key else type) for column, type in _COLUMNS)
    fresh = [_row(r, number if key else r.choice([1, 2, 3]), 2 * number) for number in range(26)]
    if key == "k":
        fresh = [[row[0], r.choice(["a", "b", "c", "e"]), *row[2:]] for row in fresh]
    at = [column for column, _ in _COLUMNS].index(key) if key else None
    kinds, rows = changing(r, fresh, at)
    return Table(name, columns, rows, key=key, kinds=kinds)


def _joined(how: str, left: str, right: str, on: str) -> str:
    """``left`` and ``right``: tables, or queries in parentheses, that have ``id``, ``k`` and ``n``."""
    if how in ("SEMI", "ANTI"):
        return f"SELECT a.id, a.k, a.n FROM {left} AS a WHERE {'NOT ' * (how == 'ANTI')}EXISTS (SELECT 1 FROM {right} AS b WHERE {on})"
    return f"SELECT a.id, b.id AS bi, a.k, b.k AS bk, a.n, b.n AS bn FROM {left} AS a {how} {right} AS b ON {on}"


def _groups(table: str) -> str:
    """One row that changes for each ``k``."""
    return f"(SELECT MAX(id) AS id, k, COUNT(*) AS n FROM {table} GROUP BY k)"


_SIDES = {
    "unique keys in the join's": ("p", "q", "a.id = b.id"),
    "unique keys besides the join's": ("p", "q", "a.k = b.k"),
    "no unique keys": ("c", "d", "a.k = b.k"),
    "one unique key": ("c", "q", "a.id = b.id"),
    "groups": (_groups("c"), _groups("d"), "a.k = b.k"),
    "groups, other keys": (_groups("p"), _groups("q"), "a.n = b.n"),
    "rows that only come": ("t", "u", "a.k = b.k AND a.n = b.n"),
    "rows that come, groups": ("t", _groups("d"), "a.k = b.k"),
    "nulls that are equal": ("c", "q", "a.k IS NOT DISTINCT FROM b.k"),
}


def _regular_joins() -> Iterator[Statement]:
    more = ["", " AND a.n < b.n", "", " AND a.id <> b.id"]
    options: Sequence[Mapping[str, str]] = [{}, {}, _MINI_BATCH, {}, _TTL]
    for number, (how, (left, right, on)) in enumerate(product(_JOINS, _SIDES.values())):
        yield _joined(how, left, right, on + more[number % 4]), options[number % 5]
        if number % 3 == 0:
            yield (
                f"SELECT k, COUNT(*) AS c, SUM(n) AS s, MAX(id) AS m FROM ({_joined(how, left, right, on)}) GROUP BY k",
                {},
            )


def _joins_of_joins() -> Iterator[Statement]:
    hows = _JOINS[:4]
    on_keys = [("b.id = a.id", "e.id = a.id"), ("b.k = a.k", "e.k = b.k")]
    for number, (first, second, (one, other)) in enumerate(product(hows, hows, on_keys)):
        tables = [("p", "q", "c"), ("t", "p", "q"), ("c", "d", "p")][number % 3]
        from_ = f"FROM {tables[0]} AS a {first} {tables[1]} AS b ON {one} {second} {tables[2]} AS e ON {other}"
        several = {"table.optimizer.multi-join.enabled": "true"} if number % 2 == 0 else {}
        yield f"SELECT a.id, b.id AS bi, e.id AS ei, a.n, b.n AS bn, e.k {from_}", several
        if number % 4 == 0:
            yield f"SELECT a.k, COUNT(DISTINCT b.id) AS c, MIN(e.n) AS m {from_} GROUP BY a.k", several


def _hinted_joins() -> Iterator[Statement]:
    for how, hours in product(_JOINS[:4], ("'a' = '1h', 'b' = '2h'", "'b' = '3h'")):
        yield f"SELECT /*+ STATE_TTL({hours}) */ a.id, b.id AS bi FROM p AS a {how} q AS b ON a.k = b.k", {}
    yield "SELECT /*+ STATE_TTL('c' = '1h') */ k, COUNT(*) AS m, MAX(n) AS x FROM c GROUP BY k", {}


def _interval_joins() -> Iterator[Statement]:
    bounds = (
        "a.ts BETWEEN b.ts - INTERVAL '5' SECOND AND b.ts + INTERVAL '5' SECOND",
        "a.ts >= b.ts AND a.ts < b.ts + INTERVAL '8' SECOND",
        "a.ts = b.ts",
        "a.ts > b.ts - INTERVAL '9' SECOND AND a.ts <= b.ts - INTERVAL '2' SECOND AND a.n <> b.n",
    )
    for how, bound in product(_JOINS[:4], bounds):
        yield _joined(how, "t", "u", f"a.k = b.k AND {bound}"), {}
    for how in _JOINS[:4]:
        yield _joined(how, "t", "u", f"a.n = b.n AND {bounds[0]}"), {}


_SHAPES = {
    "tumble": "TUMBLE(TABLE {}, DESCRIPTOR(ts), INTERVAL '10' SECOND)",
    "hop": "HOP(TABLE {}, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '20' SECOND)",
    "cumulate": "CUMULATE(TABLE {}, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '30' SECOND)",
}


def _window(shape: str, table: str) -> str:
    return f"(SELECT * FROM TABLE({_SHAPES[shape].format(table)}))"


def _window_joins() -> Iterator[Statement]:
    on = "a.window_start = b.window_start AND a.window_end = b.window_end"
    for number, (how, shape) in enumerate(product(_JOINS, _SHAPES)):
        key = ["a.k = b.k", "a.k = b.k AND a.n < b.n", "a.n = b.n"][number % 3]
        yield _joined(how, _window(shape, "t"), _window(shape, "u"), f"{key} AND {on}"), {}


def _temporal_joins() -> Iterator[Statement]:
    first = "(SELECT id, k, n, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) AS rn FROM u) WHERE rn = 1)"
    for how, more in product(("JOIN", "LEFT JOIN"), ("", " AND b.n > 1", " AND a.n = b.n")):
        of_versions = f"FOR SYSTEM_TIME AS OF a.ts AS b ON a.k = b.k{more}"
        yield f"SELECT a.id, a.k, b.id AS bi, b.n AS bn FROM t AS a {how} h {of_versions}", {}
        yield f"WITH w AS {first} SELECT a.id, b.id AS bi FROM t AS a {how} w {of_versions}", {}
    yield "SELECT a.id, b.id AS bi, b.x FROM p AS a JOIN h FOR SYSTEM_TIME AS OF a.ts AS b ON a.k = b.k", {}
    yield "SELECT a.id, b.id AS bi, b.x FROM c AS a LEFT JOIN h FOR SYSTEM_TIME AS OF a.ts AS b ON a.k = b.k", {}


_RANKED = {
    "comes": "t",
    "grows": "(SELECT k, n AS id, COUNT(*) AS n FROM t GROUP BY k, n)",
    "changes": "p",
    "repeats": "c",
    "shrinks": "(SELECT k, id, MIN(n) AS n FROM c GROUP BY k, id)",
}


def _rankings() -> Iterator[Statement]:
    ranges = ("rn <= 2", "rn = 1", "rn BETWEEN 2 AND 3", "rn = 2")
    orders = ("n DESC", "n", "n DESC NULLS LAST, k", "k, n DESC")
    for number, (source, range_) in enumerate(product(_RANKED, ranges)):
        by = ["PARTITION BY k ", "PARTITION BY k ", "", "PARTITION BY MOD(id, 3) "][number % 4]
        for at in (number % 4, (number + 1) % 4):
            shown = ", rn" if (number + at) % 2 else ""
            ranked = f"SELECT *, ROW_NUMBER() OVER ({by}ORDER BY {orders[at]}) AS rn FROM {_RANKED[source]}"
            yield f"SELECT id, k, n{shown} FROM ({ranked}) WHERE {range_}", _TTL if number % 7 == 6 else {}
    for source in ("t", "p", "c"):
        ranked = f"SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY n) AS rn FROM {source}"
        by_number = f"SELECT *, ROW_NUMBER() OVER (PARTITION BY n ORDER BY id, k) AS rn FROM {source}"
        yield f"SELECT id, k, n, rn FROM ({by_number}) WHERE rn <= n", {}
        yield f"SELECT k, COUNT(*) AS c, SUM(n) AS s FROM ({ranked}) WHERE rn <= 2 GROUP BY k", {}
    for rank in ("RANK", "DENSE_RANK"):
        yield (
            f"SELECT id, k, rn FROM (SELECT *, {rank}() OVER (PARTITION BY k ORDER BY n) AS rn FROM t) WHERE rn <= 2",
            {},
        )


def _batch_rankings() -> Iterator[Statement]:
    for rank, range_ in product(("RANK", "DENSE_RANK"), ("rn <= 2", "rn = 1", "rn BETWEEN 2 AND 3")):
        for order in ("n", "n DESC", "x NULLS LAST, n"):
            ranked = f"SELECT *, {rank}() OVER (PARTITION BY k ORDER BY {order}) AS rn FROM t"
            yield f"SELECT id, k, n, rn FROM ({ranked}) WHERE {range_}", {}
    for call in ("ROW_NUMBER()", "RANK()", "DENSE_RANK()", "PERCENT_RANK()", "CUME_DIST()", "NTILE(2)", "NTILE(4)"):
        yield (
            f"SELECT id, {call} OVER (PARTITION BY k ORDER BY n, id) AS a, {call} OVER (ORDER BY id DESC) AS b FROM t",
            {},
        )


def _overs() -> Iterator[Statement]:
    frames = (
        "",
        "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
        "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
        "RANGE BETWEEN INTERVAL '6' SECOND PRECEDING AND CURRENT ROW",
    )
    calls = (
        "SUM(n), COUNT(n), MIN(x)",
        "FIRST_VALUE(n), LAST_VALUE(n), COUNT(DISTINCT n)",
        "AVG(x), MAX(k), STDDEV_POP(n)",
    )
    for frame, call, by in product(frames, calls, ("PARTITION BY k ", "")):
        each = re.sub(r"\)(?=,|$)", ") OVER w", call)
        yield f"SELECT id, k, {each} FROM l WINDOW w AS ({by}ORDER BY ts {frame})", {}
    for call in ("LAG(n)", "LAG(n, 2)", "LAG(n, 1, -1)", "LEAD(n)", "NTH_VALUE(n, 2)", "ROW_NUMBER()"):
        yield f"SELECT id, k, {call} OVER (PARTITION BY k ORDER BY ts) AS a FROM l", {}


def _overs_of_changes() -> Iterator[Statement]:
    for source, order in product(("p", "c", "t"), ("n", "n DESC", "id, n")):
        yield (
            f"SELECT id, k, SUM(n) OVER w AS s, COUNT(*) OVER w AS c FROM {source} WINDOW w AS (PARTITION BY k ORDER BY {order})",
            {},
        )
    for call in ("ROW_NUMBER()", "RANK()", "DENSE_RANK()", "MIN(x)", "AVG(n)", "FIRST_VALUE(n)"):
        yield f"SELECT id, k, {call} OVER (PARTITION BY k ORDER BY id) AS a FROM p", {}


def _batch_overs() -> Iterator[Statement]:
    frames = (
        "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
        "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
        "ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING",
        "ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING",
        "RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING",
        "RANGE BETWEEN UNBOUNDED PRECEDING AND 2 FOLLOWING",
    )
    for frame, call in product(frames, ("SUM(n)", "FIRST_VALUE(x)", "LAST_VALUE(k)", "COUNT(*)", "MIN(x)")):
        yield f"SELECT id, {call} OVER (PARTITION BY k ORDER BY id {frame}) AS a FROM t", {}
    for call in ("LAG(n)", "LAG(x, 2)", "LEAD(n, 1)", "LEAD(n, 2, -7)", "NTH_VALUE(n, 2)"):
        yield f"SELECT id, {call} OVER (PARTITION BY k ORDER BY id) AS a FROM t", {}


def _sets() -> Iterator[Statement]:
    for how, all_, (left, right) in product(
        ("UNION", "INTERSECT", "EXCEPT"), ("", " ALL"), (("c", "d"), ("p", "q"), ("t", "c"))
    ):
        yield f"SELECT k, n FROM {left} {how}{all_} SELECT k, n FROM {right}", {}
    for how in ("INTERSECT", "EXCEPT", "UNION"):
        yield f"SELECT k, COUNT(*) AS m FROM (SELECT k, n FROM c {how} SELECT k, n FROM q) GROUP BY k", _MINI_BATCH
        yield f"SELECT k FROM p {how} ALL (SELECT k FROM d INTERSECT SELECT k FROM t)", {}


def _batch_sets() -> Iterator[Statement]:
    for how, all_ in product(("UNION", "INTERSECT", "EXCEPT"), ("", " ALL")):
        yield f"SELECT k, n FROM t {how}{all_} SELECT k, n FROM u", {}
        yield f"SELECT k, x FROM t {how}{all_} (SELECT k, x FROM u EXCEPT SELECT k, x FROM v)", {}


def _subqueries_of(a: str, b: str, e: str) -> Iterator[Statement]:
    for negated in ("", "NOT "):
        yield f"SELECT id, k FROM {a} WHERE k {negated}IN (SELECT k FROM {b} WHERE n > 1)", {}
        yield f"SELECT id, n FROM {a} WHERE n {negated}IN (SELECT n FROM {b} WHERE n IS NOT NULL)", {}
        yield (
            f"SELECT id, k FROM {a} WHERE {negated}EXISTS (SELECT 1 FROM {b} WHERE {b}.k = {a}.k AND {b}.n = {a}.n)",
            {},
        )
        yield f"SELECT id, k FROM {a} WHERE (k, n) {negated}IN (SELECT k, n FROM {b})", {}
        yield f"SELECT id FROM {a} WHERE k IN (SELECT k FROM {b}) AND id {negated}IN (SELECT id FROM {e})", {}
        yield f"SELECT id, k FROM {a} WHERE {negated}EXISTS (SELECT 1 FROM {b} WHERE n > 4)", {}
    for sign, call in (("=", "MAX(n)"), ("<", "AVG(n)"), ("<>", "MIN(n)"), (">=", "COUNT(*)")):
        yield f"SELECT id, n FROM {a} WHERE n {sign} (SELECT {call} FROM {b})", {}
        yield f"SELECT id, n FROM {a} WHERE n {sign} (SELECT {call} FROM {b} WHERE {b}.k = {a}.k)", {}
        yield f"SELECT id, (SELECT {call} FROM {b} WHERE {b}.k = {a}.k) AS m FROM {a}", {}
    yield f"SELECT id, n FROM {a} WHERE n > ALL (SELECT n FROM {b} WHERE n < 3)", {}
    yield f"SELECT id, n FROM {a} WHERE n = ANY (SELECT n FROM {b})", {}
    yield (
        f"SELECT a.id, b.id AS bi FROM {a} AS a, LATERAL (SELECT id FROM {b} WHERE {b}.k = a.k ORDER BY n DESC, id LIMIT 2) AS b",
        {},
    )
    yield (
        f"SELECT a.id, b.s FROM {a} AS a LEFT JOIN LATERAL (SELECT SUM(n) AS s FROM {b} WHERE {b}.k = a.k) AS b ON TRUE",
        {},
    )


def _subqueries() -> Iterator[Statement]:
    yield from _subqueries_of("c", "q", "d")


def _batch_subqueries() -> Iterator[Statement]:
    yield from _subqueries_of("t", "u", "v")


def _groupings() -> Iterator[Statement]:
    sets = (
        "GROUPING SETS ((k, n), (k), ())",
        "GROUPING SETS ((k), (n))",
        "CUBE (k, n)",
        "ROLLUP (k, n)",
        "ROLLUP (n, k)",
    )
    calls = (
        "COUNT(*) AS c, SUM(id) AS s",
        "COUNT(DISTINCT id) AS c, MAX(x) AS m",
        "GROUPING(k) AS g, GROUPING_ID(k, n) AS i, MIN(x) AS m",
    )
    for number, (set_, call) in enumerate(product(sets, calls)):
        source = ["c", "t", "p"][number % 3]
        yield f"SELECT k, n, {call} FROM {source} GROUP BY {set_}", {}
        if number % 3 == 0:
            yield f"SELECT k, n, {call} FROM {source} GROUP BY {set_}", _MINI_BATCH


def _batch_groupings() -> Iterator[Statement]:
    for query, _ in _groupings():
        yield re.sub(r"FROM [cp] ", "FROM t ", query), {}


def _aggregates() -> Iterator[Statement]:
    calls = (
        "MIN(n) AS a, MAX(x) AS b",
        "COUNT(DISTINCT n) AS a, SUM(DISTINCT n) AS b",
        "FIRST_VALUE(n) AS a, LAST_VALUE(n) AS b",
        "AVG(x) AS a, SUM(x) AS b, COUNT(x) AS e",
        "LISTAGG(k) AS a",
        "LISTAGG(DISTINCT k) AS a",
        "STDDEV_POP(n) AS a, VAR_SAMP(n) AS b",
        "COLLECT(n) AS a",
        "ARRAY_AGG(n) AS a",
        "COUNT(*) FILTER (WHERE n > 1) AS a, MAX(n) FILTER (WHERE x < 1) AS b",
        "COUNT(DISTINCT n) FILTER (WHERE x > 0) AS a, AVG(DISTINCT x) AS b",
        "MIN(ts) AS a, MAX(ts) AS b",
    )
    for number, (call, source) in enumerate(product(calls, ("c", "p"))):
        yield f"SELECT n AS g, {call} FROM {source} GROUP BY n", {}
        if number % 2 == 0:
            yield f"SELECT {call} FROM {source}", _TTL if number % 4 == 0 else {}


def _bundled_aggregates() -> Iterator[Statement]:
    calls = ("COUNT(*) AS a, MAX(x) AS b", "COUNT(DISTINCT n) AS a, SUM(n) AS b", "AVG(n) AS a, MIN(id) AS b")
    ways = (
        {"table.optimizer.agg-phase-strategy": "ONE_PHASE"},
        {"table.optimizer.agg-phase-strategy": "TWO_PHASE"},
        {"table.optimizer.agg-phase-strategy": "TWO_PHASE", "table.optimizer.distinct-agg.split.enabled": "true"},
    )
    for call, way, source in product(calls, ways, ("c", "t")):
        yield f"SELECT k, {call} FROM {source} GROUP BY k", {**_MINI_BATCH, **way}
    for way in ways:
        yield (
            "SELECT m, COUNT(*) AS a, MAX(k) AS b FROM (SELECT k, COUNT(*) AS m FROM c GROUP BY k) GROUP BY m",
            {**_MINI_BATCH, **way},
        )


def _deduplicates() -> Iterator[Statement]:
    for source, order in product(("t", "l", "p", "c"), ("ts", "ts DESC", "PROCTIME()", "PROCTIME() DESC")):
        if source in ("p", "c") and "PROCTIME" in order:
            continue
        numbered = f"SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY {order}) AS rn FROM {source}"
        yield f"SELECT id, k, n FROM ({numbered}) WHERE rn = 1", {}
        if source != "c":
            yield f"SELECT k, COUNT(*) AS m FROM ({numbered}) WHERE rn = 1 GROUP BY k", _MINI_BATCH


def _normalised() -> Iterator[Statement]:
    duplicates = {"table.exec.source.cdc-events-duplicate": "true"}
    for options in (duplicates, {**duplicates, **_TTL}, {**duplicates, **_MINI_BATCH}):
        for query in (
            "SELECT * FROM p",
            "SELECT id, k FROM p WHERE n > 1",
            "SELECT k, COUNT(*) AS c, MAX(n) AS m FROM p GROUP BY k",
            "SELECT k, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY n DESC, id) AS rn FROM p) WHERE rn <= 2",
        ):
            yield query, options


def _patterns() -> Iterator[Statement]:
    patterns = ("A B", "A+ B", "A* B", "A B? E", "A+? B", "A{2} B", "A{1,2} B", "(A B)", "A B*? E", "A{2,} B")
    skips = ("PAST LAST ROW", "TO NEXT ROW", "TO LAST A", "TO FIRST B")
    for number, pattern in enumerate(patterns):
        for skip in (skips[number % 4], skips[(number + 1) % 4]):
            needs = "E.id > 0" if "E" in pattern else ""
            defined = "A AS A.n IS NULL OR A.n < 5, B AS B.n > 1" + f", {needs.replace('E.id', 'E AS E.id')}" * bool(
                needs
            )
            within = " WITHIN INTERVAL '20' SECOND" if number % 3 == 0 else ""
            source = ["t", "l"][number % 2]
            yield (
                f"SELECT * FROM {source} MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES FIRST(A.id) AS f, LAST(A.id) AS z, B.id AS b, "
                f"COUNT(A.n) AS c, MATCH_ROWTIME() AS mt ONE ROW PER MATCH AFTER MATCH SKIP {skip} PATTERN ({pattern}){within} DEFINE {defined})",
                {},
            )


def _late_windows() -> Iterator[Statement]:
    shapes = {**_SHAPES, "session": "SESSION(TABLE {} PARTITION BY k, DESCRIPTOR(ts), INTERVAL '4' SECOND)"}
    calls = ("COUNT(*) AS c, SUM(n) AS s", "COUNT(DISTINCT n) AS c, MAX(x) AS m")
    for shape, call, source in product(shapes, calls, ("l", "p", "c")):
        if source != "l" and (shape == "cumulate" or "DISTINCT" in call):
            continue
        yield (
            f"SELECT k, window_start, window_end, {call} FROM TABLE({shapes[shape].format(source)}) GROUP BY k, window_start, window_end",
            {},
        )
    legacy = (
        "TUMBLE(ts, INTERVAL '10' SECOND)",
        "HOP(ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND)",
        "SESSION(ts, INTERVAL '4' SECOND)",
    )
    for group, source in product(legacy, ("l", "c", "p")):
        yield f"SELECT k, COUNT(*) AS c, MAX(n) AS m, SUM(x) AS s FROM {source} GROUP BY k, {group}", {}


def _window_ranks() -> Iterator[Statement]:
    for shape, order, range_ in product(_SHAPES, ("n DESC, id", "ts", "ts DESC"), ("rn <= 2", "rn = 1")):
        by = "PARTITION BY window_start, window_end, k"
        yield (
            f"SELECT id, k, n, window_end FROM (SELECT *, ROW_NUMBER() OVER ({by} ORDER BY {order}) AS rn FROM {_window(shape, 'l')}) WHERE {range_}",
            {},
        )


def _unnested() -> Iterator[Statement]:
    for source, (what, names) in product(
        ("c", "p"), (("ARRAY[n, id]", "y"), ("MAP['a', n]", "y, z"), ("ARRAY[ROW(n, x), ROW(id, x)]", "y, z"))
    ):
        yield f"SELECT id, {names} FROM {source} CROSS JOIN UNNEST({what}) AS e ({names})", {}
        yield f"SELECT y, COUNT(*) AS m FROM {source} LEFT JOIN UNNEST({what}) AS e ({names}) ON TRUE GROUP BY y", {}


def _sorted() -> Iterator[Statement]:
    for source, end in product(("c", "p", "t"), ("LIMIT 3", "LIMIT 2 OFFSET 1")):
        yield f"SELECT id, n, k FROM {source} ORDER BY n DESC, id, k {end}", {}
        yield f"SELECT k, COUNT(*) AS m FROM {source} GROUP BY k ORDER BY m DESC, k {end}", {}


def _batch_joins() -> Iterator[Statement]:
    sides = [
        ("t", "u", "a.k = b.k"),
        ("t", "u", "a.k = b.k AND a.n < b.n"),
        ("t", _groups("u"), "a.k = b.k"),
        ("t", "u", "a.id < b.n"),
    ]
    for how, (left, right, on) in product(_JOINS, sides):
        yield _joined(how, left, right, on), {}
    for how in _JOINS[:4]:
        yield (
            f"SELECT a.id, b.id AS bi, e.id AS ei FROM t AS a {how} u AS b ON a.n = b.n LEFT JOIN v AS e ON e.k = b.k",
            {},
        )


_KINDS: Mapping[str, Callable[[], Iterator[Statement]]] = {
    "regular join": _regular_joins,
    "joins of joins": _joins_of_joins,
    "joins with hints": _hinted_joins,
    "interval join": _interval_joins,
    "window join": _window_joins,
    "temporal join": _temporal_joins,
    "ranking (exact)": _rankings,
    "ranking (batch)": _batch_rankings,
    "over": _overs,
    "over changes (exact)": _overs_of_changes,
    "over (batch)": _batch_overs,
    "sets": _sets,
    "sets (batch)": _batch_sets,
    "subquery": _subqueries,
    "subquery (batch)": _batch_subqueries,
    "grouping sets (exact)": _groupings,
    "grouping sets (batch)": _batch_groupings,
    "aggregate (exact)": _aggregates,
    "aggregate of bundles": _bundled_aggregates,
    "deduplicate": _deduplicates,
    "normalised (exact)": _normalised,
    "pattern": _patterns,
    "late windows": _late_windows,
    "window rank": _window_ranks,
    "unnest (exact)": _unnested,
    "top (exact)": _sorted,
    "join (batch)": _batch_joins,
}
