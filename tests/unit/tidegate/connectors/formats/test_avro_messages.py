"""Avro: types, plain messages, and those of a schema registry, whose HTTP API is served here by a small server."""

from __future__ import annotations

import base64
import datetime
import io
import json
import struct
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import cloudpickle
import fastavro
import pyarrow as pa
import pytest

from tests.servers.schema_registry import SchemaRegistryServer, schema_registry
from tidegate.common.typeinfo import Types
from tidegate.connectors.formats.avro_messages import SchemaRegistry
from tidegate.connectors.formats.messages import PoisonRecord
from tidegate.datastream.formats.avro import AvroRowDeserializationSchema, AvroRowSerializationSchema
from tidegate.model.errors import ExternalError, InvalidJob, Unreachable, UserError
from tidegate.records.record_codec import decode, encode

V1 = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
V2 = {**V1, "fields": [*V1["fields"], {"name": "note", "type": ["null", "string"], "default": None}]}
RICH = {
    "type": "record",
    "name": "Rich",
    "fields": [
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "sizes", "type": {"type": "map", "values": "int"}},
        {"name": "raw", "type": "bytes"},
        {"name": "sort", "type": {"type": "enum", "name": "Sort", "symbols": ["A", "B"]}},
        {"name": "inner", "type": {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "double"}]}},
        {"name": "again", "type": ["null", "Inner"]},
    ],
}


@pytest.fixture
def registry() -> Iterator[SchemaRegistryServer]:
    with schema_registry() as server:
        yield server


def rows_of(schema: AvroRowDeserializationSchema, *values: bytes | None) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = schema.decode(list(values)).to_pylist()
    return rows


def written(schema: AvroRowSerializationSchema, rows: list[dict[str, Any]]) -> list[bytes]:
    return schema.encode(pa.RecordBatch.from_pylist(rows), Types.STRING())


def test_rows_of_every_type_come_back() -> None:
    text = json.dumps(RICH)
    row = {
        "day": datetime.date(2026, 11, 21),
        "price": Decimal("12.50"),
        "at": datetime.datetime(2026, 11, 21, 12, 0, 0, 5000, tzinfo=datetime.UTC),
        "tags": ["a", "b"],
        "sizes": {"s": 1},
        "raw": b"\x00\xff",
        "sort": "B",
        "inner": {"x": 0.5},
        "again": None,
    }
    reader = AvroRowDeserializationSchema(avro_schema_string=text)
    data = pa.RecordBatch.from_pylist([{**row, "sizes": [("s", 1)]}], reader.get_produced_type().arrow_schema())
    messages = AvroRowSerializationSchema(avro_schema_string=text).encode(data, reader.get_produced_type())
    (found,) = rows_of(reader, *messages)
    assert found == {**row, "sizes": [("s", 1)], "price": Decimal("12.500000000000000000")}


def test_what_is_no_record_is_poison_by_its_place() -> None:
    schema = AvroRowDeserializationSchema(avro_schema_string=json.dumps(V2))
    good = written(AvroRowSerializationSchema(avro_schema_string=json.dumps(V2)), [{"id": 7, "note": "x"}])[0]
    for bad in (b"", None, b"\xff", good + b"more"):
        with pytest.raises(PoisonRecord) as raised:
            schema.decode([good, bad])
        assert raised.value.index == 1
    assert schema.decode([]).num_rows == 0


def test_each_message_is_read_by_the_schema_that_it_was_written_with(registry: SchemaRegistryServer) -> None:
    old = AvroRowSerializationSchema(
        avro_schema_string=json.dumps(V1), schema_registry_url=registry.url, subject="orders-value"
    )
    new = AvroRowSerializationSchema(
        avro_schema_string=json.dumps(V2), schema_registry_url=registry.url, subject="orders-value"
    )
    messages = [*written(old, [{"id": 1}]), *written(new, [{"id": 2, "note": "x"}])]
    assert [message[:5] for message in messages] == [b"\x00\x00\x00\x00\x01", b"\x00\x00\x00\x00\x02"]
    latest = AvroRowDeserializationSchema(schema_registry_url=registry.url, subject="orders-value")
    shipped = cloudpickle.loads(cloudpickle.dumps(latest))
    assert rows_of(shipped, *messages) == [{"id": 1, "note": None}, {"id": 2, "note": "x"}]
    with pytest.raises(PoisonRecord, match="written without a registry"):
        latest.decode([b"\x01\x02"])


def test_each_user_of_a_registry_asks_for_themselves(registry: SchemaRegistryServer) -> None:
    for user in ("ann:1", "bob:2", "ann:1"):
        given: dict[str, Any] = {
            "avro_schema_string": json.dumps(V1),
            "schema_registry_url": registry.url,
            "registry_properties": {"basic.auth.user.info": user},
        }
        messages = written(AvroRowSerializationSchema(**given, subject="of-each"), [{"id": 1}])
        assert rows_of(AvroRowDeserializationSchema(**given), *messages) == [{"id": 1}]
    ann, bob = (f"Basic {base64.b64encode(user).decode()}" for user in (b"ann:1", b"bob:2"))
    assert registry.authorizations == [ann, ann, bob, bob]


def test_a_registry_that_is_down_or_lacks_the_schema_is_told_apart_from_poison(registry: SchemaRegistryServer) -> None:
    schema = AvroRowDeserializationSchema(
        avro_schema_string=json.dumps(V1), schema_registry_url=registry.url, subject="s"
    )
    with pytest.raises(
        ExternalError, match=f"cannot read schema 9 .schema registry at {registry.url}.: Schema not found"
    ):
        schema.decode([b"\x00\x00\x00\x00\x09\x02"])
    down = AvroRowDeserializationSchema(
        avro_schema_string=json.dumps(V1),
        schema_registry_url="http://127.0.0.1:1",
        registry_properties={"max.retries": 0},
    )
    with pytest.raises(Unreachable, match="cannot read schema 1 .*is it up"):
        down.decode([b"\x00\x00\x00\x00\x01\x02"])


def test_rows_are_written_by_position_whatever_their_names() -> None:
    schema = AvroRowSerializationSchema(avro_schema_string=json.dumps(V2))
    reader = AvroRowDeserializationSchema(avro_schema_string=json.dumps(V2))
    assert rows_of(reader, *written(schema, [{"number": 1, "text": "x"}])) == [{"id": 1, "note": "x"}]
    with pytest.raises(UserError, match=r"has 2 fields, and the row of the stream 1, \['id'\]"):
        written(schema, [{"id": 1}])


def test_columns_of_a_columnar_stream_are_written_by_name() -> None:
    text = json.dumps({**V1, "fields": [{"name": "a", "type": "string"}, {"name": "b", "type": "string"}]})
    schema, reader = (
        AvroRowSerializationSchema(avro_schema_string=text),
        AvroRowDeserializationSchema(avro_schema_string=text),
    )
    data = pa.record_batch({"b": ["2"], "a": ["1"]})
    assert rows_of(reader, *schema.encode(data, Types.SCHEMA(data.schema))) == [{"a": "1", "b": "2"}]
    other = pa.record_batch({"b": ["2"], "c": ["1"]})
    with pytest.raises(UserError, match=r"fields \['a', 'b'\], the stream the columns \['b', 'c'\]"):
        schema.encode(other, Types.SCHEMA(other.schema))


def test_what_is_wrong_is_told_when_the_schema_is_made() -> None:
    with pytest.raises(InvalidJob, match="a Java class"):
        AvroRowDeserializationSchema("com.shop.Order")
    with pytest.raises(InvalidJob, match="give avro_schema_string"):
        AvroRowDeserializationSchema()
    with pytest.raises(InvalidJob, match="a record with named fields"):
        AvroRowDeserializationSchema(avro_schema_string='"long"')
    with pytest.raises(InvalidJob, match="not an Avro schema"):
        AvroRowDeserializationSchema(avro_schema_string="{")
    union = {**V1, "fields": [{"name": "id", "type": ["int", "string"]}]}
    with pytest.raises(InvalidJob, match="null and one other type"):
        AvroRowDeserializationSchema(avro_schema_string=json.dumps(union))
    with pytest.raises(InvalidJob, match="needs the subject"):
        AvroRowSerializationSchema(avro_schema_string=json.dumps(V1), schema_registry_url="http://x")
    with pytest.raises(UserError, match="does not fit"):
        written(AvroRowSerializationSchema(avro_schema_string=json.dumps(V1)), [{"id": "text"}])


def record(*fields: tuple[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields], **more}


ADDRESS = {"type": "record", "name": "Address", "fields": [{"name": "city", "type": "string"}]}
UUID_TEXT = {"type": "string", "logicalType": "uuid"}
UUID_FIXED = {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}
FIRST = "00000000-0000-0000-0000-000000000005"


def decimal(precision: int, scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def round_trip(schema: dict[str, Any], *rows: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of the produced type, written and read back."""
    text = json.dumps(schema)
    reader = AvroRowDeserializationSchema(avro_schema_string=text)
    kind = reader.get_produced_type()
    data = pa.RecordBatch.from_pylist(list(rows), kind.arrow_schema())
    return rows_of(reader, *AvroRowSerializationSchema(avro_schema_string=text).encode(data, kind))


@pytest.mark.parametrize(
    ("first", "name", "more"),
    [
        (ADDRESS, "Address", {"namespace": "com.shop"}),
        (ADDRESS, "com.shop.Address", {"namespace": "com.shop"}),
        ({**ADDRESS, "namespace": "com.other"}, "com.other.Address", {"namespace": "com.shop"}),
        ({**ADDRESS, "name": "com.other.Address"}, "com.other.Address", {}),
        ({**ADDRESS, "namespace": ""}, "Address", {"namespace": "com.shop"}),
        (["null", ADDRESS], "com.shop.Address", {"namespace": "com.shop"}),
        ({"type": "array", "items": ADDRESS}, {"type": "map", "values": "com.shop.Address"}, {"namespace": "com.shop"}),
        (ADDRESS, {"type": "com.shop.Address"}, {"namespace": "com.shop"}),
    ],
)
def test_a_type_is_named_by_its_full_name_or_by_its_name_within_its_namespace(
    first: Any, name: Any, more: dict[str, Any]
) -> None:
    schema = record(("a", first), ("b", name), **more)
    one, other = {"city": "x"}, {"city": "y"}
    row = {"a": [one] if "items" in first else one, "b": [("k", other)] if "values" in name else other}
    assert round_trip(schema, row) == [row]


def test_a_type_that_is_first_null_is_known_where_it_is_named_again() -> None:
    schema = record(("a", ["null", ADDRESS]), ("b", "Address"))
    written_as = AvroRowSerializationSchema(avro_schema_string=json.dumps(schema))
    kind = pa.struct([("other_name", pa.string())])
    data = pa.RecordBatch.from_pylist([{"a": None, "b": {"other_name": "y"}}], pa.schema([("a", kind), ("b", kind)]))
    reader = AvroRowDeserializationSchema(avro_schema_string=json.dumps(schema))
    assert rows_of(reader, *written_as.encode(data, Types.STRING())) == [{"a": None, "b": {"city": "y"}}]


@pytest.mark.parametrize("kind", [UUID_TEXT, UUID_FIXED])
def test_uuids_are_texts_wherever_they_stand(kind: Any) -> None:
    again = "U" if "name" in kind else kind
    inner = {"type": "record", "name": "I", "fields": [{"name": "id", "type": again}]}
    schema = record(
        ("u", kind),
        ("maybe", ["null", again]),
        ("many", {"type": "array", "items": again}),
        ("by", {"type": "map", "values": again}),
        ("inner", inner),
    )
    row = {"u": FIRST, "maybe": None, "many": [FIRST], "by": [("k", FIRST)], "inner": {"id": FIRST}}
    assert round_trip(schema, row, {**row, "maybe": FIRST}) == [row, {**row, "maybe": FIRST}]


@pytest.mark.parametrize(
    ("kind", "value", "column"),
    [
        (decimal(10, 2), "-1.10", pa.decimal128(38, 18)),
        (decimal(38, 0), str(10**37), pa.decimal128(38, 0)),
        (decimal(38, 20), "-1.00000000000000000001", pa.decimal128(38, 20)),
        (decimal(38, 38), "0.00000000000000000000000000000000000001", pa.decimal128(38, 38)),
        (decimal(50, 2), "1" * 36 + ".25", pa.decimal128(38, 2)),
    ],
)
def test_decimals_keep_all_their_digits(kind: Any, value: str, column: pa.DataType) -> None:
    row = {"d": Decimal(value), "many": [Decimal(value), None]}
    schema = record(("d", kind), ("many", {"type": "array", "items": ["null", kind]}))
    reader = AvroRowDeserializationSchema(avro_schema_string=json.dumps(schema))
    assert reader.get_produced_type().arrow_schema().field("d").type == column
    assert round_trip(schema, row) == [row]
    stream = reader.get_produced_type()
    records = decode(stream, pa.RecordBatch.from_pylist([row], stream.arrow_schema()))
    assert decode(stream, encode(stream, records)) == records
    assert records[0]["d"] == Decimal(value)


def wrong_values() -> list[tuple[Any, Any, str]]:
    far = {"type": "long", "logicalType": "timestamp-micros"}
    listed = {"type": "array", "items": decimal(10, 2)}
    enum = {"type": "enum", "name": "E", "symbols": ["A"]}
    return [
        ("int", ("long", 2**40), "the field 't': Value 1099511627776 too large"),
        (decimal(10, 2), ("bytes", b"\x7f" * 20), "the field 't': .* more digits than its column"),
        (listed, ({"type": "array", "items": "bytes"}, [b"\x7f" * 20]), r"the field 't\[\]': .* more digits"),
        (far, ("long", 253402300800000000), "the field 't': .*outside of the years 1 to 9999"),
        ({"type": "int", "logicalType": "date"}, ("int", 2**31 - 1), "outside of the years 1 to 9999"),
        ({"type": "int", "logicalType": "time-millis"}, ("int", -1), "the field 't': -1 is no time of day"),
        (UUID_TEXT, ("string", "five"), "the field 't': badly formed hexadecimal UUID"),
        (enum, ("int", -1), "symbol number -1 of an enum of 1"),
        (enum, ("int", 1), "symbol number 1 of an enum of 1"),
        ("string", ("bytes", b"\xff"), "can't decode byte 0xff"),
    ]


@pytest.mark.parametrize(("kind", "written_as", "message"), wrong_values())
def test_what_no_column_holds_is_poison_with_its_field(kind: Any, written_as: tuple[Any, Any], message: str) -> None:
    content = io.BytesIO()
    fastavro.schemaless_writer(content, record(("t", written_as[0])), {"t": written_as[1]})
    reader = AvroRowDeserializationSchema(avro_schema_string=json.dumps(record(("t", kind))))
    with pytest.raises(PoisonRecord, match=message) as raised:
        reader.decode([content.getvalue()])
    assert raised.value.index == 0


def test_values_that_a_column_cannot_hold_are_named_by_their_place() -> None:
    good, bad = io.BytesIO(), io.BytesIO()
    for content, number in ((good, 1), (bad, 2**40)):
        fastavro.schemaless_writer(content, record(("t", "long")), {"t": number})
    reader = AvroRowDeserializationSchema(avro_schema_string=json.dumps(record(("t", "int"))))
    with pytest.raises(PoisonRecord) as raised:
        reader.decode([good.getvalue(), bad.getvalue(), good.getvalue()])
    assert raised.value.index == 1


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("null", "the field 't' is of the Avro type 'null'"),
        (["int", "string"], "the field 't' is a union"),
        ({"type": "array", "items": ["int", "string"]}, r"the field 't\[\]' is a union"),
        (
            {"type": "record", "name": "Empty", "fields": []},
            "the field 't' is the Avro record Empty, which has no fields",
        ),
        (
            {"type": "map", "values": {"type": "record", "name": "Empty", "fields": []}},
            "the field 't{}' is the Avro record Empty, which has no fields",
        ),
        (["null", "R"], "the field 't' is the Avro record R, which contains itself"),
        (decimal(50, 40), r"the field 't' is a decimal\(50, 40\): a column has up to 38 digits"),
    ],
)
def test_a_field_without_a_column_is_named_when_the_schema_is_given(kind: Any, message: str) -> None:
    for schema in (AvroRowDeserializationSchema, AvroRowSerializationSchema):
        with pytest.raises(InvalidJob, match=message):
            schema(avro_schema_string=json.dumps(record(("t", kind))))


def test_a_default_that_is_no_value_of_its_field_is_named_when_the_schema_is_given() -> None:
    schema = record()
    schema["fields"] = [{"name": "x", "type": "bytes", "default": "\u0100"}]
    with pytest.raises(InvalidJob, match="the default 'Ā' of the field 'x' is no bytes"):
        AvroRowDeserializationSchema(avro_schema_string=json.dumps(schema))


def test_schemas_refer_to_others_of_the_registry(registry: SchemaRegistryServer) -> None:
    country = {"type": "enum", "name": "Country", "namespace": "com.base", "symbols": ["DE", "FR"]}
    address = {**ADDRESS, "namespace": "com.shop", "fields": [{"name": "in", "type": "com.base.Country"}]}
    registry.register(country, "country")
    registry.register(address, "address", references=(("com.base.Country", "country", 1),))
    order = record(
        ("to", "Address"), ("from", ["null", "com.shop.Address"]), ("in", "com.base.Country"), namespace="com.shop"
    )
    referring = (("com.shop.Address", "address", 1), ("com.base.Country", "country", 1))
    number = registry.register(order, "orders", references=referring)
    latest = AvroRowDeserializationSchema(schema_registry_url=registry.url, subject="orders")
    shipped = cloudpickle.loads(cloudpickle.dumps(latest))
    message = struct.pack(">bI", 0, number) + b"\x00" + b"\x02\x02" + b"\x02"
    assert rows_of(shipped, message) == [{"to": {"in": "DE"}, "from": {"in": "FR"}, "in": "FR"}]
    smaller = AvroRowDeserializationSchema(
        avro_schema_string=json.dumps(record(("in", country))), schema_registry_url=registry.url
    )
    assert rows_of(smaller, message) == [{"in": "FR"}]
    sink = AvroRowSerializationSchema(schema_registry_url=registry.url, subject="orders")
    data = pa.RecordBatch.from_pylist(rows_of(shipped, message), latest.get_produced_type().arrow_schema())
    assert sink.encode(data, latest.get_produced_type()) == [message]


def test_a_reference_that_is_not_there_is_told(registry: SchemaRegistryServer) -> None:
    number = registry.register(record(("to", "Address")), "orders", references=(("Address", "address", 3),))
    with pytest.raises(ExternalError, match=f"cannot read version 3 of 'address', which schema {number} refers to"):
        SchemaRegistry(registry.url).schema(number)


@pytest.mark.parametrize(("kind", "text"), [("PROTOBUF", 'syntax = "proto3";'), ("AVRO", "{"), ("AVRO", '"nothing"')])
def test_a_message_whose_schema_is_not_avro_is_poison(registry: SchemaRegistryServer, kind: str, text: str) -> None:
    number = registry.register(text, kind=kind)
    reader = AvroRowDeserializationSchema(avro_schema_string=json.dumps(V1), schema_registry_url=registry.url)
    with pytest.raises(
        PoisonRecord, match=f"was written with schema {number} of the registry: .*(not of Avro|not an Avro schema)"
    ):
        reader.decode([struct.pack(">bI", 0, number) + b"\x02"])


def test_messages_of_a_union_of_records_are_read_by_their_branch(registry: SchemaRegistryServer) -> None:
    other = {"type": "record", "name": "Other", "fields": [{"name": "x", "type": "string"}]}
    number = registry.register([V1, other])
    reader = AvroRowDeserializationSchema(avro_schema_string=json.dumps(V2), schema_registry_url=registry.url)
    header = struct.pack(">bI", 0, number)
    assert rows_of(reader, header + b"\x00\x0e") == [{"id": 7, "note": None}]
    with pytest.raises(PoisonRecord, match="the field 'id' has no default, and the record Other"):
        reader.decode([header + b"\x02\x02x"])
