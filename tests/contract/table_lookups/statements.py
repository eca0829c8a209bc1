"""Statements that join rows with a table by its keys at present, and the rows of both."""

from __future__ import annotations

from typing import Final

Texts = tuple[str | None, ...]

PROBE_COLUMNS: Final = "id INT, k BIGINT, name STRING"
PROBE: Final[tuple[Texts, ...]] = (
    ("1", "1", "a"), ("2", "2", "b"), ("3", None, "c"), ("4", "2", None), ("5", "9", "e"), ("6", "3", "b"), ("1", "4", "d"),
    ("7", "5", "a"), ("2", "1", "c"), ("8", "-1", "b"),
)  # fmt: skip
TABLE_COLUMNS: Final = "y STRING, id BIGINT, price DECIMAL(10, 2), z INT, x DOUBLE"
TABLE: Final[tuple[Texts, ...]] = (
    ("a", "1", "10.50", "5", "0.5"), ("b", "2", "20.00", "1", None), ("b", "2", "21.25", "7", "2.5"), ("c", "3", None, "9", "1.0"),
    ("d", None, "4.00", "4", "4.0"), (None, "4", "5.00", None, "4.5"), ("b", "2", "1.00", "9", "-1.0"), ("e", "-1", "0.01", "0", "0.0"),
)  # fmt: skip

_GROUPS = "(SELECT name, MAX(k) AS k, COUNT(*) AS n, PROCTIME() AS pt FROM o GROUP BY name)"
_AS_OF = "FOR SYSTEM_TIME AS OF o.pt AS d ON"
STATEMENTS: Final[dict[str, tuple[str, str]]] = {
    "inner": ("id INT, y STRING, price DECIMAL(10, 2)", f"SELECT o.id, d.y, d.price FROM o JOIN d {_AS_OF} o.k = d.id"),
    "left": ("id INT, y STRING, x DOUBLE", f"SELECT o.id, d.y, d.x FROM o LEFT JOIN d {_AS_OF} o.k = d.id"),
    "two keys": ("id INT, z INT", f"SELECT o.id, d.z FROM o LEFT JOIN d {_AS_OF} o.k = d.id AND o.name = d.y"),
    "a constant key": ("id INT, z INT", f"SELECT o.id, d.z FROM o LEFT JOIN d {_AS_OF} o.k = d.id AND d.y = 'b'"),
    "only a constant key": ("id INT, z INT", f"SELECT o.id, d.z FROM o JOIN d {_AS_OF} d.id = 2 WHERE o.id < 3"),
    "a condition on the table": ("id INT, z INT", f"SELECT o.id, d.z FROM o LEFT JOIN d {_AS_OF} o.k = d.id AND d.z > 4"),
    "a condition on both": (
        "id INT, price DECIMAL(10, 2)", f"SELECT o.id, d.price FROM o LEFT JOIN d {_AS_OF} o.k = d.id AND d.price > o.id * 10",
    ),
    "a condition on the rows": ("id INT, z INT", f"SELECT o.id, d.z FROM o LEFT JOIN d {_AS_OF} o.k = d.id AND o.id > 3"),
    "a condition on the rows, inner": ("id INT, z INT", f"SELECT o.id, d.z FROM o JOIN d {_AS_OF} o.k = d.id AND o.id > 3"),
    "all conditions": (
        "id INT, z INT", f"SELECT o.id, d.z FROM o LEFT JOIN d {_AS_OF} o.k = d.id AND o.id < 7 AND d.z > 4 AND d.x * 4 > o.id",
    ),
    "a filter behind": ("id INT, z INT", f"SELECT o.id, d.z FROM o LEFT JOIN d {_AS_OF} o.k = d.id WHERE d.z IS NULL OR d.z > 5"),
    "expressions": (
        "a INT, b STRING", f"SELECT o.id + d.z, o.name || d.y FROM o JOIN d {_AS_OF} o.k + 1 = d.id AND d.y || 'x' <> o.name",
    ),
    "no column of the table": ("id INT", f"SELECT o.id FROM o JOIN d {_AS_OF} o.k = d.id"),
    "changes": (
        "name STRING, n BIGINT, y STRING, z INT",
        f"SELECT o.name, o.n, d.y, d.z FROM {_GROUPS} AS o JOIN d {_AS_OF} o.k = d.id",
    ),
    "changes, left": (
        "name STRING, n BIGINT, y STRING, z INT",
        f"SELECT o.name, o.n, d.y, d.z FROM {_GROUPS} AS o LEFT JOIN d {_AS_OF} o.k = d.id AND d.z > 4",
    ),
    "an aggregate behind": ("y STRING, n BIGINT", f"SELECT d.y, COUNT(*) FROM o JOIN d {_AS_OF} o.k = d.id GROUP BY d.y"),
    "twice": (
        "id INT, z INT, y STRING",
        "SELECT o.id, d.z, e.y FROM o JOIN d FOR SYSTEM_TIME AS OF o.pt AS d ON o.k = d.id "
        "LEFT JOIN d FOR SYSTEM_TIME AS OF o.pt AS e ON d.z = e.id",
    ),
}  # fmt: skip
"""By name: the columns of the result, and the statement."""
