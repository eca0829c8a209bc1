"""Avro: types, plain messages, and those of a schema registry, whose HTTP API is served here by a small server."""

from __future__ import annotations

import datetime
import json
import threading
from collections.abc import Iterator
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import cloudpickle
import pyarrow as pa
import pytest

from tidegate.common.typeinfo import Types
from tidegate.connectors.formats.messages import PoisonRecord
from tidegate.datastream.formats.avro import AvroRowDeserializationSchema, AvroRowSerializationSchema
from tidegate.model.errors import ExternalError, InvalidJob, Unreachable, UserError

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


class Registry(ThreadingHTTPServer):
    """Schemas by id, and one subject after another."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.schemas: list[str] = []

    def register(self, schema: Any) -> int:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        if text not in self.schemas:
            self.schemas.append(text)
        return self.schemas.index(text) + 1


class _Handler(BaseHTTPRequestHandler):
    server: Registry

    def do_GET(self) -> None:
        parts = self.path.split("?")[0].strip("/").split("/")
        if parts[0] == "schemas" and int(parts[2]) <= len(self.server.schemas):
            self._answer(200, {"schema": self.server.schemas[int(parts[2]) - 1]})
        elif parts[0] == "subjects":
            last = len(self.server.schemas)
            about = {"subject": parts[1], "version": last, "id": last, "schema": self.server.schemas[-1]}
            self._answer(200, about)
        else:
            self._answer(404, {"error_code": 40403, "message": "Schema not found"})

    def do_POST(self) -> None:
        told = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._answer(200, {"id": self.server.register(told["schema"])})

    def _answer(self, status: int, content: Any) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join(10)


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


def test_each_message_is_read_by_the_schema_that_it_was_written_with(registry: Registry) -> None:
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


def test_a_registry_that_is_down_or_lacks_the_schema_is_told_apart_from_poison(registry: Registry) -> None:
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
    with pytest.raises(UserError, match=r"2 fields in the Avro schema, the row \['id'\]"):
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
    with pytest.raises(InvalidJob, match="class of Java"):
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
