"""What cells of CSV are: quoted nulls, other encodings, numbers that are too large, schemas that no file can have.

What others give was recorded with DuckDB 2.0.0, pandas 2.3.3 and PySpark 4.3, reading the same bytes.
"""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from tests.unit.tidegate.connectors.test_file_source import drain, states
from tidegate.common.typeinfo import Types
from tidegate.connectors.file_sink import FileSink
from tidegate.connectors.file_source import FileSource
from tidegate.connectors.files.encoders import CsvEncoderFactory
from tidegate.connectors.formats.messages import PoisonRecord
from tidegate.datastream.connectors.file_system import FileSource as PyFlinkFileSource
from tidegate.datastream.formats.csv import CsvReaderFormat, CsvRowDeserializationSchema, CsvSchema
from tidegate.model.configuration import Configuration
from tidegate.model.errors import CorruptData, InvalidJob, SchemaMismatch

ALL_QUOTED = '"id","v"\n"1","2"\n"","3"\n'
NUMBERS = pa.schema([("id", pa.int64()), ("v", pa.int64())])


def rows(path: Path, content: str | bytes, schema: pa.Schema | None = None, **settings: Any) -> list[Any]:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    source = FileSource.for_csv(str(path), schema=schema, **settings)
    return drain(source, states(source))[0]


@pytest.mark.parametrize("schema", [NUMBERS, None])
def test_a_quoted_empty_cell_is_null_in_a_column_of_numbers(tmp_path: Path, schema: pa.Schema | None) -> None:
    path = tmp_path / "a.csv"
    found = [(row["id"], row["v"]) for row in rows(path, ALL_QUOTED, schema)]
    assert found == [(1, 2), (None, 3)]
    assert (
        found == duckdb.connect().execute(f"SELECT * FROM read_csv('{path}')").fetchall()
    )  # pandas and Spark: as well


@pytest.mark.parametrize("null", ['""', '"NA"', '"NULL"', "", "NA"])
@pytest.mark.parametrize(
    ("kind", "cell", "value"),
    [
        (pa.int64(), "1", 1),
        (pa.float32(), "1.5", 1.5),
        (pa.decimal128(9, 2), "1.5", Decimal("1.50")),
        (pa.bool_(), "true", True),
        (pa.date32(), "2024-01-01", datetime.date(2024, 1, 1)),
        (pa.timestamp("ms"), "2024-01-01 00:00:00", datetime.datetime(2024, 1, 1)),
        (pa.time64("us"), "12:00:00", datetime.time(12)),
    ],
)
@pytest.mark.parametrize("other", [pa.string(), pa.int64()])
def test_quoted_null_values_are_null_in_columns_that_have_no_empty_values(
    tmp_path: Path, null: str, kind: pa.DataType, cell: str, value: object, other: pa.DataType
) -> None:
    content = f'a,b\n"{cell}",1\n{null},2\n{cell},"3"\n'
    schema = pa.schema([("b", other), ("a", kind)])
    assert [row["a"] for row in rows(tmp_path / "a.csv", content, schema)] == [value, None, value]


def test_texts_between_quotes_are_texts_so_that_files_of_the_sink_come_back(tmp_path: Path) -> None:
    data = pa.record_batch({"t": ["", "NA", "null", None, "x"], "n": [1, None, 3, 4, 5]})
    path = tmp_path / "a.csv"
    with pa.OSFile(str(path), "wb") as file:
        encoder = CsvEncoderFactory().open(file, data.schema)
        encoder.write(data)
        encoder.finish()
    assert rows(path, path.read_bytes(), data.schema) == data.to_pylist()
    quoted = '"t","n"\n"","1"\n"NA",""\n'
    assert rows(path, quoted, data.schema) == [{"t": "", "n": 1}, {"t": "NA", "n": None}]
    assert rows(path, quoted, data.schema, null_values=["NA"], bad_lines="skip") == [{"t": "", "n": 1}]


def test_bad_lines_beside_quoted_nulls_are_found(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("v", pa.string())])
    content = '"id","v"\n"","a"\n"x","b"\n"3",""\n'
    assert rows(tmp_path / "a.csv", content, schema, bad_lines="skip") == [{"id": None, "v": "a"}, {"id": 3, "v": ""}]
    with pytest.raises(SchemaMismatch, match=r"column 'id'.*line 3, at byte 16: '\"x\",\"b\"'"):
        rows(tmp_path / "a.csv", content, schema)


LATIN = "id,name\n1,tea\n2,café\n".encode("cp1252")


def test_a_file_that_is_not_utf_8_is_refused_with_its_line_and_what_would_read_it(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    with pytest.raises(InvalidJob, match=r"a\.csv, line 3: column 'name'.*byte 19.*'cp1252' or .*'latin-1'"):
        rows(path, LATIN)  # DuckDB and pandas refuse it, too
    texts = pa.schema([("id", pa.int64()), ("name", pa.string())])
    with pytest.raises(SchemaMismatch, match=r"'name'.*byte 19.*encoding='cp1252'.*line 3, at byte 14"):
        rows(path, LATIN, texts)
    assert len(rows(path, LATIN, texts, bad_lines="skip")) == 1
    for schema in (texts, None):
        assert rows(path, LATIN, schema, encoding="cp1252")[1] == {"id": 2, "name": "café"}
    assert rows(path, LATIN, pa.schema([("name", pa.binary())]))[1] == {"name": b"caf\xe9"}  # asked for
    with pytest.raises(InvalidJob, match="'iso-8859-15'") as caught:
        rows(path, LATIN + b"3,\x81\n")  # which cp1252 does not have
    assert "cp1252" not in caught.value.message
    with pytest.raises(CorruptData, match=r"line 1: the header is not utf-8.*encoding="):
        rows(path, "id,café\n1,2\n".encode("cp1252"))


@pytest.mark.parametrize(
    ("kind", "cell"),
    [
        (pa.float64(), "1e400"),  # DuckDB and Spark: infinity
        (pa.float64(), '"-1e400"'),
        (pa.float32(), "1e39"),
        (pa.decimal128(20, 2), "1e-77"),
        (pa.decimal128(20, 2), "1e-999999999"),
        (pa.decimal128(20, 2), '"1e-999999999"'),
        (pa.decimal128(20, 2), "1e99999999999999999999"),
        (pa.decimal128(20, 2), "0." + "0" * 90 + "1"),
        (pa.decimal128(20, 2), "NaN"),
        (pa.int32(), "2147483648"),
        (pa.int64(), "1.5"),
        (pa.timestamp("ms"), "2024-01-01T00:00:00.123456"),
        (pa.date32(), "10000-01-01"),
    ],
)
def test_a_cell_of_which_a_part_would_be_lost_is_refused(tmp_path: Path, kind: pa.DataType, cell: str) -> None:
    content = f"a,b\n,1\n{cell},2\n"
    for schema in (pa.schema([("a", kind)]), pa.schema([("b", pa.string()), ("a", kind)])):
        with pytest.raises(SchemaMismatch, match=r"column 'a'.*line 3, at byte 7"):
            rows(tmp_path / "a.csv", content, schema)
        assert len(rows(tmp_path / "a.csv", content, schema, bad_lines="skip")) == 1


def test_small_and_infinite_numbers_are_read(tmp_path: Path) -> None:
    schema = pa.schema([("d", pa.decimal128(38, 10)), ("f", pa.float64())])
    found = rows(tmp_path / "a.csv", "d,f\n1e-10,inf\n1.50e0,-Infinity\n,1e-400\n", schema)
    assert found == [
        {"d": Decimal("1E-10"), "f": float("inf")},
        {"d": Decimal("1.5"), "f": float("-inf")},
        {"d": None, "f": 0.0},
    ]


def test_whole_numbers_that_int64_does_not_hold_are_inferred_as_text(tmp_path: Path) -> None:
    found = rows(tmp_path / "a.csv", "a,b,c\n1,1.5,0.1\n9223372036854775808,9007199254740993,2\n")
    assert [row["a"] for row in found] == ["1", "9223372036854775808"]  # DuckDB: HUGEINT, Spark: DECIMAL(19, 0)
    assert [row["b"] for row in found] == ["1.5", "9007199254740993"]
    assert [row["c"] for row in found] == [0.1, 2.0]


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.string()),
        pa.struct([("x", pa.int64())]),
        pa.map_(pa.string(), pa.string()),
        pa.decimal256(50, 2),
        pa.float16(),
    ],
)
def test_a_column_that_csv_cannot_have_is_refused_before_the_job_runs(tmp_path: Path, kind: pa.DataType) -> None:
    schema = pa.schema([("ok", pa.int64()), ("a", kind)])
    with pytest.raises(InvalidJob, match="column 'a' of the schema: CSV cannot hold"):
        rows(tmp_path / "a.csv", "ok,a\n1,x\n", schema)
    if not pa.types.is_decimal(kind) and not pa.types.is_floating(kind):
        with pytest.raises(InvalidJob, match="'a'"):
            FileSink.for_csv(str(tmp_path / "out")).validate_input(Types.SCHEMA(schema), Configuration())
    with pytest.raises(InvalidJob, match="names the column 'a' more than once"):
        rows(tmp_path / "a.csv", "a\nx\n", pa.schema([("a", pa.int64()), ("a", pa.string())]))


@pytest.mark.parametrize("schema", [None, pa.schema([("b", pa.int64())])])
def test_cells_of_any_length_are_read_also_in_the_header(tmp_path: Path, schema: pa.Schema | None) -> None:
    long = "x" * 200_000
    assert [row["b"] for row in rows(tmp_path / "a.csv", f"{long},b\n{long},1\n{long},2\n", schema)] == [1, 2]


def test_a_null_in_a_column_that_has_none_is_a_bad_line(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False), pa.field("t", pa.string(), nullable=False)])
    content = 'a,t\n1,x\n"",y\n3,\n4,""\n'
    with pytest.raises(SchemaMismatch, match=r"a\.csv.*column 'a' is null in row 1.*line 3, at byte 8"):
        rows(tmp_path / "a.csv", content, schema)
    assert [row["a"] for row in rows(tmp_path / "a.csv", content, schema, bad_lines="skip")] == [1, 4]


def test_the_line_is_counted_from_the_beginning_of_the_file(tmp_path: Path) -> None:
    content = "a\n" + "".join(f"{number}\n" for number in range(100_000)) + "x\n"
    with pytest.raises(SchemaMismatch, match="line 100002, at byte "):
        rows(tmp_path / "a.csv", content, pa.schema([("a", pa.int64())]), range_bytes=1 << 16)


ROW = Types.ROW_NAMED(["a", "b"], [Types.DOUBLE(), Types.STRING()])
EXACT = Types.ROW_NAMED(["a", "b"], [Types.BIG_DEC(), Types.STRING()])


@pytest.mark.parametrize("row_type", [ROW, EXACT])
@pytest.mark.parametrize("cell", [b"1e400", b"1e-999999999,"[:-1], b"x"])
def test_messages_of_csv_lose_nothing_either(row_type: Any, cell: bytes) -> None:
    schema = CsvRowDeserializationSchema.Builder(row_type).build()
    if (row_type, cell) == (ROW, b"1e-999999999"):
        assert schema.decode([cell + b",x"]).to_pylist() == [{"a": 0.0, "b": "x"}]
        return
    for values in ([b"1,x", cell + b",x"], pa.array([b"1,x", cell + b",x"], pa.binary())):
        with pytest.raises(PoisonRecord) as caught:
            schema.decode(values)
        assert caught.value.index == 1


def test_messages_of_csv_are_lines_of_their_own() -> None:
    texts = CsvRowDeserializationSchema.Builder(Types.ROW([Types.STRING(), Types.STRING()])).build()
    for values, bad in (
        ([b'1,"x', b'y"', b"2,a\n3,b"], 0),
        ([b"1,a", b'2,"x', b'y",3\n4,c'], 1),
        ([b"1,a\n2,b", b""], 1),
    ):
        for given in (values, pa.array(values, pa.binary())):
            with pytest.raises(PoisonRecord) as caught:
                texts.decode(given)
            assert caught.value.index == bad
    marked = [b"\xef\xbb\xbf1,a", b"\xef\xbb\xbf2,b", b'3,"x\ny"']
    for given in (marked, pa.array(marked, pa.binary())):
        assert [list(row.values()) for row in texts.decode(given).to_pylist()] == [
            ["1", "a"],
            ["2", "b"],
            ["3", "x\ny"],
        ]


def test_a_byte_order_mark_is_none_of_the_first_cell_of_flinks_csv_files(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("\ufeffid,name\n1,a\n".encode())
    layout = (
        CsvSchema.builder()
        .add_number_column("id")
        .add_string_column("name")
        .set_strict_headers()
        .set_use_header()
        .build()
    )
    source = PyFlinkFileSource.for_record_stream_format(CsvReaderFormat.for_schema(layout), str(path)).build()
    assert drain(source, states(source))[0] == [{"id": 1, "name": "a"}]
