"""JSON lines are valid JSON, and numbers that JSON lacks come back."""

from __future__ import annotations

import json
import math
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
    with pytest.raises(SchemaMismatch, match=r"a\.jsonl, in the block at byte 0: JSON parse error"):
        drain(source, states(source))


def test_blank_lines_are_none_and_bytes_are_base64(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('\n{"d":"NaN"}\n\r\n  \n{"d":1}\n\n')
    source = FileSource.for_json_lines(str(path), schema=pa.schema([("d", pa.float64())]))
    assert repr(drain(source, states(source))[0]) == "[{'d': nan}, {'d': 1.0}]"
    assert written(pa.record_batch({"b": [b"\x00\xff"]}), path) == [{"b": "AP8="}]


def test_messages_are_valid_json_too() -> None:
    row_type = Types.ROW_NAMED(["d", "s"], [Types.DOUBLE(), Types.STRING()])
    data = pa.record_batch({"d": ODD, "s": ["NaN", "a", None, "", "b"]}, schema=row_type.arrow_schema())
    messages = JsonRowSerializationSchema().encode(data, row_type)
    assert [json.loads(message, parse_constant=refuse)["d"] for message in messages] == NAMED
    assert repr(JsonRowDeserializationSchema(row_type).decode(messages).to_pylist()) == repr(data.to_pylist())
    alone = JsonRowDeserializationSchema(row_type).decode([b'{\n "d": "NaN",\n "s": "NaN"}'])
    assert repr(alone.to_pylist()) == "[{'d': nan, 's': 'NaN'}]"
