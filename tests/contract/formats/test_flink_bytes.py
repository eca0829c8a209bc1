"""Our serializers write, byte for byte, what Flink 2.3's write (recorded by ``record.py``)."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from typing import Any

import pytest

from tests.contract.formats.cases import cases
from tests.contract.formats.record import VECTORS
from tidegate.common.row import Row
from tidegate.common.time import Instant
from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.connectors.formats.messages import SerializationSchema
from tidegate.datastream.formats.avro import AvroRowDeserializationSchema, AvroRowSerializationSchema
from tidegate.datastream.formats.csv import CsvRowSerializationSchema
from tidegate.datastream.formats.json import JsonRowSerializationSchema
from tidegate.records.record_codec import encode

FOUND: list[dict[str, Any]] = json.loads(VECTORS.read_text())
_OF_JACKSON = b'{"m":{"k":{"kind":"INSERT","arity":2}}}'
"""What Flink writes of a row within a map: its Java bean. Ours writes the row."""


def type_of(told: Any) -> TypeInformation:
    match told:
        case "BYTES":
            return Types.PRIMITIVE_ARRAY(Types.BYTE())
        case str():
            found: TypeInformation = getattr(Types, told)()
            return found
        case ["MAP", key, value]:
            return Types.MAP(type_of(key), type_of(value))
        case ["ROW", names, kinds]:
            types = [type_of(kind) for kind in kinds]
            return Types.ROW(types) if names is None else Types.ROW_NAMED(names, types)
    kind: TypeInformation = getattr(Types, told[0])(type_of(told[1]))
    return kind


def value_of(told: Any, text: Any) -> Any:
    match told:
        case _ if text is None:
            return None
        case ["MAP", key, value]:
            return {value_of(key, k): value_of(value, v) for k, v in text}
        case ["ROW", _, kinds]:
            return Row(*[value_of(kind, part) for kind, part in zip(kinds, text, strict=True)])
        case [_, element]:
            return [value_of(element, part) for part in text]
        case "BYTE" | "SHORT" | "INT" | "LONG" | "BIG_INT":
            return int(text)
        case "FLOAT" | "DOUBLE":
            return float(text)
        case "BOOLEAN":
            return text == "true"
        case "BIG_DEC":
            return Decimal(text)
        case "BYTES":
            return bytes.fromhex(text)
        case "SQL_DATE":
            return datetime.date.fromisoformat(text)
        case "SQL_TIME":
            return datetime.time.fromisoformat(text)
        case "SQL_TIMESTAMP":
            return datetime.datetime.fromisoformat(text)
        case "INSTANT":
            moment = datetime.datetime.fromisoformat(text) - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
            return Instant(moment.days * 86400 + moment.seconds, moment.microseconds * 1000)
    return text


def serializer(case: dict[str, Any]) -> SerializationSchema:
    written = type_of(case.get("written", case["type"]))
    match case["format"]:
        case "json":
            return JsonRowSerializationSchema.builder().with_type_info(written).build()
        case "csv":
            return CsvRowSerializationSchema.Builder(written).build()
    return AvroRowSerializationSchema(avro_schema_string=json.dumps(case["schema"]))


def expected(case: dict[str, Any]) -> list[tuple[Any, bytes]]:
    """Rows that Flink can write, and how."""
    pairs = zip(case["rows"], case["bytes"], strict=True)
    found = [(row, bytes.fromhex(text)) for row, text in pairs if not text.startswith("error")]
    return [(row, data) for row, data in found if data != _OF_JACKSON]


def named(case: dict[str, Any]) -> str:
    return f"{case['format']}-{FOUND.index(case)}"


def test_the_record_is_of_these_cases() -> None:
    told = [{key: value for key, value in one.items() if key != "bytes"} for one in FOUND]
    assert told == json.loads(json.dumps(cases())), "run python -m tests.contract.formats.record"
    assert sum(len(expected(one)) for one in FOUND) > 900


@pytest.mark.parametrize("case", FOUND, ids=named)
def test_bytes_are_flinks(case: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    kind, schema = type_of(case["type"]), serializer(case)
    for row, wanted in expected(case):
        data = encode(kind, [value_of(case["type"], row)])
        (found,) = schema.encode(data, kind)
        assert bytes(found if isinstance(found, bytes) else found.as_py()) == wanted, row


@pytest.mark.parametrize("case", [one for one in FOUND if one["format"] == "avro"], ids=named)
def test_flinks_avro_is_read_as_it_was_given(case: dict[str, Any]) -> None:
    reader = AvroRowDeserializationSchema(avro_schema_string=json.dumps(case["schema"]))
    read = reader.decode([data for _, data in expected(case)])
    again = AvroRowSerializationSchema(avro_schema_string=json.dumps(case["schema"]))
    assert again.encode(read, reader.get_produced_type()) == [data for _, data in expected(case)]
