"""Statements of corners that random ones seldom meet (``chosen.txt``, one a line): NaN and -0.0 as values, keys and in orders (``odd``); rows that are late or
of the watermark's own time, before and after 1970 (``late``); PERCENTILE (``percentile``)."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from pathlib import Path

from tests.differential_tables.cases import Case, Table

_LINE = re.compile(r"(?P<kind>\w+) (?P<mode>streaming|batch): (?P<query>.+)")
_ODD = (
    "a 0.0, a -0.0, b NaN, a NaN, b 1.5, b -0.0, a NaN, b 0.0, c NULL, c Infinity, c NaN, c -Infinity, d NaN, d 2.5, d NaN, e 0.0, e -0.0, "
    "g -0.0, g 0.0"
)
_OTHERS = "a -0.0, b NaN, a 1.5, c 0.0, b NaN, c NULL"
_LATE = (
    "a 10, b 5, a 5, c 4, b 12, a 7, c 7, a 6, d 6, a 30, b 25, b 24, a 25, e 25, e 24, f 26, f 26, f 25, c 26, c 22, a 60, a 55, b 54, g 50, g 55, "
    "b 58, a 58, c 100, a 95, b 94, g 96, b 95, b 101, a 140, b 135, e 134, e 135, f 120"
)
"""Keys, and seconds; the watermark is 5 s behind."""


def chosen() -> list[Case]:
    """Returns all of them."""
    odd = (_odd("t", "d", _ODD), _odd("u", "e", _OTHERS))
    late = [(_late(datetime.datetime(2024, 1, 1)),), (_late(datetime.datetime(1969, 12, 31, 23, 59)),)]
    made: list[Case] = []
    for line in Path(__file__).with_name("chosen.txt").read_text("utf-8").splitlines():
        found = _LINE.fullmatch(line)
        assert found is not None, line
        streams = found["mode"] == "streaming"
        for tables in late if found["kind"] == "late" else [odd]:
            options = {"table.local-time-zone": "UTC"}
            is_exact = (
                streams and found["kind"] != "late" and " u" not in found["query"]
            )  # timers, and two files, have an order of Flink's own
            made.append(Case(len(made), found["kind"], tables, found["query"], streams, is_exact, options))
    return made


def _odd(name: str, column: str, pairs: str) -> Table:
    columns = [("id", "INT"), ("k", "STRING"), ("ts", "TIMESTAMP(3)"), (column, "DOUBLE")]
    if name == "t":
        columns.append(("f", "FLOAT"))
    rows = [
        (str(at), key, f"2024-01-01 00:00:{at:02d}.000", *[value] * (len(columns) - 3))
        for at, (key, value) in enumerate(_pairs(pairs))
    ]
    return Table(name, tuple(columns), tuple(rows))


def _late(start: datetime.datetime) -> Table:
    columns = (("id", "INT"), ("k", "STRING"), ("ts", "TIMESTAMP(3)"), ("v", "INT"))
    rows = [
        (str(at), key, f"{start + datetime.timedelta(seconds=int(second))}.000", str(at % 5))
        for at, (key, second) in enumerate(_pairs(_LATE))
    ]
    return Table("t", columns, tuple(rows), delay_s=5)


def _pairs(text: str) -> Sequence[tuple[str, str]]:
    return [(pair.split()[0], pair.split()[1]) for pair in text.split(", ")]
