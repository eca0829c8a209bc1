"""JSON under PyFlink's names (``pyflink.datastream.formats.json``), as builders over ours.

JsonRowDeserializationSchema.builder().type_info(Types.ROW_NAMED(["id"], [Types.LONG()])).build()
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.common.names.finding import elsewhere, finding
from tidegate.common.typeinfo import TypeInformation
from tidegate.connectors.formats.messages import JsonRowDeserializationSchema as OurDeserializationSchema
from tidegate.connectors.formats.messages import JsonRowSerializationSchema as OurSerializationSchema
from tidegate.model.errors import InvalidJob

__all__ = ["JsonRowDeserializationSchema", "JsonRowSerializationSchema"]


@dataclass
class _DeserializationBuilder:
    _type_info: TypeInformation | None = None

    def type_info(self, type_info: TypeInformation) -> _DeserializationBuilder:
        """Of rows with named fields."""
        self._type_info = type_info
        return self

    def build(self) -> OurDeserializationSchema:
        if self._type_info is None:
            raise InvalidJob("JsonRowDeserializationSchema needs type_info()")
        return OurDeserializationSchema(self._type_info)


@dataclass
class _SerializationBuilder:
    def with_type_info(self, type_info: TypeInformation) -> _SerializationBuilder:
        """The type of the stream says what is written; this is for programs that name it anyway."""
        return self

    def build(self) -> OurSerializationSchema:
        return OurSerializationSchema()


class JsonRowDeserializationSchema(OurDeserializationSchema):
    Builder = _DeserializationBuilder

    @staticmethod
    def builder() -> _DeserializationBuilder:
        return _DeserializationBuilder()


class JsonRowSerializationSchema(OurSerializationSchema):
    Builder = _SerializationBuilder

    @staticmethod
    def builder() -> _SerializationBuilder:
        return _SerializationBuilder()


__getattr__ = finding(
    __name__,
    elsewhere("tidegate.common.serialization", "DeserializationSchema SerializationSchema"),
)
