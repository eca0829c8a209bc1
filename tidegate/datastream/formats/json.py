"""JSON under PyFlink's names (``pyflink.datastream.formats.json``), as builders over ours.

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
    def __init__(self) -> None:
        self._type_info: TypeInformation | None = None
        self._fails_on_missing_field = False
        self._ignores_parse_errors = False

    def type_info(self, type_info: TypeInformation) -> _DeserializationBuilder:
        """Of rows with named fields."""
        self._type_info = type_info
        return self

    def json_schema(self, json_schema: str) -> _DeserializationBuilder:
        """Refused: types are given as Python's."""
        raise InvalidJob(
            "json_schema() is not available in tidegate, which takes the fields as types: "
            "type_info(Types.ROW_NAMED([names], [types]))"
        )

    def fail_on_missing_field(self) -> _DeserializationBuilder:
        """A message that lacks a field cannot be read; without it, the field is null."""
        self._fails_on_missing_field = True
        return self

    def ignore_parse_errors(self) -> _DeserializationBuilder:
        """Messages that cannot be read are left out, each with a line in the log."""
        self._ignores_parse_errors = True
        return self

    def build(self) -> OurDeserializationSchema:
        """Raises ``InvalidJob`` without a type, and when missing fields are both to fail and to be ignored."""
        if self._type_info is None:
            raise InvalidJob("JsonRowDeserializationSchema needs type_info()")
        if self._fails_on_missing_field and self._ignores_parse_errors:
            raise InvalidJob("fail_on_missing_field() and ignore_parse_errors() contradict each other: choose one")
        return OurDeserializationSchema(self._type_info, self._fails_on_missing_field, self._ignores_parse_errors)


@dataclass
class _SerializationBuilder:
    _type_info: TypeInformation | None = None

    def with_type_info(self, type_info: TypeInformation) -> _SerializationBuilder:
        """What is written: its names, and the stream's fields by position. Without it, the type of the stream. Raises
        ``InvalidJob`` for a type that is no row."""
        if not isinstance(type_info, RowTypeInfo):
            raise InvalidJob(f"JSON objects are rows: with_type_info(Types.ROW_NAMED(...)), not {type_info!r}")
        self._type_info = type_info
        return self

    def build(self) -> OurSerializationSchema:
        return OurSerializationSchema(self._type_info)


class JsonRowDeserializationSchema(OurDeserializationSchema):
    Builder: TypeAlias = _DeserializationBuilder

    @staticmethod
    def builder() -> _DeserializationBuilder:
        return _DeserializationBuilder()


class JsonRowSerializationSchema(OurSerializationSchema):
    Builder: TypeAlias = _SerializationBuilder

    @staticmethod
    def builder() -> _SerializationBuilder:
        return _SerializationBuilder()


__getattr__ = finding(
    __name__,
    elsewhere("tidegate.common.serialization", "DeserializationSchema SerializationSchema"),
)
