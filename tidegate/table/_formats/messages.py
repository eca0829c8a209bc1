"""Table formats for messages of brokers."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.connectors.formats.messages import Counts, DeserializationSchema, SerializationSchema, Values
from tidegate.functions.sql.scalar import arrow_schema
from tidegate.table._formats.changelog_avro import ChangelogAvroReading
from tidegate.table._formats.changelog_json import ChangelogReading
from tidegate.table._formats.formats import Reading, Writing


def produced_schema(reading: Reading) -> pa.Schema:
    """Returns the columns that a decoder produces: those of its row type, and for changelog formats metadata and row kinds."""
    if isinstance(reading, ChangelogReading | ChangelogAvroReading):
        return reading.schema
    return arrow_schema(reading.row_type)


@dataclass(frozen=True)
class TableDeserializer(DeserializationSchema):
    """Decodes messages to rows of a table."""

    reading: Reading
    reads_tombstones = True

    def get_produced_type(self) -> TypeInformation:
        return Types.SCHEMA(produced_schema(self.reading))

    def decode(self, values: Values) -> pa.RecordBatch:
        return self.reading.read(values)[0]

    def decode_rows(self, values: Values) -> tuple[pa.RecordBatch, Counts | None]:
        return self.reading.read(values)


@dataclass(frozen=True)
class TableSerializer(SerializationSchema):
    """Encodes rows of a table as messages."""

    writing: Writing

    def encode(self, data: pa.RecordBatch, type_info: TypeInformation) -> pa.BinaryArray:
        return pa.array(self.writing.messages(data), pa.binary())
