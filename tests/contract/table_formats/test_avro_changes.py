"""The format ``debezium-avro-confluent`` reads and writes changes as Flink 2.3 does (``avro_changes.jsonl``, by ``record_avro_changes.py``)."""

from __future__ import annotations

import base64
import json
from typing import Any

import pyarrow as pa
import pytest

from tests.contract.table_formats.test_avro import prefixed, table_row
from tests.contract.table_formats.values import batch_of, recorded, values_of
from tests.servers.schema_registry import schema_registry
from tidegate.connectors.formats.messages import PoisonRecord
from tidegate.functions.sql.changelog import with_kinds
from tidegate.model.errors import ExternalError, InvalidJob
from tidegate.plan.logical_types import LogicalType
from tidegate.table._connectors.registry import FORMATS
from tidegate.table._formats.formats import make_reading, make_writing

NAME = "debezium-avro-confluent"
KINDS = ["+I", "-U", "+U", "-D"]


def changes(batch: pa.RecordBatch, kind: LogicalType) -> list[list[Any]]:
    """Rows with their kinds in front."""
    count = len(kind.fields)
    rows = values_of(batch.select(range(count)), kind)
    return [[KINDS[code], row] for code, row in zip(batch.column(count).to_pylist(), rows, strict=True)]


def given(case: dict[str, Any]) -> list[bytes | None]:
    return [None if case["bytes"] is None else base64.b64decode(case["bytes"])]


def test_options_are_flinks() -> None:
    (case,) = recorded("avro_changes", "options")
    of_flink = {key for key, _ in case["required"] + case["optional"]}
    assert {key for key in FORMATS[NAME] if not key.startswith("schema-registry.")} == of_flink


def test_rows_of_each_kind_are_written_and_read_as_by_flink() -> None:
    cases = list(recorded("avro_changes", "written"))
    assert len(cases) == 16
    for case in cases:
        kind = table_row(case["type"])
        with schema_registry() as server:
            options = prefixed(NAME, {"url": server.url, "subject": "s"})
            if "refused" in case:
                with pytest.raises(InvalidJob) as told:
                    make_writing(NAME, options, kind)
                assert told.value.message == case["refused"].partition(": ")[2]
                continue
            row = batch_of(case["row"], kind)
            code = pa.array([KINDS.index(case["kind"])], pa.int8())
            batch = pa.RecordBatch.from_arrays([*row.columns, code], schema=with_kinds(row.schema))
            assert make_writing(NAME, options, kind).messages(batch) == given(case), case
            assert [json.loads(one.schema) for one in server.versions] == [json.loads(case["schema"])]
            assert changes(make_reading(NAME, options, kind).read(given(case))[0], kind) == case["rows"], case


def test_messages_are_read_and_refused_as_by_flink() -> None:
    cases = list(recorded("avro_changes", "message"))
    assert len(cases) == 22
    for case in cases:
        kind = table_row(case["type"])
        with schema_registry() as server:
            for schema in case["versions"]:
                server.register(json.loads(schema))
            reading = make_reading(NAME, prefixed(NAME, {"url": server.url}), kind)
            if "error" in case:
                with pytest.raises((PoisonRecord, ExternalError)) as told:
                    reading.read(given(case))
                if "REPLICA IDENTITY" in case["error"]:
                    assert isinstance(told.value, PoisonRecord)
                    assert case["error"].partition(": ")[2] in str(told.value.reason)
            else:
                assert changes(reading.read(given(case))[0], kind) == case["rows"], case


def test_messages_count_their_rows_and_the_wrong_one_is_told_by_its_place() -> None:
    cases = list(recorded("avro_changes", "message"))
    kind = table_row(cases[0]["type"])
    good = [case for case in cases if "rows" in case]
    with schema_registry() as server:
        server.register(json.loads(cases[0]["versions"][0]))
        reading = make_reading(NAME, prefixed(NAME, {"url": server.url}), kind)
        messages = [message for case in good for message in given(case)]
        batch, counts = reading.read(messages)
        assert changes(batch, kind) == [row for case in good for row in case["rows"]]
        assert counts is not None
        assert counts.tolist() == [len(case["rows"]) for case in good]
        wrong = next(case for case in cases if "op" in case.get("error", ""))
        with pytest.raises(PoisonRecord, match="Can't deserialize Debezium Avro message: ") as told:
            reading.read([*messages, *given(wrong)])
        assert told.value.index == len(messages)


def test_schemas_of_ones_own_are_taken_and_refused_as_by_flink() -> None:
    for case in recorded("avro_changes", "schema"):
        kind = table_row(case["type"])
        with schema_registry() as server:
            options: dict[str, str] = {"url": server.url, "schema": case.get("schema", ""), "subject": "s"}
            if "options" in case:
                options = {key: text for key, text in options.items() if key in case["options"]}
            for what, make in (("not_written", make_writing), ("not_read", make_reading)):
                if not case.get(what):
                    continue
                with pytest.raises(InvalidJob) as told:
                    make(NAME, prefixed(NAME, options), kind)
                if "JsonParse" not in case[what]:
                    assert case[what].partition(": ")[2] in told.value.message, case
            if "bytes" in case:
                row = batch_of({"row": ["k", 5]}, kind)
                assert make_writing(NAME, prefixed(NAME, options), kind).messages(row) == given(case)
                assert [json.loads(one.schema) for one in server.versions] == [json.loads(case["registered"])]
                reading = make_reading(NAME, prefixed(NAME, options), kind)
                assert changes(reading.read(given(case))[0], kind) == case["rows"]
