"""Protobuf messages and files, with the options of Flink's format ``protobuf``.

    ProtobufRowDeserializationSchema(orders_pb2.Order)                                      a generated class
    ProtobufRowDeserializationSchema(descriptor_file="orders.desc", message_name="shop.Order")   without one
    ProtobufRowSerializationSchema(orders_pb2.Order, write_null_string_literal="n/a")

    env.from_source(FileSource.for_record_stream_format(ProtobufReaderFormat(orders_pb2.Order), "in").build(), ...)
    FileSink.for_bulk_format("out", ProtobufBulkWriters.for_messages(orders_pb2.Order)).build()

PyFlink has no names for it: Flink's format belongs to its Table API. Subtasks do not need the generated module.
"""

from __future__ import annotations

from functools import partial

from tidegate.common.names.shipping import Shipped, shipped_as
from tidegate.common.serialization import BulkWriterFactory
from tidegate.common.typeinfo import TypeInformation
from tidegate.connectors.formats.protobuf_files import ProtobufEncoderFactory, ProtobufFileFormat
from tidegate.connectors.formats.protobuf_messages import ProtobufMessages, ProtobufRows
from tidegate.connectors.formats.protobuf_type import MessageType
from tidegate.datastream.connectors.bulk_writers import EncodedBulkWriterFactory
from tidegate.datastream.connectors.file_system import StreamFormat
from tidegate.model.errors import InvalidJob

__all__ = [
    "ProtobufBulkWriters",
    "ProtobufReaderFormat",
    "ProtobufRowDeserializationSchema",
    "ProtobufRowSerializationSchema",
]


class ProtobufRowDeserializationSchema(ProtobufRows):
    """Decodes Protobuf messages to rows. ``type_info``: the wanted fields, by name; all by default. Raises ``InvalidJob``.

    ``ignore_parse_errors`` (``protobuf.ignore-parse-errors``): what is no such message is left out. ``read_default_values``
    (``protobuf.read-default-values``): fields that were not written have their defaults, and are not null.
    """

    def __init__(
        self,
        message_class: object = None,
        *,
        descriptor_file: str = "",
        message_name: str = "",
        type_info: TypeInformation | None = None,
        ignore_parse_errors: bool = False,
        read_default_values: bool = False,
    ) -> None:
        message = _message(message_class, descriptor_file, message_name)
        super().__init__(message, type_info or message.row_type(), ignore_parse_errors, read_default_values)

    def __reduce__(self) -> Shipped:
        return shipped_as(ProtobufRows, self)


class ProtobufRowSerializationSchema(ProtobufMessages):
    """Encodes rows as Protobuf messages, whose fields are matched by name: those of ``type_info`` by position, or those of the stream. Raises
    ``InvalidJob``.

    ``write_null_string_literal`` (``protobuf.write-null-string-literal``): what a null text within a list or a map is.
    """

    def __init__(
        self,
        message_class: object = None,
        *,
        descriptor_file: str = "",
        message_name: str = "",
        type_info: TypeInformation | None = None,
        write_null_string_literal: str = "",
    ) -> None:
        message = _message(message_class, descriptor_file, message_name)
        super().__init__(message, type_info, write_null_string_literal)

    def __reduce__(self) -> Shipped:
        return shipped_as(ProtobufMessages, self)


class ProtobufReaderFormat(StreamFormat):
    """Reads files of Protobuf messages, each preceded by its length, for ``FileSource.for_record_stream_format``."""

    def __init__(
        self,
        message_class: object = None,
        *,
        descriptor_file: str = "",
        message_name: str = "",
        type_info: TypeInformation | None = None,
        ignore_parse_errors: bool = False,
        read_default_values: bool = False,
    ) -> None:
        message = _message(message_class, descriptor_file, message_name)
        rows = ProtobufRows(message, type_info or message.row_type(), ignore_parse_errors, read_default_values)
        super().__init__(ProtobufFileFormat(rows))


class ProtobufBulkWriters:
    """Writes files of Protobuf messages, each preceded by its length, for ``FileSink.for_bulk_format``."""

    @staticmethod
    def for_messages(
        message_class: object = None,
        *,
        descriptor_file: str = "",
        message_name: str = "",
        write_null_string_literal: str = "",
    ) -> BulkWriterFactory:
        """Returns the factory of writers of rows whose fields have names of the message's. Other columns raise ``SchemaMismatch``."""
        message = _message(message_class, descriptor_file, message_name)
        messages = ProtobufMessages(message, None, write_null_string_literal)
        return EncodedBulkWriterFactory(partial(ProtobufEncoderFactory, messages))


def _message(message_class: object, descriptor_file: str, message_name: str) -> MessageType:
    if message_class is not None and not descriptor_file and not message_name:
        return MessageType.of(message_class)
    if message_class is None and descriptor_file and message_name:
        return MessageType.from_file(descriptor_file, message_name)
    raise InvalidJob("give a generated class of a Protobuf message, or both descriptor_file and message_name")
