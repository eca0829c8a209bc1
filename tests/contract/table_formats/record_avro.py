# ruff: noqa: E501, E402
"""Writes ``avro.jsonl`` beside it: what Flink 2.3's formats ``avro`` and ``avro-confluent`` make of rows and of bytes, and what they refuse.

Run by the Python of a Flink environment (``tests/servers/flink_environment.py``) in the root of the repository, with the jars of ``avro_pom.xml`` in
``HADOOP_CLASSPATH``: ``python tests/contract/table_formats/record_avro.py``. A row is as in ``values.py``; bytes are in base 64.
"""

from __future__ import annotations

import base64
import importlib
import json
import sys
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[3])]

from py4j.protocol import Py4JJavaError

from tests.servers.schema_registry import schema_registry

RECORD: Any = importlib.import_module("record")  # beside this file
HERE, JVM, Type, json_decoder, reason, row_type, value = (
    getattr(RECORD, name) for name in ("HERE", "JVM", "Type", "json_decoder", "reason", "row_type", "value")
)
AVRO = JVM.org.apache.flink.formats.avro
FACTORIES = {"avro": AVRO.AvroFormatFactory, "avro-confluent": AVRO.registry.confluent.RegistryAvroFormatFactory}
SCAN = JVM.org.apache.flink.table.runtime.connector.source.ScanRuntimeProviderContext.INSTANCE
SINK = JVM.org.apache.flink.table.runtime.connector.sink.SinkRuntimeProviderContext(False)

NEW = {"timestamp_mapping.legacy": "false"}
TIMES = [
    '"2020-01-02 03:04:05"',
    '"2020-01-02 03:04:05.1"',
    '"2020-01-02 03:04:05.123456789"',
    '"1969-12-31 23:59:59.999999"',
    '"0001-01-01 00:00:00"',
    '"9999-12-31 23:59:59.999"',
    "null",
]
ZONED = [f'{one[:-1]}Z"' for one in TIMES[:-1]]
ROWS: dict[str, list[str]] = {
    "BOOLEAN": ["true", "false", "null"], "TINYINT": ["127", "-128", "0", "null"], "SMALLINT": ["32767", "-32768", "null"], "INT": ["2147483647", "-2147483648", "0", "-1", "64", "null"],
    "BIGINT": ["9223372036854775807", "-9223372036854775808", "0", "null"], "FLOAT": ["0.1", "3.4028235e38", "-0.0", '"NaN"', '"Infinity"', "null"], "DOUBLE": ["0.1", "1.7976931348623157e308", "-0.0", '"NaN"', '"-Infinity"', "null"],
    "STRING": ['""', '"é😀\\u0000"', '"a"', "null"], "CHAR(3)": ['"abc"', '"a"'], "VARCHAR(3)": ['"abc"', "null"], "BYTES": ['"aGVsbG8="', '""', "null"], "BINARY(3)": ['"YWJj"'], "VARBINARY(3)": ['"YQ=="'],
    "DECIMAL(10, 2)": ["1.5", "-1.28", "1.27", "-1.29", "1.28", "0", "99999999.99", "-99999999.99", "null"], "DECIMAL(38, 18)": ["12345678901234567890.123456789012345678", "-0.000000000000000001", "-99999999999999999999.999999999999999999"], "DECIMAL(38, 0)": ["99999999999999999999999999999999999999", "-1"], "DECIMAL(5, 5)": ["0.00001"],
    "DATE": ['"1970-01-01"', '"1969-12-31"', '"0001-01-01"', '"9999-12-31"', "null"], "TIME": ['"12:34:56"', '"00:00:00"', '"23:59:59"', "null"], "TIME(3)": ['"12:34:56.789"'], "TIME(6)": ['"12:34:56.789"'],
    "TIMESTAMP(0)": TIMES, "TIMESTAMP(3)": TIMES, "TIMESTAMP(4)": TIMES, "TIMESTAMP(6)": TIMES, "TIMESTAMP(9)": TIMES, "TIMESTAMP_LTZ(0)": ZONED, "TIMESTAMP_LTZ(3)": ZONED, "TIMESTAMP_LTZ(6)": ZONED, "TIMESTAMP_LTZ(9)": ZONED,
    "ARRAY<INT>": ["[1, 2, null]", "[]", "null"], "ARRAY<INT NOT NULL>": ["[1, 2]", "[]"], "ARRAY<ARRAY<STRING>>": ['[["a", null], [], null]'], "ARRAY<TIMESTAMP(3)>": ['["2020-01-02 03:04:05.123", null]'], "ARRAY<TIMESTAMP(6)>": ['["2020-01-02 03:04:05.123"]'], "ARRAY<TIMESTAMP_LTZ(3)>": ['["2020-01-02 03:04:05.123Z"]'],
    "MAP<STRING, INT>": ['{"a": 1}', '{"a": null}', "{}", "null"], "MAP<STRING NOT NULL, ARRAY<DOUBLE>>": ['{"a": [1, 2.5]}'], "MAP<INT, INT>": ['{"1": 2}'], "MAP<STRING, TIMESTAMP(3)>": ['{"a": "2020-01-02 03:04:05.123"}'], "MULTISET<STRING>": ['{"a": 2}', "{}"],
    "ROW<x INT, y STRING>": ['{"x": 1, "y": "a"}', "{}", "null"], "ROW<x INT NOT NULL, r ROW<a STRING, b ARRAY<INT>> NOT NULL>": ['{"x": 1, "r": {"a": "t", "b": [1]}}'], "ARRAY<ROW<x INT, t TIMESTAMP(3)>>": ['[{"x": 1, "t": "2020-01-02 03:04:05"}, null, {}]'],
    "ARRAY<ROW<x ROW<y INT>>>": ['[{"x": {"y": 1}}]'], "MAP<STRING, ROW<x INT, t TIMESTAMP(3)>>": ['{"k": {"x": 1, "t": "2020-01-02 03:04:05"}}'], "ROW<x ARRAY<ROW<y INT>>, z MAP<STRING, ROW<y INT>>>": ['{"x": [{"y": 1}], "z": {"a": {"y": 2}}}'],
    "INT NOT NULL": ["5"], "STRING NOT NULL": ['"a"'], "TIMESTAMP(3) NOT NULL": ['"2020-01-02 03:04:05.123"'], "ROW<r ROW<x INT>, q ROW<x STRING>>": ['{"r": {"x": 1}, "q": {"x": "a"}}'],
}  # fmt: skip
OPTIONS: list[dict[str, str]] = [{}, NEW, {"encoding": "json"}, {**NEW, "encoding": "json"}]


def not_null(text: str) -> Any:
    """A row as tables have it: it is never null itself."""
    type = Type(text)
    type.data_type = type.data_type.notNull()
    return type


def settings(options: dict[str, str]) -> Any:
    made = JVM.org.apache.flink.configuration.Configuration()
    for key, text in options.items():
        made.setString(key, text)
    return made


def encoder(name: str, type: Any, options: dict[str, str]) -> Any:
    made = FACTORIES[name]().createEncodingFormat(None, settings(options)).createRuntimeEncoder(SINK, type.data_type)
    made.open(None)
    return made


def decoder(name: str, type: Any, options: dict[str, str]) -> Any:
    made = FACTORIES[name]().createDecodingFormat(None, settings(options)).createRuntimeDecoder(SCAN, type.data_type)
    made.open(None)
    return made


def schema_of(type: Any, options: dict[str, str]) -> str:
    is_legacy = options.get("timestamp_mapping.legacy") != "false"
    return str(AVRO.typeutils.AvroSchemaConverter.convertToSchema(type.data_type.getLogicalType(), is_legacy))


def schemas(kinds: tuple[str, ...]) -> list[dict[str, Any]]:
    """The schema that a row of such a column has, or why it has none."""
    found = []
    for options in ({}, NEW):
        case = {"type": row_type(*kinds), "options": options}
        try:
            found.append({**case, "schema": schema_of(not_null(case["type"]), options)})
        except Py4JJavaError as error:
            found.append({**case, "refused": reason(error)})
    return found


def rows_of(type: Any, text: str) -> Any:
    rows = JVM.java.util.ArrayList()
    collector = JVM.org.apache.flink.api.common.functions.util.ListCollector(rows)
    json_decoder(type, {}).deserialize(text.encode(), collector)
    return rows[0]


def encoded(content: bytes) -> str:
    return base64.b64encode(bytes(content)).decode()


def read(schema: Any, type: Any, content: bytes | None) -> dict[str, Any]:
    rows = JVM.java.util.ArrayList()
    try:
        schema.deserialize(content, JVM.org.apache.flink.api.common.functions.util.ListCollector(rows))
        return {"rows": [None if row is None else value(type.converter.toExternal(row)) for row in rows]}
    except Py4JJavaError as error:
        return {"error": reason(error)}


def written(kind: str, literals: list[str], options: dict[str, str]) -> list[dict[str, Any]]:
    """What rows are written as, and what is read of it."""
    found: list[dict[str, Any]] = []
    type = not_null(row_type("STRING", kind))
    try:
        writes, reads = encoder("avro", type, options), decoder("avro", type, options)
    except Py4JJavaError as error:
        return [{"type": type.text, "options": options, "refused": reason(error)}]
    for literal in literals:
        row = rows_of(type, f'{{"f": "k", "g": {literal}}}')
        case = {"type": type.text, "options": options, "row": value(type.converter.toExternal(row))}
        try:
            content = bytes(writes.serialize(row))
        except Py4JJavaError as error:
            found.append({**case, "error": reason(error)})
            continue
        found.append({**case, "bytes": encoded(content), **read(reads, type, content)})
    return found


def damaged() -> list[dict[str, Any]]:
    """What is read of bytes that are no message, or more than one."""
    type = not_null(row_type("STRING", "INT"))
    found = []
    for options in ({}, {"encoding": "json"}):
        content = bytes(encoder("avro", type, options).serialize(rows_of(type, '{"f": "k", "g": 5}')))
        for one in (None, b"", content + b"\0", content + content, content[:-1], b"\x7f" * 20, b"\x02\x02k\x04"):
            reads = decoder("avro", type, options)
            found.append({"type": type.text, "options": options, "bytes": None if one is None else encoded(one), **read(reads, type, one)})  # fmt: skip
    return found


def with_registry() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    with schema_registry() as server:
        at = {"url": server.url}
        for kinds, row, own in (
            (("STRING", "INT"), '{"f": "k", "g": 5}', {}),
            (("STRING NOT NULL", "TIMESTAMP(3)", "ROW<x DECIMAL(5, 2)>"), '{"f": "k", "g": "2020-01-02 03:04:05.5", "h": {"x": 1.5}}', {}),
            (("STRING NOT NULL", "TIMESTAMP(3)"), '{"f": "k", "g": "2020-01-02 03:04:05.5"}', NEW),
            (("STRING", "INT"), '{"f": "k", "g": 5}', {"schema": '{"type": "record", "name": "mine", "fields": [{"name": "a", "type": ["null", "string"]}, {"name": "b", "type": ["null", "int"]}]}'}),
            (("STRING NOT NULL", "INT NOT NULL"), '{"f": "k", "g": 5}', {"schema": '{"type": "record", "name": "mine", "namespace": "n", "fields": [{"name": "f", "type": "string"}, {"name": "g", "type": "int", "default": 3}]}'}),
            (("STRING", "INT"), '{"f": "k", "g": 5}', {"schema": '{"type": "record", "name": "mine", "fields": [{"name": "f", "type": ["null", "string"]}, {"name": "g", "type": ["null", "long"]}]}'}),
            (("STRING NOT NULL", "INT"), '{"f": "k", "g": 5}', {"schema": '{"type": "record", "name": "mine", "fields": [{"name": "f", "type": {"type": "enum", "name": "e", "symbols": ["k"]}}, {"name": "g", "type": ["int", "null"]}]}'}),
            (("STRING", "INT"), '{"f": "k", "g": 5}', {"schema": "{bad"}),
            (("STRING NOT NULL", "TIMESTAMP(6) NOT NULL"), '{"f": "k", "g": "2020-01-02 03:04:05.123456"}', {"schema": '{"type": "record", "name": "mine", "fields": [{"name": "f", "type": "string"}, {"name": "g", "type": {"type": "long", "logicalType": "timestamp-micros"}}]}'}),
            (("STRING NOT NULL", "TIMESTAMP(3) NOT NULL", "TIME(3) NOT NULL", "BYTES NOT NULL", "ARRAY<INT>", "MAP<STRING NOT NULL, BIGINT NOT NULL>"), '{"f": "k", "g": "2020-01-02 03:04:05.123456", "h": "12:34:56", "i": "YQ==", "j": [1, null], "k": {"a": 1}}', {"schema": '{"type": "record", "name": "mine", "fields": [{"name": "f", "type": "string"}, {"name": "g", "type": {"type": "long", "logicalType": "local-timestamp-millis"}}, {"name": "h", "type": {"type": "int", "logicalType": "time-millis"}}, {"name": "i", "type": "bytes"}, {"name": "j", "type": ["null", {"type": "array", "items": ["int", "null"]}]}, {"name": "k", "type": ["null", {"type": "map", "values": "long"}]}]}'}),
            (("STRING NOT NULL", "TIMESTAMP(3) NOT NULL", "TIME(3) NOT NULL", "BYTES NOT NULL", "ARRAY<INT>", "MAP<STRING NOT NULL, BIGINT NOT NULL>"), '{"f": "k", "g": "2020-01-02 03:04:05.123456", "h": "12:34:56", "i": "YQ==", "j": [1, null], "k": {"a": 1}}', {"schema": '{"type": "record", "name": "mine", "fields": [{"name": "f", "type": "string"}, {"name": "g", "type": {"type": "long", "logicalType": "timestamp-millis"}}, {"name": "h", "type": {"type": "int", "logicalType": "time-millis"}}, {"name": "i", "type": "bytes"}, {"name": "j", "type": ["null", {"type": "array", "items": ["int", "null"]}]}, {"name": "k", "type": ["null", {"type": "map", "values": "long"}]}]}'}),
            (("STRING NOT NULL", "BIGINT NOT NULL", "TIME(3) NOT NULL", "BYTES NOT NULL", "ARRAY<INT>", "MAP<STRING NOT NULL, BIGINT NOT NULL>"), '{"f": "k", "g": 5, "h": "12:34:56", "i": "YQ==", "j": [1, null], "k": {"a": 1}}', {"schema": '{"type": "record", "name": "mine", "fields": [{"name": "f", "type": "string"}, {"name": "g", "type": {"type": "long", "logicalType": "local-timestamp-millis"}}, {"name": "h", "type": {"type": "int", "logicalType": "time-millis"}}, {"name": "i", "type": "bytes"}, {"name": "j", "type": ["null", {"type": "array", "items": ["int", "null"]}]}, {"name": "k", "type": ["null", {"type": "map", "values": "long"}]}]}'}),
            (("STRING NOT NULL", "BYTES NOT NULL", "FLOAT NOT NULL", "DOUBLE NOT NULL", "BOOLEAN NOT NULL"), '{"f": "k", "g": "YWJj", "h": 1.5, "i": 2.5, "j": true}', {"schema": '{"type": "record", "name": "mine", "fields": [{"name": "f", "type": "string"}, {"name": "g", "type": "bytes"}, {"name": "h", "type": "float"}, {"name": "i", "type": "double"}, {"name": "j", "type": "boolean"}]}'}),
        ):  # fmt: skip
            type = not_null(row_type(*kinds))
            options = {"subject": "s", **own}
            case = {"type": type.text, "options": options, "row": value(type.converter.toExternal(rows_of(type, row)))}
            server.versions.clear()
            try:
                content = bytes(encoder("avro-confluent", type, {**at, **options}).serialize(rows_of(type, row)))
                reads = decoder("avro-confluent", type, {**at, **options})
            except Py4JJavaError as error:
                found.append({**case, "refused": reason(error)})
                continue
            found.append({**case, "bytes": encoded(content), "schema": server.versions[0].schema, **read(reads, type, content)})  # fmt: skip
        type = not_null(row_type("STRING", "INT"))
        server.versions.clear()
        content = bytes(encoder("avro-confluent", type, {**at, "subject": "s"}).serialize(rows_of(type, '{"f": "k", "g": 5}')))  # fmt: skip
        writer = {"type": "record", "name": "other", "fields": [{"name": "z", "type": "int"}, {"name": "g", "type": "int"}, {"name": "f", "type": "string"}]}  # fmt: skip
        server.register(writer)
        for one in (
            None,
            b"",
            content[:3],
            b"\1" + content[1:],
            content + b"\0",
            b"\0\0\0\0\x07" + content[5:],
            b"\0\0\0\0\2\x02\x0a\x02k",
        ):
            reads = decoder("avro-confluent", type, at)
            found.append({"type": type.text, "options": {}, "versions": [version.schema for version in server.versions],
                          "bytes": None if one is None else encoded(one), **read(reads, type, one)})  # fmt: skip
        try:
            encoder("avro-confluent", type, at)
        except Py4JJavaError as error:
            found.append({"type": type.text, "options": {}, "refused": reason(error)})
    return found


def keys() -> list[dict[str, Any]]:
    """The options of each format."""
    found = []
    for name, factory in {**FACTORIES, "avro-files": AVRO.AvroFileFormatFactory}.items():
        made = factory()
        found.append({"format": name} | {what: sorted([one.key(), str(one.defaultValue())] for one in getattr(made, f"{what}Options")()) for what in ("required", "optional")})  # fmt: skip
    return found


def main() -> None:
    cases: list[tuple[str, list[dict[str, Any]]]] = [
        ("options", keys()),
        ("schema", [case for kind in ROWS for case in schemas((kind,))]),
        ("schema", schemas(("ROW<x INT>", "ARRAY<ROW<x INT>>", "MAP<STRING, ROW<x INT>>"))),
        ("message", [case for options in OPTIONS for kind, literals in ROWS.items() for case in written(kind, literals, options)]),
        ("damaged", damaged()),
        ("registry", with_registry()),
    ]  # fmt: skip
    with (HERE / "avro.jsonl").open("w", encoding="utf-8") as lines:
        for what, found in cases:
            print(what, len(found), file=sys.stderr)
            for case in found:
                lines.write(json.dumps({what: case}, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
