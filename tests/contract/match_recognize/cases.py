"""Statements with MATCH_RECOGNIZE over small tables, made by chance from a seed."""

from __future__ import annotations

import random
from typing import Any

DDL = (
    "CREATE TABLE trades (id INT, sym STRING, price INT, tax DECIMAL(10, 2), name STRING, ts TIMESTAMP(3), "
    "WATERMARK FOR ts AS ts - INTERVAL '3' SECOND) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv', 'csv.null-literal' = 'NULL')"
)
PATTERNS = [
    "A B+ C", "A B* C", "A B? C", "A B{2} C", "A B{2,} C", "A B{1,3} C", "A B{,2} C", "A+ B C", "A B C{2}", "A B+? C", "A B*? C", "A B{1,3}? C", "A B?? C",
    "A B C+?", "A+? B+ C", "A* B C", "A? B C", "A B C", "A{2} B+ C",
]  # fmt: skip
REFUSED_PATTERNS = ["A B C+", "A? B?", "A B (C | D)", "PERMUTE(A, B)", "A {- B -} C", "(A B)+ C", "A B C{1,3}", "A* B*"]
DEFINED = {
    "A": ["A.price > 3", "A.name = 'x'", "SUM(A.price) < 12", "A.price > 2 AND A.sym <> 'q'", "COUNT(A.price) < 3"],
    "B": [
        "B.price < A.price", "B.price < LAST(B.price, 1) OR LAST(B.price, 1) IS NULL", "SUM(B.price) < 14", "B.price > AVG(A.price)",
        "B.name <> 'z'", "B.price <= FIRST(B.price)", "B.ts < A.ts + INTERVAL '4' SECOND", "COUNT(B.id) <= 2", "MAX(B.tax) - MIN(B.tax) < 3.5",
        "LAST(A.price, 1) IS NULL OR B.price <> LAST(A.price, 1)", "B.price + B.id > 4", "UPPER(B.name) = 'X' OR B.tax > 1.5",
    ],
    "C": [
        "C.price > LAST(B.price)", "C.price > A.price", "C.name = 'y'", "C.price < SUM(B.price)", "C.tax >= FIRST(B.tax)",
        "C.ts - A.ts < INTERVAL '9' SECOND",
    ],
}  # fmt: skip
MEASURED = [
    "A.id", "FIRST(A.id)", "LAST(A.price, 1)", "FIRST(B.id)", "LAST(B.id)", "LAST(B.price, 1)", "COUNT(B.id)", "SUM(B.price)", "AVG(B.price)", "MIN(B.tax)",
    "MAX(B.tax)",
    "SUM(B.tax)", "C.id", "C.name", "A.price + LAST(B.price)", "UPPER(LAST(B.name))", "MATCH_ROWTIME()", "C.ts", "AVG(A.tax)",
    "FIRST(B.id, 1)", "COUNT(A.name)",
    "SUM(B.price) / COUNT(B.price)", "LAST(C.tax) * 2",
]  # fmt: skip
AFTER = ["SKIP PAST LAST ROW", "SKIP PAST LAST ROW", "SKIP TO NEXT ROW", "SKIP TO LAST B", "SKIP TO FIRST B", "SKIP TO LAST C", "SKIP TO FIRST C"]  # fmt: skip


def cases(count: int = 50, seed: int = 7) -> list[dict[str, Any]]:
    return [_case(random.Random(f"{seed}/{at}"), at) for at in range(count)]


def _case(r: random.Random, at: int) -> dict[str, Any]:
    pattern = r.choice(REFUSED_PATTERNS) if at % 8 == 7 else r.choice(PATTERNS)
    defined = [f"{name} AS {r.choice(conditions)}" for name, conditions in DEFINED.items() if r.random() < 0.8]
    measured = [f"{one} AS m{i}" for i, one in enumerate(r.sample(MEASURED, r.randint(2, 6)))]
    partition = r.choice(["PARTITION BY sym ", "PARTITION BY sym ", "PARTITION BY sym, name ", ""])
    order = r.choice(["ts", "ts", "ts, price", "ts, price DESC"])
    within = f" WITHIN INTERVAL '{r.choice([3, 5, 9])}' SECOND" if r.random() < 0.35 else ""
    query = (
        f"SELECT * FROM trades MATCH_RECOGNIZE ({partition}ORDER BY {order} MEASURES {', '.join(measured)} ONE ROW PER MATCH "
        f"AFTER MATCH {r.choice(AFTER)} PATTERN ({pattern}){within} DEFINE {', '.join(defined or ['A AS A.price > 0'])})"
    )
    tables = [{"name": "trades", "ddl": DDL, "rows": _rows(r)}]
    return {"tables": tables, "query": query, "is_streaming": True, "options": {}}


def _rows(r: random.Random) -> list[list[str]]:
    """Some of them are not in the order of their times, and none is late."""
    now, rows = 0, []
    for number in range(r.randint(12, 24)):
        now += r.choice([0, 400, 1000, 1000, 2500])
        time = max(0, now - r.choice([0, 0, 0, 1500]))
        stamp = f"2024-01-01 00:{time // 60000:02}:{time // 1000 % 60:02}.{time % 1000:03}"
        tax = "NULL" if r.random() < 0.1 else f"{r.randint(0, 500) / 100:.2f}"
        price = "NULL" if r.random() < 0.05 else str(r.randint(0, 9))
        rows.append([str(number), r.choice("ppq"), price, tax, r.choice("xxyz"), stamp])
    return rows


_SIMPLE = "B AS B.price < A.price OR B.price > 5, C AS C.price > 2"
CHOSEN = [
    ("A.id AS a, SUM(A.price * 2) AS s, SUM(B.price + B.id) AS t", "A+ B+ C", "A AS A.price > 3, B AS B.price < A.price OR B.price > 5, C AS C.price > 2"),
    ("SUM(B.price * A.price) AS s", "A B+ C", _SIMPLE),
    ("SUM(B.price * LAST(A.price)) AS s, A.id AS a", "A B+ C", _SIMPLE),
    ("AVG(B.price * 1.5) AS s, MIN(B.price - B.id) AS m, MAX(UPPER(B.name)) AS u, COUNT(B.price + B.id) AS c", "A B+ C", _SIMPLE),
    ("A.id AS a, C.id AS c", "A B+ C", "B AS SUM(B.price * 2) < 20, C AS C.price * 2 > SUM(B.price + B.tax)"),
    ("SUM(price * 2) AS s", "A B+ C", _SIMPLE),
    ("SUM(price) AS s, COUNT(*) AS c, LAST(id) AS l, FIRST(id) AS f", "A B+ C", _SIMPLE),
    ("SUM(CASE WHEN B.price > 3 THEN B.price ELSE 0 END) AS s, COUNT(B.id) AS c", "A B+ C", _SIMPLE),
    ("COUNT(DISTINCT B.price) AS s", "A B+ C", _SIMPLE),
    ("SUM(DISTINCT B.price) AS s", "A B+ C", _SIMPLE),
    ("SUM(1) AS s, COUNT(1) AS t", "A B+ C", _SIMPLE),
    ("SUM(B.price * 2 + 1) / COUNT(B.price) AS s", "A B+ C", _SIMPLE),
    ("LAST(B.price * 2) AS s, FIRST(B.price + B.id) AS t", "A B+ C", _SIMPLE),
    ("SUM(LAST(B.price)) AS s", "A B+ C", _SIMPLE),
    ("LAST(B.price + A.price) AS s", "A B+ C", _SIMPLE),
    ("FIRST(A.id) AS a, LAST(B.id) AS b, C.id AS c", "(A B)+ C", _SIMPLE),
    ("FIRST(A.id) AS a, LAST(B.id) AS b, C.id AS c", "(A B){2} C", _SIMPLE),
    ("FIRST(A.id) AS a, LAST(B.id) AS b, C.id AS c", "(A B)? C", _SIMPLE),
    ("FIRST(A.id) AS a, LAST(B.id) AS b, C.id AS c", "(A B) C", _SIMPLE),
    ("FIRST(A.id) AS a, LAST(B.id) AS b, C.id AS c", "(A) B+ C", _SIMPLE),
    ("FIRST(A.id) AS a, LAST(B.id) AS b, C.id AS c", "(A B+) C", _SIMPLE),
    ("FIRST(A.id) AS a, LAST(B.id) AS b, C.id AS c", "(A+)? B C", _SIMPLE),
    ("FIRST(A.id) AS a, LAST(B.id) AS b, C.id AS c", "(A+)+ B C", _SIMPLE),
    ("FIRST(A.id) AS a, LAST(B.id) AS b, C.id AS c", "((A B) C)", _SIMPLE),
    ("A.id AS a, X.id AS b", "A B C", _SIMPLE),
    ("A.id AS a, B.foo AS b", "A B C", _SIMPLE),
    ("A.id AS a", "A B C", "B AS B.foo > 1"),
    ("A.id AS a", "A B C", "Z AS Z.price > 1"),
    ("A.id AS a", "A B A", _SIMPLE),
    ("A.id AS a", "A B C", "B AS COUNT(*) > 1"),
    ("MATCH_NUMBER() AS a", "A B C", _SIMPLE),
    ("SUM(A.price + B.price) AS a", "A B C", _SIMPLE),
    ("SUM(B.price * price) AS a", "A B C", _SIMPLE),
    ("COUNT(A.price, B.price) AS a", "A B C", _SIMPLE),
    ("COUNT(B.price, B.id) AS a", "A B+ C", _SIMPLE),
    ("MAX(B.ts) AS a, MIN(A.tax * B.id) AS b", "A B+ C", _SIMPLE),
]  # fmt: skip
"""Measures, pattern and conditions of what chance does not make."""


def chosen() -> list[dict[str, Any]]:
    return [_chosen(random.Random("x1"), *one) for one in CHOSEN]


def _chosen(r: random.Random, measures: str, pattern: str, defined: str) -> dict[str, Any]:
    return _statement(r, measures, "SKIP PAST LAST ROW", pattern, "", defined)


def _statement(r: random.Random, measures: str, after: str, pattern: str, subset: str, defined: str) -> dict[str, Any]:
    query = (
        f"SELECT * FROM trades MATCH_RECOGNIZE (PARTITION BY sym ORDER BY ts MEASURES {measures} ONE ROW PER MATCH "
        f"AFTER MATCH {after} PATTERN ({pattern}){subset and ' ' + subset} DEFINE {defined})"
    )
    tables = [{"name": "trades", "ddl": DDL, "rows": _rows(r)}]
    return {"tables": tables, "query": query, "is_streaming": True, "options": {}}


_PAST = "SKIP PAST LAST ROW"
SUBSETS = [
    ("SUM(U.price) AS s, COUNT(U.id) AS c, AVG(U.tax) AS v, A.id AS a", "SUBSET U = (A, B)", _PAST, "A B+ C", _SIMPLE),
    ("MIN(U.price) AS s, MAX(U.name) AS c, C.id AS a", "SUBSET U = (B, C)", _PAST, "A B+ C", _SIMPLE),
    ("FIRST(U.id) AS f, LAST(U.id) AS l, LAST(U.id, 1) AS o, FIRST(U.id, 1) AS p", "SUBSET U = (A, B)", _PAST, "A B+ C", _SIMPLE),
    ("U.id AS u, U.name AS n, A.id AS a", "SUBSET U = (A, C)", _PAST, "A B+ C", _SIMPLE),
    ("FIRST(U.id) AS f, LAST(U.id) AS l, SUM(U.price) AS s", "SUBSET U = (C, A)", _PAST, "A B+ C", _SIMPLE),
    ("FIRST(U.id) AS f, LAST(U.id) AS l, SUM(U.price) AS s", "SUBSET U = (B)", _PAST, "A B+ C", _SIMPLE),
    ("SUM(U.price) AS s, SUM(V.price) AS t, A.id AS a", "SUBSET U = (A, B), V = (B, C)", _PAST, "A B+ C", _SIMPLE),
    ("LAST(U.id) AS l, COUNT(U.id) AS c", "SUBSET U = (A, B, C)", _PAST, "A B* C", _SIMPLE),
    ("A.id AS a, C.id AS c", "SUBSET U = (A, B)", _PAST, "A B+ C", "B AS B.price < A.price, C AS C.price > AVG(U.price)"),
    ("A.id AS a, C.id AS c", "SUBSET U = (A, B)", _PAST, "A B+ C", "B AS B.price < A.price, C AS C.price > LAST(U.price)"),
    ("A.id AS a, C.id AS c", "SUBSET U = (A, B)", _PAST, "A B+ C", "B AS B.price < 7, C AS C.price > U.price"),
    ("A.id AS a, LAST(B.id) AS b", "SUBSET U = (A, B)", _PAST, "A B+ C", "B AS SUM(U.price) < 14"),
    ("A.id AS a, LAST(B.id) AS b", "SUBSET U = (A, B)", _PAST, "A B+ C", "B AS COUNT(U.id) < 4"),
    ("A.id AS a, LAST(B.id) AS b", "SUBSET U = (A, B)", _PAST, "A B+ C", "B AS LAST(U.price, 1) > 2 OR LAST(U.price, 1) IS NULL"),
    ("A.id AS a, C.id AS c", "SUBSET U = (A, B)", "SKIP TO LAST U", "A B+ C", _SIMPLE),
    ("A.id AS a, C.id AS c", "SUBSET U = (B, C)", "SKIP TO FIRST U", "A B+ C", _SIMPLE),
    ("A.id AS a, C.id AS c", "SUBSET U = (B)", "SKIP TO LAST U", "A B+ C", _SIMPLE),
    ("A.id AS a, C.id AS c", "SUBSET U = (B)", "SKIP TO U", "A B+ C", _SIMPLE),
    ("A.id AS a, SUM(U.price) AS s", "SUBSET U = (B, C)", "SKIP TO NEXT ROW", "A B+ C", _SIMPLE),
    ("A.id AS a, SUM(U.price) AS s", "SUBSET U = (A, X)", _PAST, "A B+ C", _SIMPLE),
    ("A.id AS a, SUM(B.price) AS s", "SUBSET A = (B, C)", _PAST, "A B+ C", _SIMPLE),
    ("A.id AS a, SUM(V.price) AS s", "SUBSET U = (A, B), V = (U, C)", _PAST, "A B+ C", _SIMPLE),
    ("A.id AS a", "SUBSET U = (A, B)", _PAST, "A U+ C", _SIMPLE),
    ("A.id AS a", "SUBSET U = (A, B)", _PAST, "A B+ C", "U AS U.price > 2, B AS B.price < A.price"),
    ("A.id AS a, C.id AS c", "SUBSET U = (A, B)", _PAST, "A B+ C", _SIMPLE),
    ("SUM(U.price * 2) AS s, MAX(U.price + U.id) AS m, LAST(U.price + U.id) AS l", "SUBSET U = (A, B)", _PAST, "A B+ C", _SIMPLE),
]  # fmt: skip
"""Measures, SUBSET, AFTER MATCH, pattern and conditions."""
WRAPPED = [
    ("RUNNING LAST(B.id) AS s, FINAL LAST(B.id) AS t, A.id AS a", "A B+ C", _SIMPLE),
    ("RUNNING SUM(B.price) AS s", "A B+ C", _SIMPLE),
    ("FINAL SUM(B.price) AS s", "A B+ C", _SIMPLE),
    ("RUNNING COUNT(B.id) AS s", "A B+ C", _SIMPLE),
    ("FINAL COUNT(B.id) AS s", "A B+ C", _SIMPLE),
    ("FINAL FIRST(A.id) AS s, RUNNING FIRST(B.id, 1) AS t", "A B+ C", _SIMPLE),
    ("FINAL A.id AS s", "A B+ C", _SIMPLE),
    ("RUNNING A.id AS s", "A B+ C", _SIMPLE),
    ("RUNNING AVG(B.price) AS s, FINAL MIN(B.price) AS t", "A B+ C", _SIMPLE),
    ("FINAL LAST(B.price * 2) AS s", "A B+ C", _SIMPLE),
    ("A.id + FINAL LAST(B.price) AS s", "A B+ C", _SIMPLE),
    ("FINAL LAST(B.price) + A.id AS s", "A B+ C", _SIMPLE),
    ("RUNNING LAST(B.price) + A.id AS s", "A B+ C", _SIMPLE),
    ("A.id AS a", "A B+ C", "B AS B.price < RUNNING LAST(A.price) OR B.price > 5"),
    ("A.id AS a", "A B+ C", "B AS B.price < FINAL LAST(A.price) OR B.price > 5"),
    ("A.id AS a", "A B+ C", "B AS RUNNING SUM(B.price) < 14"),
    ("A.id AS a", "A B+ C", "B AS FINAL SUM(B.price) < 14"),
    ("FINAL MATCH_ROWTIME() AS s", "A B+ C", _SIMPLE),
    ("FINAL UPPER(B.name) AS s", "A B+ C", _SIMPLE),
    ("RUNNING (A.id + B.id) AS s", "A B+ C", _SIMPLE),
    ("FINAL CAST(A.id AS STRING) AS s", "A B+ C", _SIMPLE),
]  # fmt: skip
"""Measures, pattern and conditions with RUNNING and FINAL."""


def grouped() -> list[dict[str, Any]]:
    """Statements with SUBSET, and with RUNNING and FINAL."""
    r = random.Random("x2")
    made = [
        _statement(r, measures, after, pattern, subset, defined)
        for measures, subset, after, pattern, defined in SUBSETS
    ]
    return made + [_statement(r, measures, _PAST, pattern, "", defined) for measures, pattern, defined in WRAPPED]


__all__ = ["cases", "chosen", "grouped"]
