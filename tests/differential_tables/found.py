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
)


def found() -> Sequence[Case]:
    """The cases; their numbers stand for seeds."""
    statements = [*((f"SELECT id, {one} AS e FROM t", True) for one in _EXPRESSIONS), *_STATEMENTS]
    options = {"table.local-time-zone": "Europe/Berlin"}
    return [
        Case(number, "found", (_TABLE,), query, is_streaming, is_streaming, options)
        for number, (query, is_streaming) in enumerate(statements)
    ]
