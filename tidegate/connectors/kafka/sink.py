"""Kafka as a sink, under the names of PyFlink's ``KafkaSink``.

    KafkaSink.builder().set_bootstrap_servers("broker:9092").set_record_serializer(
        KafkaRecordSerializationSchema.builder().set_topic("totals")
            .set_value_serialization_schema(SimpleStringSchema()).build()
    ).set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_transactional_id_prefix("totals").build()

Exactly once survives a restart that lasts longer than any transaction timeout: nothing is open in the broker between the
vote and the commit (docs/adr/0050).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tidegate.common.typeinfo import TypeInformation
from tidegate.connectors.base import Committer, DeliveryGuarantee, Sink, SinkContext, SinkWriter
from tidegate.connectors.kafka.client import (
    SERVERS_KEY,
    admin,
    check_transaction_timeout,
    contact,
    library,
    partitions_of,
    servers_of,
    sink_properties,
)
from tidegate.connectors.kafka.markers import TOPIC, Markers
from tidegate.connectors.kafka.publisher import EpochPublisher
from tidegate.connectors.kafka.records import KafkaRecordSerializationSchema
from tidegate.connectors.kafka.sending import make_producer
from tidegate.connectors.kafka.writers import DirectWriter, EpochWriter, branch_of
from tidegate.model.errors import InvalidJob
from tidegate.model.values import StateValue


@dataclass(frozen=True)
class KafkaSink(Sink):
    """Made by ``KafkaSink.builder()``."""

    servers: str
    schema: KafkaRecordSerializationSchema
    guarantee: DeliveryGuarantee
    prefix: str
    properties: dict[str, str]
    marker_topic: str = TOPIC

    @staticmethod
    def builder() -> KafkaSinkBuilder:
        """Starts a sink; it needs servers and a record serializer."""
        return KafkaSinkBuilder()

    def validate(self) -> None:
        """Raises ``InvalidJob`` when the topic is not there or transactions may not be as long as the sink's, ``Unreachable`` when
        the broker is not there."""
        client = admin(self.servers, self.properties)
        contact(client, self.servers)
        if self.schema.topic is not None:
            partitions_of(client, self.schema.topic, self.servers)
        if self.guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            check_transaction_timeout(client, self.servers, self.properties)

    def make_writer(self, context: SinkContext, state: Sequence[StateValue], input_type: TypeInformation) -> SinkWriter:
        if self.guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            names = self.prefix, self.marker_topic
            return EpochWriter(self.schema, input_type, context, self.properties, *names)
        client = make_producer(self.servers, self.properties)
        waits = self.guarantee is DeliveryGuarantee.AT_LEAST_ONCE
        return DirectWriter(self.schema, input_type, client, self.servers, self.properties, waits=waits)

    def make_committer(self, context: SinkContext) -> Committer | None:
        if self.guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
            return None
        markers = Markers(self.servers, self.properties, self.marker_topic)
        markers.ensure_topic()
        publisher = EpochPublisher(self.servers, self.properties, self.prefix, markers, branch_of(context))
        publisher.prepare(context.subtask_index)
        return publisher


@dataclass
class KafkaSinkBuilder:
    """Collects the settings of a sink, then ``build`` (PyFlink: ``KafkaSinkBuilder``)."""

    _schema: KafkaRecordSerializationSchema | None = None
    _guarantee: DeliveryGuarantee = DeliveryGuarantee.NONE
    _prefix: str = ""
    _properties: dict[str, str] = field(default_factory=dict)
    _marker_topic: str = TOPIC

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSinkBuilder:
        """Sets the brokers to begin with: ``host:port`` with commas between them."""
        return self.set_property(SERVERS_KEY, bootstrap_servers)

    def set_record_serializer(self, record_serializer: KafkaRecordSerializationSchema) -> KafkaSinkBuilder:
        """Sets how records become messages."""
        self._schema = record_serializer
        return self

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> KafkaSinkBuilder:
        """Sets whether records arrive exactly once, at least once, or without a guarantee, as by default."""
        self._guarantee = delivery_guarantee
        return self

    def set_transactional_id_prefix(self, transactional_id_prefix: str) -> KafkaSinkBuilder:
        """First part of the transactional ids; required for exactly once. It need not differ between jobs."""
        self._prefix = transactional_id_prefix
        return self

    def set_marker_topic(self, topic: str) -> KafkaSinkBuilder:
        """Ours: where it is noted what was published (made when it is missing)."""
        self._marker_topic = topic
        return self

    def set_property(self, key: str, value: str) -> KafkaSinkBuilder:
        """Sets a property of the Kafka client, by librdkafka's names, over what was set before. Properties that only
        consumers know are left out."""
        self._properties[key] = value
        return self

    def build(self) -> KafkaSink:
        """Returns the sink. Raises ``InvalidJob`` without a record serializer, and for exactly once without a prefix of
        transactional ids."""
        library()
        servers = servers_of(self._properties, "KafkaSink")
        if self._schema is None:
            raise InvalidJob("KafkaSink needs set_record_serializer()")
        if self._guarantee is DeliveryGuarantee.EXACTLY_ONCE and not self._prefix:
            raise InvalidJob("KafkaSink needs set_transactional_id_prefix() to write exactly once")
        properties = sink_properties(self._properties)
        return KafkaSink(servers, self._schema, self._guarantee, self._prefix, properties, self._marker_topic)
