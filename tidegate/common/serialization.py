"""Schemas and text encoders of records (PyFlink: ``pyflink.common.serialization``)."""

from __future__ import annotations

from tidegate.common.row import Row
from tidegate.model.errors import InvalidJob, SchemaMismatch

__all__ = [
    "BulkWriterFactory",
    "ByteArraySchema",
    "DeserializationSchema",
    "Encoder",
    "RowDataBulkWriterFactory",
    "RowFieldExtractorSchema",
    "SerializationSchema",
    "SimpleStringSchema",
]


class SerializationSchema:
    """Serializes records as bytes. Subclasses in programs implement ``serialize(element) -> bytes``."""


class DeserializationSchema:
    """Deserializes records from bytes. Subclasses in programs implement ``deserialize(message) -> record``."""


class SimpleStringSchema(SerializationSchema, DeserializationSchema):
    """Serializes and deserializes text."""

    def __init__(self, charset: str = "UTF-8") -> None:
        self.charset = _known(charset)

    def serialize(self, element: object) -> bytes:
        """Encodes ``str(element)``."""
        return str(element).encode(self.charset)

    def deserialize(self, message: bytes) -> str:
        """Decodes a message as text."""
        return message.decode(self.charset)


class ByteArraySchema(SerializationSchema, DeserializationSchema):
    """Passes bytes unchanged."""

    def serialize(self, element: bytes) -> bytes:
        """Returns the element as bytes."""
        return bytes(element)

    def deserialize(self, message: bytes) -> bytes:
        """Returns the message."""
        return message


class RowFieldExtractorSchema(SerializationSchema):
    """Serializes one field of a row, which holds bytes, as the key or the value of a message; ``None`` for a missing row or a null."""

    def __init__(self, field_index: int) -> None:
        if not isinstance(field_index, int) or field_index < 0:
            raise ValueError(f"Field index must be non-negative, got {field_index!r}")
        self.field_index = field_index

    def serialize(self, element: Row | None) -> bytes:
        """Returns the bytes of the field. Raises ``SchemaMismatch`` for a row without the field, and for a field without bytes."""
        if element is None:
            return b""
        if self.field_index >= len(element):
            raise SchemaMismatch(f"Cannot access field {self.field_index} in Row with arity {len(element)}")
        field = element[self.field_index]
        if field is not None and not isinstance(field, (bytes, bytearray)):
            raise SchemaMismatch(
                f"Field at index {self.field_index} must be of type bytes, but was {type(field).__name__}"
            )
        return bytes(field or b"")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowFieldExtractorSchema) and self.field_index == other.field_index

    def __hash__(self) -> int:
        return hash(self.field_index)


class BulkWriterFactory:
    """Base of the factories of bulk-format writers for a FileSink (CSV, Avro, Parquet, ORC)."""


class RowDataBulkWriterFactory(BulkWriterFactory):
    """A factory of bulk-format writers for rows. ``row_type``: the type as the program gave it."""

    row_type: object

    def get_row_type(self) -> object:
        """Returns the type of the rows."""
        return self.row_type


class Encoder:
    """Encodes records for a row-format FileSink as lines of text."""

    def __init__(self, charset: str) -> None:
        self.charset = _known(charset)

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8") -> Encoder:
        """Returns the encoder that writes ``str(record)`` and a line end."""
        return Encoder(charset_name)


def _known(charset: str) -> str:
    try:
        "".encode(charset)
    except LookupError:
        raise InvalidJob(f"unknown character set {charset!r}; UTF-8 is the usual one") from None
    return charset
