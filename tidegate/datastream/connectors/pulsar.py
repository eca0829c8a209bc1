"""PyFlink's Pulsar connector wraps Java classes: its names are refused when they are used, with what to use instead."""

from __future__ import annotations

from tidegate.common.names.finding import elsewhere, finding
from tidegate.common.names.java_only import java_only

_NAMES = """
MessageDelayer PulsarSink PulsarSinkBuilder PulsarSource PulsarSourceBuilder RangeGenerator
StartCursor StopCursor TopicRoutingMode
"""

__all__ = [*_NAMES.split()]

__getattr__ = finding(
    __name__,
    java_only(
        __name__, _NAMES, "use KafkaSource and KafkaSink; Pulsar speaks the Kafka protocol with its KoP extension"
    ),
    elsewhere("tidegate.common.config_options", "ConfigOption ConfigOptions"),
    elsewhere("tidegate.datastream.connectors.base", "DeliveryGuarantee Sink Source"),
    elsewhere("tidegate.common.serialization", "DeserializationSchema SerializationSchema"),
    elsewhere("tidegate.common.time", "Duration"),
)
