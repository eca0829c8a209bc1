"""Files of Avro are written as any reader has them, and read back to the record, from any position."""

from __future__ import annotations

import base64
import datetime
import io
import json
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import cloudpickle
import fastavro
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidegate.common.row import Row
from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.connectors.files.file_range import FileRange
from tidegate.connectors.formats import avro_files
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream.connectors.file_system import FileSink
from tidegate.datastream.formats.avro import AvroBulkWriters, AvroInputFormat, AvroSchema, GenericRecordAvroTypeInfo
from tidegate.model.errors import ConfigurationError, CorruptData, InvalidJob, SchemaMismatch
from tidegate.records.record_codec import decode, encode

PAIR = {
    "type": "record",
    "name": "Pair",
    "fields": [{"name": "id", "type": "long"}, {"name": "word", "type": "string"}],
}
TREE = {
    "type": "record",
    "name": "Tree",
    "fields": [
        {"name": "value", "type": ["null", "int", "double", {"type": "enum", "name": "Suit", "symbols": ["S", "H"]}]},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "counts", "type": {"type": "map", "values": "long"}},
        {"name": "below", "type": {"type": "array", "items": "Tree"}},
    ],
}
AT = datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.UTC)


def schema_of(parsed: Any) -> AvroSchema:
    return AvroSchema.parse_string(json.dumps(parsed))


def tree(value: Any, *below: Any) -> dict[str, Any]:
    return {"value": value, "price": Decimal("1.50"), "at": AT, "counts": {"a": 1}, "below": list(below)}


def written(schema: AvroSchema, kind: TypeInformation, records: list[Any]) -> bytes:
    sink = pa.BufferOutputStream()
    encoder = avro_files.AvroEncoderFactory(schema).open(sink, kind.arrow_schema())
    encoder.write(encode(kind, records))
    encoder.finish()
    return bytes(sink.getvalue())


def read(
    path: Path, schema: AvroSchema, begin: int = 0, end: int | None = None, start: int | None = None, skip: int = 0
) -> list[tuple[Any, int, int]]:
    """Records of a range, each with the block that it is of and its place there."""
    size = path.stat().st_size
    part = FileRange(str(path), begin, size if end is None else end, size)
    file_format = avro_files.AvroFileFormat(schema)
    return [
        (record, block.start, block.skip + index)
        for block in file_format.blocks(part, start, skip)
        for index, record in enumerate(decode(file_format.produced_type(), block.data))
    ]


def test_records_of_any_schema_go_into_a_file_and_come_back(tmp_path: Path) -> None:
    schema = schema_of(TREE)
    records = [tree(1), tree(2.5, tree("H"), tree(None, tree(3)))]
    path = tmp_path / "file.avro"
    path.write_bytes(written(schema, GenericRecordAvroTypeInfo(schema), records))
    assert list(fastavro.reader(io.BytesIO(path.read_bytes()))) == records
    assert [record for record, _, _ in read(path, schema)] == records


def test_rows_are_written_by_their_names() -> None:
    kind = Types.ROW_NAMED(["word", "id"], [Types.STRING(), Types.LONG()])
    content = written(schema_of(PAIR), kind, [Row(word="a", id=1)])
    assert list(fastavro.reader(io.BytesIO(content))) == [{"id": 1, "word": "a"}]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"id": "one", "word": "a"}, "Pair.id is <one> of type <class 'str'> expected long"),
        ({"id": 1}, r"Field\(Pair.word\) is None expected string"),
        (("a", 1), "not a record of the Avro schema: .*'a', 1"),
    ],
)
def test_what_is_no_record_of_the_schema_is_named(record: Any, message: str) -> None:
    schema = schema_of(PAIR)
    with pytest.raises(SchemaMismatch, match=message):
        written(schema, GenericRecordAvroTypeInfo(schema), [record])


@pytest.mark.timeout(60)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    words=st.lists(st.text(max_size=8), max_size=40),
    block_bytes=st.integers(1, 60),
    cuts=st.lists(st.integers(0, 2000), max_size=6),
    codec=st.sampled_from(["null", "deflate", "snappy", "zstandard"]),
)
def test_every_record_is_read_once_whatever_the_ranges_and_wherever_it_restarts(
    tmp_path: Path, words: list[str], block_bytes: int, cuts: list[int], codec: str
) -> None:
    path, schema = tmp_path / "file.avro", schema_of(PAIR)
    records = [{"id": index, "word": word} for index, word in enumerate(words)]
    with path.open("wb") as file:
        fastavro.writer(file, PAIR, records, codec=codec, sync_interval=block_bytes)
    size = path.stat().st_size
    bounds = sorted({0, size, *(cut for cut in cuts if cut < size)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(avro_files, "_BLOCK_RECORDS", 3)
        patch.setattr(avro_files, "_PIECE_BYTES", 40)
        parts = [(begin, end, read(path, schema, begin, end)) for begin, end in pairwise(bounds)]
        assert [record for _, _, found in parts for record, _, _ in found] == records
        for begin, end, found in parts:
            for index, (_, start, skip) in enumerate(found):
                assert read(path, schema, begin, end, start, skip) == found[index:]


def test_the_pieces_of_a_file_overlap_so_that_no_marker_is_missed(tmp_path: Path) -> None:
    path, schema = tmp_path / "file.avro", schema_of(PAIR)
    records = [{"id": index, "word": "x" * 50_000} for index in range(40)]
    with path.open("wb") as file:
        fastavro.writer(file, PAIR, records, sync_interval=1)
    size = path.stat().st_size
    found = [read(path, schema, begin, min(begin + 99_999, size)) for begin in range(0, size, 99_999)]
    assert [record for part in found for record, _, _ in part] == records


def test_files_are_resolved_to_the_schema_of_the_reader(tmp_path: Path) -> None:
    path = tmp_path / "file.avro"
    with path.open("wb") as file:
        fastavro.writer(file, PAIR, [{"id": 1, "word": "a"}])
    later = {**PAIR, "fields": [PAIR["fields"][0], {"name": "note", "type": ["null", "string"], "default": None}]}
    assert [record for record, _, _ in read(path, schema_of(later))] == [{"id": 1, "note": None}]
    other = {**PAIR, "fields": [{"name": "id", "type": "string"}]}
    with pytest.raises(SchemaMismatch, match=r"file.avro was written with a schema that does not resolve"):
        read(path, schema_of(other))


def test_what_is_no_file_of_avro_is_named(tmp_path: Path) -> None:
    schema, whole, path = schema_of(PAIR), io.BytesIO(), tmp_path / "file.avro"
    fastavro.writer(whole, PAIR, [{"id": index, "word": "word"} for index in range(100)])
    for content in (b"", b"id,word\n", whole.getvalue()[:-30], whole.getvalue()[:-17] + b"\0" * 17):
        path.write_bytes(content)
        with pytest.raises(CorruptData, match=r"file.avro"):
            read(path, schema)
    path.write_bytes(whole.getvalue())
    with pytest.raises(CorruptData, match="1000000 when the job was submitted"):
        list(avro_files.AvroFileFormat(schema).blocks(FileRange(str(path), 0, 10**6, 10**6), None, 0))


BY_JAVA = {
    "snappy": (
        "T2JqAQQWYXZyby5zY2hlbWHSAXsidHlwZSI6InJlY29yZCIsIm5hbWUiOiJwYWlyIiwiZmllbGRzIjpbeyJuYW1lIjoid29yZCIsInR5cGUi"
        "OiJzdHJpbmcifSx7Im5hbWUiOiJjb3VudCIsInR5cGUiOiJsb25nIn1dfRRhdnJvLmNvZGVjDHNuYXBweQC7d2YxCt5sAQM8DmReQxONBC5G"
        "EEJ3b3JkbgQABDAAgiMABDECmuB7P7t3ZjEK3mwBAzwOZF5DE40ELkYQQndvcmRuBAAEMgSCIwAEMwZNeq1Mu3dmMQrebAEDPA5kXkMTjQ=="
    ),
    "zstandard": (
        "T2JqAQQWYXZyby5zY2hlbWHSAXsidHlwZSI6InJlY29yZCIsIm5hbWUiOiJwYWlyIiwiZmllbGRzIjpbeyJuYW1lIjoid29yZCIsInR5cGUi"
        "OiJzdHJpbmcifSx7Im5hbWUiOiJjb3VudCIsInR5cGUiOiJsb25nIn1dfRRhdnJvLmNvZGVjEnpzdGFuZGFyZAAsasxL7ZXdOvtTFSirFG14"
        "BEAotS/9AFi9AABwQndvcmQwAEJ3b3JkMQICAEIxY8ZpASxqzEvtld06+1MVKKsUbXgEQCi1L/0AWL0AAHBCd29yZDIEQndvcmQzBgIAQjFj"
        "xmkBLGrMS+2V3Tr7UxUoqxRteA=="
    ),
    "bzip2": (
        "T2JqAQQWYXZyby5zY2hlbWHSAXsidHlwZSI6InJlY29yZCIsIm5hbWUiOiJwYWlyIiwiZmllbGRzIjpbeyJuYW1lIjoid29yZCIsInR5cGUi"
        "OiJzdHJpbmcifSx7Im5hbWUiOiJjb3VudCIsInR5cGUiOiJsb25nIn1dfRRhdnJvLmNvZGVjCmJ6aXAyAKuhO8tn46V06lvR6hMmmJwEdEJa"
        "aDkxQVkmU1mDhzP3AAACTYBQAGAAEAAEAJCAIAAxBkxAVSGR6m+Yu/BAgYqo+LuSKcKEhBw5n7iroTvLZ+OldOpb0eoTJpicBHRCWmg5MUFZ"
        "JlNZAhwVdgAAAk2ABQAYABAABACQgCAAMQZMQFUhkepvmLvwQIGKqPi7kinChIAQ4Kuwq6E7y2fjpXTqW9HqEyaYnA=="
    ),
    "xz": (
        "T2JqAQQWYXZyby5zY2hlbWHSAXsidHlwZSI6InJlY29yZCIsIm5hbWUiOiJwYWlyIiwiZmllbGRzIjpbeyJuYW1lIjoid29yZCIsInR5cGUi"
        "OiJzdHJpbmcifSx7Im5hbWUiOiJjb3VudCIsInR5cGUiOiJsb25nIn1dfRRhdnJvLmNvZGVjBHh6AATqoy/JlpuYod8FlrPNDnEEqAH9N3pY"
        "WgAABObWtEYCACEBFgAAAHQv5aPgAEUAF10AIR3J51WIEuuiKZR0TuMkvH9VyCa/f4AAAKiGJpiCcwtyAAEzRr40UksftvN9AQAAAAAEWVoE"
        "6qMvyZabmKHfBZazzQ5xBKgB/Td6WFoAAATm1rRGAgAhARYAAAB0L+Wj4ABFABddACEdyedViBLrpKEZhE7jJLx/Vk6fWigAAADw6MhacSJL"
        "KgABM0a+NFJLH7bzfQEAAAAABFlaBOqjL8mWm5ih3wWWs80OcQ=="
    ),
}
"""Files of four records, two in each block, by codec: written with Avro 1.12.1 for Java, in base64."""


@pytest.mark.parametrize("codec", BY_JAVA)
def test_files_are_read_that_java_compressed(tmp_path: Path, codec: str) -> None:
    """Spark's default is snappy. Java streams frames of Zstandard, which do not say how long their content is."""
    path = tmp_path / "file.avro"
    path.write_bytes(base64.b64decode(BY_JAVA[codec]))
    fields = [{"name": "word", "type": "string"}, {"name": "count", "type": "long"}]
    schema = schema_of({"type": "record", "name": "pair", "fields": fields})
    assert [record for record, _, _ in read(path, schema)] == [
        {"word": "word" * 8 + str(n), "count": n} for n in range(4)
    ]


@pytest.mark.parametrize(("codec", "package"), [("snappy", "cramjam"), ("zstandard", "backports.zstd"), ("lz4", "lz4")])
def test_a_codec_that_is_not_installed_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: str, package: str
) -> None:
    monkeypatch.setattr(avro_files, "find_spec", lambda name: None)
    header, path = io.BytesIO(b"Obj\x01"), tmp_path / "file.avro"
    header.seek(4)
    about = {"avro.schema": json.dumps(PAIR).encode(), "avro.codec": codec.encode()}
    fastavro.schemaless_writer(header, {"type": "map", "values": "bytes"}, about)
    path.write_bytes(header.getvalue() + b"\7" * 16)
    with pytest.raises(ConfigurationError, match=f"file.avro is compressed with {codec}, which needs .* '{package}'"):
        read(path, schema_of(PAIR))


def test_a_schema_is_checked_where_it_is_given(tmp_path: Path) -> None:
    path = tmp_path / "pair.avsc"
    path.write_text(json.dumps(PAIR, indent=2))
    schema = AvroSchema.parse_file(str(path))
    assert schema == AvroSchema.parse_file(str(path))
    assert json.loads(str(schema)) == PAIR
    for text in ("{", '{"type": "record"}', '"nothing"'):
        with pytest.raises(InvalidJob, match="not an Avro schema"):
            AvroSchema.parse_string(text)
    with pytest.raises(InvalidJob, match=r"cannot read the Avro schema in .*nowhere.avsc"):
        AvroSchema.parse_file(str(tmp_path / "nowhere.avsc"))


def test_types_of_records_are_equal_when_their_schemas_are() -> None:
    kind = GenericRecordAvroTypeInfo(schema_of(PAIR))
    assert (
        kind == cloudpickle.loads(cloudpickle.dumps(kind)) == AvroInputFormat("in", schema_of(PAIR)).get_produced_type()
    )
    assert kind not in (GenericRecordAvroTypeInfo(schema_of(TREE)), Types.PICKLED_BYTE_ARRAY())


def test_an_environment_reads_what_a_sink_of_pyflink_writes(tmp_path: Path) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    schema = schema_of(PAIR)
    (tmp_path / "in").mkdir()
    with (tmp_path / "in" / "file.avro").open("wb") as file:
        fastavro.writer(file, PAIR, [{"id": 1, "word": "a"}])
    stream = env.create_input(AvroInputFormat(str(tmp_path / "in"), schema))
    assert stream.get_type() == GenericRecordAvroTypeInfo(schema)
    sink = FileSink.for_bulk_format(str(tmp_path / "out"), AvroBulkWriters.for_generic_record(schema)).build()
    stream.sink_to(sink)
    assert json.loads(env.get_execution_plan())["nodes"][0]["type"] == "Source: Custom File Source"
    with pytest.raises(InvalidJob, match="create_input.. takes an AvroInputFormat"):
        env.create_input("in")  # type: ignore[arg-type]


DEFAULTS = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "a", "type": "int"},
        {"name": "raw", "type": "bytes", "default": "\u00ff"},
        {"name": "two", "type": {"type": "fixed", "name": "Two", "size": 2}, "default": "\u0000\u00fe"},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 25, "scale": 2},
            "default": "\u007b",
        },
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 1700000000123},
        {
            "name": "inner",
            "type": {
                "type": "record",
                "name": "I",
                "fields": [{"name": "q", "type": "int"}, {"name": "z", "type": "bytes", "default": "\u0080"}],
            },
            "default": {"q": 3},
        },
        {"name": "more", "type": {"type": "array", "items": "I"}, "default": [{"q": 4}]},
        {"name": "either", "type": ["bytes", "null"], "default": "\u00fd"},
    ],
}
FILLED = {
    "raw": b"\xff",
    "two": b"\x00\xfe",
    "price": Decimal("1.23"),
    "at": datetime.datetime(2023, 11, 14, 22, 13, 20, 123000, datetime.UTC),
    "inner": {"q": 3, "z": b"\x80"},
    "more": [{"q": 4, "z": b"\x80"}],
    "either": b"\xfd",
}
"""What Avro Java reads them as (``tests/contract/formats/avro_1.12.1_resolutions.json``)."""


def test_fields_that_a_file_has_not_are_their_defaults_and_no_two_records_share_one(tmp_path: Path) -> None:
    path = tmp_path / "file.avro"
    with path.open("wb") as file:
        fastavro.writer(file, {**DEFAULTS, "fields": DEFAULTS["fields"][:1]}, [{"a": 1}, {"a": 2}])
    first, second = (record for record, _, _ in read(path, schema_of(DEFAULTS)))
    assert (first, second) == ({"a": 1, **FILLED}, {"a": 2, **FILLED})
    first["inner"]["q"] = 9
    assert second["inner"]["q"] == 3


def test_fields_that_a_record_has_not_are_written_as_their_defaults(tmp_path: Path) -> None:
    schema = schema_of(DEFAULTS)
    path = tmp_path / "file.avro"
    path.write_bytes(written(schema, GenericRecordAvroTypeInfo(schema), [{"a": 1}]))
    assert [record for record, _, _ in read(path, schema)] == [{"a": 1, **FILLED}]
    with path.open("rb") as file:
        assert json.loads(fastavro.reader(file).metadata["avro.schema"])["fields"][1]["default"] == "\u00ff"


@pytest.mark.parametrize("kind", ["timestamp-millis", "local-timestamp-millis", "timestamp-micros"])
def test_the_logical_type_of_the_reader_counts_in_files(tmp_path: Path, kind: str) -> None:
    def one(of: Any) -> dict[str, Any]:
        return {"type": "record", "name": "R", "fields": [{"name": "t", "type": of}]}

    plain, logical = one("long"), one({"type": "long", "logicalType": kind})
    at = datetime.datetime(2023, 11, 14, 22, 13, 20, 123000, None if kind.startswith("local") else datetime.UTC)
    number = 1700000000123 if kind.endswith("millis") else 1700000000123000
    path = tmp_path / "file.avro"
    with path.open("wb") as file:
        fastavro.writer(file, plain, [{"t": number}])
    assert [record for record, _, _ in read(path, schema_of(logical))] == [{"t": at}]
    with path.open("wb") as file:
        fastavro.writer(file, logical, [{"t": at}])
    assert [record for record, _, _ in read(path, schema_of(plain))] == [{"t": number}]


def test_decimals_of_files_keep_all_their_digits(tmp_path: Path) -> None:
    kind = {"type": "bytes", "logicalType": "decimal", "precision": 60, "scale": 20}
    schema = schema_of({"type": "record", "name": "R", "fields": [{"name": "d", "type": kind}]})
    records = [{"d": Decimal(f"1{'0' * 39}.{'0' * 19}1")}, {"d": Decimal("-1.00000000000000000001")}]
    path = tmp_path / "file.avro"
    path.write_bytes(written(schema, GenericRecordAvroTypeInfo(schema), records))
    assert [record for record, _, _ in read(path, schema)] == records


def test_a_default_that_is_no_value_of_its_field_is_refused_with_the_schema() -> None:
    wrong = [("bytes", "\u0100"), ({"type": "enum", "name": "E", "symbols": ["A"]}, "B"), ("int", 2**40)]
    for kind, default in wrong:
        parsed = {"type": "record", "name": "R", "fields": [{"name": "x", "type": kind, "default": default}]}
        with pytest.raises(InvalidJob, match=r"the default .* of the field 'x' is no"):
            schema_of(parsed)
