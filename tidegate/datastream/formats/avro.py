"""Avro under PyFlink's names (``pyflink.datastream.formats.avro``), and with a schema registry.

AvroRowDeserializationSchema(avro_schema_string=text)                                       one schema for all
AvroRowDeserializationSchema(schema_registry_url="http://registry:8081", subject="orders-value")   each by its own
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate.common.java_only import refusing
from tidegate.connectors.avro_format import AvroMessages, AvroRows, SchemaRegistry, checked_schema
from tidegate.model.errors import InvalidJob

__all__ = ["AvroRowDeserializationSchema", "AvroRowSerializationSchema"]

__getattr__ = refusing(
    __name__,
    "AvroSchema GenericRecordAvroTypeInfo AvroInputFormat AvroBulkWriters",
    "use Parquet (FileSource.for_parquet, FileSink.for_parquet of tidegate.connectors) for files; "
    "AvroRowDeserializationSchema and AvroRowSerializationSchema are for messages",
)


class AvroRowDeserializationSchema(AvroRows):
    """``avro_schema_string``: what rows are read as; by default the latest of ``subject``. Raises ``InvalidJob``,
    ``Unreachable``."""

    def __init__(
        self,
        record_class: str | None = None,
        avro_schema_string: str | None = None,
        *,
        schema_registry_url: str | None = None,
        subject: str = "",
        registry_properties: Mapping[str, Any] | None = None,
    ) -> None:
        _no_class(record_class)
        registry = _registry(schema_registry_url, registry_properties)
        super().__init__(checked_schema(avro_schema_string, registry, subject), registry)


class AvroRowSerializationSchema(AvroMessages):
    """``subject`` (``<topic>-value``, usually): under which the schema is registered. Raises ``InvalidJob``, ``Unreachable``."""

    def __init__(
        self,
        record_class: str | None = None,
        avro_schema_string: str | None = None,
        *,
        schema_registry_url: str | None = None,
        subject: str = "",
        registry_properties: Mapping[str, Any] | None = None,
    ) -> None:
        _no_class(record_class)
        registry = _registry(schema_registry_url, registry_properties)
        if registry is not None and not subject:
            raise InvalidJob("a schema registry needs the subject under which the schema is registered")
        super().__init__(checked_schema(avro_schema_string, registry, subject), registry, subject)


def _no_class(record_class: str | None) -> None:
    if record_class is not None:
        raise InvalidJob("record_class names a class of Java: give avro_schema_string instead")


def _registry(url: str | None, properties: Mapping[str, Any] | None) -> SchemaRegistry | None:
    return None if url is None else SchemaRegistry(url, dict(properties or {}))
