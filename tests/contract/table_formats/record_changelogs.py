# ruff: noqa: E501
"""Writes ``changelogs.jsonl`` beside it: what Flink 2.3's formats of changes in JSON make of messages, and of rows with kinds.

Run by the Python of a Flink environment as ``record.py`` is: ``python record_changelogs.py``. A row is as in ``values.py``, with its kind in front.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from py4j.protocol import Py4JJavaError

RECORD: Any = importlib.import_module("record")  # beside this file
HERE, JVM, Type, reason, row_type, value = (
    getattr(RECORD, name) for name in ("HERE", "JVM", "Type", "reason", "row_type", "value")
)

CONFIGURATION = JVM.org.apache.flink.configuration.Configuration
PACKAGE = JVM.org.apache.flink.formats.json
FACTORIES = {
    "debezium-json": PACKAGE.debezium.DebeziumJsonFormatFactory,
    "canal-json": PACKAGE.canal.CanalJsonFormatFactory,
    "maxwell-json": PACKAGE.maxwell.MaxwellJsonFormatFactory,
    "ogg-json": PACKAGE.ogg.OggJsonFormatFactory,
}
SCAN = JVM.org.apache.flink.table.runtime.connector.source.ScanRuntimeProviderContext.INSTANCE
SINK = JVM.org.apache.flink.table.runtime.connector.sink.SinkRuntimeProviderContext(False)
KINDS = ["+I", "-U", "+U", "-D"]
LENIENT = {"ignore-parse-errors": "true"}

A, B = '{"f": 1, "g": "a"}', '{"f": 2, "g": "b"}'
DEBEZIUM = [
    f'{{"before": null, "after": {A}, "op": "c"}}', f'{{"before": null, "after": {A}, "op": "r"}}', f'{{"before": {A}, "after": {B}, "op": "u"}}',
    f'{{"before": {A}, "after": null, "op": "d"}}', f'{{"after": {A}, "op": "c"}}', f'{{"op": "u", "after": {A}}}', f'{{"before": null, "after": {A}, "op": "u"}}',
    f'{{"before": null, "after": {A}, "op": "d"}}', f'{{"before": {A}, "after": null, "op": "u"}}', f'{{"before": {A}, "op": "c"}}', f'{{"before": {A}, "after": {B}, "op": "x"}}',
    f'{{"before": {A}, "after": {B}}}', f'{{"before": {A}, "after": {B}, "op": null}}', f'{{"before": {A}, "after": {B}, "op": 5}}', f'{{"before": [1], "after": {B}, "op": "c"}}',
    '{"before": null, "after": {"f": "x", "g": 1.50}, "op": "c"}', '{"before": null, "after": {"f": "3", "h": 1}, "op": "c"}', '{"before": {"f": "x"}, "after": {"f": 1}, "op": "c"}',
    '{"before": null, "after": {}, "op": "c"}', "", None, "null", "{}", "[]", "5", "tru", "{bad", f'[{{"before": null, "after": {A}, "op": "c"}}]',
    f'{{"before": null, "after": {A}, "op": "c"}} x', f'{{"before": null, "after": {A}, "op": "c", "op": "d"}}', f' {{"before": null, "after": {A}, "op": "c"}}\n',
    f'{{"before": {A}, "after": {B}, "source": {{"version": "1.1.1.Final", "connector": "mysql", "name": "dbserver1", "ts_ms": 1589362330904, "snapshot": null, "db": "inventory", "schema": "public", "table": "products", "server_id": 223344, "pos": 362.5, "row": true}}, "op": "u", "ts_ms": 1589362330904, "transaction": null}}',
    f'{{"before": null, "after": {A}, "op": "c", "source": null, "ts_ms": null}}', f'{{"before": null, "after": {A}, "op": "c", "source": {{"ts_ms": "x"}}, "ts_ms": "x"}}',
    f'{{"before": null, "after": {A}, "op": "c", "source": 5}}', f'{{"before": {A}, "after": null, "op": "u", "ts_ms": 5}}',
    f'[{{"before": null, "after": {A}, "op": "c"}}, {{"before": {A}, "after": {B}, "op": "u", "ts_ms": 7}}]', f'[{{"before": null, "after": {A}, "op": "c"}}, 5]',
    f'[{{"before": null, "after": {A}, "op": "c"}}, {{"before": null, "after": {A}, "op": "u"}}, {{"before": null, "after": {A}, "op": "c"}}]', f'[null, {{"before": null, "after": {A}, "op": "c"}}]',
]  # fmt: skip
WITH_SCHEMA = [
    f'{{"schema": {{"type": "struct", "fields": [1]}}, "payload": {{"before": {A}, "after": {B}, "op": "u", "ts_ms": 5, "source": {{"db": "d"}}}}}}',
    f'[{{"payload": {{"before": null, "after": {A}, "op": "c"}}}}, {{"payload": {{"before": {A}, "op": "d"}}}}]',
    f'{{"payload": {{"before": null, "after": {A}, "op": "c"}}}}', '{"schema": null, "payload": null}', '{"schema": {}}', f'{{"before": null, "after": {A}, "op": "c"}}', None,
]  # fmt: skip
OGG = [text and text.replace('"op": "c"', '"op_type": "I"').replace('"op": "r"', '"op_type": "r"').replace('"op": "u"', '"op_type": "U"').replace('"op": "d"', '"op_type": "D"').replace('"op"', '"op_type"') for text in DEBEZIUM] + [
    f'{{"table": "OGG.TBL", "op_type": "U", "op_ts": "2020-05-13 13:39:35.766000", "current_ts": "2020-05-13 13:39:35.766000", "pos": "1", "primary_keys": ["f"], "before": {A}, "after": {B}}}',
    f'{{"table": null, "op_type": "T", "op_ts": "2020-05-13", "after": {A}}}', f'{{"table": null, "op_type": "I", "op_ts": "2020-05-13T13:39:35Z", "primary_keys": "f", "after": {A}}}',
    f'{{"op_type": "I", "op_ts": "2020-05-13 13:39:35", "current_ts": "2020-05-13T13:39:35.766000", "after": {A}}}',
]  # fmt: skip
CANAL = [
    f'{{"data": [{A}, {B}], "database": "inventory", "es": 1589373515000, "id": 3, "isDdl": false, "mysqlType": {{"f": "INTEGER"}}, "old": null, "pkNames": ["f"], "sql": "", "sqlType": {{"f": 4, "g": 12}}, "table": "products2", "ts": 1589373515477, "type": "INSERT"}}',
    f'{{"data": [{A}, {B}], "database": "inventory", "old": [{{"g": "z"}}, {{"f": 7}}], "table": "products2", "type": "UPDATE"}}',
    f'{{"data": [{A}], "database": "d", "old": [{{"g": null}}], "table": "t", "type": "UPDATE"}}', f'{{"data": [{A}, {B}], "database": "d", "old": [{{"g": null}}, {{}}], "table": "t", "type": "UPDATE"}}',
    f'{{"data": [{A}, {B}], "database": "d", "old": [{{"g": "x"}}], "table": "t", "type": "UPDATE"}}', f'{{"data": [{A}], "database": "d", "old": null, "table": "t", "type": "UPDATE"}}',
    f'{{"data": [{A}, {B}], "database": "d", "table": "t", "type": "DELETE"}}', '{"data": null, "database": "d", "table": "t", "sql": "CREATE TABLE x", "type": "CREATE"}',
    '{"data": null, "database": "d", "table": "t", "sql": "ALTER TABLE x", "type": "ALTER"}', '{"data": null, "database": "d", "table": "t", "type": "INSERT"}',
    '{"data": [], "database": "d", "table": "t", "type": "INSERT"}', f'{{"data": [null, {A}], "database": "d", "table": "t", "type": "INSERT"}}', f'{{"data": [{A}], "type": "INSERT"}}',
    f'{{"data": [{A}], "database": "d", "table": null, "type": "INSERT"}}', f'{{"data": {A}, "database": "d", "table": "t", "type": "INSERT"}}', f'{{"data": [{A}], "database": "d", "table": "t", "type": "insert"}}',
    f'{{"data": [{A}], "database": "d", "table": "t"}}', '{"data": [{"f": "1", "g": 5}], "database": "d", "table": "t", "type": "INSERT"}', '{"data": [{"f": "x"}], "database": "d", "table": "t", "type": "INSERT"}',
    "", None, "{}", "null", "[]", "{bad", f'{{"data": [{A}], "database": 5, "table": true, "type": "INSERT", "ts": "5", "es": "x", "pkNames": "f", "sqlType": []}}',
    f'{{"data": [{A}], "database": "d", "old": [{{"h": {{"g": 1}}}}], "table": "t", "type": "UPDATE"}}',
    f'[{{"data": [{A}], "database": "d", "table": "t", "type": "INSERT"}}, {{"data": [{A}], "database": "x", "table": "y", "type": "DELETE"}}]', f'[{{"data": [{A}], "database": "d", "table": "t", "type": "INSERT"}}, 5]',
]  # fmt: skip
MAXWELL = [
    f'{{"database": "test", "table": "product", "type": "insert", "ts": 1596684883, "xid": 7125, "commit": true, "data": {A}, "primary_key_columns": ["f"]}}',
    f'{{"database": "test", "table": "product", "type": "update", "ts": 1596684893, "data": {B}, "old": {{"g": "z"}}}}', f'{{"type": "update", "data": {B}, "old": {{"g": null}}}}',
    f'{{"type": "update", "data": {B}, "old": {{}}}}', f'{{"type": "update", "data": {B}, "old": null}}', f'{{"type": "update", "data": {B}}}', f'{{"type": "delete", "data": {A}}}',
    f'{{"type": "bootstrap-insert", "data": {A}}}', f'{{"type": "insert", "data": null, "old": {A}}}', '{"type": "update", "data": null, "old": {"f": 1}}', '{"type": "delete", "data": null}',
    f'{{"data": {A}}}', f'{{"type": "INSERT", "data": {A}}}', f'{{"type": "insert", "data": [{A}]}}', '{"type": "insert", "data": {"f": "x", "g": 1}}', "", None, "{}", "null", "{bad",
    f'{{"type": "insert", "data": {A}, "ts": "x", "primary_key_columns": {{}}}}',
    f'[{{"type": "insert", "data": {A}}}, {{"type": "delete", "data": {A}, "ts": 3}}]', f'[{{"type": "insert", "data": {A}}}, 5, {{"type": "insert", "data": {A}}}]', "[]",
]  # fmt: skip
READS: list[tuple[str, list[str | None], list[dict[str, str]]]] = [
    ("debezium-json", DEBEZIUM, [{}, LENIENT]), ("debezium-json", WITH_SCHEMA, [{"schema-include": "true"}, {"schema-include": "true", **LENIENT}]),
    ("ogg-json", OGG, [{}, LENIENT]), ("maxwell-json", MAXWELL, [{}, LENIENT]),
    ("canal-json", CANAL, [{}, LENIENT, {"database.include": "d|x"}, {"table.include": "^prod.*"}, {"database.include": "d", "table.include": "t", **LENIENT}]),
]  # fmt: skip
FIELDS = {
    "TINYINT": ["1", '"2"', "1.5", "300", "true", '" 1 "'], "INT": ["1.9", "2147483648", '"1.5"', "true", "[1]", '""', "1e2", "-7.9"], "BIGINT": ["9223372036854775808", "1.5", '"x"', "1e3", '" 5 "'],
    "DOUBLE": ["1", '"2.5"', "1e400", '"NaN"', "true", "0.1"], "FLOAT": ["0.1", "1", '"1e39"'], "DECIMAL(10, 2)": ["1.005", "1", '"2.345"', "99999999999", "1e2", "true", '""'],
    "BOOLEAN": ["1", '"true"', '"yes"', "0", '" TRUE "'], "STRING": ["1.50", "1", "1e2", "true", '{"a": 1.50, "b": [1, "x", null]}', "[1, 2]", '"\\u00e9"', "-0.0", "12345678901234567890", "0.00001"],
    "BYTES": ['"aGVsbG8="', '"!"', "5", "true", "[1]", "{}"], "DATE": ['"2020-01-02"', '"2020-1-2"', "18262", '""'], "TIME(0)": ['"12:34:56"', '"12:34:56.7"', '"12:34:56Z"', "5"],
    "TIMESTAMP(3)": ['"2020-01-02 03:04:05.123"', '"2020-01-02T03:04:05"', '"2020-01-02T03:04:05Z"', "1577934245000"], "TIMESTAMP_LTZ(3)": ['"2020-01-02 03:04:05.5Z"', '"2020-01-02T03:04:05Z"', '"2020-01-02 03:04:05"', "5"],
    "ARRAY<STRING>": ["[1.50, true, {}]"], "ARRAY<INT>": ["[1, null]", "[]", '"x"', '[1, "x"]'], "MAP<STRING, INT>": ['{"a": 1, "b": null}', "[]", '"x"', "5", '{"a": "x"}'], "ROW<x INT, y STRING>": ['{"x": 1, "y": 2}', "{}", "5", '{"x": "q"}'],
}  # fmt: skip


def settings(options: dict[str, str]) -> Any:
    made = CONFIGURATION()
    for key, text in options.items():
        made.setString(key, text)
    return made


def decoded(
    name: str, type: Any, options: dict[str, str], metadata: list[str], messages: list[str | None]
) -> list[dict[str, Any]]:
    """What a format makes of each message: rows of the type, behind them the values of metadata."""
    case = {"format": name, "type": type.text, "options": options, "metadata": metadata}
    format_ = FACTORIES[name]().createDecodingFormat(None, settings(options))
    keys = JVM.java.util.ArrayList()
    types = [type.data_type]
    for key in metadata:
        keys.add(key)
    if metadata:
        format_.applyReadableMetadata(keys)
    physical = types[0]
    schema = format_.createRuntimeDecoder(SCAN, physical)
    schema.open(None)
    fields = JVM.java.util.ArrayList(physical.getLogicalType().getFields())
    for key in metadata:
        kind = format_.listReadableMetadata().get(key).getLogicalType()
        fields.add(JVM.org.apache.flink.table.types.logical.RowType.RowField(key, kind))
    whole = JVM.org.apache.flink.table.types.utils.TypeConversions.fromLogicalToDataType(
        JVM.org.apache.flink.table.types.logical.RowType(fields)
    )
    converter = JVM.org.apache.flink.table.data.conversion.DataStructureConverters.getConverter(whole)
    converter.open(JVM.Thread.currentThread().getContextClassLoader())
    found = []
    for message in messages:
        rows = JVM.java.util.ArrayList()
        try:
            schema.deserialize(
                None if message is None else message.encode(),
                JVM.org.apache.flink.api.common.functions.util.ListCollector(rows),
            )
            made = [[KINDS[row.getRowKind().toByteValue()], value(converter.toExternal(row))] for row in rows]
            found.append({**case, "text": message, "rows": made})
        except Py4JJavaError as error:
            found.append({**case, "text": message, "error": reason(error)})
    return found


def written(name: str, type: Any, options: dict[str, str], row: str) -> list[dict[str, Any]]:
    """What each kind of a row is written as; the row is read of JSON."""
    encoder = FACTORIES[name]().createEncodingFormat(None, settings(options)).createRuntimeEncoder(SINK, type.data_type)
    encoder.open(None)
    reader = (
        FACTORIES["debezium-json"]().createDecodingFormat(None, settings({})).createRuntimeDecoder(SCAN, type.data_type)
    )
    reader.open(None)
    found = []
    for at, kind in enumerate(KINDS):
        rows = JVM.java.util.ArrayList()
        reader.deserialize(
            f'{{"after": {row}, "op": "c"}}'.encode(),
            JVM.org.apache.flink.api.common.functions.util.ListCollector(rows),
        )
        (one,) = rows
        held = value(type.converter.toExternal(one))
        one.setRowKind(JVM.org.apache.flink.types.RowKind.values()[at])
        found.append(
            {
                "format": name,
                "type": type.text,
                "options": options,
                "kind": kind,
                "row": held,
                "text": bytes(encoder.serialize(one)).decode(),
            }
        )
    return found


def main() -> None:
    reads: list[Any] = []
    writes: list[Any] = []
    pair = Type(row_type("INT", "STRING"))
    for name, messages, each in READS:
        for options in each:
            reads += decoded(name, pair, options, [], messages)
    for name, messages, options in (
        ("debezium-json", DEBEZIUM, {}),
        ("debezium-json", WITH_SCHEMA, {"schema-include": "true"}),
        ("canal-json", CANAL, {}),
        ("maxwell-json", MAXWELL, {}),
        ("ogg-json", OGG, {}),
    ):
        keys = sorted(FACTORIES[name]().createDecodingFormat(None, settings({})).listReadableMetadata())
        for lenient in ({}, LENIENT):
            reads += decoded(name, pair, {**options, **lenient}, keys, messages)
    for text, literals in FIELDS.items():
        type = Type(row_type(text))
        for options in ({}, LENIENT, *([{"timestamp-format.standard": "ISO-8601"}] if text.startswith("TIME") else [])):
            reads += decoded(
                "debezium-json",
                type,
                options,
                [],
                [f'{{"before": null, "after": {{"f": {literal}}}, "op": "c"}}' for literal in literals],
            )
            reads += decoded(
                "canal-json",
                type,
                options,
                [],
                [
                    f'{{"data": [{{"f": {literal}}}], "database": "d", "table": "t", "type": "INSERT"}}'
                    for literal in literals
                ],
            )
    rows = [
        (("INT", "STRING"), '{"f": 1, "g": "a\\"\\u00e9"}'),
        (("INT", "STRING"), "{}"),
        (
            ("DECIMAL(20, 0)", "TIMESTAMP(3)", "ROW<x INT>"),
            '{"f": 100000000000, "g": "2020-01-02 03:04:05.5", "h": {"x": null}}',
        ),
    ]
    for name in FACTORIES:
        for types, row in rows:
            for options in (
                {},
                {"encode.ignore-null-fields": "true"},
                {"timestamp-format.standard": "ISO-8601", "encode.decimal-as-plain-number": "true"},
            ):
                writes += written(name, Type(row_type(*types)), options, row)
    with (HERE / "changelogs.jsonl").open("w", encoding="utf-8") as lines:
        for what, cases in (("reads", reads), ("writes", writes)):
            for case in cases:
                lines.write(json.dumps({what: case}, ensure_ascii=False) + "\n")


main()
