"""PyFlink's dynamic Kafka connector wraps Java classes: its names are refused when they are used, with what to use instead."""

from __future__ import annotations

from tidegate.common.records.java_only import refusing

_NAMES = """
DynamicKafkaSource DynamicKafkaSourceBuilder KafkaMetadataService KafkaRecordDeserializationSchema
KafkaStreamSetSubscriber KafkaStreamSubscriber SingleClusterTopicMetadataService
StreamPatternSubscriber
"""

__getattr__ = refusing(
    __name__,
    _NAMES,
    "use KafkaSource with a topic pattern, which finds new partitions by itself",
)
