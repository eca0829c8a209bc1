"""Writes epochs of a stream into databases by Spark: ``stream.to_spark(jdbc_writer(...))``. ``env.from_spark`` reads them."""

from __future__ import annotations

from tidegate.common.names.finding import connector
from tidegate.connectors.spark.writes import jdbc_writer

__all__ = ["jdbc_writer"]

__getattr__ = connector(__name__)
