"""File sources and sinks: paths, formats, encoders, buckets and pending part files."""

from __future__ import annotations

from tidegate.common.names.finding import connector

__all__ = ["BAD_LINE", "DateTimeBuckets", "FileSink", "FileSource", "RollingPolicy"]

__getattr__ = connector(__name__)
