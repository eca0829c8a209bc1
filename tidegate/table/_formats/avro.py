"""The formats ``avro`` and ``avro-confluent`` of tables: messages and files (Flink: ``AvroRowDataDeserializationSchema``, ``AvroFileFormatFactory``).

Fields are matched by position. As in Flink 2.3, timestamps are numbers of milliseconds whatever their schema says: with ``timestamp_mapping.legacy`` =
``false`` those of more than 3 digits are declared in microseconds, and written in milliseconds.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.connectors.files.encoders import EncoderFactory, FileEncoder
from tidegate.connectors.formats.avro_files import AvroBlocks, RecordsEncoder
from tidegate.connectors.formats.avro_messages import (
    AvroMessages,
    RecordReading,
    SchemaRegistry,
    SchemaText,
    message_header,
    record_messages,
)
from tidegate.connectors.formats.avro_resolution import EXACT, Convert, Unresolved, decimal_of
from tidegate.connectors.formats.avro_resolution import Values as LogicalValues
from tidegate.connectors.formats.avro_type import AvroType, ParsedSchema, logical_type, parse
from tidegate.connectors.formats.messages import Counts, PoisonRecord, Values, objects
from tidegate.functions.sql.scalar import arrow_schema
from tidegate.model.errors import SchemaMismatch
from tidegate.model.values import Record
from tidegate.plan.logical_types import LogicalType, TypeRoot
from tidegate.table._formats.avro_json import json_message, json_record
from tidegate.table._formats.avro_schema import without_logical_types
from tidegate.table._formats.columns import as_arrays, first_poison

_MICROS_OF_MILLIS = 1000  # microseconds in one millisecond
_Raw: TypeAlias = Callable[[Any], Any]


class TableValues(LogicalValues):
    """Converts Avro logical values to those of table columns: numbers stay as they are, except timestamps in microseconds and decimals."""

    native = ()

    def logical(self, schema: AvroType) -> Convert | None:
        match logical_type(schema):
            case "decimal":
                return decimal_of(schema.get("scale", 0))
            case "local-timestamp-micros" | "timestamp-micros":
                return lambda millis: millis * _MICROS_OF_MILLIS
            case _:
                return None


@dataclass(frozen=True)
class AvroReading:
    """Decodes Avro messages to rows. ``schema``: the reader's, as JSON text. ``is_json``: messages have Avro's JSON encoding."""

    row_type: LogicalType
    schema: str
    registry: SchemaRegistry | None = None
    is_json: bool = False

    def read(self, messages: Values) -> tuple[pa.RecordBatch, Counts | None]:
        """Decodes a row from each message that has a value; bytes behind a record are ignored. Raises ``PoisonRecord``."""
        given = objects(messages)
        places = [index for index, one in enumerate(given) if one is not None]
        try:
            records = self._records([one for one in given if one is not None])
        except PoisonRecord as poison:
            raise PoisonRecord(places[poison.index], poison.reason) from poison
        batch = _batch(records, arrow_schema(self.row_type))
        if batch is None:
            raise first_poison(self.read, messages)
        if len(places) == len(given):
            return batch, None
        counts = np.zeros(len(given), np.int64)
        counts[places] = 1
        return batch, counts

    def _records(self, messages: list[bytes]) -> list[Record]:
        if not self.is_json:
            return record_reading(self.registry, self.schema).records(messages)
        schema, values, found = _parsed(self.schema), TableValues(), []
        for index, message in enumerate(messages):
            try:
                found.append(json_record(message, schema, values))
            except (Unresolved, RecursionError) as error:
                raise PoisonRecord(index, f"not an Avro record of its schema in JSON: {error}") from error
        return found


@lru_cache(maxsize=64)
def _parsed(text: str) -> ParsedSchema:
    return parse(text)


@lru_cache(maxsize=64)
def record_reading(registry: SchemaRegistry | None, schema: str) -> RecordReading:
    """Returns the decoder of messages to records of a schema, with values as tables hold them."""
    return RecordReading(registry, SchemaText(schema), TableValues(), ignores_rest=True)


def _batch(records: list[Record], schema: pa.Schema) -> pa.RecordBatch | None:
    """Converts records to a batch; ``None`` where a column cannot hold a value. Records have their fields in the order of the writer's schema."""
    rows = [tuple(record[one.name] for one in schema) for record in records]
    arrays = as_arrays(rows, schema)
    return None if arrays is None else pa.RecordBatch.from_arrays(arrays, schema=schema)


@dataclass(frozen=True)
class AvroWriting:
    """Encodes rows as Avro messages. ``schema``: as JSON text; with a registry it is registered under ``subject``. ``is_json``: messages have Avro's
    JSON encoding."""

    takes_kinds = False
    """Whether ``messages`` takes batches with a last column of row kinds."""

    row_type: LogicalType
    schema: str
    registry: SchemaRegistry | None = None
    subject: str = ""
    is_json: bool = False

    def messages(self, batch: pa.RecordBatch) -> list[bytes | None]:
        """Encodes each row as a message. Raises ``UserError`` for one that does not fit the schema."""
        records, schema = raw_records(batch, self.row_type), _raw_schema(self.schema)
        if self.is_json:
            return [json_message(one, schema) for one in records]
        header = message_header(AvroMessages(self.schema, self.registry, self.subject))
        return [*record_messages(records, schema, header)]


@lru_cache(maxsize=64)
def _raw_schema(text: str) -> ParsedSchema:
    """Parses a schema with its logical types removed."""
    return parse(json.dumps(without_logical_types(json.loads(text))))


def raw_records(batch: pa.RecordBatch, row_type: LogicalType) -> list[Record]:
    """Converts rows to records of numbers, texts and bytes, without logical types."""
    found: list[list[Any]] = []
    for column, one in zip(batch.columns, row_type.fields, strict=True):
        values = column.view(_raw_type(column.type)).to_pylist(maps_as_pydicts="lossy")
        raw = _raw(one.type)
        found.append(values if raw is None else [None if value is None else raw(value) for value in values])
    names = row_type.field_names
    if not names:
        return [{} for _ in range(batch.num_rows)]
    return [dict(zip(names, values, strict=True)) for values in zip(*found, strict=True)]


def _raw_type(type: pa.DataType) -> pa.DataType:
    """Returns an Arrow type with dates and times replaced by their integers."""
    if pa.types.is_timestamp(type):
        return pa.int64()
    if pa.types.is_date(type) or pa.types.is_time(type):
        return pa.int32()
    if pa.types.is_map(type):
        return pa.map_(type.key_type, _raw_type(type.item_type))
    if pa.types.is_list(type):
        return pa.list_(_raw_type(type.value_type))
    if pa.types.is_struct(type):
        return pa.struct([one.with_type(_raw_type(one.type)) for one in type])
    return type


def _raw(type: LogicalType) -> _Raw | None:
    """Returns the function that converts a non-null value to what Avro writes; ``None``: no conversion is needed."""
    match type.root:
        case TypeRoot.DECIMAL:
            scale = type.scale or 0
            return lambda value: _unscaled(int(value.scaleb(scale, EXACT)))
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ if (6 if type.precision is None else type.precision) > 3:
            return lambda value: value // _MICROS_OF_MILLIS
        case TypeRoot.ARRAY if element := _raw(type.element):
            each_one = _nullable(element)
            return lambda values: [each_one(value) for value in values]
        case TypeRoot.MAP if item := _raw(type.children[1]):
            each_item = _nullable(item)
            return lambda values: {key: each_item(value) for key, value in values.items()}
        case TypeRoot.ROW if each := {one.name: raw for one in type.fields if (raw := _raw(one.type))}:
            return lambda row: {
                name: value if value is None or name not in each else each[name](value) for name, value in row.items()
            }
    return None


def _nullable(raw: _Raw) -> _Raw:
    return lambda value: None if value is None else raw(value)


def _unscaled(number: int) -> bytes:
    """Returns a number as big-endian two's complement in the fewest bytes, as Java's ``BigInteger.toByteArray``."""
    length = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return number.to_bytes(length, "big", signed=True)


class AvroTableFormat(AvroBlocks):
    """Reads Avro files as rows of a table. ``schema``: the columns."""

    values = TableValues()

    def __init__(self, reading: AvroReading) -> None:
        super().__init__(parse(reading.schema))
        self.schema = arrow_schema(reading.row_type)

    def produced_type(self) -> TypeInformation:
        return Types.SCHEMA(self.schema)

    def batch(self, records: list[Record], path: str) -> pa.RecordBatch:
        """Converts records of a file to a batch. Raises ``SchemaMismatch`` for a value that its column cannot hold."""
        found = _batch(records, self.schema)
        if found is None:
            column = next(field for field in self.schema if _batch(records, pa.schema([field])) is None)
            value = next(one[column.name] for one in records if _batch([one], pa.schema([column])) is None)
            raise SchemaMismatch(
                f"{path}: the value {value!r} of column {column.name!r} is out of the range of its type, {column.type}: declare a wider type"
            )
        return found


@dataclass(frozen=True)
class AvroTableEncoderFactory(EncoderFactory):
    """Makes the encoders of Avro files, whose blocks are compressed by ``codec``."""

    writing: AvroWriting
    codec: str = "snappy"
    suffix: str = ".avro"

    def open(self, file: pa.NativeFile, schema: pa.Schema) -> FileEncoder:
        return _AvroTableEncoder(file, self.writing, self.codec)


class _AvroTableEncoder(RecordsEncoder):
    def __init__(self, file: pa.NativeFile, writing: AvroWriting, codec: str) -> None:
        whole = f'["null",{writing.schema}]'  # as Flink's, whose rows of files may be null
        super().__init__(file, parse(whole), _raw_schema(whole), codec)
        self._row_type = writing.row_type

    def records(self, data: pa.RecordBatch) -> list[Record]:
        return raw_records(data, self._row_type)
