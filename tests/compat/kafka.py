"""From a topic to a topic: offsets, and records that wait in an epoch for their commit."""

from __future__ import annotations

from typing import Any

from tests.compat.outline import Outline, hold_back
from tests.servers.kafka_reading import read_topic
from tests.unit.taskmanager.runtime.collecting import CollectingSink
from tidegate.common.serialization import SimpleStringSchema
from tidegate.common.typeinfo import Types
from tidegate.common.watermark_strategy import WatermarkStrategy
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream.connectors.base import DeliveryGuarantee
from tidegate.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)

PARTITIONS, EACH = 2, 300
INPUT, OUTPUT = "compat-input", "compat-output"
TOPIC = "topic"
"""The part of what was visible that is not in a world, but in a topic."""


def fill(broker: Any) -> None:
    from confluent_kafka import Producer

    broker.create_topic(INPUT, PARTITIONS)
    broker.create_topic(OUTPUT, PARTITIONS)
    client = Producer({"bootstrap.servers": broker.servers, "enable.idempotence": True})
    for partition in range(PARTITIONS):
        for n in range(EACH):
            client.produce(INPUT, f"{partition}-{n}", partition=partition, timestamp=1_000 + n)
    assert client.flush(30) == 0


def slowly(value: str) -> str:
    hold_back(0.01)
    return value


def build(outline: Outline) -> StreamExecutionEnvironment:
    env = outline.environment()
    builder = KafkaSource.builder().set_bootstrap_servers(outline.servers).set_topics(INPUT).set_group_id("compat")
    builder.set_starting_offsets(KafkaOffsetsInitializer.earliest()).set_bounded(KafkaOffsetsInitializer.latest())
    source = builder.set_value_only_deserializer(SimpleStringSchema()).build()
    values = env.from_source(source, WatermarkStrategy.no_watermarks(), "values").uid("values")
    passed = values.map(slowly, Types.STRING()).uid("pass")
    records = KafkaRecordSerializationSchema.builder().set_topic(OUTPUT)
    records.set_value_serialization_schema(SimpleStringSchema())
    sink = KafkaSink.builder().set_bootstrap_servers(outline.servers).set_record_serializer(records.build())
    sink.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_transactional_id_prefix("compat")
    passed.sink_to(sink.build()).uid("out")
    passed.sink_to(CollectingSink(f"{outline.world}-passed")).uid("passed-out")
    return env


def is_ready(outline: Outline) -> bool:
    return len(outline.committed("passed")) > 50


def check(outline: Outline) -> None:
    """What was in the topic, the pending epoch, and what was read since: everything once."""
    found = [*outline.before[TOPIC], *(message.value for message in read_topic(outline.servers, OUTPUT))]
    assert sorted(found) == sorted(f"{partition}-{n}" for partition in range(PARTITIONS) for n in range(EACH))
