"""A Spark DataFrame as a bounded source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.common.names.finding import connector

if TYPE_CHECKING:
    from tidegate.connectors.spark.sink import SparkEpoch
    from tidegate.connectors.spark.writes import delta_writer, iceberg_writer, jdbc_writer

__all__ = ["SparkEpoch", "delta_writer", "iceberg_writer", "jdbc_writer"]

__getattr__ = connector(__name__)
