"""Avro messages as rows and back, on ``fastavro``, plain or with a schema registry (the extra ``tidegate[avro]``).

    plain      one Avro datum a message, of one schema
    registry   0 │ schema id, 4 bytes │ datum     (Confluent's wire format: each message is read with the schema it was
               written with, resolved to the reader's)

A registry that does not answer is ``Unreachable``: the attempt fails, nothing was emitted, and the restart strategy tries
again. Types: records are rows, unions with null are nullable, enums and uuids texts; other unions are refused.
"""

from __future__ import annotations

import datetime
import io
import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

import pyarrow as pa

from tidegate.common.typeinfo import ArrowTypeInfo, TypeInformation, Types
from tidegate.connectors.formats.avro_type import AvroType
from tidegate.connectors.formats.messages import (
    DeserializationSchema,
    PoisonRecord,
    SerializationSchema,
    Values,
    objects,
)
from tidegate.model.errors import ExternalError, InvalidJob, Unreachable, UserError
from tidegate.model.values import FieldValue, Record

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient

_HEADER = struct.Struct(">bI")
_MISSING = "needs packages that are not here: install tidegate[avro]"
_LOGICAL: dict[str, Callable[[], TypeInformation]] = {
    "date": Types.SQL_DATE,
    "time-millis": Types.SQL_TIME,
    "time-micros": Types.SQL_TIME,
    "timestamp-millis": Types.INSTANT,
    "timestamp-micros": Types.INSTANT,
    "local-timestamp-millis": Types.SQL_TIMESTAMP,
    "local-timestamp-micros": Types.SQL_TIMESTAMP,
    "decimal": Types.BIG_DEC,
    "uuid": Types.STRING,
}
_PLAIN: dict[str, Callable[[], TypeInformation]] = {
    "boolean": Types.BOOLEAN,
    "int": Types.INT,
    "long": Types.LONG,
    "float": Types.FLOAT,
    "double": Types.DOUBLE,
    "string": Types.STRING,
    "enum": Types.STRING,
    "bytes": lambda: Types.PRIMITIVE_ARRAY(Types.BYTE()),
    "fixed": lambda: Types.PRIMITIVE_ARRAY(Types.BYTE()),
}


R = TypeVar("R")


def library() -> Any:
    """``fastavro``. Raises ``InvalidJob`` when it is not installed."""
    try:
        import fastavro
    except ImportError as error:
        raise InvalidJob(f"Avro {_MISSING}") from error
    return fastavro


def row_type(schema: AvroType) -> TypeInformation:
    """Returns the row that a record schema (parsed JSON) stands for. Raises ``InvalidJob`` for what has no type here."""
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise InvalidJob(f"an Avro message is a record with named fields, not {str(schema)[:100]}")
    return _type_of(schema, {})


def _type_of(schema: AvroType, named: dict[str, AvroType]) -> TypeInformation:
    if isinstance(schema, list):
        kinds = [kind for kind in schema if kind != "null"]
        if len(kinds) != 1:
            raise InvalidJob(f"an Avro union is of null and one other type here, not {str(schema)[:100]}")
        return _type_of(kinds[0], named)
    if isinstance(schema, str):
        if schema in _PLAIN:
            return _PLAIN[schema]()
        if schema in named:
            return _type_of(named[schema], named)
        raise InvalidJob(f"the Avro type {schema!r} is not known, or contains itself")
    kind = schema["type"]
    if logical := _LOGICAL.get(schema.get("logicalType", "")):
        return logical()
    match kind:
        case "record":
            fields = schema["fields"]
            types = [_type_of(one["type"], named) for one in fields]
            named[schema["name"]] = schema
            return Types.ROW_NAMED([one["name"] for one in fields], types)
        case "array":
            return Types.LIST(_type_of(schema["items"], named))
        case "map":
            return Types.MAP(Types.STRING(), _type_of(schema["values"], named))
        case "enum" | "fixed":
            named[schema["name"]] = schema
            return _PLAIN[kind]()
    return _type_of(kind, named)


@dataclass(frozen=True)
class SchemaRegistry:
    """Where it is; ``properties`` go to confluent-kafka's ``SchemaRegistryClient`` (``basic.auth.user.info``, ``ssl...``,
    ``max.retries``)."""

    url: str
    properties: Mapping[str, object] = field(default_factory=dict)

    def schema(self, schema_id: int) -> str:
        """Raises ``Unreachable``, ``ExternalError``."""
        return str(self._asked(f"read schema {schema_id}", lambda client: client.get_schema(schema_id).schema_str))

    def latest(self, subject: str) -> str:
        """Returns the latest schema of a subject as JSON text."""
        doing = f"read the latest schema of {subject!r}"
        return str(self._asked(doing, lambda client: client.get_latest_version(subject).schema.schema_str))

    def register(self, subject: str, schema: str) -> int:
        """Returns the schema's id; the same schema has the same."""
        from confluent_kafka.schema_registry import Schema

        wanted = Schema(schema, "AVRO")
        return int(
            self._asked(f"register a schema for {subject!r}", lambda client: client.register_schema(subject, wanted))
        )

    def _asked(self, doing: str, ask: Callable[[SchemaRegistryClient], R]) -> R:
        try:
            from confluent_kafka.schema_registry import SchemaRegistryClient
            from confluent_kafka.schema_registry.error import SchemaRegistryError
        except ImportError as error:
            raise InvalidJob(f"a schema registry {_MISSING}") from error
        text = f"cannot {doing} (schema registry at {self.url})"
        try:
            return ask(SchemaRegistryClient({"url": self.url, **self.properties}))
        except SchemaRegistryError as error:
            raise ExternalError(f"{text}: {error.error_message}") from error
        except ValueError as error:
            raise InvalidJob(f"{text}: {error}") from error
        except Exception as error:  # its HTTP client's own tree of errors
            raise Unreachable(f"{text}: {error}; is it up, and the address right?") from error


class _Parsed:
    """Schemas as ``fastavro`` wants them; made where they are used, since they are not pickled."""

    def __init__(self, registry: SchemaRegistry | None, schema: str) -> None:
        self._registry = registry
        self.own = library().parse_schema(json.loads(schema))
        self._by_id: dict[int, AvroType] = {}

    def of(self, schema_id: int) -> AvroType:
        found = self._by_id.get(schema_id)
        if found is None:
            assert self._registry is not None
            found = library().parse_schema(json.loads(self._registry.schema(schema_id)))
            self._by_id[schema_id] = found
        return found


@dataclass(frozen=True)
class AvroRows(DeserializationSchema):
    """``schema`` is the reader's, as JSON text."""

    schema: str
    registry: SchemaRegistry | None = None

    def get_produced_type(self) -> TypeInformation:
        return row_type(json.loads(self.schema))

    def decode(self, values: Values) -> pa.RecordBatch:
        read = library().schemaless_reader
        parsed = _parsed(self)
        rows: list[Record] = []
        for index, value in enumerate(objects(values)):
            stream = io.BytesIO(value or b"")
            writer = parsed.own
            if self.registry is not None:
                writer = parsed.of(_schema_id(stream.read(_HEADER.size), index))
            try:
                rows.append(read(stream, writer, parsed.own))
            except Exception as error:  # fastavro raises whatever the bytes lead it to
                raise PoisonRecord(
                    index, f"not an Avro record of its schema: {type(error).__name__}: {error}"
                ) from error
            if left := len(stream.read(1)):
                raise PoisonRecord(index, f"not an Avro record of its schema: {left} or more bytes are left")
        return _as_batch(rows, self.get_produced_type().arrow_schema())


@dataclass(frozen=True)
class AvroMessages(SerializationSchema):
    """Rows as Avro; with a registry the schema is registered under ``subject`` at the first write."""

    schema: str
    registry: SchemaRegistry | None = None
    subject: str = ""

    def encode(self, data: pa.RecordBatch, type_info: TypeInformation) -> list[bytes]:
        write = library().schemaless_writer
        parsed = _parsed(self)
        header = b"" if self.registry is None else _HEADER.pack(0, _id_of(self))
        found = []
        if isinstance(type_info, ArrowTypeInfo):
            data = _in_order(data, [one["name"] for one in parsed.own["fields"]])
        for row in rows_by_position(data, parsed.own):
            stream = io.BytesIO(header)
            stream.seek(len(header))
            try:
                write(stream, parsed.own, row)
            except Exception as error:
                raise UserError(
                    f"a row does not fit the Avro schema: {type(error).__name__}: {error}: {row}"
                ) from error
            found.append(stream.getvalue())
        return found


def _in_order(data: pa.RecordBatch, names: list[str]) -> pa.RecordBatch:
    """Columns of a columnar stream go by name. Raises ``UserError`` when they have others."""
    if sorted(names) != sorted(data.schema.names):
        raise UserError(f"the Avro schema has the fields {names}, the stream the columns {data.schema.names}")
    return data.select(names)


def rows_by_position(data: pa.RecordBatch, schema: AvroType) -> Iterator[Record]:
    """Rows as ``fastavro`` writes them: fields by position, with the names of the record (Flink:
    ``AvroRowSerializationSchema``). ``schema``: parsed."""
    named: dict[str, AvroType] = {}
    for row in data.to_pylist(maps_as_pydicts="lossy"):
        yield _renamed(row, schema, named)


def _renamed(value: FieldValue, schema: AvroType, named: dict[str, AvroType]) -> FieldValue:
    if isinstance(schema, list):
        schema = next(kind for kind in schema if kind != "null")
    kind = named.get(schema, schema) if isinstance(schema, str) else schema
    if value is None or isinstance(kind, str):
        return value
    if "name" in kind:
        named[kind["name"]] = kind
    match value:
        case dict() if kind["type"] == "record":
            fields = kind["fields"]
            if len(fields) != len(value):
                raise UserError(f"{kind['name']} has {len(fields)} fields in the Avro schema, the row {list(value)}")
            pairs = zip(fields, value.values(), strict=True)
            return {one["name"]: _renamed(part, one["type"], named) for one, part in pairs}
        case dict():
            return {key: _renamed(part, kind["values"], named) for key, part in value.items()}
        case list():
            return [_renamed(part, kind["items"], named) for part in value]
        case datetime.datetime() if value.tzinfo is None and kind.get("logicalType", "").startswith("timestamp"):
            return value.replace(
                tzinfo=datetime.UTC
            )  # what a clock in UTC shows; fastavro would take the machine's zone
    return _short(value)


def rows_as_dicts(data: pa.RecordBatch) -> Iterator[Record]:
    """Rows as ``fastavro`` writes them. Decimals come without the zeros that our own scale adds: the schema's may be smaller.
    Times without a zone are of UTC: ``fastavro`` would take them for times of the process's own zone."""
    return map(_short, data.to_pylist(maps_as_pydicts="lossy"))


_parsed_schemas: dict[tuple[str, object], _Parsed] = {}
_ids: dict[tuple[str, str, str], int] = {}


def _parsed(owner: AvroRows | AvroMessages) -> _Parsed:
    key = (owner.schema, owner.registry and owner.registry.url)
    found = _parsed_schemas.get(key)
    if found is None:
        found = _parsed_schemas[key] = _Parsed(owner.registry, owner.schema)
    return found


def _id_of(owner: AvroMessages) -> int:
    assert owner.registry is not None
    key = (owner.registry.url, owner.subject, owner.schema)
    if key not in _ids:
        _ids[key] = owner.registry.register(owner.subject, owner.schema)
    return _ids[key]


def _schema_id(header: bytes, index: int) -> int:
    if len(header) != _HEADER.size or header[0] != 0:
        raise PoisonRecord(
            index, "does not begin with a zero and the id of a schema: it was written without a registry"
        )
    return int(_HEADER.unpack(header)[1])


def _as_batch(rows: Iterable[Mapping[str, FieldValue]], schema: pa.Schema) -> pa.RecordBatch:
    listed = list(rows)
    columns = [pa.array([_plain(row[one.name]) for row in listed], one.type) for one in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _short(value: FieldValue) -> FieldValue:
    match value:
        case Decimal():
            return value.normalize()
        case datetime.datetime() if value.tzinfo is None:
            return value.replace(tzinfo=datetime.UTC)
        case dict():
            return {key: _short(inner) for key, inner in value.items()}
        case list():
            return [_short(inner) for inner in value]
    return value


def _plain(value: FieldValue) -> FieldValue:
    """Uuids as texts."""
    return str(value) if isinstance(value, UUID) else value


def checked_schema(schema: str | None, registry: SchemaRegistry | None, subject: str) -> str:
    """Returns the schema given, or the subject's latest. Raises ``InvalidJob``, ``Unreachable``."""
    library()
    if schema is None:
        if registry is None or not subject:
            raise InvalidJob("give avro_schema_string, or schema_registry_url and subject")
        schema = registry.latest(subject)
    try:
        row_type(json.loads(schema))
        library().parse_schema(json.loads(schema))
    except ValueError as error:
        raise InvalidJob(f"not an Avro schema: {error}") from error
    except Exception as error:
        if isinstance(error, InvalidJob):
            raise
        raise InvalidJob(f"not an Avro schema: {type(error).__name__}: {error}") from error
    return schema
