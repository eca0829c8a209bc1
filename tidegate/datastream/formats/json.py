"""JSON schemas under PyFlink's names (``pyflink.datastream.formats.json``), as builders of tidegate's formats.

JsonRowDeserializationSchema.builder().type_info(Types.ROW_NAMED(["id"], [Types.LONG()])).build()
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tidegate.common.names.finding import elsewhere, finding
from tidegate.common.typeinfo import RowTypeInfo, TypeInformation
from tidegate.connectors.formats.messages import JsonRowDeserializationSchema as OurDeserializationSchema
from tidegate.connectors.formats.messages import JsonRowSerializationSchema as OurSerializationSchema
from tidegate.model.errors import InvalidJob

__all__ = ["JsonRowDeserializationSchema", "JsonRowSerializationSchema"]


class _DeserializationBuilder:
    """Builds a ``JsonRowDeserializationSchema``."""

    def __init__(self) -> None:
        self._type_info: TypeInformation | None = None
        self._fails_on_missing_field = False
        self._ignores_parse_errors = False

    def type_info(self, type_info: TypeInformation) -> _DeserializationBuilder:
        """Sets the type of the messages: rows with named fields."""
        self._type_info = type_info
        return self

    def json_schema(self, json_schema: str) -> _DeserializationBuilder:
        """Raises ``InvalidJob``: the fields must be given as types."""
        raise InvalidJob(
            "json_schema() is not available in tidegate, which takes the fields as types: "
            "type_info(Types.ROW_NAMED([names], [types]))"
        )

    def fail_on_missing_field(self) -> _DeserializationBuilder:
        """Treats a message that lacks a field as invalid; without this, the field is null."""
        self._fails_on_missing_field = True
        return self

    def ignore_parse_errors(self) -> _DeserializationBuilder:
        """Skips messages that cannot be decoded, each with a line in the log."""
        self._ignores_parse_errors = True
        return self

    def build(self) -> OurDeserializationSchema:
        """Returns the schema. Raises ``InvalidJob`` without a type, and when missing fields are both to fail and to be
        ignored."""
        if self._type_info is None:
            raise InvalidJob("JsonRowDeserializationSchema needs type_info()")
        if self._fails_on_missing_field and self._ignores_parse_errors:
            raise InvalidJob("fail_on_missing_field() and ignore_parse_errors() contradict each other: choose one")
        return OurDeserializationSchema(self._type_info, self._fails_on_missing_field, self._ignores_parse_errors)


@dataclass
class _SerializationBuilder:
    """Builds a ``JsonRowSerializationSchema``."""

    _type_info: TypeInformation | None = None

    def with_type_info(self, type_info: TypeInformation) -> _SerializationBuilder:
        """Sets the names that are written for the stream's fields, by position; without it, the stream's own names are.
        Raises ``InvalidJob`` for a type that is not a row."""
        if not isinstance(type_info, RowTypeInfo):
            raise InvalidJob(f"JSON objects are rows: with_type_info(Types.ROW_NAMED(...)), not {type_info!r}")
        self._type_info = type_info
        return self

    def build(self) -> OurSerializationSchema:
        """Returns the schema."""
        return OurSerializationSchema(self._type_info)


class JsonRowDeserializationSchema(OurDeserializationSchema):
    """Reads a message as a JSON object and returns a ``Row`` (PyFlink: ``JsonRowDeserializationSchema``)."""

    Builder: TypeAlias = _DeserializationBuilder

    @staticmethod
    def builder() -> _DeserializationBuilder:
        """Returns a builder; ``type_info`` sets the fields that are read."""
        return _DeserializationBuilder()


class JsonRowSerializationSchema(OurSerializationSchema):
    """Writes a ``Row`` as a JSON object (PyFlink: ``JsonRowSerializationSchema``)."""

    Builder: TypeAlias = _SerializationBuilder

    @staticmethod
    def builder() -> _SerializationBuilder:
        """Returns a builder; ``with_type_info`` names the fields."""
        return _SerializationBuilder()


__getattr__ = finding(
    __name__,
    elsewhere("tidegate.common.serialization", "DeserializationSchema SerializationSchema"),
)
