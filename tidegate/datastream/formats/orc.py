"""ORC under PyFlink's names (``pyflink.datastream.formats.orc``).

FileSink.for_bulk_format(directory, OrcBulkWriters.for_row_type(row_type)).build()
"""

from __future__ import annotations

from functools import partial

from tidegate.common.configuration import Configuration
from tidegate.common.names.finding import elsewhere, finding
from tidegate.common.serialization import BulkWriterFactory
from tidegate.connectors.files.columns import SchemaEncoderFactory
from tidegate.connectors.files.encoders import OrcEncoderFactory
from tidegate.datastream.connectors.bulk_writers import RowWriterFactory, only_setting
from tidegate.records.data_types import RowType

__all__ = ["OrcBulkWriters"]

_COMPRESSIONS = {"NONE": "uncompressed"}


class OrcBulkWriters:
    """Writers of ORC files, for ``FileSink.for_bulk_format`` (PyFlink: ``OrcBulkWriters``)."""

    @staticmethod
    def for_row_type(
        row_type: RowType, writer_properties: Configuration | None = None, hadoop_config: Configuration | None = None
    ) -> BulkWriterFactory:
        """Returns the factory of writers of rows with the columns of ``row_type``, by name if they have all of its names, by position otherwise. Of
        ``writer_properties``, ``orc.compress`` is used (default: ZLIB). Raises ``InvalidJob`` for other settings, ``TypeError`` if it is not a
        ``RowType``."""
        if not isinstance(row_type, RowType):
            raise TypeError("row_type must be an instance of RowType")
        compression = only_setting(writer_properties, "orc.compress", "ZLIB")
        only_setting(hadoop_config, "", "")
        inner = OrcEncoderFactory(compression=_COMPRESSIONS.get(compression, compression.lower()))
        return RowWriterFactory(partial(SchemaEncoderFactory, row_type.arrow_schema(), inner), row_type)


__getattr__ = finding(
    __name__,
    elsewhere("tidegate.common.serialization", "RowDataBulkWriterFactory"),
)
