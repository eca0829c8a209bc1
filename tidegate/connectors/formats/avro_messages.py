"""Avro messages as rows and back, on ``fastavro``, plain or with a schema registry (the extra ``tidegate[avro]``).

    plain      one Avro datum a message, of one schema
    registry   0 │ schema id, 4 bytes │ datum     (Confluent's wire format: each message is read with the schema it was
               written with, resolved to the reader's)

A registry that does not answer is ``Unreachable``: the attempt fails, nothing was emitted, and the restart strategy tries
again. Types: records are rows, unions with null are nullable, enums and uuids texts; other unions are refused. What a value is decides
the reader's schema (``avro_resolution``).
"""

from __future__ import annotations

import datetime
import io
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

import pyarrow as pa

from tidegate.common.typeinfo import ArrowTypeInfo, TypeInformation, Types
from tidegate.connectors.formats.avro_resolution import (
    EXACT,
    Convert,
    Resolution,
    Unresolved,
    Values,
    check_defaults,
    decimal_of,
)
from tidegate.connectors.formats.avro_type import MISSING, AvroType, ParsedSchema, library, logical_type, parse
from tidegate.connectors.formats.messages import DeserializationSchema, PoisonRecord, SerializationSchema, objects
from tidegate.connectors.formats.messages import Values as MessageValues
from tidegate.model.errors import ExternalError, InvalidJob, Unreachable, UserError
from tidegate.model.values import FieldValue, Record
from tidegate.records.type_information import DecimalTypeInfo

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

_HEADER = struct.Struct(">bI")
_LOGICAL: dict[str, Callable[[], TypeInformation]] = {
    "date": Types.SQL_DATE,
    "time-millis": Types.SQL_TIME,
    "time-micros": Types.SQL_TIME,
    "timestamp-millis": Types.INSTANT,
    "timestamp-micros": Types.INSTANT,
    "local-timestamp-millis": Types.SQL_TIMESTAMP,
    "local-timestamp-micros": Types.SQL_TIMESTAMP,
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
_DIGITS = 38
"""The most digits of a decimal column."""
_DAY_MICROS = 86_400_000_000
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""The years 1 to 9999, the range of Python's dates, in days since 1970."""


R = TypeVar("R")


def row_type(schema: ParsedSchema) -> TypeInformation:
    """Returns the row type of a record schema. Raises ``InvalidJob`` for a schema without one."""
    root = schema.resolved(schema.root)
    if not isinstance(root, dict) or root["type"] != "record":
        raise InvalidJob(f"an Avro message is a record with named fields, not {str(schema.root)[:100]}")
    return _type_of(schema, root, "", ())


def _type_of(schema: ParsedSchema, kind: AvroType, path: str, inside: tuple[str, ...]) -> TypeInformation:
    if isinstance(kind, list):
        kinds = [one for one in kind if one != "null"]
        if len(kinds) != 1:
            raise InvalidJob(
                f"{_of(path)} is a union of {str(kind)[:100]}: one of null and one other type has a column"
            )
        return _type_of(schema, kinds[0], path, inside)
    known = schema.resolved(kind)
    match logical_type(known):
        case "decimal":
            return _decimal_type(known, path)
        case logical if logical in _LOGICAL:
            return _LOGICAL[logical]()
    match known["type"]:
        case "record":
            return _row_of(schema, known, path, inside)
        case "array":
            return Types.LIST(_type_of(schema, known["items"], f"{path}[]", inside))
        case "map":
            return Types.MAP(Types.STRING(), _type_of(schema, known["values"], f"{path}{{}}", inside))
        case name if name in _PLAIN:
            return _PLAIN[name]()
    raise InvalidJob(
        f"{_of(path)} is of the Avro type {known['type']!r}, which has no column: leave it out of the schema"
    )


def _row_of(schema: ParsedSchema, record: AvroType, path: str, inside: tuple[str, ...]) -> TypeInformation:
    name, fields = record["name"], record["fields"]
    if name in inside:
        raise InvalidJob(f"{_of(path)} is the Avro record {name}, which contains itself: that has no columns")
    if not fields:
        raise InvalidJob(
            f"{_of(path)} is the Avro record {name}, which has no fields: that has no columns, leave it out of the schema"
        )
    types = [_type_of(schema, one["type"], f"{path}.{one['name']}".lstrip("."), (*inside, name)) for one in fields]
    return Types.ROW_NAMED([one["name"] for one in fields], types)


def _of(path: str) -> str:
    return f"the field {path!r}" if path else "the Avro schema"


def _decimal_type(schema: AvroType, path: str) -> TypeInformation:
    """Returns the type of a decimal: ``BIG_DEC`` where it has enough digits."""
    precision, scale = schema["precision"], schema.get("scale", 0)
    wide = _BIG_DECIMAL.precision - _BIG_DECIMAL.scale
    if scale > _DIGITS:
        raise InvalidJob(f"{_of(path)} is a decimal({precision}, {scale}): a column has up to {_DIGITS} digits")
    if scale <= _BIG_DECIMAL.scale and precision - scale <= wide:
        return Types.BIG_DEC()
    return DecimalTypeInfo(min(precision, _DIGITS), scale)


_BIG_DECIMAL: pa.Decimal128Type = Types.BIG_DEC().arrow_type()


class _ColumnValues(Values):
    """Logical values as columns hold them: times are numbers of microseconds, dates of days, uuids are texts. Types without a column are ``Unresolved``."""

    native = ()

    def logical(self, schema: AvroType) -> Convert | None:
        match logical_type(schema):
            case "decimal":
                return _fitting_decimal(schema)
            case "uuid" if schema["type"] == "fixed":
                return lambda data: str(UUID(bytes=data))
            case "uuid":
                return lambda text: str(UUID(text))
            case name:
                return _IN_COLUMNS.get(name)


def _bounded(factor: int, least: int, most: int, what: str) -> Convert:
    def convert(value: FieldValue) -> FieldValue:
        if not least <= value * factor < most:
            raise Unresolved(f"{value} is {what}")
        return value * factor

    return convert


def _instants(factor: int) -> Convert:
    """Returns the converter of timestamps to microseconds."""
    return _bounded(
        factor, _FIRST_DAY * _DAY_MICROS, (_LAST_DAY + 1) * _DAY_MICROS, "a time outside of the years 1 to 9999"
    )


_IN_COLUMNS = {
    "date": _bounded(1, _FIRST_DAY, _LAST_DAY + 1, "a date outside of the years 1 to 9999"),
    "time-millis": _bounded(1000, 0, _DAY_MICROS, "no time of day"),
    "time-micros": _bounded(1, 0, _DAY_MICROS, "no time of day"),
    "timestamp-millis": _instants(1000),
    "timestamp-micros": _instants(1),
    "local-timestamp-millis": _instants(1000),
    "local-timestamp-micros": _instants(1),
}


def _fitting_decimal(schema: AvroType) -> Convert:
    scale = schema.get("scale", 0)
    column: pa.Decimal128Type = _decimal_type(schema, "").arrow_type()
    bound = 10 ** (column.precision - column.scale + scale)

    def convert(data: FieldValue) -> FieldValue:
        number = int.from_bytes(data, "big", signed=True)
        if not -bound < number < bound:
            raise Unresolved(f"{decimal_of(scale)(data)} has more digits than its column, a {column}")
        return Decimal(number).scaleb(-scale, EXACT)

    return convert


@dataclass(frozen=True)
class SchemaText:
    """A schema as JSON text. ``references``: the schemas whose types it uses, each after those that it uses itself."""

    text: str
    references: tuple[str, ...] = ()

    def parsed(self, *, has_written: bool = False) -> ParsedSchema:
        """Parses the schema. Raises ``InvalidJob``."""
        return parse(self.text, self.references, has_written=has_written)


@dataclass(frozen=True)
class SchemaRegistry:
    """The location of a schema registry; ``properties`` are passed to confluent-kafka's ``SchemaRegistryClient`` (``basic.auth.user.info``, ``ssl...``,
    ``max.retries``)."""

    url: str
    properties: Mapping[str, object] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash((self.url, *sorted(self.properties)))

    def schema(self, schema_id: int) -> SchemaText:
        """Returns a schema by id, with its references. Raises ``Unreachable``, ``ExternalError``, and ``InvalidJob`` for one that is not Avro."""
        return self._whole(
            self._ask_registry(f"read schema {schema_id}", lambda client: client.get_schema(schema_id)),
            f"schema {schema_id}",
        )

    def latest(self, subject: str) -> SchemaText:
        """Returns the latest schema of a subject, with its references."""

        def ask(client: SchemaRegistryClient) -> Schema:
            client.clear_latest_caches()  # type: ignore[no-untyped-call]
            return client.get_latest_version(subject).schema

        return self._whole(self._ask_registry(f"read the latest schema of {subject!r}", ask), f"{subject!r}")

    def _whole(self, schema: Schema, name: str) -> SchemaText:
        found: dict[tuple[str, int], str] = {}
        self._refer(schema, found, name)
        return SchemaText(str(schema.schema_str), tuple(found.values()))

    def _refer(self, schema: Schema, found: dict[tuple[str, int], str], name: str) -> None:
        """Adds the schemas that a schema refers to to ``found``, each after those that it refers to itself."""
        if schema.schema_type not in (None, "AVRO"):
            raise InvalidJob(f"{name} in the schema registry at {self.url} is of {schema.schema_type}, not of Avro")
        for one in schema.references or ():
            assert one.version is not None, "a registry gives every reference its version"
            place = (str(one.subject), one.version)
            if place not in found:
                doing = f"read version {place[1]} of {place[0]!r}, which {name} refers to"
                referred = self._version(doing, *place)
                self._refer(referred, found, f"version {place[1]} of {place[0]!r}")
                found[place] = str(referred.schema_str)

    def _version(self, doing: str, subject: str, version: int) -> Schema:
        return self._ask_registry(doing, lambda client: client.get_version(subject, version).schema)

    def register(self, subject: str, schema: str) -> int:
        """Registers a schema and returns its id; the same schema always has the same."""
        from confluent_kafka.schema_registry import Schema

        wanted = Schema(schema, "AVRO")
        return int(
            self._ask_registry(
                f"register a schema for {subject!r}", lambda client: client.register_schema(subject, wanted)
            )
        )

    def _ask_registry(self, doing: str, ask: Callable[[SchemaRegistryClient], R]) -> R:
        try:
            from confluent_kafka.schema_registry.error import SchemaRegistryError
        except ImportError as error:
            raise InvalidJob(f"a schema registry {MISSING}") from error
        text = f"cannot {doing} (schema registry at {self.url})"
        try:
            return ask(_client(self))
        except SchemaRegistryError as error:
            raise ExternalError(f"{text}: {error.error_message}") from error
        except ValueError as error:
            raise InvalidJob(f"{text}: {error}") from error
        except Exception as error:  # its HTTP client's own tree of errors
            raise Unreachable(f"{text}: {error}; is it up, and the address right?") from error


@lru_cache(maxsize=64)
def _client(registry: SchemaRegistry) -> SchemaRegistryClient:
    """Returns the process's client of a registry; making one takes a tenth of a second, since it reads the system's certificates."""
    from confluent_kafka.schema_registry import SchemaRegistryClient

    return SchemaRegistryClient({"url": registry.url, **registry.properties})


class RecordReading:
    """Decodes messages to records of a schema, with logical values as in ``values``; made where it is used, since it is not pickled. ``ignores_rest``:
    accepts bytes behind a record."""

    def __init__(
        self, registry: SchemaRegistry | None, schema: SchemaText, values: Values, *, ignores_rest: bool = False
    ) -> None:
        self._registry = registry
        self._own = schema.parsed()
        self._values = values
        self._ignores_rest = ignores_rest
        self._plain = self._of(schema)
        self._by_id: dict[int, AvroType] = {}

    def records(self, messages: Sequence[bytes]) -> list[Record]:
        """Decodes each message to a record. Raises ``PoisonRecord``."""
        read = library().schemaless_reader
        schema = self._plain
        found: list[Record] = []
        for index, message in enumerate(messages):
            stream = io.BytesIO(message)
            if self._registry is not None:
                schema = self._of_id(_schema_id(stream.read(_HEADER.size), index), index)
            try:
                found.append(read(stream, schema, None))
            except Unresolved as error:
                raise PoisonRecord(index, f"not an Avro record of its schema: {error}") from error
            except Exception as error:  # fastavro raises whatever the bytes lead it to
                reason = f"{type(error).__name__}: {error}" if str(error) else "it ends too early"
                raise PoisonRecord(index, f"not an Avro record of its schema: {reason}") from error
            if not self._ignores_rest and stream.read(1):
                raise PoisonRecord(
                    index, "not an Avro record of its schema: the message has more bytes behind the record"
                )
        return found

    def _of(self, writer: SchemaText) -> AvroType:
        return Resolution(writer.parsed(has_written=True), self._own, self._values).schema

    def _of_id(self, schema_id: int, index: int) -> AvroType:
        """Returns the resolved schema for messages written with a schema of the registry. Raises ``PoisonRecord`` if that one is not Avro."""
        found = self._by_id.get(schema_id)
        if found is None:
            assert self._registry is not None
            try:
                found = self._by_id[schema_id] = self._of(self._registry.schema(schema_id))
            except InvalidJob as error:
                raise PoisonRecord(
                    index, f"the message was written with schema {schema_id} of the registry: {error}"
                ) from error
        return found


class _Reading(RecordReading):
    """Decodes messages to rows. ``type``: of the rows."""

    def __init__(self, registry: SchemaRegistry | None, schema: SchemaText) -> None:
        super().__init__(registry, schema, _ColumnValues())
        self.type = row_type(self._own)


@dataclass(frozen=True)
class AvroRows(DeserializationSchema):
    """Decodes Avro messages to rows. ``schema``: the reader's, as JSON text; ``references``: the schemas whose types it uses."""

    schema: str
    registry: SchemaRegistry | None = None
    references: tuple[str, ...] = ()

    def get_produced_type(self) -> TypeInformation:
        return self._reading().type

    def decode(self, values: MessageValues) -> pa.RecordBatch:
        reading = self._reading()
        messages: list[bytes] = []
        for index, value in enumerate(objects(values)):
            if value is None:
                reading.records(messages)  # one before it may be no record
                raise PoisonRecord(index, "the message has no value, so it is not an Avro record")
            messages.append(value)
        rows = reading.records(messages)
        return _as_batch(rows, reading.type.arrow_schema())

    def _reading(self) -> _Reading:
        return _reading(self.registry, SchemaText(self.schema, self.references))


@dataclass(frozen=True)
class AvroMessages(SerializationSchema):
    """Encodes rows as Avro messages; with a registry the schema is registered under ``subject`` at the first write."""

    schema: str
    registry: SchemaRegistry | None = None
    subject: str = ""
    references: tuple[str, ...] = ()

    def encode(self, data: pa.RecordBatch, type_info: TypeInformation) -> list[bytes]:
        parsed = _written_schema(SchemaText(self.schema, self.references))
        if isinstance(type_info, ArrowTypeInfo):
            data = _in_order(data, [one["name"] for one in parsed.root["fields"]])
        return record_messages(rows_by_position(data, parsed), parsed, message_header(self))


def message_header(owner: AvroMessages) -> bytes:
    """Returns the bytes before each record: with a registry, the id of the schema."""
    if owner.registry is None:
        return b""
    return _HEADER.pack(0, _id_of(owner.registry, owner.subject, owner.schema))


def record_messages(records: Iterable[Record], schema: ParsedSchema, header: bytes) -> list[bytes]:
    """Returns a message for each record. Raises ``UserError`` for one that does not fit."""
    write = library().schemaless_writer
    found = []
    for record in records:
        stream = io.BytesIO(header)
        stream.seek(len(header))
        try:
            write(stream, schema.root, record)
        except Exception as error:
            raise UserError(f"a row does not fit the Avro schema: {type(error).__name__}: {error}: {record}") from error
        found.append(stream.getvalue())
    return found


def _in_order(data: pa.RecordBatch, names: list[str]) -> pa.RecordBatch:
    """Orders the columns of a columnar stream by the names of the record's fields. Raises ``UserError`` when the stream has others."""
    if sorted(names) != sorted(data.schema.names):
        raise UserError(
            f"the Avro schema has the fields {names}, the stream the columns {data.schema.names}: rename the columns in a select before the "
            "sink, or change the schema"
        )
    return data.select(names)


def rows_by_position(data: pa.RecordBatch, schema: ParsedSchema) -> Iterator[Record]:
    """Rows as ``fastavro`` writes them: fields by position, with the names of the record (Flink:
    ``AvroRowSerializationSchema``)."""
    for row in data.to_pylist(maps_as_pydicts="lossy"):
        yield _renamed(row, schema.root, schema)


def _renamed(value: FieldValue, kind: AvroType, schema: ParsedSchema) -> FieldValue:
    if isinstance(kind, list):
        kind = next(one for one in kind if one != "null")
    known = schema.resolved(kind)
    match value:
        case dict() if known["type"] == "record":
            fields = known["fields"]
            if len(fields) != len(value):
                raise UserError(
                    f"the Avro record {known['name']} has {len(fields)} fields, and the row of the stream {len(value)}, {list(value)}: give both "
                    "the same fields"
                )
            pairs = zip(fields, value.values(), strict=True)
            return {one["name"]: _renamed(part, one["type"], schema) for one, part in pairs}
        case dict() if known["type"] == "map":
            return {key: _renamed(part, known["values"], schema) for key, part in value.items()}
        case list() if known["type"] == "array":
            return [_renamed(part, known["items"], schema) for part in value]
        case str() if known["type"] == "fixed" and logical_type(known) == "uuid":
            return _uuid_bytes(value)
    return _short(value)


def _uuid_bytes(text: str) -> bytes:
    try:
        return UUID(text).bytes
    except ValueError as error:
        raise UserError(f"a row does not fit the Avro schema: {text!r} is not a UUID") from error


def rows_as_dicts(data: pa.RecordBatch) -> Iterator[Record]:
    """Converts rows to the form that ``fastavro`` writes. Decimals lose the zeros that tidegate's scale adds, since the schema's scale may be smaller.
    Times without a zone become UTC: ``fastavro`` would take them for times of the process's zone."""
    return map(_short, data.to_pylist(maps_as_pydicts="lossy"))


@lru_cache(maxsize=64)
def _reading(registry: SchemaRegistry | None, schema: SchemaText) -> _Reading:
    return _Reading(registry, schema)


@lru_cache(maxsize=64)
def _written_schema(schema: SchemaText) -> ParsedSchema:
    return schema.parsed()


@lru_cache(maxsize=64)
def _id_of(registry: SchemaRegistry, subject: str, schema: str) -> int:
    return registry.register(subject, schema)


def _schema_id(header: bytes, index: int) -> int:
    if len(header) != _HEADER.size or header[0] != 0:
        raise PoisonRecord(
            index, "the message does not begin with a zero and the id of a schema: it was written without a registry"
        )
    return int(_HEADER.unpack(header)[1])


def _as_batch(rows: Sequence[Mapping[str, FieldValue]], schema: pa.Schema) -> pa.RecordBatch:
    """Converts records to a batch. Raises ``PoisonRecord`` for the first row with a value that its column cannot hold."""
    try:
        return _columns(rows, schema)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        for index, row in enumerate(rows):
            for one in schema:
                try:
                    pa.array([row[one.name]], one.type)
                except (pa.ArrowException, TypeError, ValueError, OverflowError) as reason:
                    text = f"not an Avro record of its schema: the field {one.name!r}: {reason}"
                    raise PoisonRecord(index, text) from error
        raise


def _columns(rows: Sequence[Mapping[str, FieldValue]], schema: pa.Schema) -> pa.RecordBatch:
    columns = [pa.array([row[one.name] for row in rows], one.type) for one in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _short(value: FieldValue) -> FieldValue:
    match value:
        case Decimal():
            return value.normalize(EXACT)
        case datetime.datetime() if value.tzinfo is None:
            return value.replace(tzinfo=datetime.UTC)
        case dict():
            return {key: _short(inner) for key, inner in value.items()}
        case list():
            return [_short(inner) for inner in value]
    return value


def checked_schema(schema: str | None, registry: SchemaRegistry | None, subject: str) -> SchemaText:
    """Returns the given schema, or the subject's latest. Raises ``InvalidJob``, ``Unreachable``."""
    library()
    if schema is None:
        if registry is None or not subject:
            raise InvalidJob("give avro_schema_string, or schema_registry_url and subject")
        found = registry.latest(subject)
    else:
        found = SchemaText(schema)
    parsed = found.parsed()
    row_type(parsed)
    try:
        check_defaults(parsed, _ColumnValues())
    except Unresolved as error:
        raise InvalidJob(f"not an Avro schema: {error}") from error
    return found
