"""Job of the Kafka benchmark: bytes from one topic to another, exactly once. Arguments: servers, input, output, interval in ms, and the
naming strategy of transactions that stay open, if any. It is not beside ``benchmarks.kafka``, which would hide the package ``kafka``.
"""

from __future__ import annotations

import sys

from tidegate.common import WatermarkStrategy
from tidegate.connectors.formats.messages import ByteArraySchema
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream.connectors.base import DeliveryGuarantee
from tidegate.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
    TransactionNamingStrategy,
)


def main(servers: str, source_topic: str, sink_topic: str, interval_ms: str, strategy: str = "") -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1).enable_checkpointing(int(interval_ms))
    source = KafkaSource.builder().set_bootstrap_servers(servers).set_topics(source_topic).set_group_id("tidegate-copy")
    source.set_starting_offsets(KafkaOffsetsInitializer.earliest()).set_value_only_deserializer(ByteArraySchema())
    record = KafkaRecordSerializationSchema.builder().set_topic(sink_topic)
    record.set_value_serialization_schema(ByteArraySchema())
    sink = KafkaSink.builder().set_bootstrap_servers(servers).set_record_serializer(record.build())
    sink.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_transactional_id_prefix(sink_topic)
    if strategy:
        sink.set_transaction_naming_strategy(TransactionNamingStrategy[strategy])
    env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "source").sink_to(sink.build())
    env.execute("copy")


if __name__ == "__main__":
    main(*sys.argv[1:])
