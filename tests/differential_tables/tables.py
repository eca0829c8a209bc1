"""Random small tables."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

Cells = Sequence[Sequence[str]]
NULL = "NULL"
"""The text of a null in the files."""
DOUBLES = ("NaN", "-0.0", "0.0", "1.5", "-2.125", "Infinity", "-Infinity", "100.0", "0.125", "3.0")
TEXTS = (
    "",
    "a",
    "b",
    "ab",
    "A b",
    "ä€",
    "😀x",
    "%_",
    "12",
    "-7.5",
    " 7 ",
    "true",
    "2024-02-29",
    "x,y",
    'q"q',
    "NaN",
    "1e3",
)
_VALUES: Mapping[str, Callable[[random.Random], str]] = {
    "TINYINT": lambda r: str(r.choice([-128, 127, r.randint(-5, 5)])),
    "SMALLINT": lambda r: str(r.choice([-32768, 32767, r.randint(-9, 9)])),
    "INT": lambda r: str(r.choice([-(2**31), 2**31 - 1, r.randint(-9, 9), r.randint(-9, 9), r.randint(-9, 9)])),
    "BIGINT": lambda r: str(r.choice([-(2**63), 2**63 - 1, r.randint(-99, 99), r.randint(-99, 99), 2**53 + 1])),
    "DOUBLE": lambda r: r.choice(DOUBLES),
    "FLOAT": lambda r: r.choice(("NaN", "-0.0", "0.0", "1.5", "-2.125", "Infinity", "0.1", "16777216")),
    "DECIMAL(10, 2)": lambda r: r.choice(["0.00", "99999999.99", "-99999999.99", f"{r.randint(-99, 99)}.{r.randint(10, 99)}"]),
    "DECIMAL(5, 0)": lambda r: r.choice(["0", "99999", "-1", str(r.randint(-99, 99))]),
    "DECIMAL(38, 10)": lambda r: r.choice(["0", "1.5", "-12345678901234567890.0123456789", "0.0000000001", "7"]),
    "STRING": lambda r: r.choice(TEXTS),
    "BOOLEAN": lambda r: r.choice(["true", "false"]),
    "DATE": lambda r: r.choice(["2024-02-29", "1970-01-01", "1969-12-31", "1900-03-01", "9999-12-31", f"2023-{r.randint(1, 12):02d}-28"]),
    "TIME(0)": lambda r: r.choice(["00:00:00", "23:59:59", f"{r.randint(0, 23):02d}:30:05"]),
    "TIMESTAMP(3)": lambda r: r.choice(
        ["2024-02-29 23:59:59.999", "1969-12-31 23:59:59.001", "2023-03-26 02:30:00.000", "2023-10-29 02:30:00.000", "2024-12-30 00:00:00.000"]
    ),
}  # fmt: skip
_COMPUTED: Mapping[str, str] = {
    "BYTES": "CAST(`s` AS BYTES)",
    "CHAR(3)": "CAST(`s` AS CHAR(3))",
    "VARCHAR(2)": "CAST(`s` AS VARCHAR(2))",
    "VARBINARY(3)": "CAST(CAST(`s` AS BYTES) AS VARBINARY(3))",
    "TIMESTAMP(0)": "CAST(`p` AS TIMESTAMP(0))",
    "TIMESTAMP(6)": "CAST('2024-02-29 12:00:00.00000' || CAST(MOD(`id`, 4) AS STRING) AS TIMESTAMP(6))",
    "TIMESTAMP(9)": "CAST('1969-12-31 23:59:59.99999999' || CAST(MOD(`id`, 3) AS STRING) AS TIMESTAMP(9))",
    "TIMESTAMP_LTZ(0)": "CAST(`p` AS TIMESTAMP_LTZ(0))",
    "TIMESTAMP_LTZ(3)": "CAST(`p` AS TIMESTAMP_LTZ(3))",
    "TIMESTAMP_LTZ(9)": "CAST(CAST('2023-10-29 02:30:00.12345678' || CAST(MOD(`id`, 3) AS STRING) AS TIMESTAMP(9)) AS TIMESTAMP_LTZ(9))",
    "TIME(3)": "CAST(`p` AS TIME(3))",
    "DECIMAL(3, 3)": "CAST(MOD(`id`, 4) / 8.0 AS DECIMAL(3, 3))",
    "DECIMAL(19, 4)": "CAST(MOD(`id`, 3) * 99999999999999.1234 AS DECIMAL(19, 4))",
    "DECIMAL(38, 0)": "CAST(`id` - 3 AS DECIMAL(38, 0)) * 1000000000000000000",
    "ARRAY<INT>": "ARRAY[MOD(`id`, 3), CAST(NULLIF(MOD(`id`, 4), 1) AS INT)]",
    "ARRAY<STRING>": "ARRAY[`s`, CAST(MOD(`id`, 2) AS STRING), `s`]",
    "MAP<STRING, INT>": "MAP['a', NULLIF(MOD(`id`, 3), 1), 'b', 7]",
    "ROW<a INT, b STRING>": "CAST(ROW(NULLIF(MOD(`id`, 4), 2), `s`) AS ROW<a INT, b STRING>)",
}
"""Columns of types that the files do not hold, over ``id``, ``s`` and ``p``."""
_KEYS: Mapping[str, Callable[[random.Random], str]] = {
    "INT": lambda r: str(r.randint(0, 3)),
    "BIGINT": lambda r: str(r.choice([0, 1, 2, -(2**63)])),
    "STRING": lambda r: r.choice(["", "a", "b", "ä"]),
    "BOOLEAN": lambda r: r.choice(["true", "false"]),
    "DATE": lambda r: r.choice(["2024-02-29", "1969-12-31", "1970-01-01"]),
    "DECIMAL(10, 2)": lambda r: r.choice(["0.00", "1.10", "-1.10"]),
    "TINYINT": lambda r: str(r.randint(-1, 1)),
}


@dataclass(frozen=True)
class Table:
    """``columns``: name and type, of which ``id`` comes first and differs from row to row, ``k`` is a key with few values, and ``ts`` the event time.

    ``computed``: the expressions of the columns that are not in the file; ``is_keyed``: ``k`` is its primary key; ``key``: another one; ``kinds``: the kinds of
    ``rows``, which are changes then, in a file of Debezium's.
    """

    name: str
    columns: tuple[tuple[str, str], ...]
    rows: Cells
    delay_s: int = 30
    """The watermark is so long behind the newest event time."""
    computed: Mapping[str, str] = field(default_factory=dict)
    is_keyed: bool = False
    key: str = ""
    kinds: Sequence[str] = ()

    def named(self, *types: str) -> list[str]:
        """The names of its columns, except ``ts``, whose types begin like this."""
        return [name for name, type in self.columns if type.startswith(types) and name != "ts"]

    @property
    def ddl(self) -> str:
        """With ``{path}`` for its file."""
        columns = [
            f"`{name}` AS {self.computed[name]}" if name in self.computed else f"`{name}` {type}"
            for name, type in self.columns
        ]
        if self.is_keyed:
            columns.append("PRIMARY KEY (`k`) NOT ENFORCED")
        if self.key:
            columns.append(f"PRIMARY KEY (`{self.key}`) NOT ENFORCED")
        columns.append(f"WATERMARK FOR `ts` AS `ts` - INTERVAL '{self.delay_s}' SECOND")
        form = "'debezium-json'" if self.kinds else f"'csv', 'csv.null-literal' = '{NULL}'"
        return (
            f"CREATE TABLE {self.name} ({', '.join(columns)}) WITH ('connector' = 'filesystem', 'path' = '{{path}}', "
            f"'format' = {form})"
        )

    @property
    def text(self) -> str:
        """Its file."""
        file = io.StringIO()
        if not self.kinds:
            csv.writer(file, lineterminator="\n").writerows(self.rows)
        stored = [(name, type) for name, type in self.columns if name not in self.computed]
        before = None
        for kind, row in zip(self.kinds, self.rows, strict=False):
            record = {name: _json(type, cell) for (name, type), cell in zip(stored, row, strict=True)}
            if kind == "+I":
                line = {"before": None, "after": record, "op": "c"}
            elif kind == "-D":
                line = {"before": record, "after": None, "op": "d"}
            else:
                line = {"before": before, "after": record, "op": "u"}
                before = record
            if kind != "-U":
                file.write(json.dumps(line) + "\n")
        return file.getvalue()


def _json(type: str, cell: str) -> int | str | None:
    return None if cell == NULL else int(cell) if type.startswith("INT") else cell


def table(
    r: random.Random, name: str, key: str, wide: Sequence[str], computed: Sequence[str], *, is_keyed: bool = False
) -> Table:
    """``wide``, ``computed``: the types of its columns beside ``id``, ``k`` and ``ts``; ``is_keyed``: ``k`` is declared as its primary key."""
    columns = [("id", "INT"), ("k", f"{key} NOT NULL" if is_keyed else key), ("ts", "TIMESTAMP(3)")]
    columns += [(f"c{i}", type) for i, type in enumerate(wide)]
    columns += [("s", "STRING"), ("p", "TIMESTAMP(3)")] if computed else []
    nulls = r.choice([0.0, 0.15, 0.5])
    rows, at = [], 0
    for number in range(r.choice([0, 1, 6, 12, 18]) if r.random() < 0.4 else r.randint(5, 16)):
        at += r.choice([0, 1, 1, 3, 7, 25])
        seconds = max(at - r.choice([0, 0, 0, 4, 20]), 0)
        cells = [str(number)]
        cells.append(NULL if not is_keyed and r.random() < nulls else _KEYS[key](r))
        cells.append(f"2024-03-01 00:{seconds // 60:02d}:{seconds % 60:02d}.000")
        cells += [
            NULL if " NOT NULL" not in type and r.random() < nulls else _VALUES[type.removesuffix(" NOT NULL")](r)
            for _, type in columns[3:]
        ]
        rows.append(cells)
    made = {f"d{i}": _COMPUTED[type] for i, type in enumerate(computed)}
    columns += zip(made, computed, strict=True)
    return Table(name, tuple(columns), rows, computed=made, is_keyed=is_keyed)


def changing(r: random.Random, fresh: Cells, key: int | None = None) -> tuple[list[str], Cells]:
    """Rows that come, change into others of ``fresh`` and go: the kinds of the changes, and their rows.

    ``key``: the column whose values differ between the rows that are there.
    """
    there: list[Sequence[str]] = []
    kinds: list[str] = []
    rows: list[Sequence[str]] = []
    for row in fresh:
        same = [before for before in there if key is not None and before[key] == row[key]]
        if not there or (not same and r.random() < 0.5):
            kinds, rows, there = [*kinds, "+I"], [*rows, row], [*there, row]
            continue
        before = same[0] if same else r.choice(there)
        there.remove(before)
        if r.random() < 0.4:
            kinds, rows = [*kinds, "-D"], [*rows, before]
            continue
        after = [before[at] if at == key else cell for at, cell in enumerate(row)]
        kinds, rows, there = [*kinds, "-U", "+U"], [*rows, before, after], [*there, after]
    return kinds, rows


def changes_of(r: random.Random, t: Table) -> Table:
    """A table whose rows are those of ``t``, and change; some have ``id`` as their key."""
    has_key = r.random() < 0.5
    fresh = t.rows if has_key else [[str(int(row[0]) % 4), *row[1:]] for row in t.rows]
    kinds, rows = changing(r, [*fresh, *fresh], 0 if has_key else None)
    columns = (("id", "INT NOT NULL"), *t.columns[1:]) if has_key else t.columns
    return replace(t, columns=columns, rows=rows, kinds=kinds, key="id" if has_key else "")


def types(r: random.Random) -> tuple[str, list[str], list[str]]:
    """The types of a key, of columns in files, and of computed columns."""
    key = r.choice(list(_KEYS))
    wide = [f"{type} NOT NULL" if r.random() < 0.15 else type for type in r.sample(list(_VALUES), r.randint(3, 6))]
    return key, wide, r.sample(list(_COMPUTED), r.randint(1, 4)) if r.random() < 0.6 else []
