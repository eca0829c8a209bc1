"""Kafka as a sink, under the names of PyFlink's ``KafkaSink``.

    KafkaSink.builder().set_bootstrap_servers("broker:9092").set_record_serializer(
        KafkaRecordSerializationSchema.builder().set_topic("totals")
            .set_value_serialization_schema(SimpleStringSchema()).build()
    ).set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_transactional_id_prefix("totals").build()

Exactly once survives a restart that lasts longer than any transaction timeout: nothing is open in the broker between the
vote and the commit (docs/adr/0050). A sink with a ``TransactionNamingStrategy`` writes into open transactions instead (docs/adr/0173).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidegate.common.typeinfo import TypeInformation
from tidegate.connectors.base import Committer, DeliveryGuarantee, Sink, SinkContext, SinkWriter
from tidegate.connectors.kafka.client import (
    SERVERS_KEY,
    TRANSACTION_TIMEOUT_KEY,
    admin,
    check_transaction_timeout,
    contact,
    library,
    partitions_of,
    servers_of,
    sink_properties,
)
from tidegate.connectors.kafka.columnar.client_properties import why_not_by_column
from tidegate.connectors.kafka.markers import NOTES_TOPIC, TOPIC, Markers
from tidegate.connectors.kafka.open_transactions.committer import KafkaCommitter, TransactionCommitter
from tidegate.connectors.kafka.open_transactions.deadlines import OPEN_TIMEOUT_MS, check_deadline
from tidegate.connectors.kafka.open_transactions.naming import Bundle, TransactionNamingStrategy
from tidegate.connectors.kafka.open_transactions.subtask_transactions import SubtaskTransactions, TransactionSettings
from tidegate.connectors.kafka.open_transactions.writer import OpenTransactionWriter
from tidegate.connectors.kafka.publisher import EpochPublisher
from tidegate.connectors.kafka.records import KafkaRecordSerializationSchema, KafkaSinkContext
from tidegate.connectors.kafka.sending import make_producer
from tidegate.connectors.kafka.topic_rules import TopicRules
from tidegate.connectors.kafka.writers import DirectWriter, EpochWriter, branch_of
from tidegate.model.configuration import Configuration
from tidegate.model.errors import InvalidJob
from tidegate.model.values import StateValue

STRATEGY_KEY = "sink.transaction-naming-strategy"


@dataclass(frozen=True)
class KafkaSink(Sink):
    """Writes records to Kafka; made by ``KafkaSink.builder()``."""

    servers: str
    schema: KafkaRecordSerializationSchema
    guarantee: DeliveryGuarantee
    prefix: str
    properties: dict[str, str]
    marker_topic: str = TOPIC
    strategy: TransactionNamingStrategy | None = None
    """How transactions that are kept open are named; ``None``: epochs are stored in the checkpoint."""
    keeps_together: bool = field(init=False, default=False)
    """Whether one subtask restores all transactions of a writer, since it aborts what else that one left open."""
    _sessions: list[SubtaskTransactions] = field(init=False, default_factory=list, repr=False, compare=False)
    """The transactions of the subtask, which its committer and its writer share."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "keeps_together", self.strategy is not None)

    @staticmethod
    def builder() -> KafkaSinkBuilder:
        """Returns a builder of a sink, which needs servers and a record serializer."""
        return KafkaSinkBuilder()

    def validate(self) -> None:
        """Raises ``InvalidJob`` when the topic does not exist or the broker does not allow the transaction timeout, ``Unreachable`` when there is no
        broker."""
        client = admin(self.servers, self.properties)
        contact(client, self.servers)
        if self.schema.topic is not None:
            partitions_of(client, self.schema.topic, self.servers)
        if self.guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            check_transaction_timeout(client, self.servers, self.properties)

    def validate_configuration(self, configuration: Configuration) -> None:
        if self.strategy is not None:
            check_deadline(self._timeout_ms, configuration)

    def make_writer(self, context: SinkContext, state: Sequence[StateValue], input_type: TypeInformation) -> SinkWriter:
        rules = TopicRules(self.servers, self.properties)
        schema = self.schema.opened(KafkaSinkContext(context.subtask_index, context.parallelism, self._partitions_of))
        if self.guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            if self.strategy is not None or state:  # of a checkpoint from when the sink kept transactions open
                transactions = self._transactions_of(context)
                try:
                    transactions.abort_lingering([Bundle.of(element) for element in state])
                finally:
                    if self.strategy is None:
                        transactions.close()  # it has no writer, and perhaps no committer that would close it
                if self.strategy is not None:
                    return OpenTransactionWriter(transactions, schema, input_type, rules.check)
            names = self.prefix, self.marker_topic
            return EpochWriter(schema, input_type, context, rules.check, *names)
        client = make_producer(self.servers, self.properties)
        waits = self.guarantee is DeliveryGuarantee.AT_LEAST_ONCE
        return DirectWriter(schema, input_type, client, self.servers, rules.check, waits=waits)

    def make_committer(self, context: SinkContext) -> Committer | None:
        if self.guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
            return None
        self._sessions.clear()
        markers = Markers(self.servers, self.properties, self.marker_topic)
        if self.strategy is not None:
            check_deadline(self._timeout_ms, Configuration.from_strings(context.configuration))
            check_transaction_timeout(admin(self.servers, self.properties), self.servers, self.properties)
            Markers(self.servers, self.properties, self._topic_of_notes).ensure_topic()
        else:
            markers.ensure_topic()
        committer = KafkaCommitter(
            lambda: TransactionCommitter(self._transactions_of(context)), lambda: self._publisher(context, markers)
        )
        committer.prepare(is_transaction=self.strategy is not None)
        return committer

    def _publisher(self, context: SinkContext, markers: Markers) -> EpochPublisher:
        publisher = EpochPublisher(
            self.servers, self.properties, self.prefix, markers, branch_of(context), is_whole=self.schema.is_whole
        )
        if self.strategy is None:
            publisher.prepare(context.subtask_index)
        return publisher

    def _partitions_of(self, topic: str) -> int:
        return len(partitions_of(admin(self.servers, self.properties), topic, self.servers))

    def _transactions_of(self, context: SinkContext) -> SubtaskTransactions:
        if not self._sessions:
            from tidegate.connectors.kafka.open_transactions.columnar_broker import (  # needs kafka-python
                ColumnarTransactionBroker,
            )

            strategy = self.strategy or TransactionNamingStrategy.POOLING
            about = self.prefix, strategy, self._topic_of_notes, self._timeout_ms, self.servers
            broker = ColumnarTransactionBroker(self.servers, self.properties, self._timeout_ms)
            self._sessions.append(SubtaskTransactions(broker, TransactionSettings(*about), context))
        return self._sessions[0]

    @property
    def _timeout_ms(self) -> int:
        return int(self.properties.get(TRANSACTION_TIMEOUT_KEY, OPEN_TIMEOUT_MS))

    @property
    def _topic_of_notes(self) -> str:
        return NOTES_TOPIC if self.marker_topic == TOPIC else self.marker_topic


@dataclass
class KafkaSinkBuilder:
    """Builds a ``KafkaSink`` (PyFlink: ``KafkaSinkBuilder``)."""

    _schema: KafkaRecordSerializationSchema | None = None
    _guarantee: DeliveryGuarantee = DeliveryGuarantee.NONE
    _prefix: str = ""
    _properties: dict[str, str] = field(default_factory=dict)
    _marker_topic: str = TOPIC
    _strategy: TransactionNamingStrategy | None = None

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSinkBuilder:
        """Sets the initial brokers: ``host:port``, separated by commas."""
        return self.set_property(SERVERS_KEY, bootstrap_servers)

    def set_record_serializer(self, record_serializer: KafkaRecordSerializationSchema) -> KafkaSinkBuilder:
        """Sets how records are serialized to messages."""
        self._schema = record_serializer
        return self

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> KafkaSinkBuilder:
        """Sets the delivery guarantee; the default is NONE."""
        self._guarantee = delivery_guarantee
        return self

    def set_transactional_id_prefix(self, transactional_id_prefix: str) -> KafkaSinkBuilder:
        """Sets the first part of the transactional ids; required for exactly once. It need not differ between jobs."""
        self._prefix = transactional_id_prefix
        return self

    def set_marker_topic(self, topic: str) -> KafkaSinkBuilder:
        """Sets the topic in which published epochs are marked (created when it is missing). This method is tidegate's own."""
        self._marker_topic = topic
        return self

    def set_transaction_naming_strategy(
        self, transaction_naming_strategy: TransactionNamingStrategy
    ) -> KafkaSinkBuilder:
        """Keeps transactions open until their checkpoint is confirmed, and names them by this strategy. Without it records wait in the checkpoint, and
        a transaction is open only while they are published."""
        self._strategy = transaction_naming_strategy
        return self

    def set_property(self, key: str, value: str) -> KafkaSinkBuilder:
        """Sets a property of the Kafka client, by librdkafka's names, over what was set before. Properties that only
        consumers know are left out. ``sink.transaction-naming-strategy`` is Flink's option of that name. Raises ``InvalidJob`` for a
        value that it does not have."""
        if key == STRATEGY_KEY:
            return self.set_transaction_naming_strategy(strategy_of(value))
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
        if self._strategy is not None and self._schema.is_whole:
            raise InvalidJob(
                "KafkaSink cannot have a transaction naming strategy where records have headers or chosen partitions: leave the strategy out"
            )
        if self._strategy is not None:
            self._check_strategy(properties)
            properties.setdefault(TRANSACTION_TIMEOUT_KEY, str(OPEN_TIMEOUT_MS))
        about = self._prefix, properties, self._marker_topic, self._strategy
        return KafkaSink(servers, self._schema, self._guarantee, *about)

    def _check_strategy(self, properties: Mapping[str, str]) -> None:
        if self._guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
            raise InvalidJob(
                "a transaction naming strategy is for transactions: use it with set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)"
            )
        if not properties.get(TRANSACTION_TIMEOUT_KEY, "0").isdecimal():
            raise InvalidJob(f"{TRANSACTION_TIMEOUT_KEY} is {properties[TRANSACTION_TIMEOUT_KEY]!r}: give milliseconds")
        if why := why_not_by_column(properties):
            raise InvalidJob(
                f"KafkaSink cannot have a transaction naming strategy: {why}, and librdkafka cannot commit a transaction of another process. "
                "Change that, or leave the strategy out: then epochs travel in the checkpoint"
            )


def strategy_of(text: str) -> TransactionNamingStrategy:
    """Parses the option ``sink.transaction-naming-strategy``. Raises ``InvalidJob``."""
    try:
        return TransactionNamingStrategy[text.upper()]
    except KeyError:
        names = ", ".join(one.name for one in TransactionNamingStrategy)
        raise InvalidJob(f"{STRATEGY_KEY} is {text!r}: it is one of {names}") from None
