"""Statements that once had other results than in Flink, and their relatives: recorded with those of ``chosen.py``."""

from __future__ import annotations

from collections.abc import Sequence

from tests.differential_tables.cases import Case
from tests.differential_tables.tables import Table

_TABLE = Table(
    "t",
    (("id", "INT"), ("s", "STRING"), ("p", "TIMESTAMP(3)"), ("ts", "TIMESTAMP(3)")),
    [
        [str(number), text, time, "2024-03-01 00:00:01.000"]
        for number, (text, time) in enumerate(
            [
                ("a", "2024-02-29 23:59:59.120"),
                ("12", "1969-12-31 23:59:59.001"),
                ("0000-01-01", "2024-02-29 12:00:00.500"),
                ("1 2", "2024-02-29 12:00:00.000"),
                ("true1", "NULL"),
                ("01", "NULL"),
                ('"a"b', "NULL"),
                ("2024-012-028", "2024-02-29 12:00:00.000"),
                ("2024-1-2 3:4:5", "2024-02-29 12:00:00.000"),
                ("true.x", "NULL"),
                ("1.", "NULL"),
                ("1,2", "NULL"),
            ]
        )
    ],
)
_NUMBERS = Table(
    "n",
    (
        ("id", "INT"),
        ("d", "DOUBLE"),
        ("f", "FLOAT"),
        ("x", "DECIMAL(12, 3)"),
        ("y", "DECIMAL(18, 2)"),
        ("w", "DECIMAL(38, 10)"),
        ("ts", "TIMESTAMP(3)"),
    ),
    [
        [str(number), *values.split(), "2024-03-01 00:00:01.000"]
        for number, values in enumerate(
            [
                "NaN NaN 0.000 9007199254740993.11 1.5",
                "-0.0 -0.0 0.000 1234567890123456.78 0",
                "0.0 0.0 0.000 0.10 0.0000000001",
                "1.5 1.5 1.500 1.50 1.5",
                "0.1 0.1 0.100 0.10 0.1",
                "Infinity Infinity 999999999.999 9999999999999999.99 1234567890123456789012345678.0123456789",
                "-Infinity -Infinity -999999999.999 -9999999999999999.99 -1",
                "9007199254740993.11 16777217 1.500 9007199254740993.11 9007199254740993.11",
                "NULL NULL NULL NULL NULL",
                "1.5 NULL 7.000 0.30 NULL",
            ]
        )
    ],
)
_COMPARED = (
    *(
        f"{left} {sign} {right}"
        for sign in ("=", "<>", "<", ">=")
        for left, right in (("d", "x"), ("x", "f"), ("d", "w"), ("y", "d"))
    ),
    *(f"{left} {sign} {right}" for sign in (">", "<=") for left, right in (("f", "x"), ("w", "f"), ("d", "y"))),
    "d > 0.5",
    "d = 0.0",
    "f <> 0.1",
    "f = 0.1",
    "d < 0.0",
    "0.0 <= d",
    "d BETWEEN 0.0 AND 1.5",
    "d IN (0.0, 1.5)",
    "f NOT IN (0.1, 1.5)",
    "d IN (0.0, 1.5, 2.5, 3.5, 4.5, 5.5)",
    "d BETWEEN x AND y",
    "d IS DISTINCT FROM x",
    "f IS NOT DISTINCT FROM w",
    "NULLIF(d, x)",
    "CASE d WHEN x THEN 1 WHEN y THEN 2 ELSE 3 END",
    "GREATEST(d, x)",
    "LEAST(f, x, w)",
    "COALESCE(d, x)",
    "CAST(y AS DOUBLE)",
    "CAST(y AS FLOAT)",
    "CAST(w AS DOUBLE)",
    "d * y",
    "d > TRY_CAST('a' AS DECIMAL(12, 3))",
)
_UNKNOWN = (
    "TRY_CAST('a' AS DECIMAL(12, 3))",
    "TRY_CAST('12x' AS DECIMAL(12, 3))",
    "TRY_CAST('a' AS DECIMAL(38, 3))",
    "TRY_CAST('a' AS DOUBLE)",
    "TRY_CAST('a' AS INT)",
    "CAST(NULL AS DOUBLE)",
)
_FILTERED = (
    f"SELECT {', '.join(f'SUM(id) FILTER (WHERE d > {one}), COUNT(DISTINCT x) FILTER (WHERE f >= {one})' for one in _UNKNOWN)} FROM n",
    f"SELECT id FROM n WHERE NOT (d > {_UNKNOWN[3]}) OR id < 2 AND x > {_UNKNOWN[0]} OR id > 4 AND d < {_UNKNOWN[1]}",
)
_OF_UNKNOWN = (
    "SELECT id, CASE WHEN d > CAST(NULL AS DOUBLE) THEN 1 ELSE 2 END, d > 0 AND CAST(NULL AS BOOLEAN), d > 0 OR CAST(NULL AS BOOLEAN), "
    "NOT (x > TRY_CAST('a' AS INT)), IF(x > TRY_CAST('a' AS INT), 1, 2), (x > TRY_CAST('a' AS INT)) IS NULL, "
    "TRY_CAST('x' AS BOOLEAN) IS NOT TRUE, TRY_CAST('x' AS DATE) IS NULL FROM n",
    "SELECT a.id, b.id FROM n AS a JOIN n AS b ON a.id = b.id AND a.d > b.x",
    "SELECT a.id, b.id FROM n AS a LEFT JOIN n AS b ON a.id = b.id AND a.d > TRY_CAST('a' AS INT)",
    "SELECT a.id, b.id FROM n AS a JOIN n AS b ON a.d = b.x",
    "SELECT x, COUNT(*) FROM n GROUP BY x HAVING MAX(d) > TRY_CAST('a' AS INT) OR COUNT(*) > 1",
    "SELECT x, MAX(d) FROM n GROUP BY x HAVING MAX(d) > x",
    "SELECT x, SUM(id) FILTER (WHERE TRY_CAST('a' AS BOOLEAN)), COUNT(*) FILTER (WHERE NOT TRY_CAST('a' AS BOOLEAN)), MIN(id) FILTER (WHERE d > x) "
    "FROM n GROUP BY x",
    "SELECT k, SUM(i) FILTER (WHERE d > TRY_CAST('a' AS DECIMAL(12, 3))), COUNT(DISTINCT i) FILTER (WHERE f <= k) FROM "
    "(SELECT MAX(id) AS i, MAX(d) AS d, MIN(f) AS f, MAX(x) AS k FROM n GROUP BY MOD(id, 3)) GROUP BY k",
)
_EXPRESSIONS = (
    "TRY_CAST(s AS TIMESTAMP(3))",
    "TRY_CAST(s AS DATE)",
    "TO_DATE(s)",
    "TO_TIMESTAMP(s)",
    "CAST(CAST(p AS TIME(3)) AS STRING)",
    "CAST(p AS TIME(3))",
    "CAST(p AS TIME(1))",
    "CAST(CAST(p AS TIME(2)) AS STRING)",
    "s IS JSON",
    "JSON_VALUE(s, '$')",
    "JSON_EXISTS(s, '$.a')",
    "TIMESTAMPDIFF(DAY, CAST(p AS TIMESTAMP_LTZ(3)), p)",
    "TIMESTAMPDIFF(MONTH, p, CAST(p AS TIMESTAMP_LTZ(3)))",
    "TIMESTAMPDIFF(MONTH, CAST(p AS TIMESTAMP_LTZ(3)), DATE '2024-01-01')",
    "TIMESTAMPDIFF(SECOND, CAST(p AS TIMESTAMP_LTZ(3)), DATE '2024-01-01')",
    "TIMESTAMPDIFF(DAY, DATE '2024-01-01', CAST(p AS TIMESTAMP_LTZ(3)))",
    "TIMESTAMPDIFF(YEAR, CAST(p AS TIMESTAMP_LTZ(3)), CAST(p AS TIMESTAMP_LTZ(0)))",
    "CAST(s AS BYTES) || CAST(s AS BYTES)",
    "CONCAT(s, s)",
    "ARRAY[CAST(s AS BYTES)]",
    "CAST(ARRAY[CAST(s AS BYTES)] AS STRING)",
    "FLOOR(CAST(p AS TIMESTAMP(9)) TO HOUR)",
    "CEIL(CAST(p AS TIMESTAMP(6)) TO MONTH)",
    "EXTRACT(HOUR FROM CAST(p AS TIMESTAMP(9)))",
    "CAST(p AS TIMESTAMP(9)) + INTERVAL '200' DAY(3)",
    "EXTRACT(YEAR FROM CAST(p AS TIMESTAMP_LTZ(9)))",
    "CAST('9999-12-31 23:59:59.123456' AS TIMESTAMP(6)) + CAST(id AS INT) * INTERVAL '0' DAY",
    "FLOOR(TIMESTAMPADD(DAY, -id, TIMESTAMP '9999-12-31 23:59:59.123456') TO DAY)",
    "TIMESTAMPADD(DAY, -id, TIMESTAMP '9999-12-31 23:59:59.123456')",
    "CAST(MAP[s, CAST(s AS BYTES)] AS STRING)",
    "MAP[s, CAST(s AS BYTES)]",
    "OVERLAY(s PLACING 'xx' FROM 2 FOR 0)",
    "CAST(p AS TIMESTAMP(9)) = CAST(p AS TIMESTAMP(3))",
    "ENCODE(s, 'UTF-16')",
    "ENCODE(SUBSTRING(s, 20), 'UTF-16')",
    "DECODE(ENCODE(s, 'UTF-16'), 'UTF-16')",
    "DECODE(ENCODE(s, 'UTF-16BE'), 'UTF-16')",
    "DECODE(ENCODE(s, 'UTF-16LE'), 'UTF-16LE')",
    "TYPEOF(s)",
    "TYPEOF(CAST(s AS BYTES))",
    "TYPEOF(CAST(p AS TIMESTAMP_LTZ(3)))",
    "TYPEOF(ARRAY[s])",
    "TYPEOF(MAP[s, CAST(s AS BYTES)])",
    "TYPEOF(ROW(id, s, CAST(p AS TIMESTAMP_LTZ(6))))",
    "TYPEOF(CAST(s AS CHAR(3)))",
)
_STATEMENTS = (
    ("SELECT id FROM t ORDER BY id OFFSET 3 ROWS", True),
    ("SELECT id FROM t ORDER BY id OFFSET 3 ROWS", False),
    ("SELECT id FROM t OFFSET 3 ROWS", False),
    ("SELECT AVG(x), SUM(x), AVG(DISTINCT x) FROM (SELECT 9223372036854775807 - id AS x FROM t)", False),
    ("SELECT AVG(x) FROM (SELECT CAST(2147483647 AS INT) AS x FROM t)", True),
    *(
        (f"SELECT id, {rank}() OVER (ORDER BY {order}) FROM t", False)
        for rank in ("RANK", "DENSE_RANK", "PERCENT_RANK")
        for order in ("CAST(s AS BYTES)", "CAST(p AS TIMESTAMP_LTZ(3))", "CAST(p AS TIME(0))")
    ),
)

_OF_DIGITS = (
    "SELECT id, UNHEX(s) AS a, UNHEX(SUBSTRING('a1B2c3D4', 1 + MOD(id, 3), MOD(id, 6))) AS b, UNHEX(HEX(id)) AS c FROM t",
    "SELECT id, UNHEX('g' || SUBSTRING('ab12', 1, MOD(id, 4))) AS a, UNHEX(SUBSTRING('ab12', 1, MOD(id, 4)) || 'g') AS b FROM t",
    "SELECT id, UNHEX('ä' || SUBSTRING('ab12', 1, MOD(id, 4))) AS a, UNHEX(SUBSTRING('ab12', 1, MOD(id, 4)) || ' ') AS b FROM t",
)


def found() -> Sequence[Case]:
    """The cases; their numbers stand for seeds."""
    statements = [*((f"SELECT id, {one} AS e FROM t", True) for one in _EXPRESSIONS), *_STATEMENTS]
    made = [(_TABLE, query, is_streaming) for query, is_streaming in statements]
    made += [
        (_NUMBERS, f"SELECT id, {', '.join(_COMPARED[at : at + 16])} FROM n", True)
        for at in range(0, len(_COMPARED), 16)
    ]
    made += [(_NUMBERS, query, True) for query in (*_FILTERED, *_OF_UNKNOWN)]
    made += [(_NUMBERS, query, False) for query in _OF_UNKNOWN if " JOIN " not in query]
    made += [(_TABLE, query, True) for query in _OF_DIGITS]
    options = {"table.local-time-zone": "Europe/Berlin"}
    return [
        Case(number, "found", (table,), query, is_streaming, is_streaming and " JOIN " not in query, options)
        for number, (table, query, is_streaming) in enumerate(made)
    ]
