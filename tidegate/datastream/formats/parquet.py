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
        """Returns the format that reads dicts that are records of ``schema``. A field that a file lacks has its default, or is null. Raises
        ``InvalidJob`` for a recursive schema."""
        return StreamFormat(AvroParquetFormat(schema))


class AvroParquetWriters:
    """Writers of records of an Avro schema as Parquet files (PyFlink: ``AvroParquetWriters``)."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> BulkWriterFactory:
        """Returns the factory of writers of dicts that are records of ``schema``, or of rows with its names. Records that do not fit raise
        ``SchemaMismatch``. Raises ``InvalidJob`` for a recursive schema."""
        AvroParquetFormat(schema)
        return EncodedBulkWriterFactory(partial(AvroParquetEncoderFactory, schema))


class ParquetColumnarRowInputFormat(BulkFormat):
    """Reads Parquet files as rows of ``row_type``. A column that a file lacks is null. ``batch_size`` has no effect, nor has ``is_utc_timestamp``:
    times without a zone are read as they are. Raises ``InvalidJob`` for a ``hadoop_config`` that is not empty."""

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
        """Returns the factory of writers of rows with the columns of ``row_type``, by name if they have all of its names, by position otherwise. Times
        without a zone are written as they are, whatever ``utc_timestamp``. Of ``hadoop_config``, ``parquet.compression`` is used (default: SNAPPY).
        Raises ``InvalidJob`` for other settings."""
        compression = only_setting(hadoop_config, "parquet.compression", "SNAPPY")
        inner = ParquetEncoderFactory(options={"compression": "none" if compression == "UNCOMPRESSED" else compression})
        return RowWriterFactory(partial(SchemaEncoderFactory, row_type.arrow_schema(), inner), row_type)


__getattr__ = finding(
    __name__,
    elsewhere("tidegate.common.serialization", "RowDataBulkWriterFactory"),
)
