"""Kafka under PyFlink's names (``pyflink.datastream.connectors.kafka``)."""

from __future__ import annotations

from tidegate.common.names.finding import elsewhere, finding
from tidegate.common.names.java_only import java_only
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

__getattr__ = finding(
    __name__,
    java_only(
        __name__,
        "FlinkKafkaConsumer FlinkKafkaConsumerBase FlinkKafkaProducer FlinkKafkaProducerBase Semantic KafkaTopicSelector",
        "use KafkaSource and KafkaSink (a topic selector is a function of a record)",
    ),
    elsewhere("tidegate.datastream.connectors.base", "DeliveryGuarantee Sink Source"),
    elsewhere("tidegate.common.serialization", "DeserializationSchema SerializationSchema"),
    elsewhere("tidegate.common.row", "Row"),
    elsewhere("tidegate.functions.java_functions", "SinkFunction SourceFunction"),
    elsewhere("tidegate.common.typeinfo", "TypeInformation Types"),
)
