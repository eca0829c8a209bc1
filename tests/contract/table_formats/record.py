# ruff: noqa: E501, PERF401
"""Writes ``json.jsonl`` and ``csv.jsonl`` beside it: what the table formats of Flink 2.3 make of texts, and of rows.

Run by the Python of a Flink environment (``tests/servers/flink_environment.py``): ``python record.py``. Flink's own classes are called, through
PyFlink's gateway. A value is as in ``values.py``; a row that cannot be read or written has the first line of the reason instead.
"""

from __future__ import annotations

import base64
import itertools
import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyflink.java_gateway import get_gateway  # the environment's own

JVM = get_gateway().jvm
LOADER = JVM.Thread.currentThread().getContextClassLoader()
TYPES = JVM.org.apache.flink.table.types.logical.utils.LogicalTypeParser
JSON = JVM.org.apache.flink.formats.json
CSV = JVM.org.apache.flink.formats.csv
STANDARDS = JVM.org.apache.flink.formats.common.TimestampFormat
HERE = Path(__file__).parent


def shared(types: tuple[str, ...], values: list[str]) -> dict[str, list[str]]:
    return dict.fromkeys(types, values)


NUMBERS = ["1", "-7", "1.5", "1e2", '"12"', '" 12 "', '"1.5"', '""', '"abc"', "true", "null", "[1]", '{"x": 1}', "300", "40000",
           "2147483648", "-2147483648", "9223372036854775807", "9223372036854775808", "0.1", "1e400", '"NaN"', '"Infinity"',
           '"-Infinity"', "-0.0", '"1e2"', '"+5"', '"0x10"', "123456789.123456789", '"1f"', '"1_0"', "1.0", "16777217", "0.000000001"]  # fmt: skip
TIMES = ["2020-01-02 03:04:05", "2020-01-02 03:04:05.1", "2020-01-02 03:04:05.123456789", "2020-01-02T03:04:05", "2020-01-02T03:04:05.123",
         "2020-01-02 03:04", "2020-01-02T03:04", "2020-01-02", "2020-01-02 03:04:05Z", "2020-01-02T03:04:05Z", "2020-01-02T03:04:05.123Z",
         "2020-01-02 03:04:05.5Z", "2020-01-02T03:04:05+01:00", "", " 2020-01-02 03:04:05", "1969-12-31 23:59:59.999", "0001-01-01 00:00:00",
         "2020-02-30 00:00:00", "2020-01-02 24:00:00", "2020-1-2 3:4:5", "2020-01-02 03:04:05.", "12020-01-02 03:04:05"]  # fmt: skip
VALUES: dict[str, list[str]] = {
    **shared(("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10, 2)", "DECIMAL(38, 18)"), NUMBERS),
    "BOOLEAN": ["true", "false", '"true"', '"TRUE"', '"yes"', "1", "0", "null", '""', '" true "', "[true]", '{"a": true}'],
    **shared(
        ("STRING", "CHAR(3)", "VARCHAR(3)"),
        ['"a"', "1", "1.50", "1e2", "true", '{"a": 1, "b": [1.50, null]}', "[1, 2 ]", "null", '"é😀"', '"\\u00e9\\n\\t\\"\\\\"', '""', '"abcdef"',
         "12345678901234567890", "-0", "[]", "{}", '{"z": 1, "a": 2}', '" b "', '"\\ud83d\\ude00"'],
    ),
    **shared(("BYTES", "BINARY(3)"), ['"aGVsbG8="', '""', '"!!"', "5", "null", '"YQ=="', '"YQ"', "[1]"]),
    "DATE": ['"2020-01-02"', '"2020-1-2"', '"2020-01-02 "', '"2020-01-02 00:00:00"', '""', '"abc"', "5", "null", '"0001-01-01"', '"2020-02-30"', '"-0001-01-01"'],
    **shared(
        ("TIME(0)", "TIME(3)"),
        ['"12:34:56"', '"12:34"', '"12:34:56.789"', '"12:34:56.7891"', '"12:34:56Z"', '"24:00:00"', '"1:2:3"', '""', "null", "5", '"00:00:00"'],
    ),
    **shared(
        ("TIMESTAMP(0)", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(9)", "TIMESTAMP_LTZ(3)"),
        [*(json.dumps(text) for text in TIMES), "5", "null", "1577934245000", "[1]"],
    ),
    "ARRAY<INT>": ["[1, 2, null]", "[]", '["1", 2.5]', "1", '"x"', '{"a": 1}', "null", '[1, "x"]', "[[1]]"],
    "ARRAY<STRING>": ['["a", 1, null, {"b": 2}]', "[]", '"a"'],
    "MAP<STRING, INT>": ['{"a": 1, "b": null}', "{}", "[1]", "null", '{"a": "x"}', '{"a": 1, "a": 2}', '"x"'],
    "MAP<STRING, ARRAY<DOUBLE>>": ['{"a": [1, 2.5], "b": []}'],
    "MAP<INT, INT>": ['{"1": 2}', "{}"],
    "MULTISET<STRING>": ['{"a": 2, "b": 1}', "{}", '["a"]'],
    "ROW<x INT, y STRING>": ['{"x": 1, "y": "a"}', '{"y": 2, "x": "3"}', "{}", "null", "[1]", '"x"', '{"x": 1, "z": {"x": 5}}', '{"x": "q", "y": "a"}'],
    "ROW<x INT, r ROW<a STRING, b ARRAY<INT>>>": ['{"x": 1, "r": {"a": "t", "b": [1]}}', '{"r": {"b": null}}', '{"r": 5}'],
    "ARRAY<ROW<x INT, t TIMESTAMP(3)>>": ['[{"x": 1, "t": "2020-01-02 03:04:05"}, null, {}]'],
}  # fmt: skip
MESSAGES = ["{}", "null", "[]", "1", '"x"', "", " ", "{bad", '{"f": 1}{"f": 2}', '{"f": 1} x', '{"f": 1, "f": 2}', '{"F": 1}', '{"g": {"f": 5}, "f": 1}', ' {"f": 1} ',
            '[{"f": 1}, {"f": 2}]', '\ufeff{"f": 1}', '{"f": 1,}', "{'f': 1}", '{f: 1}', '{"f": 01}', '{"f": NaN}', '{"f": +1}', '{"f": .5}', '{"f": 1.}',
            '{"f": 1 /* c */}', '{"f": "a\nb"}', '{"g": "\\x"}', "{", "}", '{"f"}', '{"f": }', "tru", '{"f": 1}\n', '[1]', '[{"f": 1}, 5]', "nul"]  # fmt: skip


EVERY_MESSAGE: tuple[str | None, ...] = (*MESSAGES, None)


def row_type(*types: str) -> str:
    return f"ROW<{', '.join(f'{name} {type}' for name, type in zip('fghijk', types, strict=False))}>"


def value(found: Any) -> Any:
    """See ``values.py``."""
    if isinstance(found, float):
        return {"float": repr(found)}
    if found is None or isinstance(found, (bool, int, str)):
        return found
    if isinstance(found, (bytes, bytearray)):
        return {"bytes": base64.b64encode(bytes(found)).decode()}
    if isinstance(found, Decimal):
        return {"decimal": format(found, "f")}
    name = found.getClass().getName()
    if name == "java.time.LocalDate":
        return {"days": found.toEpochDay()}
    if name == "java.time.LocalTime":
        return {"nanos": found.toNanoOfDay()}
    if name in ("java.time.LocalDateTime", "java.time.Instant"):
        instant = found if name.endswith("Instant") else found.toInstant(JVM.java.time.ZoneOffset.UTC)
        return {"nanos": instant.getEpochSecond() * 1_000_000_000 + instant.getNano()}
    if name == "org.apache.flink.types.Row":
        return {"row": [value(found.getField(at)) for at in range(found.getArity())]}
    if found.getClass().isArray():
        return {"list": [value(one) for one in found]}
    return {"map": sorted(([value(key), value(found[key])] for key in found), key=json.dumps)}


class Type:
    def __init__(self, text: str) -> None:
        self.text = text
        self.logical = TYPES.parse(text, LOADER)
        data_type = self.data_type = JVM.org.apache.flink.table.types.utils.TypeConversions.fromLogicalToDataType(
            self.logical
        )
        self.info = JVM.org.apache.flink.table.runtime.typeutils.InternalTypeInfo.of(self.logical)
        self.converter = JVM.org.apache.flink.table.data.conversion.DataStructureConverters.getConverter(data_type)
        self.converter.open(LOADER)


def reason(error: Py4JJavaError) -> str:
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    return str(cause.toString()).splitlines()[0]


def decoded(schema: Any, type: Type, text: str | None) -> dict[str, Any]:
    """Rows as Flink gives them on, or the error."""
    rows = JVM.java.util.ArrayList()
    try:
        schema.deserialize(
            None if text is None else text.encode(), JVM.org.apache.flink.api.common.functions.util.ListCollector(rows)
        )
    except Py4JJavaError as error:
        return {"error": reason(error)}
    try:
        return {"rows": [None if row is None else value(type.converter.toExternal(row)) for row in rows]}
    except Py4JJavaError as error:
        return {"error": reason(error)}


def json_decoder(type: Type, options: dict[str, str]) -> Any:
    schema = JSON.JsonParserRowDataDeserializationSchema(
        type.logical,
        type.info,
        options.get("fail-on-missing-field") == "true",
        options.get("ignore-parse-errors") == "true",
        getattr(STANDARDS, "ISO_8601" if options.get("timestamp-format.standard") == "ISO-8601" else "SQL"),
    )
    schema.open(None)
    return schema


def json_encoder(type: Type, options: dict[str, str]) -> Any:
    schema = JSON.JsonRowDataSerializationSchema(
        type.logical,
        getattr(STANDARDS, "ISO_8601" if options.get("timestamp-format.standard") == "ISO-8601" else "SQL"),
        getattr(JSON.JsonFormatOptions.MapNullKeyMode, options.get("map-null-key.mode", "FAIL")),
        options.get("map-null-key.literal", "null"),
        options.get("encode.decimal-as-plain-number") == "true",
        options.get("encode.ignore-null-fields") == "true",
    )
    schema.open(None)
    return schema


def json_cases() -> tuple[list[Any], list[Any]]:
    reading: list[Any] = []
    writing: list[Any] = []
    for text, literals in VALUES.items():
        type = Type(row_type(text))
        standards = ({}, {"timestamp-format.standard": "ISO-8601"}) if "TIME" in text else ({},)
        for standard, lenient in itertools.product(standards, ({}, {"ignore-parse-errors": "true"})):
            options = {**standard, **lenient}
            try:
                schema = json_decoder(type, options)
            except Py4JJavaError as error:
                reading.append({"type": type.text, "options": options, "refused": reason(error)})
                continue
            for literal in literals:
                message = f'{{"f": {literal}}}'
                reading.append(
                    {"type": type.text, "options": options, "text": message, **decoded(schema, type, message)}
                )
    for options in ({}, {"ignore-parse-errors": "true"}, {"fail-on-missing-field": "true"}):
        for types in (("INT",), ("STRING",), ("INT", "STRING"), ("INT NOT NULL",), ("ROW<f INT>", "ROW<f INT>")):
            type = Type(row_type(*types))
            for one in EVERY_MESSAGE:
                reading.append(
                    {
                        "type": type.text,
                        "options": options,
                        "text": one,
                        **decoded(json_decoder(type, options), type, one),
                    }
                )
    for text, literals in VALUES.items():
        type = Type(row_type("STRING", text))
        standards = ({}, {"timestamp-format.standard": "ISO-8601"}) if "TIME" in text else ({},)
        for standard in standards:
            for literal in literals:
                writing += written(type, standard, f'{{"f": "k", "g": {literal}}}')
    for options in ({"encode.decimal-as-plain-number": "true"}, {"encode.ignore-null-fields": "true"}):
        for kinds, message in (
            (("DECIMAL(38, 18)", "DECIMAL(20, 0)"), '{"f": 0.000000001, "g": 100000000000}'),
            (("STRING", "ROW<x INT, y STRING>", "ARRAY<INT>"), '{"g": {"y": "a"}, "h": [1, null]}'),
            (("STRING", "MAP<STRING, INT>"), '{"g": {"a": null}}'),
        ):
            writing += written(Type(row_type(*kinds)), options, message)
    for types, message in (
        (("DECIMAL(38, 18)", "DECIMAL(20, 0)"), '{"f": 0.000000001, "g": 100000000000}'),
        (("DECIMAL(38, 18)", "DECIMAL(20, 0)"), '{"f": 1, "g": 0}'),
        (("DOUBLE", "FLOAT"), '{"f": 1e10, "g": 1e-5}'),
        (("DOUBLE", "FLOAT"), '{"f": 123456789.125, "g": 0.1}'),
        (("DOUBLE", "FLOAT"), '{"f": 1e-300, "g": 3.4028235e38}'),
    ):
        writing += written(Type(row_type(*types)), {}, message)
    return reading, writing


def written(type: Type, options: dict[str, str], message: str) -> list[dict[str, Any]]:
    """What the row of a message is written as, where it can be read."""
    rows = JVM.java.util.ArrayList()
    try:
        json_decoder(type, options).deserialize(
            message.encode(), JVM.org.apache.flink.api.common.functions.util.ListCollector(rows)
        )
    except Py4JJavaError:
        return []
    found = []
    for row in rows:
        case = {"type": type.text, "options": options, "row": value(type.converter.toExternal(row))}
        try:
            found.append({**case, "text": bytes(json_encoder(type, options).serialize(row)).decode()})
        except Py4JJavaError as error:
            found.append({**case, "error": reason(error)})
    return found


CSV_VALUES: dict[str, list[str]] = {
    **shared(
        ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10, 2)"),
        ["1", "-7", "1.5", "1e2", " 12 ", "", '""', "abc", "true", "null", "300", "40000", "2147483648", "9223372036854775808", "NaN", "Infinity",
         "+5", "1.0", '"12"', '" 12"', "123456.785"],
    ),
    "BOOLEAN": ["true", "false", "TRUE", "yes", "1", "", " true ", '"true"'],
    **shared(("STRING", "VARCHAR(3)"), ["a", "", '""', '"a,b"', '"a""b"', "a\"b", " a ", '" a "', "null", "é😀", '"a\nb"', "abcdef", "'q'", '"a', "#c", "a\\,b"]),
    "BYTES": ["aGVsbG8=", "", "!!", "YQ"],
    "DATE": ["2020-01-02", "2020-1-2", " 2020-01-02", "", "abc", "2020-01-02 00:00:00"],
    **shared(("TIME(0)", "TIME(3)"), ["12:34:56", "12:34", "12:34:56.789", "12:34:56.7891", "", "1:2:3"]),
    **shared(("TIMESTAMP(3)", "TIMESTAMP(9)", "TIMESTAMP_LTZ(3)"), TIMES),
    "ARRAY<INT>": ["1;2;3", "", "1", "1;", ";", "1;;2", "x", "1; 2"],
    "ARRAY<STRING>": ["a;b", "", '"a;b"', ";"],
    "ROW<x INT, y STRING>": ["1;a", "1", "", "1;a;b", ";"],
}  # fmt: skip
CSV_MESSAGES = ["1,a", "1", "1,", ",a", ",", "1,a,b", "1,a,", "", " ", "1;a", '1,"a"', "1,'a'", "#1,a", "1,a\n", "1,a\r\n", "1,a\n2,b", ' 1 , a ', "N/A,a", "1,N/A",
                '1,"N/A"', "x,a", '1,a"b', '"1","a', "1|a", "1,a\\,b", '1,"a\\"b"', "\ufeff1,a", "1,a ,", "'1','a,b'"]  # fmt: skip
CSV_OPTIONS: list[dict[str, str]] = [
    {}, {"ignore-parse-errors": "true"}, {"null-literal": "N/A"}, {"field-delimiter": ";"}, {"field-delimiter": "|"}, {"quote-character": "'"}, {"disable-quote-character": "true"},
    {"allow-comments": "true"}, {"escape-character": "\\"}, {"trim-spaces": "true"}, {"ignore-trailing-unmappable": "true"}, {"allow-trailing-comma": "false"},
    {"fail-on-missing-columns": "true"}, {"empty-string-as-null": "true"}, {"null-literal": ""},
]  # fmt: skip


SCIENTIFIC: list[dict[str, str]] = [{"write-bigdecimal-in-scientific-notation": text} for text in ("true", "false")]


def csv_cases() -> tuple[list[Any], list[Any]]:
    reading, writing = [], []
    for text, cells in CSV_VALUES.items():
        type = Type(row_type("STRING", text))
        for options in ({}, {"ignore-parse-errors": "true"}):
            for cell in cells:
                message = f"k,{cell}"
                reading.append(
                    {
                        "type": type.text,
                        "options": options,
                        "text": message,
                        **decoded(csv_decoder(type, options), type, message),
                    }
                )
    for options in CSV_OPTIONS:
        for types in (("INT", "STRING"), ("STRING", "STRING"), ("STRING",)):
            type = Type(row_type(*types))
            for message in (*CSV_MESSAGES, ""):
                reading.append(
                    {
                        "type": type.text,
                        "options": options,
                        "text": message,
                        **decoded(csv_decoder(type, options), type, message),
                    }
                )
    texts = [
        '"a"',
        '"a,b"',
        '"a\\"b"',
        '" a "',
        '""',
        "null",
        '"a\\nb"',
        '"é😀"',
        '"1"',
        '"a;b"',
        "\"'a'\"",
        '"a|b"',
        '"a\\\\b"',
        '"#a"',
        '"N/A"',
        '"-"',
        '"a b"',
    ]
    for options in CSV_OPTIONS:
        for text in texts:
            writing += csv_written(Type(row_type("INT", "STRING")), options, f'{{"f": 1, "g": {text}}}')
        writing += csv_written(Type(row_type("INT", "STRING")), options, '{"g": "a"}')
        writing += csv_written(Type(row_type("STRING", "STRING")), options, "{}")
        writing += csv_written(Type(row_type("STRING")), options, "{}")
    for text, literals in VALUES.items():
        if text.startswith(("MAP", "MULTISET", "ARRAY<ROW")) or "r ROW" in text:
            continue
        for literal in literals:
            for options in SCIENTIFIC if "DECIMAL" in text else ({},):
                writing += csv_written(Type(row_type("STRING", text)), options, f'{{"f": "k", "g": {literal}}}')
    return reading, writing


def csv_decoder(type: Type, options: dict[str, str]) -> Any:
    builder = JVM.org.apache.flink.formats.csv.CsvRowDataDeserializationSchema.Builder(type.logical, type.info)
    configured(builder, options)
    builder.setIgnoreParseErrors(options.get("ignore-parse-errors") == "true")
    if "allow-comments" in options:
        builder.setAllowComments(True)
    for key, setter in (
        ("trim-spaces", "setTrimSpaces"),
        ("ignore-trailing-unmappable", "setIgnoreTrailingUnmappable"),
        ("allow-trailing-comma", "setAllowTrailingComma"),
        ("fail-on-missing-columns", "setFailOnMissingColumns"),
        ("empty-string-as-null", "setEmptyStringAsNull"),
    ):
        if key in options:
            getattr(builder, setter)(options[key] == "true")
    schema = builder.build()
    schema.open(None)
    return schema


def configured(builder: Any, options: dict[str, str]) -> None:
    if "field-delimiter" in options:
        builder.setFieldDelimiter(options["field-delimiter"])
    if options.get("disable-quote-character") == "true":
        builder.disableQuoteCharacter()
    elif "quote-character" in options:
        builder.setQuoteCharacter(options["quote-character"])
    if "escape-character" in options:
        builder.setEscapeCharacter(options["escape-character"])
    if "null-literal" in options:
        builder.setNullLiteral(options["null-literal"])


def csv_written(type: Type, options: dict[str, str], message: str) -> list[dict[str, Any]]:
    rows = JVM.java.util.ArrayList()
    try:
        json_decoder(type, {}).deserialize(
            message.encode(), JVM.org.apache.flink.api.common.functions.util.ListCollector(rows)
        )
    except Py4JJavaError:
        return []
    builder = JVM.org.apache.flink.formats.csv.CsvRowDataSerializationSchema.Builder(type.logical)
    configured(builder, options)
    if "write-bigdecimal-in-scientific-notation" in options:
        builder.setWriteBigDecimalInScientificNotation(options["write-bigdecimal-in-scientific-notation"] == "true")
    schema = builder.build()
    schema.open(None)
    found = []
    for row in rows:
        case = {"type": type.text, "options": options, "row": value(type.converter.toExternal(row))}
        try:
            found.append({**case, "text": bytes(schema.serialize(row)).decode()})
        except Py4JJavaError as error:
            found.append({**case, "error": reason(error)})
    return found


def main() -> None:
    for name, cases in (("json", json_cases), ("csv", csv_cases)):
        reading, writing = cases()
        lines = [
            json.dumps(case, ensure_ascii=False)
            for case in (*({"reads": one} for one in reading), *({"writes": one} for one in writing))
        ]
        (HERE / f"{name}.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
        print(name, len(reading), len(writing), file=sys.stderr)


if __name__ == "__main__":
    main()
