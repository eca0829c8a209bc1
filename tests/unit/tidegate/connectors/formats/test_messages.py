"""Messages become rows, whole batches at once; what cannot be read is named by its place."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest

from tidegate.common.serialization import SimpleStringSchema
from tidegate.common.typeinfo import Types
from tidegate.connectors.formats.messages import (
    ByteArraySchema,
    DeserializationSchema,
    PoisonRecord,
    deserializer_of,
    serializer_of,
)
from tidegate.datastream.formats.csv import CsvRowDeserializationSchema, CsvRowSerializationSchema
from tidegate.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema
from tidegate.model.errors import InvalidJob, SchemaMismatch

ROW = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
JSON = JsonRowDeserializationSchema.builder().type_info(ROW).build()
CSV = CsvRowDeserializationSchema.Builder(ROW).set_field_delimiter("|").set_null_literal("-").build()


def rows(schema: DeserializationSchema, *values: bytes | None) -> list[tuple[object, ...]]:
    data = schema.decode(values)
    assert schema.decode(pa.array(values, pa.binary())).equals(data), "a column of values is read as a list of them"
    return list(zip(*(column.to_pylist() for column in data.columns), strict=True))


def test_strings_and_bytes() -> None:
    assert rows(deserializer_of(SimpleStringSchema()), b"a", "ü".encode(), None) == [("a",), ("ü",), (None,)]
    assert rows(deserializer_of(SimpleStringSchema("latin-1")), "ü".encode("latin-1")) == [("ü",)]
    assert rows(ByteArraySchema(), b"\xff", None) == [(b"\xff",), (None,)]


def test_json_objects_by_name_whatever_their_form() -> None:
    messages = [b'{"id":1,"name":"a","more":[1]}', b'{\n "name": "b",\n "id": 2\n}', b'{"id":3}']
    assert rows(JSON, *messages) == [(1, "a"), (2, "b"), (3, None)]
    assert rows(JSON) == []


def test_csv_lines_in_order() -> None:
    assert rows(CSV, b"1|a", b'2|"b|c"', b"3|-") == [(1, "a"), (2, "b|c"), (3, None)]
    assert rows(CSV, b"1|a\n", b"2|b\r\n", b"3|c") == [(1, "a"), (2, "b"), (3, "c")]


def test_cells_are_what_they_are_in_flink() -> None:
    texts = Types.ROW_NAMED(["a", "b"], [Types.STRING(), Types.STRING()])
    schema = CsvRowDeserializationSchema.Builder(texts).build()
    assert rows(schema, b",x", b'"",null') == [("", "x"), ("", "null")], "nothing stands for null unless it is said"
    with_null = CsvRowDeserializationSchema.Builder(texts).set_null_literal("").build()
    assert rows(with_null, b",x") == [(None, "x")]
    flags = Types.ROW_NAMED(["i", "b", "n"], [Types.INT(), Types.BOOLEAN(), Types.BIG_INT()])
    schema = CsvRowDeserializationSchema.Builder(flags).build()
    big = 12345678901234567890123
    assert rows(schema, b"1,TRUE,%d" % big, b"2,1,5", b"3,,5") == [(1, True, big), (2, False, 5), (3, False, 5)]
    plain = CsvRowDeserializationSchema.Builder(Types.ROW([Types.INT(), Types.BOOLEAN()])).build()
    assert rows(plain, b"1, True ", b"2,1", b"3,") == [(1, True), (2, False), (3, False)]
    for poison in (b",true", b"", None, b"\n"):
        with pytest.raises(PoisonRecord) as caught:
            plain.decode([b"1,true", poison])
        assert caught.value.index == 1


def test_csv_messages_are_read_as_they_were_written() -> None:
    given = [(1, "a"), (2, 'b,"c'), (3, "d\ne"), (4, None)]
    data = pa.record_batch({"id": [n for n, _ in given], "name": [name for _, name in given]})
    written = CsvRowSerializationSchema.Builder(ROW).build().encode(data, ROW)
    assert rows(CsvRowDeserializationSchema.Builder(ROW).set_null_literal("").build(), *written) == given
    assert rows(CsvRowDeserializationSchema.Builder(ROW).build(), *written) == [*given[:-1], (4, "")]


@pytest.mark.parametrize(
    ("schema", "bad"),
    [
        (JSON, b"no json"),
        (JSON, b'{"id":1}{"id":2}'),
        (JSON, b'{"id":"x"}'),
        (JSON, None),
        (CSV, b"1|a|b"),
        (CSV, b"x|a"),
        (CSV, b"1|a\n2|b"),
        (CSV, b"1|a\n\n"),
        (deserializer_of(SimpleStringSchema()), b"\xff\xfe"),
        (deserializer_of(lambda message: {b"good": 1}[message], Types.LONG()), b"bad"),
    ],
)
def test_poison_is_named_by_its_place(schema: DeserializationSchema, bad: bytes | None) -> None:
    good = b"good" if schema.get_produced_type() == Types.LONG() else b"1|a" if schema is CSV else b'{"id":1}'
    messages = [good, good, bad, good]
    for values in (messages, pa.array([b"before", *messages], pa.binary())[1:]):
        with pytest.raises(PoisonRecord) as raised:
            schema.decode(values)
        assert raised.value.index == 2


def list_of(column: Any) -> list[Any]:
    """Formats that leave texts and bytes as they are give a column."""
    assert isinstance(column, pa.BinaryArray)
    found: list[Any] = column.to_pylist()
    return found


def test_rows_as_messages() -> None:
    data = pa.record_batch({"id": [1, 2], "day": [datetime.date(2026, 1, 2), None]})
    written = JsonRowSerializationSchema.builder().build().encode(data, Types.SCHEMA(data.schema))
    assert written == [b'{"id":1,"day":"2026-01-02"}', b'{"id":2,"day":null}']
    written = (
        CsvRowSerializationSchema.Builder(ROW).set_field_delimiter(";").build().encode(data, Types.SCHEMA(data.schema))
    )
    assert written == [b'1;"2026-01-02"\n', b"2;\n"]
    words = pa.record_batch({"value": ["a", "b"]})
    assert list_of(serializer_of(SimpleStringSchema()).encode(words, Types.STRING())) == [b"a", b"b"]
    assert serializer_of(lambda word: word.encode() * 2).encode(words, Types.STRING()) == [b"aa", b"bb"]


def test_json_has_the_names_that_it_was_given_and_the_streams_fields_by_position() -> None:
    written = Types.ROW_NAMED(["other", "names"], [Types.INT(), Types.STRING()])
    schema = JsonRowSerializationSchema.builder().with_type_info(written).build()
    data = pa.record_batch({"id": pa.array([1], pa.int64()), "name": ["a"]})
    assert schema.encode(data, ROW) == [b'{"other":1,"names":"a"}']
    assert JsonRowSerializationSchema.builder().build().encode(data, ROW) == [b'{"id":1,"name":"a"}']


def test_a_json_type_that_is_not_the_streams_is_refused() -> None:
    data = pa.record_batch({"id": [1], "name": ["a"]})
    swapped = Types.ROW_NAMED(["name", "id"], [Types.STRING(), Types.LONG()])
    with pytest.raises(SchemaMismatch, match="field 'name' is String in the JSON type, and int64 in the stream"):
        JsonRowSerializationSchema.builder().with_type_info(swapped).build().encode(data, ROW)
    short = Types.ROW_NAMED(["id"], [Types.LONG()])
    with pytest.raises(SchemaMismatch, match="1 fields .id., and the stream 2 columns .id, name.: declare a field"):
        JsonRowSerializationSchema.builder().with_type_info(short).build().encode(data, ROW)
    with pytest.raises(InvalidJob, match="JSON objects are rows"):
        JsonRowSerializationSchema.builder().with_type_info(Types.LONG())


def test_what_is_no_schema_is_refused() -> None:
    with pytest.raises(InvalidJob, match="not a deserialization schema"):
        deserializer_of("json")
    with pytest.raises(InvalidJob, match="one column of bytes or text"):
        ByteArraySchema().encode(pa.record_batch({"a": [1], "b": [2]}), ROW)
