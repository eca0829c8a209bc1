"""CSV under PyFlink's names (``pyflink.datastream.formats.csv``), as builders over ours.

CsvRowDeserializationSchema.Builder(type_info).set_field_delimiter("|").build()
"""

from __future__ import annotations

from tidegate.common.java_only import refusing
from tidegate.common.typeinfo import TypeInformation
from tidegate.connectors.message_formats import CsvRowDeserializationSchema as OurDeserializationSchema
from tidegate.connectors.message_formats import CsvRowSerializationSchema as OurSerializationSchema

__all__ = ["CsvRowDeserializationSchema", "CsvRowSerializationSchema"]

__getattr__ = refusing(
    __name__,
    "CsvSchema CsvSchemaBuilder CsvReaderFormat CsvBulkWriters",
    "use FileSource.for_csv(path, schema=...) and FileSink.for_csv(path) of tidegate.connectors",
)


class CsvRowDeserializationSchema(OurDeserializationSchema):
    class Builder:
        def __init__(self, type_info: TypeInformation) -> None:
            self._type_info = type_info
            self._delimiter = ","
            self._null_literal = ""

        def set_field_delimiter(self, delimiter: str) -> CsvRowDeserializationSchema.Builder:
            self._delimiter = delimiter
            return self

        def set_null_literal(self, null_literal: str) -> CsvRowDeserializationSchema.Builder:
            self._null_literal = null_literal
            return self

        def build(self) -> OurDeserializationSchema:
            return OurDeserializationSchema(self._type_info, self._delimiter, self._null_literal)


class CsvRowSerializationSchema(OurSerializationSchema):
    class Builder:
        def __init__(self, type_info: TypeInformation) -> None:
            self._type_info = type_info
            self._delimiter = ","

        def set_field_delimiter(self, delimiter: str) -> CsvRowSerializationSchema.Builder:
            self._delimiter = delimiter
            return self

        def build(self) -> OurSerializationSchema:
            return OurSerializationSchema(self._delimiter)
