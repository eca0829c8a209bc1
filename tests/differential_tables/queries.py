"""Random queries over tables ``t`` and ``u``."""

from __future__ import annotations

import random

from tests.differential_tables.expressions import Scope, condition, expression
from tests.differential_tables.tables import Table


def scope(table: Table, alias: str = "") -> Scope:
    return Scope(tuple((f"{alias}{name}", type) for name, type in table.columns if name != "ts"))


def _is_plain(type: str) -> bool:
    """Whether its values are keys and have an order."""
    return not type.startswith(("ARRAY", "MAP", "ROW"))


def _ordered(t: Table) -> list[str]:
    """Columns to order rows by. To Flink's comparators of top-N and OVER, NaN is equal to every number: they are no order, and where the others come depends on
    which rows came and went."""
    left_out = ("DOUBLE", "FLOAT") if any("NaN" in row for row in t.rows) else ()
    found = [
        name
        for name, type in t.columns
        if name not in ("id", "k", "ts") and _is_plain(type) and not type.startswith(left_out)
    ]
    return found or ["id"]


def where(r: random.Random, scope: Scope) -> str:
    return f" WHERE {condition(r, scope)}" if r.random() < 0.5 else ""


def projection(r: random.Random, t: Table, _: Table) -> tuple[str, bool]:
    of_t = scope(t)
    items = [f"{expression(r, of_t)} AS e{i}" for i in range(r.randint(3, 9))]
    return f"SELECT id, {', '.join(items)} FROM t{where(r, of_t)}", True


def aggregates(
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
        if type.startswith(("TINY", "SMALL", "INT")) and not merges:
            makers += ["VAR_POP", "STDDEV_SAMP"]
        if type.startswith(("DOUBLE", "FLOAT")):
            makers += ["SUM", "AVG"]
        if type.startswith(("STRING", "BOOLEAN", "INT")):
            makers += ["COLLECT"] if r.random() < 0.3 else []
            makers += ["ARRAY_AGG", "JSON_ARRAYAGG"] if r.random() < 0.3 and not merges else []
        if type.startswith(("ARRAY", "MAP", "ROW", "BYTES", "VARBINARY")):
            makers = ["COUNT"]
        function = r.choice(makers)
        if type.startswith("STRING") and r.random() < 0.3:
            function = "LISTAGG"
        argument = f"{alias}`{name}`"
        distinct = (
            "DISTINCT " if is_distinct and r.random() < 0.3 and function in ("COUNT", "SUM", "AVG", "LISTAGG") else ""
        )
        call = "COUNT(*)" if function == "COUNT" and r.random() < 0.4 else f"{function}({distinct}{argument})"
        if function == "LISTAGG" and not distinct and r.random() < 0.4:
            call = f"LISTAGG({argument}, '|')"
        if function == "SUM0":
            call = f"SUM({argument})"
        if r.random() < 0.3:
            call += f" FILTER (WHERE {condition(r, scope(t, alias))})"
        found.append(call)
    return found


def aggregate(r: random.Random, t: Table, _: Table) -> tuple[str, bool]:
    of_t = scope(t)
    keys = r.choice([[], ["k"], ["k"], ["k", "f"], ["f"]])
    calls = aggregates(r, t, r.randint(1, 4))
    inner = f"SELECT *, {expression(r, of_t)} AS f FROM t{where(r, of_t)}" if "f" in keys else "SELECT * FROM t"
    grouping = f" GROUP BY {', '.join(keys)}" if keys else ""
    if len(keys) == 2 and r.random() < 0.5:
        grouping = f" GROUP BY {r.choice(['GROUPING SETS ((k, f), (k), ())', 'CUBE (k, f)', 'ROLLUP (k, f)'])}"
    having = f" HAVING COUNT(*) {r.choice(['> 1', '<> 2', '< 3'])}" if keys and r.random() < 0.3 else ""
    items = [*keys, *(f"{call} AS a{i}" for i, call in enumerate(calls))]
    return f"SELECT {', '.join(items)} FROM ({inner}){grouping}{having}", True


def distinct(r: random.Random, t: Table, _: Table) -> tuple[str, bool]:
    names = r.sample([name for name, type in t.columns if name not in ("id", "ts") and _is_plain(type)], 2)
    return f"SELECT DISTINCT {', '.join(names)}, {expression(r, scope(t))} AS e FROM t", True


def join(r: random.Random, t: Table, u: Table) -> tuple[str, bool]:
    how = r.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI", "ANTI", "IN", "NOT IN", "CROSS JOIN"])
    both = Scope(
        (
            *((f"t.{n}", type) for n, type in t.columns if n != "ts"),
            *((f"u.{n}", type) for n, type in u.columns if n != "ts"),
        )
    )
    name = r.choice([name for name, type in t.columns if name not in ("id", "ts") and _is_plain(type)])
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
            f"SELECT id, k, {expression(r, scope(t))} AS e FROM t WHERE {'NOT ' * (how == 'ANTI')}EXISTS (SELECT 1 FROM u WHERE {on})",
            False,
        )
    if how in ("IN", "NOT IN"):
        return f"SELECT id, k FROM t WHERE k {how} (SELECT k FROM u{where(r, scope(u))})", False
    if how == "CROSS JOIN":
        return "SELECT t.id, u.id AS ui, u.k FROM t CROSS JOIN u WHERE u.id < 3", False
    return f"SELECT t.id, u.id AS ui, t.k, u.k AS uk, {expression(r, both)} AS e FROM t {how} u ON {on}", False


def joins_of_joins(r: random.Random, t: Table, u: Table) -> tuple[str, bool]:
    """Over three tables; ``v`` has the columns of ``u``."""
    plain = [name for name, type in t.columns if name not in ("id", "ts") and _is_plain(type)]

    def on(left: str, right: str) -> str:
        name = r.choice(["k", "k", "id", r.choice(plain)])
        sign = "=" if r.random() < 0.85 else "IS NOT DISTINCT FROM"
        more = f" AND {left}.id {r.choice(['<', '<>', '>='])} {right}.id" if r.random() < 0.25 else ""
        return f"{left}.{name} {sign} {right}.{name}{more}"

    first, second = (r.choice(["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]) for _ in range(2))
    from_ = f"FROM t {first} u ON {on('t', 'u')} {second} v ON {on(r.choice('tu'), 'v')}"
    if r.random() < 0.25:
        of_v = f"{'NOT ' if r.random() < 0.5 else ''}EXISTS (SELECT 1 FROM v WHERE {on(r.choice('tu'), 'v')})"
        return f"SELECT t.id, u.id AS ui, t.k FROM t {first} u ON {on('t', 'u')} WHERE {of_v}", False
    if r.random() < 0.35:
        calls = f"COUNT(*) AS c, SUM(u.id) AS s, MAX(v.id) AS m, COUNT(DISTINCT t.k) AS d{r.choice(['', ', MIN(u.k) AS n'])}"
        key = f"{r.choice('tuv')}.k"
        return f"SELECT {key} AS g, {calls} {from_} GROUP BY {key}", False
    return f"SELECT t.id, u.id AS ui, v.id AS vi, t.k, u.k AS uk, v.k AS vk {from_}", False


def sets_of_sets(r: random.Random, t: Table, u: Table) -> tuple[str, bool]:
    """Over three tables."""
    names = ", ".join(
        r.sample([name for name, type in t.columns if name not in ("id", "ts") and _is_plain(type)], r.randint(1, 2))
    )
    first, second = (f"{r.choice(['UNION', 'INTERSECT', 'EXCEPT'])}{r.choice(['', ' ALL'])}" for _ in range(2))
    t_, u_, v_ = (f"SELECT {names} FROM {name}{where(r, scope(of))}" for name, of in (("t", t), ("u", u), ("v", u)))
    made = r.choice([f"({t_} {first} {u_}) {second} {v_}", f"{t_} {first} ({u_} {second} {v_})"])
    if r.random() < 0.3:
        return f"SELECT COUNT(*) AS c, COUNT(DISTINCT {names.split(', ')[0]}) AS d FROM ({made})", False
    return made, False


def sets(r: random.Random, t: Table, u: Table) -> tuple[str, bool]:
    names = ", ".join(
        r.sample([name for name, type in t.columns if name not in ("id", "ts") and _is_plain(type)], r.randint(1, 2))
    )
    how = r.choice(["UNION", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"])
    return f"SELECT {names} FROM t{where(r, scope(t))} {how} SELECT {names} FROM u", False


def top(r: random.Random, t: Table, _: Table) -> tuple[str, bool]:
    name = r.choice(_ordered(t))
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


def deduplicate(r: random.Random, t: Table, _: Table) -> tuple[str, bool]:
    return (
        f"SELECT id, k FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts {r.choice(['ASC', 'DESC'])}) AS rn FROM t) WHERE rn = 1",
        False,
    )


def nested(r: random.Random, t: Table, u: Table) -> tuple[str, bool]:
    first, second = (", ".join(f"{c} AS a{i}" for i, c in enumerate(aggregates(r, x, 2))) for x in (t, u))
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


def unnest(r: random.Random, t: Table, _: Table) -> tuple[str, bool]:
    of_t = scope(t)
    value = expression(r, of_t, r.choice(["INT", "STRING", "BIGINT", "DATE", "DECIMAL"]))
    how = r.choice(["CROSS JOIN", "CROSS JOIN", "LEFT JOIN"])
    on = " ON TRUE" if how == "LEFT JOIN" else ""
    what, names = r.choice(
        [
            (f"ARRAY[{value}, {value}]", "v"),
            (f"ARRAY[{value}, {value}]", "v"),
            (expression(r, of_t, "ARRAY"), "v"),
            (f"MAP['a', {value}, 'b', CAST(NULL AS INT)]" if "INT" in value else f"MAP[1, {value}]", "v, w"),
            (f"ARRAY[ROW({value}, id), ROW({value}, 7)]", "v, w"),
        ]
    )
    if r.random() < 0.2 and names == "v":
        return f"SELECT id, v, n FROM t {how} UNNEST({what}) WITH ORDINALITY AS x (v, n){on}{where(r, of_t)}", False
    return f"SELECT id, {names} FROM t {how} UNNEST({what}) AS x ({names}){on}{where(r, of_t)}", False


def subqueries(r: random.Random, t: Table, u: Table) -> tuple[str, bool]:
    of_t, of_u = scope(t), scope(u)
    name = r.choice([name for name, type in t.columns if name not in ("id", "ts") and _is_plain(type)])
    negated = r.choice(["", "NOT "])
    compared = r.choice(["=", "<", ">=", "<>"])
    return r.choice(
        [
            (f"SELECT id, k FROM t WHERE {name} {negated}IN (SELECT {name} FROM u{where(r, of_u)})", False),
            (f"SELECT id, k FROM t WHERE {name} {negated}IN (SELECT {name} FROM u WHERE u.id < t.id)", False),
            (f"SELECT id, k FROM t WHERE (k, {name}) {negated}IN (SELECT k, {name} FROM u)", False),
            (f"SELECT id, k FROM t WHERE {name} IN (SELECT {name} FROM u) OR {condition(r, of_t)}", False),
            (f"SELECT id, (SELECT MAX(u.id) FROM u WHERE u.k = t.k) AS x FROM t{where(r, of_t)}", False),
            ("SELECT id, (SELECT COUNT(*) FROM u WHERE u.k = t.k AND u.id > 2) AS x FROM t", False),
            (f"SELECT id FROM t WHERE id > (SELECT AVG(u.id) FROM u WHERE u.{name} = t.{name})", False),
            (f"SELECT id FROM t WHERE {negated}EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.id {compared} t.id)", False),
            (f"SELECT id FROM t WHERE {negated}EXISTS (SELECT k FROM u{where(r, of_u)})", False),
            (f"SELECT id FROM t WHERE {name} {compared} {r.choice(['ANY', 'ALL'])} (SELECT {name} FROM u)", False),
            (f"SELECT id, k, (SELECT COUNT(DISTINCT {name}) FROM u) AS n FROM t", False),
            ("SELECT t.id, x.id AS xi FROM t, LATERAL (SELECT id FROM u WHERE u.k = t.k ORDER BY id DESC LIMIT 2) AS x", False),
            ("SELECT t.id, x.n FROM t LEFT JOIN (SELECT k, COUNT(*) AS n FROM u GROUP BY k) AS x ON t.k = x.k", False),
        ]
    )  # fmt: skip


def over_values(r: random.Random, t: Table, _: Table) -> tuple[str, bool]:
    """``OVER`` by an order that is not a time."""
    by = r.choice(["PARTITION BY k ", "PARTITION BY k ", ""])
    order = f"id{r.choice(['', ' DESC'])}"
    calls = [
        call
        for call in aggregates(r, t, r.randint(1, 3), is_distinct=False)
        if "FILTER" not in call and "COLLECT" not in call and "AGG(" not in call
    ] or ["COUNT(*)"]
    items = ", ".join(f"{call} OVER w AS a{i}" for i, call in enumerate(calls))
    return f"SELECT id, k, {items} FROM t WINDOW w AS ({by}ORDER BY {order})", True


def ranks(r: random.Random, t: Table, _: Table) -> tuple[str, bool]:
    """Functions of ``OVER`` that batch mode has."""
    name = r.choice(_ordered(t))
    by = r.choice(["PARTITION BY k ", "PARTITION BY k ", ""])
    order = f"{name} {r.choice(['ASC', 'DESC'])}{r.choice(['', ' NULLS LAST', ' NULLS FIRST'])}"
    rank = r.choice(["RANK", "DENSE_RANK"])
    frame = r.choice(
        [
            "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
            "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
            "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
            "ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING",
            "ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING",
            "RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING",
            "RANGE BETWEEN CURRENT ROW AND 3 FOLLOWING",
            "",
        ]
    )
    calls = [
        call
        for call in aggregates(r, t, 2, is_distinct=False)
        if "FILTER" not in call and "COLLECT" not in call and "AGG(" not in call
    ]
    shifted = r.choice(["LAG", "LEAD"])
    offset = r.choice(["", ", 2", ", 0"])
    ranking = r.choice(["RANK()", "DENSE_RANK()", "PERCENT_RANK()", "CUME_DIST()"])
    items = [
        f"{ranking} OVER ({by}ORDER BY {order}) AS a0",
        f"{shifted}({name}{offset}) OVER ({by}ORDER BY id) AS a1",
        f"{r.choice(['ROW_NUMBER()', 'NTILE(3)'])} OVER ({by}ORDER BY {order}, id) AS a2",
        *(f"{call} OVER ({by}ORDER BY id {frame}) AS b{i}" for i, call in enumerate(calls or ["COUNT(*)"])),
    ]
    chosen = ", ".join(r.sample(items, r.randint(1, len(items))))
    if r.random() < 0.35:
        top = f"(SELECT *, {rank}() OVER ({by}ORDER BY {order}) AS rn FROM t)"
        return f"SELECT id, k, rn FROM {top} WHERE rn {r.choice(['<= 2', '= 1', '<= 3', 'BETWEEN 2 AND 3'])}", True
    return f"SELECT id, k, {chosen} FROM t{where(r, scope(t))}", True


def sorts(r: random.Random, t: Table, _: Table) -> tuple[str, bool]:
    """The order is lost where rows are compared; what ``LIMIT`` keeps is not."""
    names = r.sample([name for name, type in t.columns if name not in ("id", "ts") and _is_plain(type)], 2)
    order = ", ".join(
        f"{name} {r.choice(['ASC', 'DESC'])}{r.choice(['', ' NULLS LAST', ' NULLS FIRST'])}" for name in names
    )
    end = r.choice(
        [f"LIMIT {r.randint(0, 6)}", f"LIMIT {r.randint(1, 5)} OFFSET {r.randint(0, 4)}", "FETCH FIRST 3 ROWS ONLY"]
    )
    of_t = scope(t)
    if r.random() < 0.5:
        kind = r.choice(["INT", "STRING", "DOUBLE", "DECIMAL", "TIMESTAMP"])
        return (
            f"SELECT id, e FROM (SELECT *, {expression(r, of_t, kind)} AS e FROM t{where(r, of_t)}) ORDER BY e{r.choice([' DESC', ''])}, id {end}",
            True,
        )
    return f"SELECT id, {', '.join(names)} FROM t{where(r, of_t)} ORDER BY {order}, id {end}", True
