"""Kafka under PyFlink's names (``pyflink.datastream.connectors.kafka``)."""

from __future__ import annotations

from tidegate.common.records.java_only import refusing
from tidegate.connectors.kafka.offsets import KafkaOffsetResetStrategy, KafkaOffsetsInitializer, KafkaTopicPartition
from tidegate.connectors.kafka.records import KafkaRecordSerializationSchema, KafkaRecordSerializationSchemaBuilder
from tidegate.connectors.kafka.sink import KafkaSink, KafkaSinkBuilder
from tidegate.connectors.kafka.source import KafkaSource, KafkaSourceBuilder
from tidegate.connectors.kafka.taken import DEAD_LETTER

__all__ = [
    "DEAD_LETTER",
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaRecordSerializationSchema",
    "KafkaRecordSerializationSchemaBuilder",
    "KafkaSink",
    "KafkaSinkBuilder",
    "KafkaSource",
    "KafkaSourceBuilder",
    "KafkaTopicPartition",
]

__getattr__ = refusing(
    __name__,
    "FlinkKafkaConsumer FlinkKafkaProducer Semantic KafkaTopicSelector",
    "use KafkaSource and KafkaSink (a topic selector is a function of a record)",
)
