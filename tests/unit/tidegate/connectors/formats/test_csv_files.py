"""Files of CSV with a schema read and write as PyFlink's do, which is by way of Jackson."""

from __future__ import annotations

import base64
import datetime
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tidegate.common.row import Row
from tidegate.common.serialization import BulkWriterFactory
from tidegate.common.time import Instant
from tidegate.common.typeinfo import Types
from tidegate.connectors.file_sink import FileSink as OurFileSink
from tidegate.connectors.files.file_range import FileRange
from tidegate.connectors.formats import csv_files
from tidegate.connectors.formats.messages import PoisonRecord
from tidegate.datastream.connectors.file_system import BucketAssigner, FileSink, FileSource
from tidegate.datastream.formats.csv import (
    CsvBulkWriters,
    CsvReaderFormat,
    CsvRowDeserializationSchema,
    CsvRowSerializationSchema,
    CsvSchema,
    CsvSchemaBuilder,
)
from tidegate.model.errors import CorruptData, InvalidJob, SchemaMismatch
from tidegate.records.record_codec import decode, encode
from tidegate.table import DataTypes

Set = Callable[[CsvSchemaBuilder], CsvSchemaBuilder]
"""What a test sets beside two columns."""


def pair(*settings: Set) -> CsvSchema:
    builder = CsvSchema.builder().add_string_column("word").add_number_column("count")
    for setting in settings:
        setting(builder)
    return builder.build()


def read(schema: CsvSchema, content: str, path: Path) -> list[Any]:
    path.write_bytes(content.encode())
    found = CsvReaderFormat.for_schema(schema).file_format
    blocks = found.blocks(FileRange(str(path), 0, path.stat().st_size, path.stat().st_size), None, 0)
    return [tuple(row) for block in blocks for row in decode(found.produced_type(), block.data)]


def written(schema: CsvSchema, *rows: Row) -> str:
    sink = pa.BufferOutputStream()
    factory = csv_files.CsvSchemaEncoderFactory(schema.layout)
    kind = schema.layout.row_type()
    encoder = factory.open(sink, kind.arrow_schema())
    encoder.write(encode(kind, rows))
    encoder.finish()
    return bytes(sink.getvalue()).decode()


@pytest.mark.parametrize(
    ("settings", "content", "rows"),
    [
        ([], 'a,1\n"b,""c""", 2 \n', [("a", 1), ('b,"c"', 2)]),
        ([], "a,1\r\nb,2", [("a", 1), ("b", 2)]),
        ([], '"a\nb",1\nc,2\n', [("a\nb", 1), ("c", 2)]),
        ([], ",1\n", [("", 1)]),
        ([lambda b: b.set_null_value("-")], "-,-\n", [(None, None)]),
        ([lambda b: b.set_column_separator("|").set_quote_char("`")], "`a|`|1\n", [("a|", 1)]),
        ([lambda b: b.disable_quote_char()], '"a",1\n', [('"a"', 1)]),
        ([lambda b: b.set_escape_char("\\")], 'a\\,\\"b,1\n', [('a,"b', 1)]),
        ([lambda b: b.set_allow_comments()], '# no\n"a\n#b",1\n#c\n', [("a\n#b", 1)]),
        ([lambda b: b.set_use_header()], "x,y\na,1\n", [("a", 1)]),
        ([lambda b: b.set_use_header().set_strict_headers()], "word,count\na,1\n", [("a", 1)]),
        ([lambda b: b.set_use_header().set_skip_first_data_row()], "x,y\na,1\nb,2\n", [("b", 2)]),
        ([lambda b: b.set_any_property_name("more")], "a,1,x,y\n", [("a", 1)]),
        ([lambda b: b.clear_columns().add_string_column("only")], "a\n\nb\n", [("a",), ("",), ("b",)]),
    ],
)
def test_files_are_read_by_their_schema(settings: list[Set], content: str, rows: list[Any], tmp_path: Path) -> None:
    assert read(pair(*settings), content, tmp_path / "file.csv") == rows


def test_a_cell_may_have_megabytes_and_lines_may_end_behind_pieces(tmp_path: Path) -> None:
    rows = [("x" * 3_000_000, 1), ("y" * (csv_files._PIECE_BYTES - 10), 2), ("z", 3)]
    assert read(pair(), "".join(f'"{word}",{count}\n' for word, count in rows), tmp_path / "f.csv") == rows


def test_cells_are_values_of_their_types(tmp_path: Path) -> None:
    schema = (
        CsvSchema.builder()
        .add_number_column("float", DataTypes.FLOAT())
        .add_number_column("money", DataTypes.DECIMAL(4, 1))
        .add_boolean_column("is")
        .add_array_column("numbers", element_type=DataTypes.INT())
        .add_array_column("words", separator=" ")
        .build()
    )
    content = "1e3,1.25,TRUE,1;2,a b\n1,99999,no,,\n"
    rows = read(schema, content, tmp_path / "file.csv")
    assert rows == [(1000.0, Decimal("1.3"), True, [1, 2], ["a", "b"]), (1.0, None, False, [], [])]
    assert written(schema, *[Row(*row) for row in rows]) == '1000.0,1.3,true,1;2,"a b"\n1.0,,false,,\n'


@pytest.mark.parametrize(
    ("settings", "content", "message"),
    [
        ([], "a\n", "1 cells, the schema 2 columns"),
        ([], "a,1,2\n", "3 cells, the schema 2 columns"),
        ([], "a,\n", "column 'count': '' is not a Long"),
        ([], "a,1_0\n", "column 'count': '1_0' is not a Long"),
        ([lambda b: b.set_use_header().set_strict_headers()], "count,word\n", "has the header"),
    ],
)
def test_what_is_no_row_of_the_schema_is_named(settings: list[Set], content: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(SchemaMismatch, match=message):
        read(pair(*settings), content, tmp_path / "file.csv")


def test_text_that_is_not_utf_8_and_a_file_that_got_shorter_are_corrupt(tmp_path: Path) -> None:
    found = CsvReaderFormat.for_schema(pair()).file_format
    (tmp_path / "file.csv").write_bytes(b"\xff,1\n")
    for size in (5, 6):
        with pytest.raises(CorruptData):
            list(found.blocks(FileRange(str(tmp_path / "file.csv"), 0, size, size), None, 0))


def test_a_replay_from_any_block_gives_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_files, "_BLOCK_RECORDS", 2)
    monkeypatch.setattr(csv_files, "_PIECE_BYTES", 7)
    path = tmp_path / "file.csv"
    content = "x,y\n#c\n" + "".join(f'"word\n{n}",{n}\n#c\n' for n in range(7))
    schema = pair(lambda b: b.set_use_header().set_allow_comments())
    rows = read(schema, content, path)
    assert rows == [(f"word\n{n}", n) for n in range(7)]
    found = CsvReaderFormat.for_schema(schema).file_format
    (part,) = found.ranges(pa.fs.LocalFileSystem().get_file_info(str(path)), str(path), 1)
    blocks = list(found.blocks(part, None, 0))
    for number, block in enumerate(blocks):
        again = [tuple(r) for b in found.blocks(part, block.start, 1) for r in decode(found.produced_type(), b.data)]
        assert again == rows[2 * number + 1 :]


@pytest.mark.parametrize(
    ("settings", "row", "line"),
    [
        ([], Row("a", 1), "a,1\n"),
        ([], Row("a b", -1), '"a b",-1\n'),
        ([], Row('say "hi"', None), '"say ""hi""",\n'),
        ([], Row("x" * 25, 1), f'"{"x" * 25}",1\n'),
        ([lambda b: b.set_null_value("-")], Row(None, None), "-,-\n"),
        ([lambda b: b.set_escape_char("\\")], Row("a\\", 1), '"a\\\\",1\n'),
        ([lambda b: b.disable_quote_char()], Row("a b", 1), "a b,1\n"),
        ([lambda b: b.set_line_separator("\r\n").set_use_header()], Row("a", 1), "word,count\r\na,1\r\n"),
    ],
)
def test_files_are_written_as_jackson_quotes(settings: list[Set], row: Row, line: str) -> None:
    assert written(pair(*settings), row) == line


def test_columns_of_a_stream_go_by_name_or_else_by_position() -> None:
    factory = csv_files.CsvSchemaEncoderFactory(pair().layout)
    for columns in ({"count": [1], "word": ["a"]}, {"f0": ["a"], "f1": [1]}):
        sink = pa.BufferOutputStream()
        data = pa.record_batch(columns)
        encoder = factory.open(sink, data.schema)
        encoder.write(data)
        assert bytes(sink.getvalue()) == b"a,1\n"
    with pytest.raises(SchemaMismatch, match="give the stream these names, or as many"):
        factory.open(pa.BufferOutputStream(), pa.schema([("word", pa.string())]))
    encoder = factory.open(pa.BufferOutputStream(), pa.schema([("f0", pa.string()), ("f1", pa.string())]))
    with pytest.raises(SchemaMismatch, match="column 'count'"):
        encoder.write(pa.record_batch({"f0": ["a"], "f1": ["b"]}))


def test_schemas_are_copied_and_mistakes_are_told_when_they_are_made(tmp_path: Path) -> None:
    twice = CsvSchema.builder().add_columns_from(pair()).build()
    assert (len(twice), twice.size(), len(CsvSchema.builder())) == (2, 2, 0)
    lists = CsvSchema.builder().add_array_column("l").set_array_element_separator("+").add_array_column("m")
    lists.remove_array_element_separator(1)
    assert [column.separator for column in lists.build().layout.columns] == ["+", ""]
    assert [c.separator for c in lists.disable_array_element_separator().build().layout.columns] == ["", ""]
    for setting in (
        CsvSchemaBuilder.set_column_separator,
        CsvSchemaBuilder.set_quote_char,
        CsvSchemaBuilder.set_escape_char,
    ):
        with pytest.raises(ValueError, match="must be a single char, got ab"):
            setting(CsvSchema.builder(), "ab")
    with pytest.raises(InvalidJob, match="at least one column"):
        CsvSchema.builder().build()
    with pytest.raises(InvalidJob, match="cannot write files"):
        FileSink.for_bulk_format(str(tmp_path), BulkWriterFactory())


def test_sources_and_sinks_have_the_schemas_type(tmp_path: Path) -> None:
    source = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(pair()), str(tmp_path)).build()
    assert source.produced_type() == Types.ROW_NAMED(["word", "count"], [Types.STRING(), Types.LONG()])
    builder = FileSink.for_bulk_format(str(tmp_path), CsvBulkWriters.for_schema(pair()))
    assert isinstance(builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build(), OurFileSink)
    with pytest.raises(InvalidJob, match="does not compact part files"):
        builder.disable_compact().enable_compact(None, None)


ODD = Types.ROW([Types.STRING(), Types.ROW([Types.STRING(), Types.INT()]), Types.LIST(Types.DOUBLE())])


def test_messages_hold_rows_and_lists_in_one_cell() -> None:
    reads = CsvRowDeserializationSchema.Builder(ODD).set_escape_character("*").set_quote_character("'")
    reads = reads.set_array_element_delimiter(":").set_field_delimiter(";")
    writes = CsvRowSerializationSchema.Builder(ODD).set_escape_character("*").set_quote_character("'")
    writes = writes.set_array_element_delimiter(":").set_field_delimiter(";").set_null_literal("null")
    rows = [Row("123'4*", Row("hello", 1), [1.5, 1e10]), Row(None, None, [])]
    found = writes.build().encode(encode(ODD, rows), ODD)
    assert found == [b"'123''4**';hello:1;'1.5:1.0E10'\n".replace(b"hello:1", b"'hello:1'"), b"null;null;\n"]
    schema = reads.set_null_literal("null").build()
    assert decode(ODD, schema.decode(found)) == rows
    for message in (b"a;b", b"a;b:c;", b"a;b;1", b"a;b:1;x", b"a;b:1;\na;b:1;", b"\xff", None):
        with pytest.raises(PoisonRecord):
            schema.decode([found[0], message])


def test_messages_with_mistakes_have_nulls_where_they_are_to_be_ignored() -> None:
    kind = Types.ROW([Types.INT(), Types.INT()])
    schema = CsvRowDeserializationSchema.Builder(kind).set_ignore_parse_errors(True).set_allow_comments(True).build()
    assert decode(kind, schema.decode([b"x,1", b"2", b"#c\n3,4"])) == [Row(None, 1), Row(2, None), Row(3, 4)]


def test_times_bytes_and_decimals_of_messages_are_javas_texts() -> None:
    kinds = [
        Types.SQL_DATE(),
        Types.SQL_TIME(),
        Types.SQL_TIMESTAMP(),
        Types.INSTANT(),
        Types.PRIMITIVE_ARRAY(Types.BYTE()),
        Types.BIG_DEC(),
        Types.BOOLEAN(),
    ]
    kind = Types.ROW(kinds)
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, 600000)
    row = Row(
        moment.date(), moment.time().replace(microsecond=0), moment, Instant(1, 5000), b"x", Decimal("1.50"), True
    )
    (message,) = (
        CsvRowSerializationSchema.Builder(kind).disable_quote_character().build().encode(encode(kind, [row]), kind)
    )
    text = base64.b64encode(b"x").decode()
    assert (
        message.decode() == f"2026-01-02,03:04:05,2026-01-02 03:04:05.6,1970-01-01 00:00:01.000005Z,{text},1.5,true\n"
    )
    schema = CsvRowDeserializationSchema.Builder(kind).build()
    assert decode(kind, schema.decode([message])) == [row]


def test_columns_of_a_columnar_stream_are_messages_too() -> None:
    data = pa.record_batch({"a": [1.0], "b": [True], "c": [[1, 2]], "d": [b"x"], "e": [Decimal("1.5")], "f": ["y"]})
    written = CsvRowSerializationSchema.Builder(ODD).build().encode(data, Types.SCHEMA(data.schema))
    assert written == [b"1.0,true,1;2,eA==,1.5,y\n"]
    with pytest.raises(InvalidJob, match="has no fields"):
        CsvRowSerializationSchema.Builder(ODD).build().encode(data, Types.STRING())
    with pytest.raises(InvalidJob, match="CSV cannot hold"):
        CsvRowDeserializationSchema.Builder(Types.ROW([Types.MAP(Types.INT(), Types.INT())])).build().decode([b"1"])
    with pytest.raises(ValueError, match="line delimiter"):
        CsvRowSerializationSchema.Builder(ODD).set_line_delimiter(";")
