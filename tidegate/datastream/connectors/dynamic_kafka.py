"""PyFlink's dynamic Kafka connector wraps Java classes: its names are refused when they are used, with what to use instead."""

from __future__ import annotations

from tidegate.common.names.finding import elsewhere, finding
from tidegate.common.names.java_only import java_only

_NAMES = """
DynamicKafkaSource DynamicKafkaSourceBuilder KafkaMetadataService KafkaRecordDeserializationSchema
KafkaStreamSetSubscriber KafkaStreamSubscriber SingleClusterTopicMetadataService
StreamPatternSubscriber
"""

__all__ = [*_NAMES.split()]

__getattr__ = finding(
    __name__,
    java_only(__name__, _NAMES, "use KafkaSource with a topic pattern, which finds new partitions by itself"),
    elsewhere("tidegate.common.serialization", "DeserializationSchema"),
    elsewhere("tidegate.datastream.connectors.kafka", "KafkaOffsetsInitializer"),
    elsewhere("tidegate.datastream.connectors.base", "Source"),
)
