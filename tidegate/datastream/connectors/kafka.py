"""Kafka under PyFlink's names (``pyflink.datastream.connectors.kafka``)."""

from __future__ import annotations

from tidegate.common.names.finding import elsewhere, finding
from tidegate.common.names.java_only import java_only
from tidegate.connectors.kafka.offsets import KafkaOffsetResetStrategy, KafkaOffsetsInitializer, KafkaTopicPartition
from tidegate.connectors.kafka.open_transactions.naming import TransactionNamingStrategy
from tidegate.connectors.kafka.partition_records import DEAD_LETTER
from tidegate.connectors.kafka.records import (
    KafkaRecordSerializationSchema,
    KafkaRecordSerializationSchemaBuilder,
    KafkaTopicSelector,
)
from tidegate.connectors.kafka.sink import KafkaSink, KafkaSinkBuilder
from tidegate.connectors.kafka.source import KafkaSource, KafkaSourceBuilder

_JAVA = "FlinkKafkaConsumer FlinkKafkaConsumerBase FlinkKafkaProducer FlinkKafkaProducerBase Semantic"

__all__ = [
    *_JAVA.split(),
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
    "KafkaTopicSelector",
    "TransactionNamingStrategy",
]

__getattr__ = finding(
    __name__,
    java_only(
        __name__,
        _JAVA,
        "use KafkaSource and KafkaSink, which have builders: KafkaSource.builder().set_bootstrap_servers(...)",
    ),
    elsewhere("tidegate.datastream.connectors.base", "DeliveryGuarantee Sink Source"),
    elsewhere("tidegate.common.serialization", "DeserializationSchema SerializationSchema"),
    elsewhere("tidegate.common.row", "Row"),
    elsewhere("tidegate.functions.java_functions", "SinkFunction SourceFunction"),
    elsewhere("tidegate.common.typeinfo", "TypeInformation Types"),
)
