"""Parquet under PyFlink's names (``pyflink.datastream.formats.parquet``): rows, and records of an Avro schema.

    row_type = DataTypes.ROW([DataTypes.FIELD("id", DataTypes.BIGINT()), DataTypes.FIELD("name", DataTypes.STRING())])
    FileSource.for_bulk_file_format(ParquetColumnarRowInputFormat(row_type), path).build()
    FileSink.for_bulk_format(directory, ParquetBulkWriters.for_row_type(row_type)).build()

    FileSource.for_record_stream_format(AvroParquetReaders.for_generic_record(schema), path).build()
    FileSink.for_bulk_format(directory, AvroParquetWriters.for_generic_record(schema)).build()

``FileSource.for_parquet`` and ``FileSink.for_parquet`` of ``tidegate.connectors`` take the columns as they are.
"""

from __future__ import annotations

from functools import partial

from tidegate.common.configuration import Configuration
from tidegate.common.names.finding import elsewhere, finding
from tidegate.common.serialization import BulkWriterFactory
from tidegate.connectors.files.columns import RowParquetFormat, SchemaEncoderFactory
from tidegate.connectors.files.encoders import ParquetEncoderFactory
from tidegate.connectors.formats.avro_files import AvroSchema
from tidegate.connectors.formats.avro_parquet import AvroParquetEncoderFactory, AvroParquetFormat
from tidegate.datastream.connectors.bulk_writers import EncodedBulkWriterFactory, RowWriterFactory, only_setting
from tidegate.datastream.connectors.file_system import BulkFormat, StreamFormat
from tidegate.records.data_types import RowType

__all__ = ["AvroParquetReaders", "AvroParquetWriters", "ParquetBulkWriters", "ParquetColumnarRowInputFormat"]


class AvroParquetReaders:
    """Readers of Parquet files as records of an Avro schema (PyFlink: ``AvroParquetReaders``)."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> StreamFormat:
        """Dicts that are records of ``schema``. A field that a file has not is its default, or null. Raises ``InvalidJob`` for a
        schema that contains itself."""
        return StreamFormat(AvroParquetFormat(schema))


class AvroParquetWriters:
    """Writers of records of an Avro schema as Parquet files (PyFlink: ``AvroParquetWriters``)."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> BulkWriterFactory:
        """Dicts that are records of ``schema``, or rows with its names. What does not fit is a ``SchemaMismatch``. Raises ``InvalidJob``
        for a schema that contains itself."""
        AvroParquetFormat(schema)
        return EncodedBulkWriterFactory(partial(AvroParquetEncoderFactory, schema))


class ParquetColumnarRowInputFormat(BulkFormat):
    """Rows of ``row_type``. A column that a file has not is null. How many rows come at once, ``batch_size``, is left to the source,
    and times without a zone are read as they stand, whatever ``is_utc_timestamp``. ``hadoop_config`` must be empty: else
    ``InvalidJob``."""

    def __init__(
        self,
        row_type: RowType,
        hadoop_config: Configuration | None = None,
        batch_size: int = 2048,
        is_utc_timestamp: bool = False,
        is_case_sensitive: bool = True,
    ) -> None:
        only_setting(hadoop_config, "", "")
        super().__init__(RowParquetFormat(row_type.row_type_info(), is_case_sensitive))


class ParquetBulkWriters:
    """Writers of rows as Parquet files, for ``FileSink.for_bulk_format`` (PyFlink: ``ParquetBulkWriters``)."""

    @staticmethod
    def for_row_type(
        row_type: RowType, hadoop_config: Configuration | None = None, utc_timestamp: bool = False
    ) -> BulkWriterFactory:
        """Rows with the columns of ``row_type``, by name if they have all of its names, by position otherwise. Times without a zone
        are written as they stand, whatever ``utc_timestamp``. Of ``hadoop_config``, ``parquet.compression`` (default: SNAPPY).
        Raises ``InvalidJob`` for other settings."""
        compression = only_setting(hadoop_config, "parquet.compression", "SNAPPY")
        inner = ParquetEncoderFactory(options={"compression": "none" if compression == "UNCOMPRESSED" else compression})
        return RowWriterFactory(partial(SchemaEncoderFactory, row_type.arrow_schema(), inner), row_type)


__getattr__ = finding(
    __name__,
    elsewhere("tidegate.common.serialization", "RowDataBulkWriterFactory"),
)
