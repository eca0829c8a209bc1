"""What is read of an Avro value that was written with another schema, in every cell: what Avro Java reads (recorded by ``record_avro.py``)."""

from __future__ import annotations

import datetime
import io
import json
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro

from tests.contract.formats.avro_cases import cases
from tests.contract.formats.record_avro import ANSWERS
from tests.servers.schema_registry import schema_registry
from tidegate.common.typeinfo import TypeInformation
from tidegate.connectors.files.file_range import FileRange
from tidegate.connectors.formats.avro_files import AvroFileFormat, AvroSchema
from tidegate.connectors.formats.avro_messages import AvroRows
from tidegate.connectors.formats.messages import PoisonRecord
from tidegate.datastream.formats.avro import AvroRowDeserializationSchema
from tidegate.model.errors import CorruptData, InvalidJob, SchemaMismatch
from tidegate.records.record_codec import decode
from tidegate.records.type_information import ListTypeInfo, MapTypeInfo, RowTypeInfo

FOUND: list[dict[str, Any]] = json.loads(ANSWERS.read_text())
REFUSED = "refused"
EPOCH = datetime.datetime(1970, 1, 1)


def at(micros: int, zone: Any = None) -> datetime.datetime:
    return (EPOCH + datetime.timedelta(microseconds=micros)).replace(tzinfo=zone)


def _others() -> dict[str, Any]:
    """Cells that are another value here: the same time in the reader's unit, where Java takes the number as it is."""
    zones = {"timestamp": datetime.UTC, "local-timestamp": None}
    found: dict[str, Any] = {"time-millis as time-micros": datetime.time(1)}
    for family in zones:
        for other, zone in zones.items():
            found[f"{family}-millis as {other}-micros"] = [at(1_700_000_000_123_000, zone), at(-1000, zone)]
            found[f"{family}-micros as {other}-millis"] = [at(1_700_000_000_123_000, zone)]
    return found


OTHERS = _others()
ONLY_HERE = {
    "a field and its alias": {"b": 2},
    "union as date": datetime.date(1970, 1, 8),
    "union as time-millis": datetime.time(0, 0, 0, 7000),
    "union as time-micros": datetime.time(0, 0, 0, 7),
    "union as timestamp-millis": at(7000, datetime.UTC),
    "union as timestamp-micros": at(7, datetime.UTC),
    "union as local-timestamp-millis": at(7000),
    "union as local-timestamp-micros": at(7),
    "null or long as an instant": at(1_700_000_000_123_000, datetime.UTC),
}
"""Cells that Java refuses although the specification has them: a writer's union whose branch has a logical type at the reader (its
generic reader looks for the converted value in the union), a field beside one whose alias names it."""


def wanted(case: dict[str, Any]) -> Any:
    """The value of the field, as objects of Python."""
    if case["name"] in OTHERS:
        found = OTHERS[case["name"]]
        return {"t": found[-1 if case["value"]["t"] == -1 else 0] if isinstance(found, list) else found}
    if "error" not in case:
        return _object(case["found"])
    if case["name"] in ONLY_HERE and case["value"]["t"] is not None:
        return {"t": ONLY_HERE[case["name"]]}
    return REFUSED


def _object(shown: Any) -> Any:
    match shown:
        case {"bytes": text} if len(shown) == 1 and isinstance(text, str):
            return bytes.fromhex(text)
        case {"float": text}:
            return struct.unpack("f", struct.pack("f", float(text)))[0]
        case {"double": text}:
            return float(text)
        case {"decimal": text}:
            return Decimal(text)
        case {"date": days}:
            return _in_range(lambda: (EPOCH + datetime.timedelta(days=int(days))).date())
        case {"time": micros}:
            return _in_range(lambda: at(int(micros)).time() if int(micros) < 86_400_000_000 else REFUSED)
        case {"instant": micros}:
            return _in_range(lambda: at(int(micros), datetime.UTC))
        case {"local": micros}:
            return _in_range(lambda: at(int(micros)))
        case dict():
            parts = {name: _object(part) for name, part in shown.items()}
            return REFUSED if any(part is REFUSED for part in parts.values()) else parts
        case list():
            return [_object(part) for part in shown]
    return shown


def _in_range(make: Any) -> Any:
    try:
        return make()
    except OverflowError:
        return REFUSED


def in_a_file(path: Path, case: dict[str, Any]) -> Any:
    content, counts, datum = io.BytesIO(), io.BytesIO(), bytes.fromhex(case["datum"])
    fastavro.writer(content, case["writer"], [])
    for count in (1, len(datum)):
        fastavro.schemaless_writer(counts, "long", count)
    path.write_bytes(content.getvalue() + counts.getvalue() + datum + content.getvalue()[-16:])
    try:
        file_format = AvroFileFormat(AvroSchema(json.dumps(case["reader"])))
        size = path.stat().st_size
        (block,) = file_format.blocks(FileRange(str(path), 0, size, size), None, 0)
    except (SchemaMismatch, CorruptData):
        return REFUSED
    (found,) = decode(file_format.produced_type(), block.data)
    return _plain(found)


def _plain(value: Any) -> Any:
    match value:
        case UUID():
            return str(value)
        case dict():
            return {name: _plain(part) for name, part in value.items()}
        case list():
            return [_plain(part) for part in value]
    return value


def test_every_case_has_an_answer() -> None:
    known = ("name", "writer", "reader", "value")
    assert [{key: one[key] for key in known} for one in FOUND] == cases()
    assert all("datum" in one for one in FOUND)


def test_records_of_files_are_what_avro_java_reads(tmp_path: Path) -> None:
    wrong = []
    for case in FOUND:
        found, expected = in_a_file(tmp_path / "file.avro", case), wanted(case)
        if case["name"] == "uuid-fixed as uuid-fixed":  # bytes in records of files, as fastavro writes them
            expected = {"t": UUID(expected["t"]).bytes}
        if found != expected:
            wrong.append((case["name"], case["value"], found, expected))
    assert wrong == []


def _column(value: Any, kind: TypeInformation) -> Any:
    """A value as ``to_pylist`` gives it of a column: maps are pairs."""
    match kind, value:
        case _, None:
            return None
        case RowTypeInfo(), dict():
            names, kinds = kind.get_field_names(), kind.get_field_types()
            return {name: _column(value[name], inner) for name, inner in zip(names, kinds, strict=True)}
        case ListTypeInfo(), list():
            return [_column(one, kind.element_type) for one in value]
        case MapTypeInfo(), dict():
            return [(key, _column(one, kind.value_type)) for key, one in value.items()]
    return value


MORE_THAN_A_COLUMN_HAS = ("uuid as decimal",)
"""Its decimal would have 36 bytes."""


def reading(schema: dict[str, Any], url: str) -> AvroRows | None:
    """``None`` for what has no column."""
    try:
        return AvroRowDeserializationSchema(avro_schema_string=json.dumps(schema), schema_registry_url=url)
    except InvalidJob as error:
        if any(reason in str(error) for reason in ("has no column", "contains itself", "is a union of")):
            return None
        raise


def test_rows_of_messages_are_what_avro_java_reads() -> None:
    compared, wrong = 0, []
    with schema_registry() as registry:
        for case in FOUND:
            schema = reading(case["reader"], registry.url)
            if schema is None:
                continue
            compared += 1
            found = _message(schema, registry.register(case["writer"]), bytes.fromhex(case["datum"]))
            expected = wanted(case)
            if expected is not REFUSED:
                expected = _column(expected, schema.get_produced_type())
            if case["name"] in MORE_THAN_A_COLUMN_HAS:
                expected = REFUSED
            if found != expected:
                wrong.append((case["name"], case["value"], found, expected))
    assert wrong == []
    assert compared > 1000


def _message(schema: AvroRows, writer: int, datum: bytes) -> Any:
    try:
        (found,) = schema.decode([struct.pack(">bI", 0, writer) + datum]).to_pylist()
    except PoisonRecord:
        return REFUSED
    return found
