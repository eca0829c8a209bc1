"""The format ``json`` reads as Flink 2.3 does (``json.jsonl``, by ``record.py``)."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest

from tests.contract.table_formats.values import as_held, recorded, row_type, values_of
from tidegate.connectors.formats.messages import PoisonRecord
from tidegate.model.errors import InvalidJob
from tidegate.plan.errors import UnsupportedPlan
from tidegate.table._formats.json_reading import JsonReading
from tidegate.table._formats.times import TimestampStandard

BEYOND = "TIMESTAMP(9)"
"""Its column holds the years 1678 to 2261."""
OTHERWISE = {
    (
        "ROW<f ARRAY<INT>>",
        '{"f": [[1]]}',
    ): "Flink's parser goes on inside of the array that it could not read, and finds another element",
}


def reading(case: dict[str, Any]) -> JsonReading:
    options = case["options"]
    return JsonReading(
        row_type(case["type"]),
        TimestampStandard(options.get("timestamp-format.standard", "SQL")),
        options.get("fail-on-missing-field") == "true",
        options.get("ignore-parse-errors") == "true",
    )


def cases_by_type() -> dict[str, list[dict[str, Any]]]:
    found = defaultdict(list)
    for case in recorded("json", "reads"):
        found[case["type"]].append(case)
    return found


CASES = cases_by_type()


def wanted(case: dict[str, Any]) -> list[Any]:
    """Flink's null rows are not passed on."""
    return [as_held(row, row_type(case["type"])) for row in case["rows"] if row is not None]


def is_beyond(case: dict[str, Any]) -> bool:
    return (
        BEYOND in case["type"]
        and "error" not in case
        and case["rows"][0]["row"] != [None]
        and any(year in case["text"] for year in ('"0001-', '"12020-'))
    )


@pytest.mark.parametrize("type", CASES)
def test_a_message_is_read_as_flink_reads_it(type: str) -> None:
    for case in CASES[type]:
        if "refused" in case:
            with pytest.raises((InvalidJob, UnsupportedPlan), match="non-string as key type"):
                reading(case)
            continue
        if (type, case["text"]) in OTHERWISE and case["options"]:
            continue
        given = pa.array([None if case["text"] is None else case["text"].encode()], pa.binary())
        if "error" in case or is_beyond(case):
            with pytest.raises(PoisonRecord):
                reading(case).read(given)
            continue
        rows, counts = reading(case).read(given)
        assert values_of(rows, row_type(type)) == wanted(case), case
        assert (1 if counts is None else counts.tolist()) == (1 if counts is None else [rows.num_rows]), case


@pytest.mark.parametrize("type", CASES)
def test_messages_are_read_at_once_as_one_by_one(type: str) -> None:
    by_options = defaultdict(list)
    for case in CASES[type]:
        if "rows" in case and not is_beyond(case) and (type, case["text"]) not in OTHERWISE:
            by_options[str(case["options"])].append(case)
    for cases in by_options.values():
        contents = [None if case["text"] is None else case["text"].encode() for case in cases]
        rows, counts = reading(cases[0]).read(pa.array(contents, pa.binary()))
        each = [wanted(case) for case in cases]
        assert values_of(rows, row_type(type)) == [row for rows in each for row in rows]
        if counts is not None:
            assert counts.tolist() == list(map(len, each))


def test_the_place_of_what_cannot_be_read_is_told() -> None:
    given = pa.array([b'{"f": 1}', b'{"f": "x"}', b"{"], pa.binary())
    with pytest.raises(PoisonRecord, match="field f: 'x' is no whole number") as told:
        JsonReading(row_type("ROW<f INT>")).read(given)
    assert told.value.index == 1
    far = pa.array([b'{"f": "2020-01-01 00:00:00"}', b'{"f": "0001-01-01 00:00:00"}'], pa.binary())
    with pytest.raises(PoisonRecord, match="out of the range of its column's type") as told:
        JsonReading(row_type("ROW<f TIMESTAMP(9)>")).read(far)
    assert told.value.index == 1


def test_a_batch_of_plain_rows_is_read_by_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JsonReading, "_rows", None)
    type = row_type("ROW<f BIGINT, g STRING, h TIMESTAMP(3), i ARRAY<DOUBLE>, j ROW<x INT, y STRING>>")
    message = b'{"g": "\xc3\xa9", "f": 1, "h": "2020-01-02 03:04:05.5", "i": [1, 2.5, null], "j": {"y": "a"}, "z": {}}'
    rows, counts = JsonReading(type).read(pa.array([message] * 3, pa.binary()))
    assert counts is None
    assert (
        values_of(rows, type)
        == [
            {
                "row": [
                    1,
                    "é",
                    {"nanos": 1577934245500000000},
                    {"list": [{"float": "1.0"}, {"float": "2.5"}, None]},
                    {"row": [None, "a"]},
                ]
            }
        ]
        * 3
    )
