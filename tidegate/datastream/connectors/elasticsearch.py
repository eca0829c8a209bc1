"""PyFlink's Elasticsearch connector wraps Java classes: its names are refused when they are used, with what to use instead."""

from __future__ import annotations

from tidegate.common.names.finding import elsewhere, finding
from tidegate.common.names.java_only import java_only

_NAMES = """
Elasticsearch6SinkBuilder Elasticsearch7SinkBuilder ElasticsearchEmitter ElasticsearchSink ElasticsearchSinkBuilderBase
FlushBackoffType
"""

__all__ = [*_NAMES.split()]

__getattr__ = finding(
    __name__,
    java_only(__name__, _NAMES, "write to Kafka or PostgreSQL and index from there"),
    elsewhere("tidegate.datastream.connectors.base", "DeliveryGuarantee Sink"),
)
