"""JSON lines are valid JSON, and numbers that JSON lacks come back."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.tidegate.connectors.test_file_source import drain, states
from tidegate.common.typeinfo import Types
from tidegate.connectors.file_source import FileSource
from tidegate.connectors.files.encoders import JsonLinesEncoderFactory
from tidegate.connectors.formats.messages import JsonRowDeserializationSchema, JsonRowSerializationSchema
from tidegate.model.errors import SchemaMismatch

ODD = [math.nan, math.inf, -math.inf, None, 1.5]
NAMED = ["NaN", "Infinity", "-Infinity", None, 1.5]


def refuse(text: str) -> None:
    raise AssertionError(f"{text} is no JSON")


def written(data: pa.RecordBatch, path: Path) -> list[Any]:
    with pa.OSFile(str(path), "wb") as file:
        encoder = JsonLinesEncoderFactory().open(file, data.schema)
        encoder.write(data)
        encoder.finish()
    return [json.loads(line, parse_constant=refuse) for line in path.read_text().splitlines()]


def test_numbers_that_json_lacks_are_strings_and_come_back(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    data = pa.record_batch(
        {"d": ODD, "f": pa.array(ODD, pa.float32()), "s": ["NaN", "x", "Infinity", None, ""], "n": [1, 2, 3, 4, 5]}
    )
    data = data.append_column("l", pa.array([ODD, [], None, [1.0], ODD]))
    data = data.append_column("r", pa.array([{"d": d} for d in ODD]))
    found = written(data, path)
    assert [row["d"] for row in found] == [row["f"] for row in found] == NAMED
    assert [found[0]["l"], found[1]["r"]] == [NAMED, {"d": "Infinity"}]
    source = FileSource.for_json_lines(str(path), schema=data.schema)
    assert repr(drain(source, states(source))[0]) == repr(data.to_pylist())


def test_a_string_that_is_no_number_is_refused_as_ever(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"d":"NaN"}\n{"d":"nan"}\n')
    source = FileSource.for_json_lines(str(path), schema=pa.schema([("d", pa.float64())]))
    with pytest.raises(SchemaMismatch, match=r"a\.jsonl, in the block at byte 0: field 'd' of row 1: 'nan' is no"):
        drain(source, states(source))


def test_blank_lines_are_none_and_bytes_are_base64(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('\n{"d":"NaN"}\n\r\n  \n{"d":1}\n\n')
    source = FileSource.for_json_lines(str(path), schema=pa.schema([("d", pa.float64())]))
    assert repr(drain(source, states(source))[0]) == "[{'d': nan}, {'d': 1.0}]"
    assert written(pa.record_batch({"b": [b"\x00\xff"]}), path) == [{"b": "AP8="}]


def test_a_column_of_every_type_comes_back_as_it_was_written(tmp_path: Path) -> None:
    path, moment = tmp_path / "a.jsonl", dt.datetime(2024, 7, 1, 2, 3, 4, 5000)
    columns: list[tuple[str, pa.DataType, Any]] = [
        ("bytes", pa.binary(), b"\x00\xff"),
        ("two", pa.binary(2), b"\xff\x00"),
        ("day", pa.date32(), dt.date(1, 2, 3)),
        ("time", pa.time64("us"), dt.time(1, 2, 3, 4)),
        ("ms", pa.timestamp("ms"), moment),
        ("ns", pa.timestamp("ns"), moment),
        ("there", pa.timestamp("us", "Europe/Berlin"), moment),
        ("map", pa.map_(pa.string(), pa.date32()), [("a", dt.date(2024, 2, 29))]),
        ("by day", pa.map_(pa.date32(), pa.int64()), [(dt.date(2024, 2, 29), 5)]),
        ("days", pa.list_(pa.date32()), [dt.date(2024, 2, 29), None]),
        ("texts", pa.large_list(pa.string()), ["a"]),
        ("pair", pa.list_(pa.float64(), 2), [1.0, math.inf]),
        ("word", pa.dictionary(pa.int32(), pa.string()), "a"),
        ("row", pa.struct({"b": pa.binary(), "d": pa.decimal128(9, 2)}), {"b": b"\xff", "d": Decimal("1.50")}),
    ]
    schema = pa.schema([(name, kind) for name, kind, _ in columns])
    data = pa.record_batch([pa.array([value, None], kind) for _, kind, value in columns], schema=schema)
    rows = written(data, path)
    assert [rows[0]["bytes"], rows[0]["map"], rows[1]["map"]] == ["AP8=", {"a": "2024-02-29"}, None]
    source = FileSource.for_json_lines(str(path), schema=schema)
    assert drain(source, states(source))[0] == data.to_pylist()


def test_messages_are_valid_json_too() -> None:
    row_type = Types.ROW_NAMED(["d", "s"], [Types.DOUBLE(), Types.STRING()])
    data = pa.record_batch({"d": ODD, "s": ["NaN", "a", None, "", "b"]}, schema=row_type.arrow_schema())
    messages = JsonRowSerializationSchema().encode(data, row_type)
    assert [json.loads(message, parse_constant=refuse)["d"] for message in messages] == NAMED
    assert repr(JsonRowDeserializationSchema(row_type).decode(messages).to_pylist()) == repr(data.to_pylist())
    alone = JsonRowDeserializationSchema(row_type).decode([b'{\n "d": "NaN",\n "s": "NaN"}'])
    assert repr(alone.to_pylist()) == "[{'d': nan, 's': 'NaN'}]"
