"""PyFlink's Elasticsearch connector wraps Java classes: its names are refused when they are used, with what to use instead."""

from __future__ import annotations

from tidegate.common.records.java_only import refusing

_NAMES = """
Elasticsearch6SinkBuilder Elasticsearch7SinkBuilder ElasticsearchEmitter ElasticsearchSink
FlushBackoffType
"""

__getattr__ = refusing(
    __name__,
    _NAMES,
    "write to Kafka or PostgreSQL and index from there",
)
