"""Writes ``constraints.json.xz``: what Flink 2.3's ``print`` tables write of rows that do not fit their columns, and the plans.

    python -m tests.contract.table_constraints.record

Each case is an ``INSERT`` of rows into a table, with options. ``lines``: what was printed; ``error``: the innermost reason where the job failed;
``refused``: where the statement was not planned. A case that is there already is not recorded again.
"""

from __future__ import annotations

import json
import lzma
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RECORDING = HERE / "constraints.json.xz"
ENFORCERS = {
    "not-null": "table.exec.sink.not-null-enforcer",
    "length": "table.exec.sink.type-length-enforcer",
    "nested": "table.exec.sink.nested-constraint-enforcer",
}
TEXTS = ["", "a", "abc", "abcd", "ä😀x", "ää😀ä", "a  ", "abc ", " äbc"]
BYTES = ["", "01", "010203", "01020304", "00", "000000"]


def case(
    columns: str, rows: list[str], *, is_streaming: bool = True, query: str = "", **enforcers: str
) -> dict[str, Any]:
    """``rows``: each the expressions of a row. ``query``: of the rows as ``t``."""
    return {
        "columns": columns,
        "query": query.replace("{rows}", ", ".join(f"({row})" for row in rows))
        or "VALUES " + ", ".join(f"({row})" for row in rows),
        "is_streaming": is_streaming,
        "options": {ENFORCERS[name.replace("_", "-")]: value for name, value in enforcers.items()},
    }


def text(value: str) -> str:
    return f"CAST('{value}' AS STRING)"


def binary(value: str) -> str:
    return f"CAST(x'{value}' AS BYTES)"


def cases() -> Iterator[dict[str, Any]]:
    null = "CAST(NULL AS {})".format
    for is_streaming in (True, False):
        for enforcer in ("ERROR", "DROP"):
            rows = [
                f"1, {text('a')}",
                f"{null('INT')}, {text('b')}",
                f"3, {null('STRING')}",
                f"{null('INT')}, {null('STRING')}",
            ]
            for first in range(4):
                chosen = rows[first:] if enforcer == "ERROR" else rows
                yield case("i INT NOT NULL, s STRING NOT NULL", chosen, is_streaming=is_streaming, not_null=enforcer)
                if enforcer == "DROP":
                    break
    yield case("i INT NOT NULL", ["1", null("INT")])
    for strategy in ("IGNORE", "TRIM_PAD", "ERROR"):
        for type in ("VARCHAR(3)", "STRING"):
            for value in TEXTS if strategy == "ERROR" else [None]:
                given = TEXTS if value is None else [value]
                yield case(f"i INT, s {type}", [f"1, {text(one)}" for one in given], length=strategy)
            yield case(f"i INT, s {type}", [f"1, {text('abc')}", f"2, {null('STRING')}"], length=strategy)
        for value in ("a", "abcd", "ä😀", "ää😀ä"):
            yield case("i INT, s CHAR(3)", [f"1, CAST('{value}' AS CHAR({len(value)}))"], length=strategy)
        yield case("i INT, s CHAR(3)", [f"1, {null('CHAR(5)')}"], length=strategy)
        for type in ("VARBINARY(3)", "BYTES"):
            for value in BYTES if strategy == "ERROR" else [None]:
                given = BYTES if value is None else [value]
                yield case(f"i INT, s {type}", [f"1, {binary(one)}" for one in given], length=strategy)
            yield case(f"i INT, s {type}", [f"1, {binary('010203')}", f"2, {null('BYTES')}"], length=strategy)
        for value in ("01", "010203", "01020304"):
            yield case("i INT, s BINARY(3)", [f"1, x'{value}'"], length=strategy)
        yield case(
            "b VARBINARY(2), c VARCHAR(2)",
            [f"{binary('0102')}, {text('ab')}", f"{binary('010203')}, {text('abc')}"],
            length=strategy,
        )
        yield case(
            "a INT NOT NULL, s VARCHAR(2) NOT NULL",
            [f"{null('INT')}, {text('abc')}", f"1, {null('STRING')}", f"1, {text('abc')}"],
            length=strategy,
            not_null="DROP",
        )
        yield case(
            "s VARCHAR(2) NOT NULL, n BIGINT NOT NULL",
            [text("abc"), text("abd"), text("abc"), text("x")],
            query="SELECT s, COUNT(*) FROM (VALUES {rows}) AS t (s) GROUP BY s",
            length=strategy,
        )
    for enforcer in ("ERROR", "DROP"):
        yield case(
            "s STRING, n INT NOT NULL",
            [f"{text('a')}, 1", f"{text('b')}, {null('INT')}", f"{text('a')}, 3", f"{text('b')}, 4"],
            query="SELECT s, SUM(n) FROM (VALUES {rows}) AS t (s, n) GROUP BY s",
            not_null=enforcer,
        )
    yield from nested_cases(null)


def nested_cases(null: Any) -> Iterator[dict[str, Any]]:
    row = "r ROW<n INT NOT NULL, s VARCHAR(2)>"
    deep = "r ROW<m INT, r ROW<n INT NOT NULL, s VARCHAR(2) NOT NULL> NOT NULL>"
    rows = [
        f"ROW(1, {text('ab')})",
        f"ROW(2, {text('abc')})",
        f"ROW({null('INT')}, {text('a')})",
        f"ROW({null('INT')}, {text('abc')})",
    ]
    deep_rows = [f"ROW(1, {one})" for one in rows] + [f"ROW({null('INT')}, {rows[0]})"]
    columns: dict[str, list[str]] = {
        row: [*(f"{one}" for one in rows)],
        deep: deep_rows,
        "a ARRAY<VARCHAR(2)>": [f"ARRAY[{text('ab')}]", f"ARRAY[{text('a')}, {text('abc')}]", null("ARRAY<STRING>")],
        "a ARRAY<INT NOT NULL>": ["ARRAY[1, 2]", f"ARRAY[3, {null('INT')}, {null('INT')}]", "ARRAY[4]"],
        "a ARRAY<ARRAY<INT NOT NULL>>": ["ARRAY[ARRAY[1], ARRAY[2]]", f"ARRAY[ARRAY[1], ARRAY[3, {null('INT')}]]"],
        "a ARRAY<ROW<n INT NOT NULL, s VARCHAR(2)>>": [f"ARRAY[{one}]" for one in rows]
        + [f"ARRAY[{rows[0]}, {rows[1]}, {rows[2]}]", f"ARRAY[{rows[0]}, {rows[2]}, {rows[1]}]"],
        "m MAP<STRING, INT NOT NULL>": [f"MAP[{text('a')}, 1]", f"MAP[{text('a')}, 1, {text('b')}, {null('INT')}]"],
        "m MAP<VARCHAR(2), VARCHAR(1)>": [
            f"MAP[{text('a')}, {text('a')}]",
            f"MAP[{text('abc')}, {text('b')}]",
            f"MAP[{text('ab')}, {text('bc')}]",
        ],
        "m MAP<STRING, ROW<n INT NOT NULL, s VARCHAR(2)>>": [f"MAP[{text('k')}, {one}]" for one in rows],
        "m MAP<STRING, ARRAY<INT NOT NULL>>": [
            f"MAP[{text('k')}, ARRAY[1]]",
            f"MAP[{text('k')}, ARRAY[1, {null('INT')}]]",
        ],
        "r ROW<a ARRAY<INT NOT NULL>>": ["ROW(ARRAY[1])", f"ROW(ARRAY[{null('INT')}])"],
    }
    for column, given in columns.items():
        for nested in ("IGNORE", "ROWS", "ROWS_AND_COLLECTIONS"):
            for length in ("IGNORE", "TRIM_PAD", "ERROR"):
                if column == deep and (nested == "IGNORE" or length == "IGNORE"):
                    continue
                for enforcer in ("ERROR", "DROP"):
                    numbered = [f"{number}, {one}" for number, one in enumerate(given)]
                    yield case(f"i INT, {column}", numbered, nested=nested, length=length, not_null=enforcer)
            if nested != "IGNORE":
                for number, one in enumerate(given[1:], 1):
                    yield case(
                        f"i INT, {column}", [f"{number}, {one}"], nested=nested, length="ERROR", not_null="ERROR"
                    )


def recorded() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(lzma.decompress(RECORDING.read_bytes()))
    return found


def same(one: dict[str, Any]) -> str:
    """Returns the name of a case."""
    return json.dumps([one["columns"], one["query"], one["is_streaming"], one["options"]])


def record() -> None:
    from tests.servers.flink_environment import flink_environment

    done = {same(one): one for one in recorded()} if RECORDING.exists() else {}
    every = list(cases())
    found = [one for one in every if same(one) not in done]
    with tempfile.TemporaryDirectory() as folder:
        for start in range(0, len(found), 60):
            part = found[start : start + 60]
            given, results = Path(folder) / "cases", Path(folder) / "results"
            given.write_text("".join(json.dumps(one) + "\n" for one in part), "utf-8")
            ran = flink_environment().run(str(HERE / "flink_side.py"), str(given), str(results), limit_s=1500)
            lines: dict[int, list[str]] = {}
            for line in ran.stdout.splitlines():
                number, mark, rest = line.partition("> ")
                if mark and number.removeprefix("case").isdigit():
                    lines.setdefault(int(number.removeprefix("case")), []).append(rest)
            texts = results.read_text("utf-8").splitlines()
            assert len(texts) == len(part), ran.stdout[-3000:] + ran.stderr[-3000:]
            for place, (one, line) in enumerate(zip(part, texts, strict=True)):
                result = json.loads(line)
                if "refused" not in result:
                    result["lines"] = lines.get(place, [])
                done[same(one)] = {**one, **result}
            print(start + len(part), len(found), file=sys.stderr)
    kept = json.dumps([done[same(one)] for one in every], ensure_ascii=False).encode()
    RECORDING.write_bytes(lzma.compress(kept, preset=9))


if __name__ == "__main__":
    record()
