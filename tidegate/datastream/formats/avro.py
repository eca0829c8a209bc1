"""Avro under PyFlink's names (``pyflink.datastream.formats.avro``): messages, also with a schema registry, and files.

AvroRowDeserializationSchema(avro_schema_string=text)                                       one schema for all
AvroRowDeserializationSchema(schema_registry_url="http://registry:8081", subject="orders-value")   each by its own

schema = AvroSchema.parse_string(text)
records = env.create_input(AvroInputFormat("in", schema))                                   a stream of dicts
records = records.map(change, output_type=GenericRecordAvroTypeInfo(schema))
records.sink_to(FileSink.for_bulk_format("out", AvroBulkWriters.for_generic_record(schema)).build())
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from tidegate.common.names.finding import elsewhere, finding
from tidegate.common.names.shipping import Shipped, shipped_as
from tidegate.common.serialization import BulkWriterFactory
from tidegate.connectors.file_source import FileSource
from tidegate.connectors.formats.avro_files import (
    AvroEncoderFactory,
    AvroFileFormat,
    AvroSchema,
    GenericRecordAvroTypeInfo,
)
from tidegate.connectors.formats.avro_messages import AvroMessages, AvroRows, SchemaRegistry, checked_schema
from tidegate.datastream.connectors.bulk_writers import EncodedBulkWriterFactory
from tidegate.model.errors import InvalidJob

__all__ = [
    "AvroBulkWriters",
    "AvroInputFormat",
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "AvroSchema",
    "GenericRecordAvroTypeInfo",
]


class AvroInputFormat:
    """Reads records of Avro files, for ``env.create_input``. ``path``: a file, or a directory that is read recursively. Files written with another
    schema are resolved to ``schema``."""

    def __init__(self, path: str, schema: AvroSchema) -> None:
        self._path = path
        self._schema = schema

    def get_produced_type(self) -> GenericRecordAvroTypeInfo:
        """Returns the type of the records: the Avro schema."""
        return GenericRecordAvroTypeInfo(self._schema)

    def source(self) -> FileSource:
        """Returns the source that reads the files."""
        return FileSource([self._path], AvroFileFormat(self._schema))


class AvroBulkWriters:
    """Writers of Avro object container files, for ``FileSink.for_bulk_format`` (PyFlink: ``AvroBulkWriters``)."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> BulkWriterFactory:
        """Writes dicts that are records of ``schema``, or rows with its names, as Avro files. Records that do not fit raise ``SchemaMismatch``."""
        return EncodedBulkWriterFactory(partial(AvroEncoderFactory, schema))


class AvroRowDeserializationSchema(AvroRows):
    """Decodes Avro messages to rows. ``avro_schema_string``: the reader's schema; by default the latest of ``subject``. Raises ``InvalidJob``,
    ``Unreachable``."""

    def __init__(
        self,
        record_class: str | None = None,
        avro_schema_string: str | None = None,
        *,
        schema_registry_url: str | None = None,
        subject: str = "",
        registry_properties: Mapping[str, object] | None = None,
    ) -> None:
        _no_class(record_class)
        registry = _registry(schema_registry_url, registry_properties)
        found = checked_schema(avro_schema_string, registry, subject)
        super().__init__(found.text, registry, found.references)

    def __reduce__(self) -> Shipped:
        return shipped_as(AvroRows, self)


class AvroRowSerializationSchema(AvroMessages):
    """Encodes rows as Avro messages. ``subject``: the name in the schema registry under which the schema is registered, usually ``<topic>-value``. Raises
    ``InvalidJob``, ``Unreachable``.
    """

    def __init__(
        self,
        record_class: str | None = None,
        avro_schema_string: str | None = None,
        *,
        schema_registry_url: str | None = None,
        subject: str = "",
        registry_properties: Mapping[str, object] | None = None,
    ) -> None:
        _no_class(record_class)
        registry = _registry(schema_registry_url, registry_properties)
        if registry is not None and not subject:
            raise InvalidJob("a schema registry needs the subject under which the schema is registered")
        found = checked_schema(avro_schema_string, registry, subject)
        super().__init__(found.text, registry, subject, found.references)

    def __reduce__(self) -> Shipped:
        return shipped_as(AvroMessages, self)


def _no_class(record_class: str | None) -> None:
    if record_class is not None:
        raise InvalidJob("record_class names a Java class, which tidegate cannot load: give avro_schema_string instead")


def _registry(url: str | None, properties: Mapping[str, object] | None) -> SchemaRegistry | None:
    return None if url is None else SchemaRegistry(url, dict(properties or {}))


__getattr__ = finding(
    __name__,
    elsewhere("tidegate.common.serialization", "DeserializationSchema SerializationSchema"),
    elsewhere("tidegate.common.io", "InputFormat"),
    elsewhere("tidegate.common.typeinfo", "TypeInformation"),
)
