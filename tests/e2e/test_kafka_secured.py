"""Kafka behind TLS and passwords: written exactly once and read back, by column and by librdkafka."""

from __future__ import annotations

import pytest

from tests.conformance.test_kafka_sink import WAYS
from tests.e2e.waiting import HANG_LIMIT_S, wait_until
from tests.servers.kafka_broker import PASSWORD, USER, KafkaBroker
from tests.unit.taskmanager.operators.harness import Running, spec, start
from tidegate.common.serialization import SimpleStringSchema
from tidegate.common.typeinfo import Types
from tidegate.connectors.base import DeliveryGuarantee, ReaderContext, Sink, SplitState
from tidegate.connectors.kafka.columnar.client_properties import goes_by_column
from tidegate.connectors.kafka.records import KafkaRecordSerializationSchema
from tidegate.connectors.kafka.sink import KafkaSink
from tidegate.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from tidegate.model.errors import ExternalError
from tidegate.records.batch import ArrowBatch

pytestmark = pytest.mark.e2e


def properties_of(broker: KafkaBroker, mechanism: str, password: str = PASSWORD) -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(broker.certificate),
        "sasl.mechanism": mechanism,
        "sasl.username": USER,
        "sasl.password": password,
    }


class Secured:
    def __init__(self, servers: str, topic: str, properties: dict[str, str]) -> None:
        self._servers = servers
        self._topic = topic
        self._properties = properties

    def sink(self) -> Sink:
        words = KafkaRecordSerializationSchema.builder().set_topic(self._topic)
        words.set_value_serialization_schema(SimpleStringSchema())
        builder = KafkaSink.builder().set_bootstrap_servers(self._servers).set_record_serializer(words.build())
        builder.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_transactional_id_prefix(self._topic)
        for name, value in self._properties.items():
            builder.set_property(name, value)
        return builder.build()

    def visible(self) -> list[str]:
        builder = KafkaSource.builder().set_bootstrap_servers(self._servers).set_topics(self._topic)
        builder.set_value_only_deserializer(SimpleStringSchema()).set_properties(self._properties)
        source = builder.set_bounded(KafkaOffsetsInitializer.latest()).build()
        reader = source.make_reader(ReaderContext(0, 1, 128, "job", "attempt", "op"))
        reader.open([SplitState(split) for split in source.list_splits(1)])
        found: list[str] = []

        def is_over() -> bool:
            while (polled := reader.poll()) is not None:
                assert isinstance(polled.batch, ArrowBatch)
                found.extend(polled.batch.data.column(0).to_pylist())
                reader.advance(len(polled.batch))
            return reader.is_finished()

        wait_until(is_over, HANG_LIMIT_S, "the topic is read")
        reader.close()
        return found


def begin(sink: Sink) -> Running:
    return start(spec("sink", input_types=(Types.STRING(),), options={"sink": sink}))


@pytest.mark.parametrize(
    ("way", "mechanism"), [("columns", "PLAIN"), ("columns", "SCRAM-SHA-256"), ("messages", "PLAIN")]
)
def test_what_is_written_with_a_password_is_read_with_one(broker: KafkaBroker, way: str, mechanism: str) -> None:
    broker.add_scram_user()
    topic = f"secured-{way}-{mechanism}"
    broker.create_topic(topic)
    properties = {**properties_of(broker, mechanism), **WAYS[way]}
    assert goes_by_column(properties) == (way == "columns")
    subject = Secured(broker.secured_servers, topic, properties)
    one = begin(subject.sink())
    words = [f"word {n}" for n in range(2000)]
    one.feed(words)
    one.snapshot(1)
    one.operator.notify_checkpoint_complete(1)
    one.operator.close()
    assert sorted(subject.visible()) == sorted(words)


@pytest.mark.parametrize("way", list(WAYS))
def test_a_wrong_password_is_told(broker: KafkaBroker, way: str) -> None:
    topic = f"refused-{way}"
    broker.create_topic(topic)
    properties = {**properties_of(broker, "PLAIN", "wrong"), **WAYS[way]}
    with pytest.raises(ExternalError, match="authentication failed.*check user and password"):
        begin(Secured(broker.secured_servers, topic, properties).sink())
