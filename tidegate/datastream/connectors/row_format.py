"""What marks a sink that writes whole records as lines of text, whatever their type."""

from __future__ import annotations


class RecordsAsText:
    """``DataStream.sink_to`` turns the records of a stream into their texts before such a sink."""
