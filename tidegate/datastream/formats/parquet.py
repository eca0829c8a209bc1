"""PyFlink's Parquet format wraps Java classes: its names are refused when they are used, with what to use instead."""

from __future__ import annotations

from tidegate.common.java_only import refusing

_NAMES = "AvroParquetReaders AvroParquetWriters ParquetBulkWriters ParquetColumnarRowInputFormat"

__getattr__ = refusing(
    __name__,
    _NAMES,
    "use FileSource.for_parquet(path) and FileSink.for_parquet(path) of tidegate.connectors",
)
