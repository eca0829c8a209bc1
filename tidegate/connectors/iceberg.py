"""Writes epochs of a stream into Iceberg tables by Spark: ``stream.to_spark(iceberg_writer(...))``."""

from __future__ import annotations

from tidegate.common.names.finding import connector
from tidegate.connectors.spark.writes import iceberg_writer

__all__ = ["iceberg_writer"]

__getattr__ = connector(__name__)
