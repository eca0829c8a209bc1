"""Messages as records and back, many at once: what sources and sinks of brokers share.

    values (a column of bytes, or a list) ─▶ DeserializationSchema.decode ─▶ pa.RecordBatch of the produced type
    pa.RecordBatch                        ─▶ SerializationSchema.encode   ─▶ list[bytes]

A value that cannot be decoded is ``PoisonRecord``, which names its place in the list; the source decides what becomes of it.
"""

from __future__ import annotations

import csv
import io
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.json as pajson

from tidegate.common.record_codec import decode as decode_records
from tidegate.common.record_codec import encode as encode_records
from tidegate.common.serialization import SimpleStringSchema
from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.model.errors import InvalidJob

Values: TypeAlias = Sequence[bytes | None] | pa.BinaryArray
"""Messages' contents; ``None`` or null: without one. ``objects`` gives them one by one, whichever it is."""


class PoisonRecord(Exception):
    """``values[index]`` is not what the format expects."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(reason)
        self.index = index
        self.reason = reason


def objects(values: Values) -> Sequence[bytes | None]:
    """As Python's objects, for formats that need them."""
    if not isinstance(values, pa.Array):
        return values
    found: Sequence[bytes | None] = values.to_pylist()
    return found


class DeserializationSchema(ABC):
    """Pickled by the client, used in the reader's thread."""

    @abstractmethod
    def get_produced_type(self) -> TypeInformation: ...

    @abstractmethod
    def decode(self, values: Values) -> pa.RecordBatch:
        """One row for each value, in order. Raises ``PoisonRecord``."""


class SerializationSchema(ABC):
    @abstractmethod
    def encode(self, data: pa.RecordBatch, type_info: TypeInformation) -> pa.BinaryArray | list[bytes]:
        """One message for each row. ``type_info`` is of the stream."""


@dataclass(frozen=True)
class ByteArraySchema(DeserializationSchema, SerializationSchema):
    """Bytes as they are; a message without value is null."""

    def get_produced_type(self) -> TypeInformation:
        return Types.PRIMITIVE_ARRAY(Types.BYTE())

    def decode(self, values: Values) -> pa.RecordBatch:
        return pa.record_batch([_column(values)], schema=self.get_produced_type().arrow_schema())

    def encode(self, data: pa.RecordBatch, type_info: TypeInformation) -> pa.BinaryArray:
        return _texts_or_bytes(data, "the raw format")


@dataclass(frozen=True)
class StringSchema(DeserializationSchema, SerializationSchema):
    """``SimpleStringSchema``."""

    charset: str = "UTF-8"

    def get_produced_type(self) -> TypeInformation:
        return Types.STRING()

    def decode(self, values: Values) -> pa.RecordBatch:
        schema = self.get_produced_type().arrow_schema()
        if self.charset.upper() in ("UTF-8", "UTF8"):
            try:
                return pa.record_batch([_column(values).cast(pa.string())], schema=schema)
            except pa.ArrowInvalid:
                pass  # which one it is, the slow way tells
        texts = []
        for index, value in enumerate(objects(values)):
            try:
                texts.append(None if value is None else value.decode(self.charset))
            except UnicodeDecodeError as error:
                raise PoisonRecord(index, f"not {self.charset} text: {error.reason} at byte {error.start}") from None
        return pa.record_batch([pa.array(texts, pa.string())], schema=schema)

    def encode(self, data: pa.RecordBatch, type_info: TypeInformation) -> pa.BinaryArray | list[bytes]:
        if data.num_columns == 1 and pa.types.is_string(data.column(0).type) and self.charset.upper() == "UTF-8":
            return _texts_or_bytes(data, "the string format")
        return [str(record).encode(self.charset) for record in decode_records(type_info, data)]


@dataclass(frozen=True)
class JsonRowDeserializationSchema(DeserializationSchema):
    """A JSON object a message, as a row of ``type_info``'s fields: others are ignored, missing ones are null."""

    type_info: TypeInformation

    def get_produced_type(self) -> TypeInformation:
        return self.type_info

    def decode(self, values: Values) -> pa.RecordBatch:
        schema = self.type_info.arrow_schema()
        if not len(values):
            return _no_rows(schema)
        whole = _json_rows(_lines(values), schema)
        if isinstance(whole, pa.RecordBatch) and whole.num_rows == len(values):
            return whole
        for index, value in enumerate(objects(values)):
            alone = _json_rows(value or b"", schema)
            if not isinstance(alone, pa.RecordBatch) or alone.num_rows != 1:
                rows = f"{alone.num_rows} JSON objects" if isinstance(alone, pa.RecordBatch) else alone
                raise PoisonRecord(index, f"not one JSON object with the fields {schema.names}: {rows}")
        raise PoisonRecord(0, f"the messages are not JSON objects one by one: {whole}")


@dataclass(frozen=True)
class JsonRowSerializationSchema(SerializationSchema):
    """Rows as JSON objects; values that JSON lacks (dates, decimals) are written as their texts."""

    def encode(self, data: pa.RecordBatch, type_info: TypeInformation) -> list[bytes]:
        dump = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode
        return [dump(row).encode() for row in data.to_pylist()]


@dataclass(frozen=True)
class CsvRowDeserializationSchema(DeserializationSchema):
    """A line of CSV a message, with the fields of ``type_info`` in order."""

    type_info: TypeInformation
    field_delimiter: str = ","
    null_literal: str = ""

    def get_produced_type(self) -> TypeInformation:
        return self.type_info

    def decode(self, values: Values) -> pa.RecordBatch:
        schema = self.type_info.arrow_schema()
        if not len(values):
            return _no_rows(schema)
        whole = self._rows(_lines(values), schema)
        if isinstance(whole, pa.RecordBatch) and whole.num_rows == len(values):
            return whole
        for index, value in enumerate(objects(values)):
            alone = self._rows((value or b"") + b"\n", schema)
            if not isinstance(alone, pa.RecordBatch) or alone.num_rows != 1:
                rows = f"{alone.num_rows} lines" if isinstance(alone, pa.RecordBatch) else alone
                raise PoisonRecord(index, f"not one CSV line with the fields {schema.names}: {rows}")
        raise PoisonRecord(0, f"the messages are not CSV lines one by one: {whole}")

    def _rows(self, content: bytes, schema: pa.Schema) -> pa.RecordBatch | str:
        try:
            table = pacsv.read_csv(
                io.BytesIO(content),
                read_options=pacsv.ReadOptions(
                    column_names=schema.names, use_threads=False, block_size=len(content) + 1
                ),
                parse_options=pacsv.ParseOptions(
                    delimiter=self.field_delimiter, newlines_in_values=True, ignore_empty_lines=False
                ),
                convert_options=pacsv.ConvertOptions(
                    column_types=schema, null_values=[self.null_literal], strings_can_be_null=True
                ),
            )
        except pa.ArrowInvalid as error:
            return str(error)
        return _one_batch(table, schema)


@dataclass(frozen=True)
class CsvRowSerializationSchema(SerializationSchema):
    field_delimiter: str = ","

    def encode(self, data: pa.RecordBatch, type_info: TypeInformation) -> list[bytes]:
        line = io.StringIO()
        writer = csv.writer(line, delimiter=self.field_delimiter, lineterminator="")
        found = []
        for row in zip(*(column.to_pylist() for column in data.columns), strict=True):
            writer.writerow(row)
            found.append(line.getvalue().encode())
            line.seek(0)
            line.truncate()
        return found


@dataclass(frozen=True)
class FunctionDeserializationSchema(DeserializationSchema):
    """A user's function of one message's bytes."""

    function: Callable[[bytes], Any]
    type_info: TypeInformation

    def get_produced_type(self) -> TypeInformation:
        return self.type_info

    def decode(self, values: Values) -> pa.RecordBatch:
        records = []
        for index, value in enumerate(objects(values)):
            try:
                records.append(self.function(value if value is not None else b""))
            except Exception as error:
                raise PoisonRecord(index, f"{type(error).__name__}: {error}") from error
        return encode_records(self.type_info, records)


@dataclass(frozen=True)
class FunctionSerializationSchema(SerializationSchema):
    """A user's function of one record that gives bytes."""

    function: Callable[[Any], bytes]

    def encode(self, data: pa.RecordBatch, type_info: TypeInformation) -> list[bytes]:
        return [self.function(record) for record in decode_records(type_info, data)]


def deserializer_of(schema: Any, type_info: TypeInformation | None = None) -> DeserializationSchema:
    """Ours, PyFlink's ``SimpleStringSchema``, or a function of bytes with its type. Raises ``InvalidJob``."""
    if isinstance(schema, DeserializationSchema):
        return schema
    if isinstance(schema, SimpleStringSchema):
        return StringSchema(schema.charset)
    if callable(getattr(schema, "deserialize", None)):
        return FunctionDeserializationSchema(schema.deserialize, type_info or Types.PICKLED_BYTE_ARRAY())
    if callable(schema):
        return FunctionDeserializationSchema(schema, type_info or Types.PICKLED_BYTE_ARRAY())
    raise InvalidJob(f"{schema!r} is no deserialization schema; give SimpleStringSchema, a row schema or a function")


def serializer_of(schema: Any) -> SerializationSchema:
    """Likewise for writing."""
    if isinstance(schema, SerializationSchema):
        return schema
    if isinstance(schema, SimpleStringSchema):
        return StringSchema(schema.charset)
    if callable(getattr(schema, "serialize", None)):
        return FunctionSerializationSchema(schema.serialize)
    if callable(schema):
        return FunctionSerializationSchema(schema)
    raise InvalidJob(f"{schema!r} is no serialization schema; give SimpleStringSchema, a row schema or a function")


def _texts_or_bytes(data: pa.RecordBatch, what: str) -> pa.BinaryArray:
    kind = data.column(0).type if data.num_columns == 1 else None
    if kind is None or not (pa.types.is_binary(kind) or pa.types.is_string(kind)):
        raise InvalidJob(f"{what} writes one column of bytes or text, not {data.schema.names} of {data.schema.types}")
    return data.column(0).cast(pa.binary())


def _column(values: Values) -> pa.BinaryArray:
    return values if isinstance(values, pa.Array) else pa.array(values, pa.binary())


def _lines(values: Values) -> bytes:
    """One value a line; none at all is an empty one."""
    if not isinstance(values, pa.Array):
        return b"\n".join(value or b"" for value in values) + b"\n"
    whole = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values.fill_null(b""))
    return bytes(pc.binary_join(whole, b"\n")[0].as_py()) + b"\n"


def _json_rows(content: bytes, schema: pa.Schema) -> pa.RecordBatch | str:
    try:
        table = pajson.read_json(
            io.BytesIO(content),
            read_options=pajson.ReadOptions(use_threads=False, block_size=len(content) + 1),
            parse_options=pajson.ParseOptions(
                explicit_schema=schema, unexpected_field_behavior="ignore", newlines_in_values=True
            ),
        )
    except pa.ArrowInvalid as error:
        return str(error)
    return _one_batch(table.select(schema.names), schema)


def _one_batch(table: pa.Table, schema: pa.Schema) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return pa.RecordBatch.from_arrays(batches[0].columns, schema=schema) if batches else _no_rows(schema)


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)
