"""Kafka as a source, under the names of PyFlink's ``KafkaSource``.

    KafkaSource.builder().set_bootstrap_servers("broker:9092").set_topics("orders").set_group_id("billing")
        .set_starting_offsets(KafkaOffsetsInitializer.earliest()).set_value_only_deserializer(SimpleStringSchema()).build()

Partitions are listed and offsets resolved in the client, when the job is submitted; one of the readers looks for new partitions
every ``partition.discovery.interval.ms`` (5 min; 0 or less: never) and reads those from their beginning.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, cast

from tidegate.common.serialization import DeserializationSchema as MessageSchema
from tidegate.common.typeinfo import TypeInformation
from tidegate.connectors.base import ReaderContext, Source, SourceReader, Split
from tidegate.connectors.formats.messages import ByteArraySchema, DeserializationSchema, deserializer_of
from tidegate.connectors.kafka.client import SERVERS_KEY, consumer, contact, library, servers_of, source_properties
from tidegate.connectors.kafka.decoding import ReaderSettings
from tidegate.connectors.kafka.offsets import KafkaOffsetsInitializer, KafkaTopicPartition
from tidegate.connectors.kafka.partition_records import DEAD_LETTER, PoisonAction, Tombstones
from tidegate.connectors.kafka.reader import KafkaReader
from tidegate.connectors.kafka.splits import KafkaSubscription, owner_of, split_of, with_topic_id
from tidegate.connectors.kafka.topic_ids import topic_ids
from tidegate.functions.output_tag import OutputTag
from tidegate.model.errors import ExternalError, InvalidJob
from tidegate.model.values import Record

DISCOVERY_KEY = "partition.discovery.interval.ms"
COMMIT_KEY = "commit.offsets.on.checkpoint"
GROUP_KEY = "group.id"
DEFAULT_DISCOVERY_MS = 300_000
"""Flink's default of ``partition.discovery.interval.ms``."""

_OURS = frozenset({DISCOVERY_KEY, COMMIT_KEY, "isolation.level", GROUP_KEY, "client.id.prefix"})


@dataclass(frozen=True, kw_only=True)
class KafkaSource(Source):
    """Reads partitions of Kafka; made by ``KafkaSource.builder()``. Records have Kafka's timestamps until a watermark strategy assigns others."""

    servers: str
    subscription: KafkaSubscription
    starting: KafkaOffsetsInitializer
    stopping: KafkaOffsetsInitializer | None
    bounded: bool
    group_id: str
    properties: dict[str, str]
    decoder: DeserializationSchema
    poison: PoisonAction = PoisonAction.FAIL
    dead_letters: str = ""
    tombstones: Tombstones = None
    discovery_ms: int | None = None
    takes_splits: bool = False
    deals_in_advance: bool = True

    @staticmethod
    def builder() -> KafkaSourceBuilder:
        """Returns a builder of a source, which needs servers, topics or partitions, and a schema of values."""
        return KafkaSourceBuilder()

    def owner_of(self, split: Split, parallelism: int) -> int:
        """Returns the index of the subtask that reads a partition."""
        return owner_of(split, parallelism)

    def list_splits(self, parallelism: int) -> list[Split]:
        """Returns the existing partitions, with their starting and stopping offsets. Raises ``InvalidJob``, ``Unreachable``."""
        with self._client() as client:
            partitions = self.subscription.partitions(client, self.servers)
            ids = self._topic_ids(partitions)
            starts = self.starting.resolve(client, partitions, self.servers)
            stops = self.stopping.resolve(client, partitions, self.servers) if self.stopping else {}
        if self.starting.may_be_out_of_range():
            with self._client("read_uncommitted") as client:
                starts = self.starting.in_range(client, starts, self.servers)
        return [
            split_of(topic, n, starts[topic, n], stops.get((topic, n)), ids.get(topic, "")) for topic, n in partitions
        ]

    def discover(self, known: Set[str]) -> list[Split]:
        """Returns the new partitions, to be read from their beginning. A topic that is missing may reappear."""
        try:
            with self._client() as client:
                partitions = self.subscription.partitions(client, self.servers)
        except InvalidJob as error:
            raise ExternalError(error.message) from error
        found = [split_of(topic, number, library().OFFSET_BEGINNING, None) for topic, number in partitions]
        fresh = [split for split in found if split.split_id not in known]
        ids = self._topic_ids([split.payload[:2] for split in fresh]) if fresh else {}
        return [with_topic_id(split, ids.get(split.payload[0], "")) for split in fresh]

    def _topic_ids(self, partitions: Iterable[Sequence[Any]]) -> dict[str, str]:
        return topic_ids(self.servers, self._client_properties(), sorted({topic for topic, _ in partitions}))

    @contextlib.contextmanager
    def _client(self, isolation: str = "") -> Iterator[Any]:
        """Yields a client for metadata and offsets that has reached a broker. Raises ``InvalidJob``, ``Unreachable``."""
        client = consumer(
            self.servers,
            self._client_properties(),
            group_id=self.group_id or "tidegate-offsets",
            enable_auto_commit=False,
            isolation_level=isolation or self.subscription.isolation,
        )
        try:
            contact(client, self.servers)
            yield client
        finally:
            client.close()

    def make_reader(self, context: ReaderContext) -> SourceReader:
        is_given = context.request_split is not None
        settings = ReaderSettings(
            servers=self.servers,
            group_id=self.group_id,
            properties=self._client_properties(),
            subscription=self.subscription,
            decoder=self.decoder,
            poison=self.poison,
            dead_letters=self.dead_letters,
            tombstones=self.tombstones,
            commits_offsets=bool(self.group_id) and self.properties.get(COMMIT_KEY, "true").lower() == "true",
            discovery_s=None if is_given or self.discovery_ms is None else self.discovery_ms / 1000,
            is_given_splits=is_given,
        )
        return KafkaReader(settings, context)

    def produced_type(self) -> TypeInformation:
        return self.decoder.get_produced_type()

    def _client_properties(self) -> dict[str, str]:
        return {name: value for name, value in self.properties.items() if name not in _OURS}


@dataclass
class KafkaSourceBuilder:
    """Builds a ``KafkaSource``. As in PyFlink, servers, group and client prefix are properties, of which the last set counts. ``build`` raises
    ``InvalidJob`` for settings that are missing or contradict each other."""

    _subscription: KafkaSubscription = field(default_factory=KafkaSubscription)
    _starting: KafkaOffsetsInitializer = field(default_factory=KafkaOffsetsInitializer.earliest)
    _stopping: KafkaOffsetsInitializer | None = None
    _bounded: bool = False
    _properties: dict[str, str] = field(default_factory=dict)
    _decoder: DeserializationSchema | None = None
    _poison: PoisonAction = PoisonAction.FAIL
    _dead_letters: str = ""
    _tombstones: Tombstones = None

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSourceBuilder:
        """Sets the initial brokers: ``host:port``, separated by commas."""
        return self.set_property(SERVERS_KEY, bootstrap_servers)

    def set_group_id(self, group_id: str) -> KafkaSourceBuilder:
        """Sets the consumer group whose offsets are committed when a checkpoint is confirmed; without it none are."""
        return self.set_property(GROUP_KEY, group_id)

    def set_topics(self, *topics: str) -> KafkaSourceBuilder:
        """Reads all partitions of these topics."""
        return self._subscribe(KafkaSubscription(topics=topics))

    def set_topic_pattern(self, topic_pattern: str) -> KafkaSourceBuilder:
        """Reads the topics whose whole name matches a regular expression."""
        try:
            re.compile(topic_pattern)
        except re.error as error:
            raise InvalidJob(f"topic pattern {topic_pattern!r} is no regular expression: {error}") from None
        return self._subscribe(KafkaSubscription(pattern=topic_pattern))

    def set_partitions(self, partitions: Iterable[KafkaTopicPartition]) -> KafkaSourceBuilder:
        """Reads these partitions only."""
        return self._subscribe(KafkaSubscription(named=tuple((p.topic, p.partition) for p in partitions)))

    def set_starting_offsets(self, starting_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """Sets where reading begins when there is no checkpoint to restore."""
        self._starting = starting_offsets_initializer
        return self

    def set_bounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """Stops at these offsets, which are resolved at submission."""
        self._stopping, self._bounded = stopping_offsets_initializer, True
        return self

    def set_unbounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """Stops at these offsets, but the source counts as unbounded."""
        self._stopping, self._bounded = stopping_offsets_initializer, False
        return self

    def set_value_only_deserializer(
        self, deserialization_schema: DeserializationSchema | MessageSchema | Callable[[bytes], Record]
    ) -> KafkaSourceBuilder:
        """Sets how the values of messages are deserialized: by ``SimpleStringSchema``, a row schema of ``tidegate.datastream.formats``, or a function
        of bytes."""
        self._decoder = deserializer_of(deserialization_schema)
        return self

    def set_deserializer(self, function: Callable[[bytes], Record], type_info: TypeInformation) -> KafkaSourceBuilder:
        """Sets a function of a message's bytes that returns the record, and the record's type. This method is tidegate's own."""
        self._decoder = deserializer_of(function, type_info)
        return self

    def set_poison_records(self, action: str | OutputTag) -> KafkaSourceBuilder:
        """Sets what is done with a record that cannot be decoded: ``"fail"`` (the default), ``"skip"`` (with a warning), or an ``OutputTag`` with
        ``DEAD_LETTER`` as its type: it goes to that side output of the source, with its topic, partition, offset, and the reason. This method is
        tidegate's own."""
        if isinstance(action, OutputTag):
            tag = action.tag_id
            if action.type_info != DEAD_LETTER:
                raise InvalidJob(
                    f"the side output {tag!r} for poison records has the wrong type: write OutputTag({tag!r}, DEAD_LETTER)"
                )
            self._poison, self._dead_letters = PoisonAction.SIDE_OUTPUT, tag
            return self
        if action not in ("fail", "skip"):
            raise InvalidJob(
                f"the choice for poison records is 'fail' (the job fails), 'skip' (they are left out) or an OutputTag, not {action!r}"
            )
        self._poison, self._dead_letters = PoisonAction(action), ""
        return self

    def set_tombstones(self, action: str | Callable[[bytes | None], Record]) -> KafkaSourceBuilder:
        """Sets what is done with a message without a value, which marks the deletion of its key in a compacted topic: it fails the job (``"fail"``), is
        skipped (``"skip"``), or becomes the record that a function makes of its key, of the schema's type and in its place among the others. This
        method is tidegate's own::

            .set_tombstones(lambda key: Row(id=int(key), name=None, is_deleted=True))

        Other records that cannot be decoded are poison as before (``set_poison_records``). Without this setting tombstones are poison for a
        format that needs a value, and null for text and bytes. Raises ``InvalidJob``."""
        if not callable(action) and action not in ("fail", "skip"):
            raise InvalidJob(
                f"tombstones can 'fail' the job, be left out ('skip') or be what a function makes of a key, not {action!r}"
            )
        self._tombstones = cast("Tombstones", action)
        return self

    def set_client_id_prefix(self, prefix: str) -> KafkaSourceBuilder:
        """Sets the client id that brokers log."""
        self._properties["client.id"] = prefix
        return self

    def set_property(self, key: str, value: str) -> KafkaSourceBuilder:
        """Sets a property of the Kafka client (librdkafka's names), ``bootstrap.servers`` and ``group.id`` among them,
        or ``partition.discovery.interval.ms``, ``commit.offsets.on.checkpoint``, ``isolation.level``."""
        self._properties[key] = value
        return self

    def set_properties(self, props: dict[str, str]) -> KafkaSourceBuilder:
        """Sets several properties of the client."""
        self._properties.update(props)
        return self

    def build(self) -> KafkaSource:
        """Returns the source. Raises ``InvalidJob`` for settings that are missing or contradict each other."""
        library()
        servers, group = servers_of(self._properties, "KafkaSource"), self._properties.get(GROUP_KEY, "")
        if self._subscription == KafkaSubscription():
            raise InvalidJob("KafkaSource needs set_topics(), set_topic_pattern() or set_partitions()")
        properties = source_properties(self._properties)
        if not group and properties.get(COMMIT_KEY, "").lower() == "true":
            raise InvalidJob(f"{COMMIT_KEY} needs a group: set_group_id(), or the property {GROUP_KEY}")
        isolation = properties.get("isolation.level", "read_committed")
        every_ms = int(properties.get(DISCOVERY_KEY, DEFAULT_DISCOVERY_MS))
        looks = not self._bounded and every_ms > 0 and not self._subscription.named
        return KafkaSource(
            servers=servers,
            subscription=replace(self._subscription, isolation=isolation),
            starting=self._starting,
            stopping=self._stopping,
            bounded=self._bounded,
            group_id=group,
            properties=properties,
            decoder=self._decoder or ByteArraySchema(),
            poison=self._poison,
            dead_letters=self._dead_letters,
            tombstones=self._tombstones,
            discovery_ms=every_ms if looks else None,
            takes_splits=looks,
        )

    def _subscribe(self, subscription: KafkaSubscription) -> KafkaSourceBuilder:
        if self._subscription != KafkaSubscription():
            raise InvalidJob("KafkaSource reads topics, a pattern or partitions: set one of them, once")
        self._subscription = subscription
        return self
