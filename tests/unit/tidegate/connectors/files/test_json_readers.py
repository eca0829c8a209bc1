"""Arrow's reader of JSON and Python's are one reader: the same rows, and the same lines are bad. No digit of a number is lost.

What others give was recorded with DuckDB 2.0.0, pandas 2.3.3, PySpark 4.3 and Python 3.11, reading the same bytes.
"""

from __future__ import annotations

import gzip
import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from tests.unit.tidegate.connectors.test_file_source import drain, states
from tidegate.common.typeinfo import Types
from tidegate.connectors.file_source import FileSource
from tidegate.connectors.files import formats
from tidegate.connectors.files.json_text import MAX_DEPTH, json_rows
from tidegate.connectors.formats.messages import JsonRowDeserializationSchema
from tidegate.model.errors import CorruptData, InvalidJob, SchemaMismatch

BOM = b"\xef\xbb\xbf"
INT, TEXT, DOUBLE = (pa.schema([("a", kind)]) for kind in (pa.int64(), pa.string(), pa.float64()))


def rows(path: Path, content: str | bytes, schema: pa.Schema | None = None, bad_lines: str = "fail") -> list[Any]:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    source = FileSource.for_json_lines(str(path), schema=schema, bad_lines=bad_lines)
    return drain(source, states(source))[0]


def of_one(value: str, kind: pa.DataType) -> object:
    return json_rows(b'{"a":%s}' % value.encode(), pa.schema([("a", kind)]), are_lines=True).to_pylist()[0]["a"]


def by_python(schema: pa.Schema) -> pa.Schema:
    """With a column that Arrow's reader does not know."""
    return schema.append(pa.field("day", pa.date32()))


@pytest.mark.parametrize(
    ("value", "kind", "found"),
    [
        ("9007199254740993.0", pa.int64(), 9007199254740993),  # DuckDB and pandas: ...992; Spark as a decimal: ...993
        ("9.007199254740993e15", pa.int64(), 9007199254740993),
        ("9223372036854775807.0", pa.int64(), 9223372036854775807),
        ("18446744073709551615.00", pa.uint64(), 18446744073709551615),
        ("12345678901234567.89", pa.string(), "12345678901234567.89"),  # as Spark; DuckDB 1.2345678901234568e+16
        ("1e400", pa.string(), "1e400"),  # as Spark and DuckDB
        ("1e99999999999999999999", pa.string(), "1e99999999999999999999"),
        ("1e3", pa.string(), "1000.0"),  # the same number: as Flink shows it
        ("1.10", pa.string(), "1.1"),
        ("[12345678901234567.89,-0]", pa.string(), "[12345678901234567.89,0]"),
        ("12345678901234567.89", pa.decimal128(30, 2), Decimal("12345678901234567.89")),
        ("[12345678901234567.890]", pa.list_(pa.decimal128(30, 2)), [Decimal("12345678901234567.89")]),
        ('{"x":9007199254740993.0}', pa.struct([("x", pa.int64())]), {"x": 9007199254740993}),
        ('"9007199254740993"', pa.int64(), 9007199254740993),
        ("-0", pa.float64(), -0.0),
        ("-0", pa.int64(), 0),
        ("NaN", pa.string(), "NaN"),
        ("-Infinity", pa.float32(), -math.inf),  # DuckDB, Spark and Python read the bare words, too
        ('"2024-01-01T00:00:00.120000"', pa.timestamp("ms"), None),
    ],
)
def test_numbers_keep_their_digits(value: str, kind: pa.DataType, found: object) -> None:
    if found is not None:
        assert repr(of_one(value, kind)) == repr(found)
    else:
        assert str(of_one(value, kind)) == "2024-01-01 00:00:00.120000"


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("1e400", pa.float64()),  # DuckDB, pandas, Spark: infinity
        ("-1e400", pa.float64()),
        ("1" * 400, pa.float64()),
        ('"1e400"', pa.float64()),
        ("1e39", pa.float32()),
        ("70000", pa.float16()),
        ("[1,1e39]", pa.list_(pa.float32())),
        ('{"x":1e400}', pa.struct([("x", pa.float64())])),
        ("5.7", pa.int64()),
        ("9007199254740993.5", pa.int64()),
        ("1e-999999999", pa.int64()),
        ("1e999999999", pa.int64()),
        ("1e999999999", pa.decimal128(20, 2)),
        ("1e-999999999", pa.decimal128(20, 2)),
        ("1e99999999999999999999", pa.decimal128(20, 2)),
        ("9223372036854775808", pa.int64()),
        ("-1", pa.uint64()),
        ("300", pa.int8()),
        ("1.234", pa.decimal128(9, 2)),
        ("true", pa.int64()),
        ("1", pa.bool_()),
        ("NaN", pa.int64()),
        ("NaN", pa.decimal128(9, 2)),
        ('"\\ud800"', pa.string()),
        ("20240101", pa.date32()),
        ("1234", pa.binary()),
        ('"2024-01-01T00:00:00.123456"', pa.timestamp("ms")),
        ('"2024-01-01T00:00:00,5"', pa.timestamp("s")),
        ('"12:00:00.5"', pa.time32("s")),
        ('"12:00:00.1234567"', pa.time64("us")),
        ('"2500-01-01T00:00:00"', pa.timestamp("ns")),
        ('"10000-01-01"', pa.date32()),
    ],
)
def test_a_value_of_which_a_part_would_be_lost_is_refused(value: str, kind: pa.DataType) -> None:
    with pytest.raises(pa.ArrowInvalid, match=r"field 'a' of row 0: .* is no "):
        of_one(value, kind)


LINES = [
    '{"a":1}\n{"a":2}\n',
    '\n\n{"a":1}\n  \n\r\n{"a":2}',
    '{"a":1}\r\n{"a":2}\r\n',
    '{"a":1}\r{"a":2}',
    '{"a":1} {"a":2}\n',
    '{"a":1,"a":2}\n',
    '{"a":{"x":1},"a":5}\n',
    '{"a":1} null\n',
    '{"a":null} null\n',
    '{"a":1}\rnull\n',
    "null\n",
    "null\nnull\n",
    '\n null\n{"a":1}',
    '[{"a":1}]\n',
    "5\n",
    '{"a":1}\n\x0c\n{"a":2}',
    '{"a":1}\n\u00a0\n{"a":2}',
    '{"a":1}\x00\n',
    '{"a":1,"z":"\\ud800"}\n',
    '{"a":1,"z":1e400}\n',
    '{"a":1,"z":1e99999999999999999999}\n',
    '{"a":1,"z":%s}\n' % ("1" * 5000),
    '{"a":1,"z":NaN}\n{"a":1,"z":-Infinity}\n',
    '{"a":1,"z":nan}\n',
    '{"a":01}\n',
    '{"a":1,}\n',
    '{"a":1}x\n',
    '{"a":1,"z":%s}\n' % ("[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1)),
    '{"a":1,"z":%s}\n' % ("[" * MAX_DEPTH + "]" * MAX_DEPTH),
    '{"a":1,"z":%s}\n' % ("[" * 100000 + "]" * 100000),
    '{"a":1,"z":%s}\n' % ('{"y":' * 20000 + "1" + "}" * 20000),
    '{"a":1,"z":"%s"}\n' % ("[" * 3000),
    '{"a":1,"z":"%s"}\n{"a":2}\n' % ("x" * (3 << 20)),
    "\ufeffnull\n",
    '\ufeff{"a":1}\n',
    '{"a":1}\n\ufeff{"a":2}\n',
    "\ufeff",
    "",
    b'{"a":1,"z":"\xff"}\n',
    b'{"a":1,"z":"\xed\xa0\x80"}\n',
]


@pytest.mark.parametrize("block", [1 << 20, 1])
@pytest.mark.parametrize("bad_lines", ["fail", "skip"])
@pytest.mark.parametrize("content", LINES, ids=lambda content: repr(content[:30]))
def test_which_of_the_readers_it_was_is_not_seen(
    tmp_path: Path, content: str | bytes, bad_lines: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "BLOCK_BYTES", block)
    found: list[object] = []
    for schema in (INT, by_python(INT)):
        try:
            found.append([row["a"] for row in rows(tmp_path / "a.jsonl", content, schema, bad_lines)])
        except SchemaMismatch:
            found.append("refused")
    assert found[0] == found[1]


def test_a_byte_order_mark_is_none_of_the_first_line(tmp_path: Path) -> None:
    content = BOM + b'{"a":"2024-01-01"}\n{"a":"2024-01-02"}\n'
    for schema in (pa.schema([("a", pa.date32())]), TEXT, None):  # Spark reads both rows
        found = [str(row["a"])[:10] for row in rows(tmp_path / "a.jsonl", content, schema, "skip")]
        assert found == ["2024-01-01", "2024-01-02"]
    packed = tmp_path / "a.jsonl.gz"
    packed.write_bytes(gzip.compress(content))
    source = FileSource.for_json_lines(str(packed), schema=by_python(TEXT))
    assert len(drain(source, states(source))[0]) == 2
    with pytest.raises(SchemaMismatch, match="line 2, at byte 8"):
        rows(tmp_path / "a.jsonl", b'{"a":1}\n' + BOM + b'{"a":2}\n', INT)
    for bad_lines in ("fail", "skip"):
        with pytest.raises(CorruptData, match="UTF-16"):
            rows(tmp_path / "a.jsonl", '{"a":1}\n'.encode("utf-16"), INT, bad_lines)


def test_the_last_of_two_fields_counts_at_any_depth(tmp_path: Path) -> None:
    nested = pa.schema([("a", pa.list_(pa.struct([("x", pa.int64())])))])
    for schema in (nested, by_python(nested)):  # as Python, Spark and Flink; DuckDB refuses it
        found = rows(tmp_path / "a.jsonl", '{"a":[{"x":1,"x":2}]}\n', schema)
        assert found[0]["a"] == [{"x": 2}]


def test_the_first_bad_line_is_shown_with_its_number(tmp_path: Path) -> None:
    content = "\n".join(json.dumps({"a": number}) for number in range(500)) + '\n{"a":1e400}\n{"a":1}\n'
    with pytest.raises(SchemaMismatch, match=r"line 501, at byte \d+: '\{\"a\":1e400\}'") as caught:
        rows(tmp_path / "a.jsonl", content, DOUBLE)
    assert not caught.value.retriable
    assert len(rows(tmp_path / "a.jsonl", content, DOUBLE, "skip")) == 501


@pytest.mark.parametrize(
    "first", ["null", "[" * 20000 + "]" * 20000, '{"z":' + "[" * 20000 + "]" * 20000 + "}", "5", "{", '"x"']
)
def test_no_first_value_ends_the_process_that_infers(tmp_path: Path, first: str) -> None:
    for mark in ("", "\ufeff", "\n \n"):
        content = f'{mark}{first}\n{{"a":1}}\n'
        with pytest.raises(InvalidJob, match=r"cannot infer the fields of .*a\.jsonl.*schema="):
            rows(tmp_path / "a.jsonl", content)
        assert rows(tmp_path / "a.jsonl", content, bad_lines="skip") == [{"a": 1}]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n\n",
        BOM,
        b"\xff\xfe{\x00",
        b'{"a":"\xff"}',
        b'{"a":1}\n{"a":"x"}',
        b'{"a":%s}' % (b"[" * 300 + b"]" * 300),
    ],
)
def test_what_has_no_schema_is_refused_when_it_is_asked_for(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(InvalidJob, match="give them with schema="):
        rows(tmp_path / "a.jsonl", content)


def test_a_first_line_of_any_size_has_a_schema(tmp_path: Path) -> None:
    found = rows(tmp_path / "a.jsonl", '{"a":"%s","b":1}\n{"a":"y","b":2}\n' % ("x" * (3 << 20)))
    assert [row["b"] for row in found] == [1, 2]


def test_whole_numbers_that_int64_does_not_hold_are_inferred_as_text(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    content = '{"a":1,"b":[1],"c":{"d":1.5},"e":1.5,"f":0.1}\n{"a":9223372036854775808,"b":[18446744073709551616],"c":{"d":2},"e":9007199254740993}\n'
    found = rows(path, content)
    assert [row["a"] for row in found] == ["1", "9223372036854775808"]
    assert [row["b"] for row in found] == [["1"], ["18446744073709551616"]]
    assert [row["c"]["d"] for row in found] == [1.5, 2.0]
    assert [row["e"] for row in found] == ["1.5", "9007199254740993"]
    assert [row["f"] for row in found] == [0.1, None]
    digits = duckdb.connect().execute(f"SELECT a::VARCHAR FROM read_json('{path}')").fetchall()  # a HUGEINT there
    assert [row["a"] for row in found] == [a for (a,) in digits]


def test_a_schema_that_json_cannot_have_is_refused_at_once(tmp_path: Path) -> None:
    for kind in (pa.duration("s"), pa.list_(pa.month_day_nano_interval())):
        with pytest.raises(InvalidJob, match="column 'a' of the schema: JSON cannot hold"):
            FileSource.for_json_lines("x", schema=pa.schema([("a", kind)]))
    with pytest.raises(InvalidJob, match="names the column 'a' more than once"):
        FileSource.for_json_lines("x", schema=pa.schema([("a", pa.int64()), ("a", pa.int64())]))


REQUIRED = [
    (pa.field("a", pa.int64(), nullable=False), "{}", "a"),
    (pa.field("a", pa.date32(), nullable=False), '{"a":null}', "a"),
    (pa.field("a", pa.struct([pa.field("x", pa.int64(), nullable=False)])), '{"a":{}}', "a.x"),
    (pa.field("a", pa.list_(pa.field("item", pa.date32(), nullable=False))), '{"a":[null]}', "a.item"),
    (pa.field("a", pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False))), '{"a":{"k":null}}', "a.value"),
]


@pytest.mark.parametrize(("field", "line", "name"), REQUIRED)
def test_a_null_in_a_column_that_has_none_is_a_bad_line(tmp_path: Path, field: pa.Field, line: str, name: str) -> None:
    good = {"a": "1", "a.x": '{"x":1}', "a.item": "[]", "a.value": '{"k":1}'}[name]
    good = '"2024-01-01"' if field.type == pa.date32() else good
    content = f'{{"a":{good}}}\n{line}\n'
    with pytest.raises(SchemaMismatch, match=rf"column '{name}' is null in row 1.*line 2") as caught:
        rows(tmp_path / "a.jsonl", content, pa.schema([field]))
    assert str(tmp_path) in caught.value.message
    assert len(rows(tmp_path / "a.jsonl", content, pa.schema([field]), "skip")) == 1


def test_every_type_of_kafkas_messages_has_a_reader() -> None:
    kinds = [Types.INSTANT(), Types.SQL_TIME(), Types.MAP(Types.STRING(), Types.BIG_DEC()), Types.LIST(Types.FLOAT())]
    wanted = Types.ROW_NAMED(["a", "b", "c", "d"], kinds)
    assert JsonRowDeserializationSchema(wanted).decode([b"{}"]).to_pylist() == [dict.fromkeys("abcd")]
