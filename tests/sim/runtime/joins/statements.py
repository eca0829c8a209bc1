"""Joins of two streams with the rows that Flink 2.3.0 leaves of them: what a simulated job must leave whatever fails.

python -m tests.sim.runtime.joins.statements     runs those that are new through Flink and writes ``recorded.json.xz``
"""

from __future__ import annotations

import json
import lzma
import random
import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path

import msgspec

from tests.differential_tables.cases import Case
from tests.differential_tables.judge import Judged, judged
from tests.differential_tables.tables import NULL, Table, changing

_FILE = Path(__file__).with_name("recorded.json.xz")
_COLUMNS = (("id", "INT"), ("k", "STRING"), ("n", "INT"), ("ts", "TIMESTAMP(3)"))
_ROWS = 90
_WINDOWS = "(SELECT * FROM TABLE(TUMBLE(TABLE {}, DESCRIPTOR(ts), INTERVAL '40' SECOND)))"
_EQUAL_WINDOWS = "a.window_start = b.window_start AND a.window_end = b.window_end"
_BOTH = "a.id, b.id AS bi, a.k, a.n, b.n AS bn"
STATEMENTS: Mapping[str, str] = {
    "inner join of changes": f"SELECT {_BOTH} FROM p AS a JOIN q AS b ON a.k = b.k",
    "full join of changes": f"SELECT {_BOTH} FROM c AS a FULL JOIN d AS b ON a.k = b.k AND a.n < b.n",
    "left join of keys": f"SELECT {_BOTH} FROM p AS a LEFT JOIN q AS b ON a.id = b.id",
    "anti join of changes": "SELECT a.id, a.k, a.n FROM c AS a WHERE NOT EXISTS (SELECT 1 FROM d AS b WHERE a.k = b.k AND a.n = b.n)",
    "interval join": f"SELECT {_BOTH} FROM t AS a JOIN u AS b ON a.k = b.k AND a.ts BETWEEN b.ts - INTERVAL '20' SECOND AND b.ts + INTERVAL '40' SECOND",
    "outer interval join": f"SELECT {_BOTH} FROM t AS a FULL JOIN u AS b ON a.k = b.k AND a.ts BETWEEN b.ts AND b.ts + INTERVAL '25' SECOND",
    "interval join by the clock": f"SELECT {_BOTH} FROM y AS a JOIN z AS b ON a.k = b.k AND a.pt BETWEEN b.pt - INTERVAL '1' DAY AND b.pt + INTERVAL '1' DAY",
    "temporal join": "SELECT a.id, a.k, a.n, b.n AS bn FROM t AS a JOIN h FOR SYSTEM_TIME AS OF a.ts AS b ON a.k = b.k",
    "left temporal join": "SELECT a.id, a.k, a.n, b.n AS bn FROM u AS a LEFT JOIN h FOR SYSTEM_TIME AS OF a.ts AS b ON a.k = b.k AND b.n < 4",
    "join of windows": f"SELECT {_BOTH} FROM {_WINDOWS.format('t')} AS a FULL JOIN {_WINDOWS.format('u')} AS b ON a.k = b.k AND {_EQUAL_WINDOWS}",
    "anti join of windows": f"SELECT a.id, a.k, a.n FROM {_WINDOWS.format('t')} AS a WHERE NOT EXISTS "
    f"(SELECT 1 FROM {_WINDOWS.format('u')} AS b WHERE a.k = b.k AND {_EQUAL_WINDOWS})",
    "matches": "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts, id MEASURES FIRST(A.id) AS x, LAST(B.id) AS y ONE ROW PER MATCH "
    "AFTER MATCH SKIP TO NEXT ROW PATTERN (A B* C) DEFINE B AS B.n <= A.n, C AS C.n > LAST(A.n))",
}
"""``p`` and ``q`` change and have the key ``id``, ``c`` and ``d`` change and have none, ``t`` and ``u`` grow, and so do ``y`` and ``z``, which have a time
of the clock; ``h`` has versions of the key ``k``, whose times grow. No row is late by its time: what is late depends on how the inputs interleave."""


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
    tables |= {name: _by_the_clock(_growing(r, name)) for name in "yz"} | {"h": _versions(r, "h")}
    options = {"table.local-time-zone": "UTC"}
    return [
        Case(number, kind, _read_by(query, tables), query, True, False, options)
        for number, (kind, query) in enumerate(STATEMENTS.items())
    ]


def _read_by(query: str, tables: Mapping[str, Table]) -> tuple[Table, ...]:
    return tuple(table for name, table in tables.items() if re.search(rf"\b(?:FROM|JOIN|TABLE) {name}\b", query))


def _row(r: random.Random, number: int, second: int) -> list[str]:
    key = r.choice([*"abcdefgh", NULL])
    return [str(number), key, str(r.randint(1, 4)), _time(second)]


def _time(second: int) -> str:
    return f"2024-03-01 00:{second // 60:02d}:{second % 60:02d}.000"


def _growing(r: random.Random, name: str) -> Table:
    times = sorted(r.randrange(600) for _ in range(_ROWS))
    return Table(name, _COLUMNS, [_row(r, number, max(at - r.randrange(8), 0)) for number, at in enumerate(times)])


def _changing(r: random.Random, name: str, key: str) -> Table:
    columns = tuple((column, f"{type} NOT NULL" if column == key else type) for column, type in _COLUMNS)
    fresh = [_row(r, r.randrange(24 if key else 4), 7 * number) for number in range(_ROWS * 2 // 3)]
    kinds, rows = changing(r, fresh, 0 if key else None)
    return Table(name, columns, rows, key=key, kinds=kinds)


def _by_the_clock(table: Table) -> Table:
    return replace(table, columns=(*_COLUMNS, ("pt", "TIMESTAMP_LTZ(3)")), computed={"pt": "PROCTIME()"})


def _versions(r: random.Random, name: str) -> Table:
    columns = tuple((column, f"{type} NOT NULL" if column == "k" else type) for column, type in _COLUMNS)
    fresh = [_row(r, number, 10 * number) for number in range(_ROWS * 2 // 3)]
    kinds, changed = changing(r, [[row[0], r.choice("abcdefgh"), *row[2:]] for row in fresh], 1)
    rows = list(changed)
    number = -1
    for at, kind in enumerate(kinds):
        number += kind != "-U"
        if kind == "-D":  # at a time of its own: one of its version's would be late
            rows[at] = [*rows[at][:3], _time(10 * number)]
    return Table(name, columns, rows, key="k", kinds=kinds)


def main() -> None:
    known = {one.case.query: one for one in (recorded().values() if _FILE.exists() else ())}
    cases = _cases()
    fresh = {one.case.query: one for one in judged([case for case in cases if case.query not in known])}
    made = [(known | fresh)[case.query] for case in cases]
    for one in made:
        assert one.plan is not None, (one.case.kind, one.error)
        assert one.error is None, (one.case.kind, one.error)
        print(f"{one.case.kind}: {len(one.changes)} changes")
    lines = [asdict(one) for one in made]
    _FILE.write_bytes(lzma.compress(json.dumps(lines, ensure_ascii=False).encode(), preset=9 | lzma.PRESET_EXTREME))


if __name__ == "__main__":
    main()
