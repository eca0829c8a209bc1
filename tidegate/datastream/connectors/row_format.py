"""The marker of sinks that write whole records as lines of text, whatever their type."""

from __future__ import annotations


class RecordsAsText:
    """Marks a sink before which ``DataStream.sink_to`` converts records to their texts."""
