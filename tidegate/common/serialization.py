"""Schemas and encoders of text (PyFlink: ``pyflink.common.serialization``)."""

from __future__ import annotations

from tidegate.model.errors import InvalidJob

__all__ = ["Encoder", "SimpleStringSchema"]


class SimpleStringSchema:
    """Strings to bytes and back."""

    def __init__(self, charset: str = "UTF-8") -> None:
        self.charset = _known(charset)

    def serialize(self, element: object) -> bytes:
        return str(element).encode(self.charset)

    def deserialize(self, message: bytes) -> str:
        return message.decode(self.charset)


class Encoder:
    """How a row-format FileSink writes a record: as one line of text."""

    def __init__(self, charset: str) -> None:
        self.charset = _known(charset)

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8") -> Encoder:
        return Encoder(charset_name)


def _known(charset: str) -> str:
    try:
        "".encode(charset)
    except LookupError:
        raise InvalidJob(f"unknown character set {charset!r}; UTF-8 is the usual one") from None
    return charset
