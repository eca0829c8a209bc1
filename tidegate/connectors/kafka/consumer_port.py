"""The interface of Kafka consumers of a subtask, and its implementation on librdkafka. The other one is ``columnar.fetching``.

add(positions) · remove(partitions) ─▶ take() ─▶ PollResult: what came, by partition; how far those are that came to an end
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tidegate.connectors.kafka.client import METADATA_TIMEOUT_S, kafka_errors, library, typed_error
from tidegate.connectors.kafka.partition_records import PartitionMessages, PartitionRecords, runs
from tidegate.connectors.kafka.shared_client import SharedClient
from tidegate.model.errors import CorruptData

FETCH_MESSAGES = 16_384
PIECE = 500
"""How many messages are converted at a time: with 16,384 the garbage collector scanned them again and again (docs/adr/0061)."""
FETCH_WAIT_S = 0.1
"""How many seconds ``take`` waits for records before other work is done: committing offsets, adding partitions."""
GATHER_S = 0.005
"""How many seconds the first message waits for others, so that a quiet topic is not read one by one."""

Place = tuple[str, int]
"""A topic and the number of one of its partitions."""


@dataclass(frozen=True, slots=True)
class PollResult:
    """The result of one poll: records, and the offsets that partitions have reached."""

    records: list[PartitionRecords] = field(default_factory=list)
    reached: list[tuple[Place, int]] = field(default_factory=list)
    """Partitions that were read up to an offset, before which there need not be a record."""
    ends: dict[Place, int] = field(default_factory=dict)
    """The high watermarks of partitions, where they have changed."""
    topic_ids: dict[str, str] = field(default_factory=dict)
    """The ids of topics, where they are newly learned. The records returned with them have not been compared with the splits' ids."""


class ConsumerPort(ABC):
    """Consumes partitions; all methods run in the fetcher's thread."""

    tells_topic_ids: ClassVar[bool] = False
    """Whether ``take`` returns the ids of topics before it returns records of them."""

    @abstractmethod
    def add(self, positions: Mapping[Place, int]) -> None:
        """Starts to read partitions from these positions, which may be librdkafka's logical offsets. Raises ``ExternalError``."""

    @abstractmethod
    def remove(self, places: Iterable[Place]) -> None:
        """Stops reading partitions."""

    @abstractmethod
    def take(self) -> PollResult:
        """Returns the records that have arrived, waiting up to ``FETCH_WAIT_S``; waits for a broker that is down.

        Raises ``CorruptData`` for records that are gone or cannot be read, ``ExternalError``."""

    @abstractmethod
    def close(self) -> None:
        """Closes the consumer's own connections, not the shared client."""


class MessageConsumer(ConsumerPort):
    """Consumes librdkafka's messages, converted in small pieces: tens of thousands of objects would make Python's garbage collector scan them again and
    again (twice the processor time of everything else here)."""

    def __init__(self, shared: SharedClient, servers: str, *, with_keys: bool, with_attributes: bool = False) -> None:
        self._shared = shared
        self._servers = servers
        self._with_keys = with_keys
        self._with_attributes = with_attributes
        self._assigned = False

    def add(self, positions: Mapping[Place, int]) -> None:
        kafka = library()
        parts = [kafka.TopicPartition(*place, offset) for place, offset in positions.items()]
        with self._shared.used() as client, kafka_errors("read from its partitions", self._servers):
            if self._assigned:
                client.incremental_assign(parts)
            else:
                client.assign(parts)
        self._assigned = True

    def remove(self, places: Iterable[Place]) -> None:
        kafka = library()
        with self._shared.used() as client:
            client.incremental_unassign([kafka.TopicPartition(*place) for place in places])

    def close(self) -> None:
        """Does nothing: there are no own connections."""

    def take(self) -> PollResult:
        gathered: dict[Place, PartitionMessages] = {}
        at_end: list[tuple[Place, int]] = []
        with self._shared.used() as client, kafka_errors("read", self._servers):
            self._gather(client, gathered, at_end)
            ends = dict(at_end) | {place: end for place in gathered if (end := _known_end(client, place)) >= 0}
        return PollResult([one.taken() for one in gathered.values()], at_end, ends)

    def _gather(self, client: Any, gathered: dict[Place, PartitionMessages], at_end: list[tuple[Place, int]]) -> None:
        count, wanted, wait_s = 0, 1, FETCH_WAIT_S
        while count < FETCH_MESSAGES:
            messages = client.consume(wanted, wait_s)
            self._sort(client, messages, gathered, at_end)
            if len(messages) < wanted:
                return
            # the client waits until it has as many as requested: so request one first, and then do not wait
            count, wait_s = count + len(messages), GATHER_S if wanted == 1 else 0.0
            wanted = PIECE

    def _sort(
        self,
        client: Any,
        messages: list[Any],
        gathered: dict[Place, PartitionMessages],
        at_end: list[tuple[Place, int]],
    ) -> None:
        """Sorts messages by partition; raises the client's errors."""
        kind = library().Message
        if any(map(kind.error, messages)):
            good = []
            for message in messages:
                error = message.error()
                if error is None:
                    good.append(message)
                elif error.code() == library().KafkaError._PARTITION_EOF:
                    at_end.append(((message.topic(), message.partition()), message.offset()))
                else:
                    self._failed(client, error, message)
            messages = good
        for place, run in runs(messages):
            gathered.setdefault(place, PartitionMessages(*place)).add(run, self._with_keys, self._with_attributes)

    def _failed(self, client: Any, error: Any, message: Any) -> None:
        codes = library().KafkaError
        if error.code() == codes._AUTO_OFFSET_RESET or error.code() == codes.OFFSET_OUT_OF_RANGE:
            raise out_of_range(client, (message.topic(), message.partition()), message.offset(), error)
        if error.fatal() or not error.retriable():
            raise typed_error(error, f"read topic {message.topic()!r}", self._servers)


def _known_end(client: Any, place: Place) -> int:
    """Returns the high watermark of the broker's last answer; below 0 if there was none."""
    known = client.get_watermark_offsets(library().TopicPartition(*place), cached=True)
    return -1 if known is None else int(known[1])


def out_of_range(client: Any, place: Place, offset: int, error: Any) -> CorruptData:
    """Builds the error for an offset that a partition does not have: its records were deleted, or never existed. ``client``: a consumer, which is asked
    for the partition's range."""
    topic, partition = place
    what = f"partition {partition} of topic {topic!r} does not have the offset to read from, {offset}"
    kafka = library()
    try:
        low, high = client.get_watermark_offsets(kafka.TopicPartition(topic, partition), timeout=METADATA_TIMEOUT_S)
    except kafka.KafkaException as failed:
        return CorruptData(f"{what} ({error.str()}; what it has cannot be asked: {failed.args[0].str()})")
    anew = "give the source another uid and restore with --allow-non-restored-state, and choose where it begins"
    if 0 <= offset < low:
        return CorruptData(
            f"{what}: it begins at {low}, so {low - offset} offsets were deleted before they were read. Its retention was shorter than the time the "
            f"job was down or behind, or records were deleted by hand. To go on with what is left, {anew}"
        )
    return CorruptData(
        f"{what}: it ends at {high}. The topic has lost records that were read, as after an election of a leader that was not in sync, or it "
        f"is another one of the same name. To read what it has, {anew}"
    )
