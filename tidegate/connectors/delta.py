"""Writes epochs of a stream into Delta tables by Spark: ``stream.to_spark(delta_writer(...))``."""

from __future__ import annotations

from tidegate.common.names.finding import connector
from tidegate.connectors.spark.writes import delta_writer

__all__ = ["delta_writer"]

__getattr__ = connector(__name__)
