"""Protobuf messages as rows and back, on ``protobuf``, with the options of Flink's format ``protobuf``.

    bytes ─▶ message ─▶ a row of the fields that are asked for        protobuf.ignore-parse-errors, protobuf.read-default-values
    row   ─▶ message ─▶ bytes                                         protobuf.write-null-string-literal

Reading: a field that was not written is null. In proto3 a field of a simple type is never null, but has its default, since Flink asks
there for no presence. With ``read_default_values`` nothing is null. Writing: a null field is not written; a null within a list or a
map is the default of its type, and of texts what ``write_null_string_literal`` says; a name or number that an enum does not have is
the first of the enum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import pyarrow as pa
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import DecodeError, EncodeError, Message

from tidegate.common.typeinfo import TypeInformation
from tidegate.connectors.formats.messages import (
    DeserializationSchema,
    PoisonRecord,
    SerializationSchema,
    Values,
    objects,
)
from tidegate.connectors.formats.protobuf_type import MessageType, check_row, entry_of, is_map, is_repeated
from tidegate.model.errors import InvalidJob, UserError
from tidegate.model.values import FieldValue

Read: TypeAlias = Callable[[FieldValue], FieldValue]
"""Converts a value of protobuf to what Arrow accepts."""
Write: TypeAlias = Callable[[FieldValue], FieldValue]
"""Converts a value of a row to what protobuf accepts."""
ReadField: TypeAlias = Callable[[Message], FieldValue]
WriteField: TypeAlias = Callable[[Message, FieldValue], None]

_SIGN = {FieldDescriptor.CPPTYPE_UINT32: 1 << 31, FieldDescriptor.CPPTYPE_UINT64: 1 << 63}


@dataclass(frozen=True)
class ProtobufRows(DeserializationSchema):
    """Decodes Protobuf messages to rows. ``type_info``: the row of the wanted fields."""

    message: MessageType
    type_info: TypeInformation
    ignore_parse_errors: bool = False
    read_default_values: bool = False

    def __post_init__(self) -> None:
        check_row(self.message.descriptor(), pa.struct(list(self.type_info.arrow_schema())))

    @property
    def skips_poison(self) -> bool:
        return self.ignore_parse_errors

    def get_produced_type(self) -> TypeInformation:
        return self.type_info

    def decode(self, values: Values) -> pa.RecordBatch:
        parse = self.message.message_class().FromString
        messages = []
        for index, value in enumerate(objects(values)):
            if value is None:
                raise PoisonRecord(index, f"the message has no value, so it is not a {self.message.name}")
            try:
                messages.append(parse(value))
            except DecodeError as error:
                raise PoisonRecord(index, f"the message is not a {self.message.name}: {error}") from None
        return self.batch_of(messages)

    def batch_of(self, messages: Iterable[Message]) -> pa.RecordBatch:
        """Converts each message to a row."""
        schema, listed = self.type_info.arrow_schema(), list(messages)
        reads = _readers(self.message, schema, self.read_default_values)
        columns = [
            pa.array([read(message) for message in listed], field.type)
            for field, read in zip(schema, reads, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)


@dataclass(frozen=True)
class ProtobufMessages(SerializationSchema):
    """Encodes rows as Protobuf messages, whose fields have the rows' names. ``type_info``: of what is written, by position; ``None``: of the stream."""

    message: MessageType
    type_info: TypeInformation | None = None
    write_null_string_literal: str = ""

    def encode(self, data: pa.RecordBatch, type_info: TypeInformation) -> list[bytes]:
        return self.contents_of(data)

    def contents_of(self, data: pa.RecordBatch) -> list[bytes]:
        """Encodes each row as bytes. Raises ``InvalidJob`` when the columns do not fit the message, and ``UserError`` for a value that does not."""
        return [_bytes_of(message) for message in self._messages_of(data)]

    def check(self, stream: pa.Schema) -> pa.Schema:
        """Returns the columns under the message's field names. Raises ``InvalidJob`` when they do not fit the message."""
        schema = stream if self.type_info is None else self.type_info.arrow_schema()
        if len(schema) != len(stream):
            raise InvalidJob(
                f"the type_info of the Protobuf rows has the fields {schema.names}, and the stream the columns {stream.names}: declare a field for "
                "each column"
            )
        _writers(self.message, schema, self.write_null_string_literal)
        return schema

    def _messages_of(self, data: pa.RecordBatch) -> Iterable[Message]:
        schema = self.check(data.schema)
        made, writes = self.message.message_class(), _writers(self.message, schema, self.write_null_string_literal)
        columns = [column.to_pylist() for column in data.columns]
        for values in zip(*columns, strict=True):
            message = made()
            for name, write, value in zip(schema.names, writes, values, strict=True):
                if value is not None:
                    try:
                        write(message, value)
                    except (TypeError, ValueError) as error:
                        raise UserError(f"{name!r} of {self.message.name} cannot be {value!r:.100}: {error}") from error
            yield message


def _bytes_of(message: Message) -> bytes:
    """Serializes a message, with map entries ordered by key, so that equal rows have equal bytes."""
    try:
        return message.SerializeToString(deterministic=True)
    except EncodeError as error:
        raise UserError(f"the row lacks required fields of {message.DESCRIPTOR.full_name}: {error}") from error


# ---- reading -----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _readers(message: MessageType, schema: pa.Schema, defaults: bool) -> list[ReadField]:
    return [_field_reader(_field(message.descriptor(), one.name), one.type, defaults) for one in schema]


def _field_reader(one: FieldDescriptor, kind: pa.DataType, defaults: bool) -> ReadField:
    name = one.name
    if is_map(one):
        key_field, value_field = entry_of(one)
        key, value = (
            _reader(key_field, kind.key_type, defaults),
            _map_value_reader(value_field, kind.item_type, defaults),
        )

        def read_map(message: Message) -> FieldValue:
            found = getattr(message, name)
            return [(key(k), value(found, k)) for k in found] if found or defaults else None

        return read_map
    if is_repeated(one):
        read = _reader(one, kind.value_type, defaults)

        def read_list(message: Message) -> FieldValue:
            found = getattr(message, name)
            return [read(element) for element in found] if found or defaults else None

        return read_list
    read = _reader(one, kind, defaults)
    if defaults or (one.message_type is None and not _asks_for_presence(one)):
        return lambda message: read(getattr(message, name))
    return lambda message: read(getattr(message, name)) if message.HasField(name) else None


def _map_value_reader(
    one: FieldDescriptor, kind: pa.DataType, defaults: bool
) -> Callable[[FieldValue, FieldValue], FieldValue]:
    read = _reader(one, kind, defaults)
    return lambda found, key: read(found[key])


def _reader(one: FieldDescriptor, kind: pa.DataType, defaults: bool) -> Read:
    if one.message_type is not None:
        reads = [
            (field.name, _field_reader(_field(one.message_type, field.name), field.type, defaults)) for field in kind
        ]
        return lambda message: {name: read(message) for name, read in reads}
    if one.enum_type is not None and pa.types.is_string(kind):
        names = {
            value.number: value.name for value in reversed(one.enum_type.values)
        }  # of aliases the first, as in Java
        return lambda number: names.get(number, _UNRECOGNIZED)
    if one.type == FieldDescriptor.TYPE_STRING and not _is_proto3(one):
        return _text
    sign = _SIGN.get(one.cpp_type)
    if sign is not None and not (sign == 1 << 31 and pa.types.is_int64(kind)):
        return lambda number: number if number < sign else number - 2 * sign
    return lambda value: value


def _text(value: str | bytes) -> str:
    """Decodes a text; in proto2 it may be invalid UTF-8 and comes as bytes, where Java puts replacement characters."""
    return value if isinstance(value, str) else value.decode("utf-8", "replace")


_UNRECOGNIZED = "UNRECOGNIZED"
"""Java's name of a number that is not in an enum."""


def _asks_for_presence(one: FieldDescriptor) -> bool:
    """Returns whether a missing field is null; as in Flink, simple types in proto3 read as their default, even where they are ``optional`` or in a
    ``oneof``."""
    return bool(one.has_presence) and not _is_proto3(one)


def _is_proto3(one: FieldDescriptor) -> bool:
    assert one.containing_type is not None
    file = descriptor_pb2.FileDescriptorProto()
    one.containing_type.file.CopyToProto(file)
    return file.syntax == "proto3"


# ---- writing -----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _writers(message: MessageType, schema: pa.Schema, null_text: str) -> list[WriteField]:
    check_row(message.descriptor(), pa.struct(list(schema)))
    return [_field_writer(_field(message.descriptor(), one.name), one.type, null_text) for one in schema]


def _field_writer(one: FieldDescriptor, kind: pa.DataType, null_text: str) -> WriteField:
    name = one.name
    if is_map(one):
        return _map_writer(one, kind, null_text)
    if one.message_type is not None:
        fill = _filler(one.message_type, kind.value_type if is_repeated(one) else kind, null_text)
        if not is_repeated(one):

            def write_message(message: Message, value: FieldValue) -> None:
                inner = getattr(message, name)
                inner.SetInParent()
                fill(inner, value)

            return write_message

        def write_messages(message: Message, values: FieldValue) -> None:
            for value in values:
                inner = getattr(message, name).add()
                if value is not None:
                    fill(inner, value)

        return write_messages
    if is_repeated(one):
        write = _writer(one, kind.value_type)
        default = _default(one, null_text)
        return lambda message, values: getattr(message, name).extend(
            default if value is None else write(value) for value in values
        )
    write = _writer(one, kind)
    return lambda message, value: setattr(message, name, write(value))


def _map_writer(one: FieldDescriptor, kind: pa.DataType, null_text: str) -> WriteField:
    name, (key, value) = one.name, entry_of(one)
    write_key, default_key = _writer(key, kind.key_type), _default(key, null_text)
    fill = None if value.message_type is None else _filler(value.message_type, kind.item_type, null_text)
    write_value = None if fill is not None else _writer(value, kind.item_type)
    default_value = None if fill is not None else _default(value, null_text)

    def write_map(message: Message, pairs: FieldValue) -> None:
        found = getattr(message, name)
        for k, v in pairs.items() if isinstance(pairs, dict) else pairs:
            at = default_key if k is None else write_key(k)
            if fill is None:
                assert write_value is not None
                found[at] = default_value if v is None else write_value(v)
            else:
                inner = found[at]
                if v is not None:
                    fill(inner, v)

    return write_map


def _filler(message: Descriptor, kind: pa.DataType, null_text: str) -> WriteField:
    writes = [(field.name, _field_writer(_field(message, field.name), field.type, null_text)) for field in kind]

    def fill(inner: Message, value: FieldValue) -> None:
        for name, write in writes:
            part = value[name]
            if part is not None:
                write(inner, part)

    return fill


def _writer(one: FieldDescriptor, kind: pa.DataType) -> Write:
    """Returns the converter that writes one simple value."""
    if one.enum_type is not None:
        return _enum_writer(one.enum_type, is_text=bool(pa.types.is_string(kind)))
    sign = _SIGN.get(one.cpp_type)
    if sign is not None:
        return lambda number: number if number >= 0 else number + 2 * sign
    return lambda value: value


def _enum_writer(enum: EnumDescriptor, *, is_text: bool) -> Write:
    first = enum.values[0].number
    if is_text:
        numbers = {value.name: value.number for value in enum.values}
        return lambda name: numbers.get(name, first)
    known = set(enum.values_by_number)
    return lambda number: number if number in known else first


def _default(one: FieldDescriptor, null_text: str) -> FieldValue:
    """Returns the value written for a null within a list or a map."""
    if one.enum_type is not None:
        return one.enum_type.values[0].number
    if one.type == FieldDescriptor.TYPE_STRING:
        return null_text
    if one.type == FieldDescriptor.TYPE_BYTES:
        return b""
    return False if one.type == FieldDescriptor.TYPE_BOOL else 0


def _field(message: Descriptor, name: str) -> FieldDescriptor:
    found = message.fields_by_name[name]
    assert isinstance(found, FieldDescriptor)
    return found
