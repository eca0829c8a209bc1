"""Apache Kafka as source and sink, on ``confluent-kafka`` and ``kafka-python`` (the extra ``tidegate[kafka]``).

KafkaSource ─▶ KafkaReader: a fetcher thread reads ahead; offsets are of what was emitted
                 Incoming ◀── by column (columnar.fetching), or librdkafka's messages
KafkaSink   ─▶ AT_LEAST_ONCE, NONE   DirectWriter: records are sent as they come
            └▶ EXACTLY_ONCE          EpochWriter: an epoch's records travel in the checkpoint; on confirm
                                     EpochPublisher sends them in one transaction with a marker (docs/adr/0050)
                 TransactionalProducer ◀── by column (columnar.transaction), or librdkafka's messages

Which of both a source or sink goes by is decided by its properties (docs/adr/0063).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.common.names.finding import connector

if TYPE_CHECKING:
    from tidegate.connectors.base import DeliveryGuarantee
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

__all__ = [
    "DEAD_LETTER",
    "DeliveryGuarantee",
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

__getattr__ = connector(__name__)
