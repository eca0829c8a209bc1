"""Schemas and encoders of text (PyFlink: ``pyflink.common.serialization``)."""

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
    """How a record becomes bytes. Subclasses of a program's own need ``serialize(element) -> bytes``."""


class DeserializationSchema:
    """How bytes become a record. Subclasses of a program's own need ``deserialize(message) -> record``."""


class SimpleStringSchema(SerializationSchema, DeserializationSchema):
    """Strings to bytes and back."""

    def __init__(self, charset: str = "UTF-8") -> None:
        self.charset = _known(charset)

    def serialize(self, element: object) -> bytes:
        """Encodes ``str(element)``."""
        return str(element).encode(self.charset)

    def deserialize(self, message: bytes) -> str:
        """Decodes a message as text."""
        return message.decode(self.charset)


class ByteArraySchema(SerializationSchema, DeserializationSchema):
    """Bytes as they are."""

    def serialize(self, element: bytes) -> bytes:
        """Returns the element as bytes."""
        return bytes(element)

    def deserialize(self, message: bytes) -> bytes:
        """Returns the message."""
        return message


class RowFieldExtractorSchema(SerializationSchema):
    """One field of a row, which holds bytes: the key or the value of a message. Nothing for a missing row or a null."""

    def __init__(self, field_index: int) -> None:
        if not isinstance(field_index, int) or field_index < 0:
            raise ValueError(f"Field index must be non-negative, got {field_index!r}")
        self.field_index = field_index

    def serialize(self, element: Row | None) -> bytes:
        """Raises ``SchemaMismatch`` for a row without the field, and a field that is no bytes."""
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
    """Base of what makes writers of bulk formats for a FileSink (CSV, Avro, Parquet, ORC)."""


class RowDataBulkWriterFactory(BulkWriterFactory):
    """One for rows of a known type, which ``row_type`` holds as it was given."""

    row_type: object

    def get_row_type(self) -> object:
        """Returns the type of the rows."""
        return self.row_type


class Encoder:
    """How a row-format FileSink writes a record: as one line of text."""

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
