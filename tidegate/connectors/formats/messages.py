"""Deserialization and serialization schemas: messages of brokers as records and back, many at once.

    values (a column of bytes, or a list) ─▶ DeserializationSchema.decode ─▶ pa.RecordBatch of the produced type
    pa.RecordBatch                        ─▶ SerializationSchema.encode   ─▶ list[bytes]

A value that cannot be decoded is ``PoisonRecord``, which names its place in the list; the source decides what becomes of it. Sources call
``decoded``, and sinks ``encoded``: there every exception that a message or a record causes is turned into one of ours.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.common.serialization import SimpleStringSchema
from tidegate.common.typeinfo import RowTypeInfo, TupleTypeInfo, TypeInformation, Types
from tidegate.connectors.content import NOT_OF_CONTENT, check_content, misfit, named
from tidegate.connectors.files.json_text import (
    BOM,
    MAX_DEPTH,
    TOO_DEEP,
    is_too_deep,
    json_rows,
    json_texts,
    missing_field,
)
from tidegate.connectors.formats.json_rows import row_texts
from tidegate.model.errors import CorruptData, InvalidJob, SchemaMismatch
from tidegate.model.values import Record, UserObject
from tidegate.records.record_codec import decode as decode_records
from tidegate.records.record_codec import encode as encode_records
from tidegate.records.record_copy import record_copy

Counts: TypeAlias = npt.NDArray[np.int64]
Values: TypeAlias = Sequence[bytes | None] | pa.BinaryArray
"""The contents of messages; ``None`` or null: without one. ``objects`` converts them to a sequence of bytes."""


class PoisonRecord(Exception):
    """``values[index]`` cannot be decoded."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(reason)
        self.index = index
        self.reason = reason


def objects(values: Values) -> Sequence[bytes | None]:
    """Returns the values as Python objects, for formats that need them."""
    if not isinstance(values, pa.Array):
        return values
    found: Sequence[bytes | None] = values.to_pylist()
    return found


class DeserializationSchema(ABC):
    """Decodes messages to records. Pickled by the client, used in the reader's thread."""

    @property
    def skips_poison(self) -> bool:
        """Returns whether messages that cannot be decoded are skipped, unless the source sends them to a side output."""
        return False

    @property
    def reads_tombstones(self) -> bool:
        """Returns whether the format decodes a message without a value."""
        return False

    @abstractmethod
    def get_produced_type(self) -> TypeInformation:
        """Returns the type of the records."""

    @abstractmethod
    def decode(self, values: Values) -> pa.RecordBatch:
        """Decodes each value to one row, in order. Raises ``PoisonRecord``."""

    def decode_rows(self, values: Values) -> tuple[pa.RecordBatch, Counts | None]:
        """Decodes values to rows in their order, and returns how many rows each has; ``None`` where each has one. Raises ``PoisonRecord``."""
        return self.decode(values), None


def decoded(schema: DeserializationSchema, values: Values) -> pa.RecordBatch:
    """Decodes each value to one row. Raises ``PoisonRecord`` as ``decoded_rows`` does, and for a value with no row or several."""
    data, counts = decoded_rows(schema, values)
    if counts is not None and (counts != 1).any():
        index = int((counts != 1).argmax())
        raise PoisonRecord(
            index,
            f"the message has {counts[index] or 'no'} row{'s' * (counts[index] > 1)}, where exactly one is expected",
        )
    return data


def decoded_rows(schema: DeserializationSchema, values: Values) -> tuple[pa.RecordBatch, Counts | None]:
    """Decodes values to rows, and returns how many rows each has; ``None`` where each has one. Raises ``PoisonRecord`` for the first value for which
    ``schema`` raises anything, except errors that a message cannot cause, such as a registry that does not answer."""
    try:
        data, counts = schema.decode_rows(values)
        check_content(data, "messages")
        return data, counts
    except PoisonRecord:
        raise
    except (SchemaMismatch, CorruptData) as error:
        poison = _first_poison(schema, values)
        if poison is None:
            raise
        raise poison from error
    except NOT_OF_CONTENT:
        raise
    except Exception as error:
        poison = _first_poison(schema, values)
        raise poison or SchemaMismatch(f"messages cannot be decoded: {named(error)}") from error


def _first_poison(schema: DeserializationSchema, values: Values) -> PoisonRecord | None:
    for index in range(len(values)):
        try:
            check_content(schema.decode_rows(values[index : index + 1])[0], "the message")
        except PoisonRecord as poison:
            return PoisonRecord(index, poison.reason)
        except (SchemaMismatch, CorruptData) as error:
            return PoisonRecord(index, error.message)
        except NOT_OF_CONTENT:
            raise
        except Exception as error:  # noqa: BLE001  whatever it is: the message is the cause
            return PoisonRecord(index, named(error))
    return None


class SerializationSchema(ABC):
    """Turns records into the bytes of messages. It is pickled by the client and used in the subtask's thread."""

    @abstractmethod
    def encode(self, data: pa.RecordBatch, type_info: TypeInformation) -> pa.BinaryArray | list[bytes]:
        """Encodes each row as a message. ``type_info``: of the stream."""


def encoded(
    schema: SerializationSchema, data: pa.RecordBatch, type_info: TypeInformation
) -> pa.BinaryArray | list[bytes]:
    """Encodes each row as a message. Raises ``SchemaMismatch`` with row, column and value for a value that the format cannot write, and what a user's
    function raises."""
    if isinstance(schema, FunctionSerializationSchema):
        return schema.encode(data, type_info)
    try:
        return schema.encode(data, type_info)
    except NOT_OF_CONTENT:
        raise
    except Exception as error:
        found = misfit(data, lambda part: schema.encode(part, type_info))
        raise SchemaMismatch(f"a record cannot be written as a message: {found or 'rows'}: {named(error)}") from error


@dataclass(frozen=True)
class ByteArraySchema(DeserializationSchema, SerializationSchema):
    """Passes bytes through; a message without a value is null."""

    reads_tombstones = True

    def get_produced_type(self) -> TypeInformation:
        return Types.PRIMITIVE_ARRAY(Types.BYTE())

    def decode(self, values: Values) -> pa.RecordBatch:
        return pa.record_batch([_column(values)], schema=self.get_produced_type().arrow_schema())

    def encode(self, data: pa.RecordBatch, type_info: TypeInformation) -> pa.BinaryArray:
        return _texts_or_bytes(data, "the raw format")


@dataclass(frozen=True)
class StringSchema(DeserializationSchema, SerializationSchema):
    """Decodes and encodes text (Flink: ``SimpleStringSchema``)."""

    charset: str = "UTF-8"
    reads_tombstones = True

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
                raise PoisonRecord(
                    index, f"the message is not {self.charset} text: {error.reason} at byte {error.start}"
                ) from None
        return pa.record_batch([pa.array(texts, pa.string())], schema=schema)

    def encode(self, data: pa.RecordBatch, type_info: TypeInformation) -> pa.BinaryArray | list[bytes]:
        if data.num_columns == 1 and pa.types.is_string(data.column(0).type) and self.charset.upper() == "UTF-8":
            return _texts_or_bytes(data, "the string format")
        return [str(record).encode(self.charset) for record in decode_records(type_info, data)]


@dataclass(frozen=True)
class JsonRowDeserializationSchema(DeserializationSchema):
    """Decodes messages that are JSON objects to rows of ``type_info``: unknown fields are ignored, missing ones are null, or poison with
    ``fail_on_missing_field``. ``ignore_parse_errors``: other messages are skipped."""

    type_info: TypeInformation
    fail_on_missing_field: bool = False
    ignore_parse_errors: bool = False

    @property
    def skips_poison(self) -> bool:
        return self.ignore_parse_errors

    def get_produced_type(self) -> TypeInformation:
        return self.type_info

    def decode(self, values: Values) -> pa.RecordBatch:
        schema = self.type_info.arrow_schema()
        values = without_marks(values)
        for index in _long_ones(values):
            if is_too_deep(objects(values[index : index + 1])[0] or b""):
                raise PoisonRecord(index, TOO_DEEP)
        if self.fail_on_missing_field:
            for index, value in enumerate(objects(values)):
                if missing := missing_field(value, schema):
                    raise PoisonRecord(index, f"could not find field with name {missing!r}")
        return rows_one_by_one(values, schema, lambda content: _json_rows(content, schema), "JSON object", _no_objects)


@dataclass(frozen=True)
class JsonRowSerializationSchema(SerializationSchema):
    """Encodes rows as JSON objects with the field names of ``type_info``, by position; without it, of the stream's type."""

    type_info: TypeInformation | None = None

    def encode(self, data: pa.RecordBatch, type_info: TypeInformation) -> list[bytes]:
        written = self.type_info or type_info
        if isinstance(written, (RowTypeInfo, TupleTypeInfo)):
            return [text.encode() for text in row_texts(data, written)]
        return [text.encode() for text in json_texts(data)]


@dataclass(frozen=True)
class FunctionDeserializationSchema(DeserializationSchema):
    """Decodes messages by a user's function of their bytes, which is not called for a message without a value."""

    function: Callable[[bytes], Record]
    type_info: TypeInformation
    reads_tombstones = True

    def get_produced_type(self) -> TypeInformation:
        return self.type_info

    def decode(self, values: Values) -> pa.RecordBatch:
        records, copies = [], record_copy(self.type_info, "a deserialization schema")
        for index, value in enumerate(objects(values)):
            try:
                records.append(copies.copy(self.function(value if value is not None else b"")))
            except Exception as error:
                raise PoisonRecord(index, f"{type(error).__name__}: {error}") from error
        return encode_records(self.type_info, records)


@dataclass(frozen=True)
class FunctionSerializationSchema(SerializationSchema):
    """Encodes records by a user's function that returns bytes."""

    function: Callable[[Record], bytes]

    def encode(self, data: pa.RecordBatch, type_info: TypeInformation) -> list[bytes]:
        return [self.function(record) for record in decode_records(type_info, data)]


def deserializer_of(schema: UserObject, type_info: TypeInformation | None = None) -> DeserializationSchema:
    """Returns the deserialization schema for a program's object: tidegate's own, PyFlink's ``SimpleStringSchema``, or a function of bytes with its
    type. Raises ``InvalidJob``."""
    if isinstance(schema, DeserializationSchema):
        return schema
    if isinstance(schema, SimpleStringSchema):
        return StringSchema(schema.charset)
    if callable(getattr(schema, "deserialize", None)):
        return FunctionDeserializationSchema(schema.deserialize, type_info or Types.PICKLED_BYTE_ARRAY())
    if callable(schema):
        return FunctionDeserializationSchema(schema, type_info or Types.PICKLED_BYTE_ARRAY())
    raise InvalidJob(f"{schema!r} is not a deserialization schema; give SimpleStringSchema, a row schema or a function")


def serializer_of(schema: UserObject) -> SerializationSchema:
    """Returns the serialization schema for a program's object."""
    if isinstance(schema, SerializationSchema):
        return schema
    if isinstance(schema, SimpleStringSchema):
        return StringSchema(schema.charset)
    if callable(getattr(schema, "serialize", None)):
        return FunctionSerializationSchema(schema.serialize)
    if callable(schema):
        return FunctionSerializationSchema(schema)
    raise InvalidJob(f"{schema!r} is not a serialization schema; give SimpleStringSchema, a row schema or a function")


def _texts_or_bytes(data: pa.RecordBatch, what: str) -> pa.BinaryArray:
    kind = data.column(0).type if data.num_columns == 1 else None
    if kind is None or not (pa.types.is_binary(kind) or pa.types.is_string(kind)):
        types = ", ".join(f"{field.name} ({field.type})" for field in data.schema)
        raise InvalidJob(
            f"{what} writes one column of bytes or text, and the stream has {types}: make one of them before the sink"
        )
    return data.column(0).cast(pa.binary())


def _column(values: Values) -> pa.BinaryArray:
    return values if isinstance(values, pa.Array) else pa.array(values, pa.binary())


def one_a_line(values: Values) -> bytes:
    """Joins values to lines; a null value is an empty line."""
    if not isinstance(values, pa.Array):
        return b"\n".join(value or b"" for value in values) + b"\n"
    whole = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values.fill_null(b""))
    return bytes(pc.binary_join(whole, b"\n")[0].as_py()) + b"\n"


def without_marks(values: Values) -> Values:
    """Removes the byte order marks at the beginnings of messages."""
    if isinstance(values, pa.Array):
        if not pc.any(pc.starts_with(values, BOM)).as_py():
            return values
        return pa.array([None if value is None else value.removeprefix(BOM) for value in objects(values)], values.type)
    return [value.removeprefix(BOM) if value and value.startswith(BOM) else value for value in values]


def _long_ones(values: Values) -> list[int]:
    """Returns the indices of messages long enough to be nested too deep, which takes two bytes a level."""
    if isinstance(values, pa.Array):
        found: list[int] = pc.indices_nonzero(pc.greater(pc.binary_length(values), 2 * MAX_DEPTH)).to_pylist()
        return found
    return [index for index, value in enumerate(values) if value and len(value) > 2 * MAX_DEPTH]


def _no_objects(values: Values) -> list[int]:
    """Returns the indices of messages that do not begin and end with braces. If there are none, joined messages cannot run into each other: as many
    rows as messages then means one row each."""
    if isinstance(values, pa.Array):
        braces = pc.and_(pc.starts_with(values, b"{"), pc.ends_with(values, b"}"))
        if pc.all(pc.fill_null(braces, False)).as_py():
            return []
    texts = ((value or b"").strip(b" \t\r\n") for value in objects(values))
    return [index for index, text in enumerate(texts) if text[:1] != b"{" or text[-1:] != b"}"]


def rows_one_by_one(
    values: Values,
    schema: pa.Schema,
    parse: Callable[[bytes], pa.RecordBatch | str],
    what: str,
    doubtful: Callable[[Values], list[int]],
) -> pa.RecordBatch:
    """Decodes each value to one row: all at once, or where that fails one by one, up to the first value that is not one row. ``parse`` returns the rows
    of some bytes, or why there are none; ``doubtful`` the values that might continue on the next line. Raises ``PoisonRecord``."""
    if not len(values):
        return no_rows(schema)

    def alone(value: bytes | None) -> pa.RecordBatch | str:
        found = parse((value or b"") + b"\n")
        return f"{found.num_rows} {what}s" if isinstance(found, pa.RecordBatch) and found.num_rows != 1 else found

    doubted = (objects(values[index : index + 1])[0] for index in doubtful(values))
    if not any(isinstance(alone(value), str) for value in doubted):
        whole = parse(one_a_line(values))
        if isinstance(whole, pa.RecordBatch) and whole.num_rows == len(values):
            return whole
    rows = []
    for index, value in enumerate(objects(values)):
        found = alone(value)
        if isinstance(found, str):
            raise PoisonRecord(index, f"the message is not one {what} with the fields {schema.names}: {found}")
        rows.append(found)
    return pa.concat_batches(rows)


def _json_rows(content: bytes, schema: pa.Schema) -> pa.RecordBatch | str:
    try:
        return json_rows(content, schema, are_lines=False)
    except pa.ArrowInvalid as error:
        return str(error)


def no_rows(schema: pa.Schema) -> pa.RecordBatch:
    """Returns a batch of no rows."""
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)
