"""Records of an Avro schema in Parquet: in the columns that Flink's writer makes, and back from them."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegate.common.row import Row
from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.connectors.files.file_range import FileRange
from tidegate.connectors.formats.avro_parquet import AvroParquetEncoderFactory
from tidegate.datastream.formats.avro import AvroSchema, GenericRecordAvroTypeInfo
from tidegate.datastream.formats.parquet import AvroParquetReaders, AvroParquetWriters
from tidegate.model.errors import InvalidJob, SchemaMismatch
from tidegate.records.record_codec import decode, encode

AT = datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.UTC)
ITEM = {"type": "record", "name": "Item", "fields": [{"name": "id", "type": "int"}, {"name": "none", "type": "null"}]}
EVERY_KIND: list[tuple[Any, pa.Field, list[Any]]] = [
    ("boolean", pa.field("f", pa.bool_(), nullable=False), [True]),
    ("int", pa.field("f", pa.int32(), nullable=False), [-1]),
    ("double", pa.field("f", pa.float64(), nullable=False), [0.5]),
    ("bytes", pa.field("f", pa.binary(), nullable=False), [b"x"]),
    (["null", "string"], pa.field("f", pa.string()), ["a", None]),
    ({"type": "enum", "name": "Suit", "symbols": ["S", "H"]}, pa.field("f", pa.string(), nullable=False), ["H"]),
    ({"type": "fixed", "name": "Two", "size": 2}, pa.field("f", pa.binary(2), nullable=False), [b"ab"]),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2},
        pa.field("f", pa.decimal128(6, 2), nullable=False),
        [Decimal("1.50")],
    ),
    ({"type": "int", "logicalType": "date"}, pa.field("f", pa.date32(), nullable=False), [AT.date()]),
    (
        {"type": "long", "logicalType": "timestamp-micros"},
        pa.field("f", pa.timestamp("us", "UTC"), nullable=False),
        [AT],
    ),
    ({"type": "string", "logicalType": "uuid"}, pa.field("f", pa.string(), nullable=False), [UUID(int=7)]),
    (
        ["int", "null", "double", "string"],
        pa.field("f", pa.struct({"member0": pa.int32(), "member1": pa.float64(), "member2": pa.string()})),
        [1, 2.5, "a", None],
    ),
    (
        {"type": "array", "items": ITEM},
        pa.field(
            "f",
            pa.list_(
                pa.field("element", pa.struct([pa.field("id", pa.int32(), nullable=False)]), nullable=False)
            ),
            nullable=False,
        ),
        [[], [{"id": 1, "none": None}]],
    ),
    (
        {"type": "map", "values": ["null", "Item"]},
        pa.field(
            "f", pa.map_(pa.string(), pa.struct([pa.field("id", pa.int32(), nullable=False)])), nullable=False
        ),
        [{}, {"a": {"id": 1, "none": None}, "b": None}],
    ),
]  # fmt: skip


def schema_of(kind: Any, **more: Any) -> AvroSchema:
    fields = [{"name": "f", "type": kind}]
    if kind == {"type": "map", "values": ["null", "Item"]}:
        fields.insert(0, {"name": "first", "type": ["null", ITEM], "default": None})
    return AvroSchema(json.dumps({"type": "record", "name": "Test", "fields": fields, **more}))


def write(path: Path, schema: AvroSchema, kind: TypeInformation, records: list[Any]) -> None:
    with pa.OSFile(str(path), "wb") as file:
        encoder = AvroParquetEncoderFactory(schema).open(file, kind.arrow_schema())
        try:
            encoder.write(encode(kind, records))
        finally:
            encoder.finish()


def read(path: Path, schema: AvroSchema) -> list[Any]:
    file_format = AvroParquetReaders.for_generic_record(schema).file_format
    blocks = file_format.blocks(FileRange(str(path), 0, 1, path.stat().st_size), None, 0)
    return [record for block in blocks for record in decode(file_format.produced_type(), block.data)]


@pytest.mark.parametrize(("kind", "column", "values"), EVERY_KIND, ids=lambda part: str(part)[:40])
def test_values_of_every_kind_have_their_columns_and_come_back(
    kind: Any, column: pa.Field, values: list[Any], tmp_path: Path
) -> None:
    path, schema = tmp_path / "file.parquet", schema_of(kind)
    write(path, schema, GenericRecordAvroTypeInfo(schema), [{"f": value} for value in values])
    assert pq.read_schema(path).field("f").equals(column)
    assert [record["f"] for record in read(path, schema)] == values
    assert pq.read_metadata(path).metadata[b"parquet.avro.schema"] == str(schema).encode()


def test_texts_that_the_file_has_as_bytes_are_texts(tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    pq.write_table(pa.table({"f": [b"S"]}), path)
    assert read(path, schema_of({"type": "enum", "name": "Suit", "symbols": ["S", "H"]})) == [{"f": "S"}]


def test_rows_are_written_by_their_names(tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    write(path, schema_of("long"), Types.ROW_NAMED(["f"], [Types.LONG()]), [Row(f=1)])
    assert read(path, schema_of("long")) == [{"f": 1}]


def test_a_field_that_the_file_has_not_is_its_default_or_null(tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    pq.write_table(pa.table({"g": [1], "unread": ["x"]}), path)
    fields = [
        {"name": "g", "type": "long"},
        {"name": "of", "type": {"type": "array", "items": "int"}, "default": [1]},
        {"name": "null", "type": ["null", "int"]},
    ]
    assert read(path, schema_of("int", fields=fields)) == [{"g": 1, "of": [1], "null": None}]
    with pytest.raises(SchemaMismatch, match=r"file.parquet has no column 'f'; it has g, unread"):
        read(path, schema_of("int"))


def test_defaults_are_values_of_their_types(tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    inner = {
        "type": "record",
        "name": "I",
        "fields": [{"name": "q", "type": "int"}, {"name": "z", "type": "bytes", "default": "\u0080"}],
    }
    price = {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}
    fields = [
        {"name": "g", "type": "long"},
        {"name": "raw", "type": "bytes", "default": "\u00ff"},
        {"name": "price", "type": price, "default": "\u007b"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 1},
        {"name": "inner", "type": inner, "default": {"q": 3}},
    ]
    schema = schema_of("int", fields=fields)
    at = datetime.datetime(1970, 1, 1, 0, 0, 0, 1000, datetime.UTC)
    filled = {"raw": b"\xff", "price": Decimal("1.23"), "at": at, "inner": {"q": 3, "z": b"\x80"}}
    pq.write_table(pa.table({"g": [1]}), path)
    assert read(path, schema) == [{"g": 1, **filled}]
    write(path, schema, GenericRecordAvroTypeInfo(schema), [{"g": 2}, {"g": 3, "inner": {"q": 4}}])
    assert read(path, schema) == [{"g": 2, **filled}, {"g": 3, **filled, "inner": {"q": 4, "z": b"\x80"}}]


AT = datetime.datetime(2023, 11, 14, 22, 13, 20, 123000)
NUMBER = 1_700_000_000_123


@pytest.mark.parametrize("around", [lambda kind: kind, lambda kind: {"type": "array", "items": kind}])
@pytest.mark.parametrize(
    ("written_as", "value", "read_as", "found"),
    [
        ("long", NUMBER, "timestamp-millis", AT.replace(tzinfo=datetime.UTC)),
        ("long", NUMBER, "local-timestamp-millis", AT),
        ("timestamp-millis", AT.replace(tzinfo=datetime.UTC), "long", NUMBER),
        ("timestamp-millis", AT.replace(tzinfo=datetime.UTC), "local-timestamp-micros", AT),
        ("int", 19000, "date", datetime.date(2022, 1, 8)),
        ("date", datetime.date(2022, 1, 8), "int", 19000),
        ("int", 3_600_000, "time-millis", datetime.time(1)),
        ("int", 7, "double", 7.0),
    ],
)
def test_the_logical_type_of_the_reader_counts(
    tmp_path: Path, around: Any, written_as: str, value: Any, read_as: str, found: Any
) -> None:
    def kind(name: str) -> Any:
        if "-" not in name and name != "date":
            return around(name)
        return around({"type": "int" if name in ("date", "time-millis") else "long", "logicalType": name})

    path, schema = tmp_path / "file.parquet", schema_of(kind(written_as))
    is_list = isinstance(around("int"), dict)
    write(path, schema, GenericRecordAvroTypeInfo(schema), [{"f": [value] if is_list else value}])
    (record,) = read(path, schema_of(kind(read_as)))
    assert record == {"f": [found] if is_list else found}
    assert type(record["f"]) is type([found] if is_list else found)


@pytest.mark.parametrize("record", [{"f": "one"}, {}, {"f": 2**40}, ("f", 1)])
def test_what_is_no_record_of_the_schema_is_named(record: Any, tmp_path: Path) -> None:
    schema = schema_of("int")
    with pytest.raises(SchemaMismatch, match="not a record of the Avro schema"):
        write(tmp_path / "file.parquet", schema, GenericRecordAvroTypeInfo(schema), [record])


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (schema_of({"type": "array", "items": "Test"}), "the Avro record 'Test' contains itself"),
        (schema_of({"type": "map", "values": "null"}), "map of nulls has no column"),
        (schema_of("null"), "without a field that is not null"),
        (AvroSchema('"int"'), "files of Parquet have Avro records, not"),
    ],
)
def test_a_schema_without_columns_is_refused_where_it_is_given(schema: AvroSchema, message: str) -> None:
    for use in (AvroParquetReaders.for_generic_record, AvroParquetWriters.for_generic_record):
        with pytest.raises(InvalidJob, match=message):
            use(schema)
