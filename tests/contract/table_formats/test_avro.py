"""The formats ``avro`` and ``avro-confluent`` read and write messages as Flink 2.3 does (``avro.jsonl``, by ``record_avro.py``)."""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest

from tests.contract.table_formats.values import as_held, batch_of, recorded, row_type, values_of
from tests.servers.schema_registry import schema_registry
from tidegate.connectors.formats.messages import PoisonRecord
from tidegate.model.errors import ExternalError, InvalidJob
from tidegate.plan.logical_types import LogicalType
from tidegate.table._connectors.registry import FORMATS
from tidegate.table._formats.avro_schema import schema_text
from tidegate.table._formats.formats import make_reading, make_writing

AVRO_NAME, REGISTRY_NAME = "avro", "avro-confluent"
OPEN_JSON = b'{"f":{"string":"k"},"g":{"int":5}'
"""Flink's parser does not ask for the end of the object, ours does."""
KEYS = {AVRO_NAME: ("avro", "avro-files"), REGISTRY_NAME: ("avro-confluent",)}


def table_row(text: str) -> LogicalType:
    return row_type(text).with_nullable(False)


def prefixed(name: str, options: dict[str, str]) -> dict[str, str]:
    return {f"{name}.{key}": text for key, text in options.items()}


def fits(case: dict[str, Any]) -> bool:
    """Whether columns hold the row: they have no more digits of a second than their type."""
    kind = row_type(case["type"])
    return all(as_held(value, one.type) == value for value, one in zip(case["row"]["row"], kind.fields, strict=True))


def by_type(what: str) -> dict[str, list[dict[str, Any]]]:
    found = defaultdict(list)
    for case in recorded("avro", what):
        found[case["type"]].append(case)
    return found


MESSAGES = by_type("message")


def test_options_are_flinks() -> None:
    of_flink = {
        case["format"]: {key for key, _ in case["required"] + case["optional"]} for case in recorded("avro", "options")
    }
    for name, parts in KEYS.items():
        ours = {key for key in FORMATS[name] if not key.startswith("schema-registry.")}
        assert ours == set().union(*(of_flink[part] for part in parts))


def test_schemas_are_flinks() -> None:
    count = 0
    for case in recorded("avro", "schema"):
        is_legacy = case["options"].get("timestamp_mapping.legacy") != "false"
        if "refused" in case:
            with pytest.raises(InvalidJob) as raised:
                schema_text(table_row(case["type"]), is_legacy=is_legacy)
            assert raised.value.message == case["refused"].partition(": ")[2]
        else:
            assert schema_text(table_row(case["type"]), is_legacy=is_legacy) == case["schema"]
        count += 1
    assert count > 100


@pytest.mark.parametrize("type", MESSAGES)
def test_messages_are_written_and_read_as_flink_does(type: str) -> None:
    for case in MESSAGES[type]:
        options = prefixed(AVRO_NAME, case["options"])
        kind = table_row(type)
        if "refused" in case:
            for make in (make_reading, make_writing):
                with pytest.raises(InvalidJob) as raised:
                    make(AVRO_NAME, options, kind)
                assert raised.value.message == case["refused"].partition(": ")[2]
            continue
        content = base64.b64decode(case["bytes"]).removeprefix(b"\n" if "encoding" in case["options"] else b"")
        if fits(case):
            assert make_writing(AVRO_NAME, options, kind).messages(batch_of(case["row"], kind)) == [content], case
        given = pa.array([content], pa.binary())
        if "error" in case:
            with pytest.raises(PoisonRecord):
                make_reading(AVRO_NAME, options, kind).read(given)
            continue
        rows, counts = make_reading(AVRO_NAME, options, kind).read(given)
        assert values_of(rows, kind) == [as_held(row, kind) for row in case["rows"]], case
        assert counts is None


def test_many_rows_of_a_slice() -> None:
    cases = [case for case in MESSAGES["ROW<f STRING, g MAP<STRING, INT>>"] if not case["options"]]
    kind = table_row(cases[0]["type"])
    batch = pa.Table.from_batches([batch_of(case["row"], kind) for case in cases]).combine_chunks().to_batches()[0]
    messages = [base64.b64decode(case["bytes"]) for case in cases]
    writing, reading = make_writing(AVRO_NAME, {}, kind), make_reading(AVRO_NAME, {}, kind)
    assert writing.messages(batch) == messages
    assert writing.messages(batch.slice(1, 2)) == messages[1:3]
    rows, counts = reading.read([None, *messages, None])
    assert rows.equals(batch)
    assert counts is not None
    assert counts.tolist() == [0, *[1] * len(cases), 0]


def test_what_is_no_message_is_refused_where_flink_refuses_it() -> None:
    for case in recorded("avro", "damaged"):
        kind = table_row(case["type"])
        given = [None if case["bytes"] is None else base64.b64decode(case["bytes"])]
        reading = make_reading(AVRO_NAME, prefixed(AVRO_NAME, case["options"]), kind)
        if "error" in case or given == [OPEN_JSON]:
            with pytest.raises(PoisonRecord):
                reading.read(given)
        else:
            assert values_of(reading.read(given)[0], kind) == case["rows"], case


def test_messages_with_a_registry() -> None:
    count = 0
    for case in recorded("avro", "registry"):
        with schema_registry() as server:
            for schema in case.get("versions", ()):
                server.register(schema)
            kind = table_row(case["type"])
            options = prefixed(REGISTRY_NAME, {"url": server.url, **case["options"]})
            if "refused" in case:
                with pytest.raises(InvalidJob) as raised:
                    make_writing(REGISTRY_NAME, options, kind)
                assert "{bad" in str(options) or raised.value.message == case["refused"].partition(": ")[2]
                continue
            if "row" in case:
                content = base64.b64decode(case["bytes"])
                assert make_writing(REGISTRY_NAME, options, kind).messages(batch_of(case["row"], kind)) == [content]
                assert [json.loads(one.schema) for one in server.versions] == [json.loads(case["schema"])]
            given = [None if case["bytes"] is None else base64.b64decode(case["bytes"])]
            reading = make_reading(REGISTRY_NAME, options, kind)
            if "error" in case:
                with pytest.raises((PoisonRecord, ExternalError)):
                    reading.read(given)
            else:
                assert values_of(reading.read(given)[0], kind) == case["rows"], case
            count += 1
    assert count > 10
