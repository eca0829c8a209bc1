"""Joins of two streams with the rows that Flink 2.3.0 leaves of them: what a simulated job must leave whatever fails.

python -m tests.sim.runtime.joins.statements     runs them through Flink and writes ``recorded.json.xz`` anew
"""

from __future__ import annotations

import json
import lzma
import random
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path

import msgspec

from tests.differential_tables.cases import Case
from tests.differential_tables.judge import Judged, judged
from tests.differential_tables.tables import NULL, Table, changing

_FILE = Path(__file__).with_name("recorded.json.xz")
_COLUMNS = (("id", "INT"), ("k", "STRING"), ("n", "INT"), ("ts", "TIMESTAMP(3)"))
_ROWS = 90
_BOTH = "a.id, b.id AS bi, a.k, a.n, b.n AS bn"
STATEMENTS: Mapping[str, str] = {
    "inner join of changes": f"SELECT {_BOTH} FROM p AS a JOIN q AS b ON a.k = b.k",
    "full join of changes": f"SELECT {_BOTH} FROM c AS a FULL JOIN d AS b ON a.k = b.k AND a.n < b.n",
    "left join of keys": f"SELECT {_BOTH} FROM p AS a LEFT JOIN q AS b ON a.id = b.id",
    "anti join of changes": "SELECT a.id, a.k, a.n FROM c AS a WHERE NOT EXISTS (SELECT 1 FROM d AS b WHERE a.k = b.k AND a.n = b.n)",
    "interval join": f"SELECT {_BOTH} FROM t AS a JOIN u AS b ON a.k = b.k AND a.ts BETWEEN b.ts - INTERVAL '20' SECOND AND b.ts + INTERVAL '40' SECOND",
    "outer interval join": f"SELECT {_BOTH} FROM t AS a FULL JOIN u AS b ON a.k = b.k AND a.ts BETWEEN b.ts AND b.ts + INTERVAL '25' SECOND",
}
"""``p`` and ``q`` change and have the key ``id``, ``c`` and ``d`` change and have none, ``t`` and ``u`` grow. No row is late by
its time: what is late depends on how the inputs interleave."""


@cache
def recorded() -> Mapping[str, Judged]:
    """The statements by name, as Flink ran them."""
    found = msgspec.json.decode(lzma.decompress(_FILE.read_bytes()), type=list[Judged])
    return {one.case.kind: one for one in found}


def _cases() -> list[Case]:
    r = random.Random(40)
    tables = {name: _growing(r, name) for name in "tu"} | {
        name: _changing(r, name, key) for name, key in (("p", "id"), ("q", "id"), ("c", ""), ("d", ""))
    }
    options = {"table.local-time-zone": "UTC"}
    return [
        Case(number, kind, tuple(tables[name] for name in tables if f" {name} " in query), query, True, False, options)
        for number, (kind, query) in enumerate(STATEMENTS.items())
    ]


def _row(r: random.Random, number: int, second: int) -> list[str]:
    key = r.choice([*"abcdefgh", NULL])
    return [str(number), key, str(r.randint(1, 4)), f"2024-03-01 00:{second // 60:02d}:{second % 60:02d}.000"]


def _growing(r: random.Random, name: str) -> Table:
    times = sorted(r.randrange(600) for _ in range(_ROWS))
    return Table(name, _COLUMNS, [_row(r, number, max(at - r.randrange(8), 0)) for number, at in enumerate(times)])


def _changing(r: random.Random, name: str, key: str) -> Table:
    columns = tuple((column, f"{type} NOT NULL" if column == key else type) for column, type in _COLUMNS)
    fresh = [_row(r, r.randrange(24 if key else 4), 7 * number) for number in range(_ROWS * 2 // 3)]
    kinds, rows = changing(r, fresh, 0 if key else None)
    return Table(name, columns, rows, key=key, kinds=kinds)


def main() -> None:
    made = judged(_cases())
    for one in made:
        assert one.plan is not None, (one.case.kind, one.error)
        assert one.error is None, (one.case.kind, one.error)
        print(f"{one.case.kind}: {len(one.changes)} changes")
    lines = [asdict(one) for one in made]
    _FILE.write_bytes(lzma.compress(json.dumps(lines, ensure_ascii=False).encode(), preset=9 | lzma.PRESET_EXTREME))


if __name__ == "__main__":
    main()
