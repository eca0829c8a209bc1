"""Top-N statements whose last rank is a field."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

DDL = "CREATE TABLE t (id INT, k STRING, v INT, n INT) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')"
ROWS = [
    [1, "a", 5, 2], [2, "a", 3, 1], [3, "a", 9, 2], [4, "b", 1, 1], [5, "a", 7, 3], [6, "b", 4, 2], [7, "a", 1, 2], [8, "b", 2, 1], [9, "c", 8, 0],
    [10, "c", 6, 4], [11, "d", 6, -1], [12, "d", 5, 4],
]  # fmt: skip
UPDATES = "(SELECT id % 4 AS id, MAX(k) AS k, SUM(v) AS v, MAX(n) AS n FROM t GROUP BY id % 4)"


def queries() -> Iterator[str]:
    for columns, partition, order, source, condition in (
        ("id, k, v, n, rn", "k", "v", "t", "rn <= n"),
        ("id, k, v, n", "k", "v DESC", "t", "rn <= n"),
        ("id, k, v, n, rn", "k, n", "v", "t", "rn <= n"),
        ("id, k, v, n, rn", "k", "v", UPDATES, "rn <= n"),
        ("id, k, v, n", "k", "v", UPDATES, "rn <= n"),
        ("id, k, v, n", "k", "v", "t", "rn < n"),
        ("id, k, v, n", "k, n", "v", "t", "rn < n"),
        ("id, k, v, n", "k, v", "id", "t", "rn <= n"),
        ("id, k, v, n, rn", "k, n", "v DESC", UPDATES, "rn <= n"),
        ("id, v, n, rn", "id % 2", "v", "t", "rn <= n"),
        ("id, k, v, n", "k", "v", "t", "rn <= id"),
    ):
        ranked = f"SELECT *, ROW_NUMBER() OVER (PARTITION BY {partition} ORDER BY {order}) AS rn FROM {source}"
        yield f"SELECT {columns} FROM ({ranked}) WHERE {condition}"


def cases() -> list[dict[str, Any]]:
    text = "".join(f"{','.join(map(str, row))}\n" for row in ROWS)
    table = {"name": "t", "ddl": DDL, "text": text}
    return [{"tables": [table], "query": query, "is_streaming": True, "options": {}} for query in queries()]
