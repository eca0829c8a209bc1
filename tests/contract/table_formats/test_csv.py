"""The format ``csv`` reads and writes as Flink 2.3 does (``csv.jsonl``, by ``record.py``)."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest

from tests.contract.table_formats.values import as_held, batch_of, held, recorded, row_type, values_of
from tidegate.connectors.formats.messages import PoisonRecord
from tidegate.table._formats.csv_reading import CsvReading
from tidegate.table._formats.csv_writing import CsvWriting


def reading(case: dict[str, Any]) -> CsvReading:
    given = case["options"].get
    return CsvReading(
        row_type(case["type"]),
        given("field-delimiter", ","),
        None if given("disable-quote-character") == "true" else given("quote-character", '"'),
        given("escape-character"),
        given("null-literal"),
        allows_comments=given("allow-comments") == "true",
        ignores_errors=given("ignore-parse-errors") == "true",
        trims=given("trim-spaces") == "true",
        ignores_trailing=given("ignore-trailing-unmappable") == "true",
        allows_trailing_delimiter=given("allow-trailing-comma", "true") == "true",
        empty_is_null=given("empty-string-as-null") == "true",
    )


def writing(case: dict[str, Any]) -> CsvWriting:
    given = case["options"].get
    return CsvWriting(
        row_type(case["type"]),
        given("field-delimiter", ","),
        None if given("disable-quote-character") == "true" else given("quote-character", '"'),
        given("escape-character"),
        given("null-literal", ""),
        decimals_are_plain=given("write-bigdecimal-in-scientific-notation") == "false",
    )


def cases_by_type() -> dict[str, list[dict[str, Any]]]:
    found = defaultdict(list)
    for case in recorded("csv", "reads"):
        found[case["type"]].append(case)
    return found


CASES = cases_by_type()


def is_beyond(case: dict[str, Any]) -> bool:
    """Whether the year is none of the column's, 1678 to 2261."""
    return "TIMESTAMP(9)" in case["type"] and case["text"] == "k,0001-01-01 00:00:00"


def wanted(case: dict[str, Any]) -> list[Any]:
    return [as_held(row, row_type(case["type"])) for row in case["rows"] if row is not None]


@pytest.mark.parametrize("type", CASES)
def test_a_line_is_read_as_flink_reads_it(type: str) -> None:
    for case in CASES[type]:
        given = pa.array([None if case["text"] is None else case["text"].encode()], pa.binary())
        if "error" in case or is_beyond(case):
            with pytest.raises(PoisonRecord):
                print(case, reading(case).read(given))
            continue
        rows, counts = reading(case).read(given)
        assert values_of(rows, row_type(type)) == wanted(case), case
        assert counts is None or counts.tolist() == [rows.num_rows], case


@pytest.mark.parametrize("type", CASES)
def test_lines_are_read_at_once_as_one_by_one(type: str) -> None:
    by_options = defaultdict(list)
    for case in CASES[type]:
        if "rows" in case and not is_beyond(case):
            by_options[str(case["options"])].append(case)
    for cases in by_options.values():
        contents = [None if case["text"] is None else case["text"].encode() for case in cases]
        rows, _ = reading(cases[0]).read(pa.array(contents, pa.binary()))
        assert values_of(rows, row_type(type)) == [row for case in cases for row in wanted(case)]


def test_plain_lines_are_read_by_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CsvReading, "_row", None)
    type = row_type("ROW<f BIGINT, g STRING, h TIMESTAMP(3), i BOOLEAN, j DATE>")
    lines = ["1,é,2020-01-02 03:04:05.5,true,2020-01-02", "-2,,2020-01-02 03:04:05,no,1970-01-01"]
    rows, counts = CsvReading(type).read(pa.array([line.encode() for line in lines], pa.binary()))
    assert counts is None
    assert values_of(rows, type) == [
        {"row": [1, "é", {"nanos": 1577934245500000000}, True, {"days": 18263}]},
        {"row": [-2, "", {"nanos": 1577934245000000000}, False, {"days": 0}]},
    ]


def test_rows_are_written_as_flink_writes_them() -> None:
    by_kind = defaultdict(list)
    for case in recorded("csv", "writes"):
        if held(case):
            by_kind[case["type"], str(case["options"])].append(case)
    assert len(by_kind) > 60
    for (type, options), cases in by_kind.items():
        rows = pa.concat_batches([batch_of(case["row"], row_type(type)) for case in cases])
        assert writing(cases[0]).texts(rows) == [case["text"] for case in cases], (type, options)
