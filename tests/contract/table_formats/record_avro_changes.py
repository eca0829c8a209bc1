# ruff: noqa: E501, E402
"""Writes ``avro_changes.jsonl`` beside it: what Flink 2.3's format ``debezium-avro-confluent`` makes of rows with kinds and of messages, and what it refuses.

Run as ``record_avro.py`` is. A row is as in ``values.py``, with its kind in front; bytes are in base 64.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[3])]

from py4j.protocol import Py4JJavaError

from tests.servers.schema_registry import schema_registry

RECORD: Any = importlib.import_module("record_avro")  # beside this file
AVRO, FACTORIES, HERE, JVM, decoder, encoded, encoder, not_null, reason, row_type, rows_of, value = (
    getattr(RECORD, name)
    for name in (
        "AVRO", "FACTORIES", "HERE", "JVM", "decoder", "encoded", "encoder", "not_null", "reason", "row_type", "rows_of", "value",
    )
)  # fmt: skip
NAME = "debezium-avro-confluent"
FACTORIES[NAME] = AVRO.registry.confluent.debezium.DebeziumAvroFormatFactory
KINDS = ["+I", "-U", "+U", "-D"]
A, B = '{"f": "k", "g": 5}', '{"f": null, "g": 7}'
CHANGES = [
    f'{{"before": null, "after": {A}, "op": "c"}}', f'{{"before": null, "after": {B}, "op": "r"}}', f'{{"before": {A}, "after": {B}, "op": "u"}}', f'{{"before": {A}, "after": null, "op": "d"}}',
    f'{{"before": {A}, "after": {B}, "op": "c"}}', f'{{"before": {A}, "after": {B}, "op": "d"}}', f'{{"before": null, "after": {B}, "op": "u"}}', f'{{"before": {A}, "after": null, "op": "u"}}',
    f'{{"before": null, "after": {A}, "op": "d"}}', '{"before": null, "after": null, "op": "c"}', '{"before": null, "after": null, "op": "r"}', '{"before": null, "after": null, "op": "d"}',
    f'{{"before": {A}, "after": {B}, "op": "x"}}', f'{{"before": {A}, "after": {B}, "op": ""}}', f'{{"before": {A}, "after": {B}, "op": null}}',
]  # fmt: skip
WRITTEN = [
    (("STRING", "INT"), A), (("STRING NOT NULL", "TIMESTAMP(3)", "ROW<x DECIMAL(5, 2)>"), '{"f": "k", "g": "2020-01-02 03:04:05.5", "h": {"x": 1.5}}'),
    (("BIGINT NOT NULL", "ARRAY<STRING>", "MAP<STRING NOT NULL, INT>"), '{"f": 1, "g": ["a", null], "h": {"b": 2}}'), (("STRING", "TIMESTAMP_LTZ(3)"), '{"f": "k", "g": "2020-01-02 03:04:05.5Z"}'),
]  # fmt: skip
ROW = '{"type": "record", "name": "%s", "fields": [{"name": "f", "type": ["null", "string"]}, {"name": "g", "type": ["null", "int"]}]}'
ENVELOPE = '{"type": "record", "name": "e", "fields": [{"name": "before", "type": ["null", %s]}, {"name": "after", "type": ["null", %s]}, {"name": "op", "type": ["null", "string"]}]}'
SCHEMAS = [
    ENVELOPE % (ROW % "b", ROW % "a"), ENVELOPE % (ROW % "b", '"b"'), ROW % "b", "{bad", ENVELOPE.replace('["null", "string"]', '"string"') % (ROW % "b", ROW % "a"),
    (ENVELOPE % (ROW % "b", ROW % "a")).replace('"op", "type": ["null", "string"]', '"operation", "type": ["null", "string"]'), f'["null", {ENVELOPE % (ROW % "b", ROW % "a")}]',
    (ENVELOPE % (ROW % "b", ROW % "a")).replace('{"name": "op"', '{"name": "ts_ms", "type": ["null", "long"]}, {"name": "op"'), (ENVELOPE % (ROW % "b", ROW % "a")).replace('["null", "int"]', '["null", "long"]'),
]  # fmt: skip


def read(schema: Any, type: Any, content: bytes | None) -> dict[str, Any]:
    rows = JVM.java.util.ArrayList()
    try:
        schema.deserialize(content, JVM.org.apache.flink.api.common.functions.util.ListCollector(rows))
        return {"rows": [[one.getRowKind().shortString(), value(type.converter.toExternal(one))] for one in rows]}
    except Py4JJavaError as error:
        return {"error": reason(error)}


def written(server: Any) -> list[dict[str, Any]]:
    """What rows of each kind are written as, and what is read of it."""
    found = []
    at = {"url": server.url}
    for kinds, row in WRITTEN:
        type = not_null(row_type(*kinds))
        for kind in KINDS:
            case = {"type": type.text, "kind": kind}
            server.versions.clear()
            made = rows_of(type, row)
            made.setRowKind(getattr(JVM.org.apache.flink.types.RowKind, {"+I": "INSERT", "-U": "UPDATE_BEFORE", "+U": "UPDATE_AFTER", "-D": "DELETE"}[kind]))  # fmt: skip
            try:
                writes, reads = encoder(NAME, type, {**at, "subject": "s"}), decoder(NAME, type, at)
            except Py4JJavaError as error:
                found.append({**case, "refused": reason(error)})
                continue
            case["row"] = value(type.converter.toExternal(made))
            content = bytes(writes.serialize(made))
            found.append({**case, "bytes": encoded(content), "schema": server.versions[0].schema, **read(reads, type, content)})  # fmt: skip
    return found


def messages(server: Any) -> list[dict[str, Any]]:
    """What is read of messages, whatever they say."""
    type = not_null(row_type("STRING", "INT"))
    envelope = not_null(f"ROW<before {type.text}, after {type.text}, op STRING>")
    server.versions.clear()
    writes = encoder("avro-confluent", envelope, {"url": server.url, "subject": "s"})
    given: list[bytes | None] = [bytes(writes.serialize(rows_of(envelope, text))) for text in CHANGES]
    first = given[0]
    assert first is not None
    given += [None, b"", first[:3], b"\1" + first[1:], first[:-2], first + b"\0", b"\0\0\0\0\x07" + first[5:]]
    reads = decoder(NAME, type, {"url": server.url})
    return [{"type": type.text, "versions": [one.schema for one in server.versions], "bytes": None if one is None else encoded(one), **read(reads, type, one)} for one in given]  # fmt: skip


def schemas(server: Any) -> list[dict[str, Any]]:
    """Which schemas of one's own are taken by each direction, and what is registered then."""
    type = not_null(row_type("STRING", "INT"))
    found: list[dict[str, Any]] = []
    for schema in SCHEMAS:
        options = {"url": server.url, "schema": schema, "subject": "s"}
        case: dict[str, Any] = {"type": type.text, "schema": schema}
        server.versions.clear()
        try:
            content = bytes(encoder(NAME, type, options).serialize(rows_of(type, A)))
            case |= {"bytes": encoded(content), "registered": server.versions[0].schema}
        except Py4JJavaError as error:
            case["not_written"] = reason(error)
        try:
            reads = decoder(NAME, type, options)
            case |= read(reads, type, content) if "bytes" in case else {"rows": []}
        except Py4JJavaError as error:
            case["not_read"] = reason(error)
        found.append(case)
    for direction, make in (("not_written", encoder), ("not_read", decoder)):
        for options in ({"url": server.url}, {}):
            try:
                make(NAME, type, options)
                found.append({"type": type.text, "options": [*options], direction: ""})
            except Py4JJavaError as error:
                found.append({"type": type.text, "options": [*options], direction: reason(error)})
    return found


def keys() -> list[dict[str, Any]]:
    made = FACTORIES[NAME]()
    modes = made.createDecodingFormat(None, RECORD.settings({"url": "u"})).getChangelogMode(), made.createEncodingFormat(None, RECORD.settings({"url": "u", "subject": "s"})).getChangelogMode()  # fmt: skip
    return [
        {what: sorted([one.key(), str(one.defaultValue())] for one in getattr(made, f"{what}Options")()) for what in ("required", "optional")}
        | {"reads": str(modes[0]), "writes": str(modes[1])}
    ]  # fmt: skip


def main() -> None:
    with schema_registry() as server, (HERE / "avro_changes.jsonl").open("w", encoding="utf-8") as lines:
        for what, found in (("options", keys()), ("written", written(server)), ("message", messages(server)), ("schema", schemas(server))):  # fmt: skip
            print(what, len(found), file=sys.stderr)
            for case in found:
                lines.write(json.dumps({what: case}, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
