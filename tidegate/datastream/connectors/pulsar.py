"""PyFlink's Pulsar connector wraps Java classes: its names are refused when they are used, with what to use instead."""

from __future__ import annotations

from tidegate.common.records.java_only import refusing

_NAMES = """
MessageDelayer PulsarSink PulsarSinkBuilder PulsarSource PulsarSourceBuilder RangeGenerator
StartCursor StopCursor TopicRoutingMode
"""

__getattr__ = refusing(
    __name__,
    _NAMES,
    "use KafkaSource and KafkaSink; Pulsar speaks the Kafka protocol with its KoP extension",
)
