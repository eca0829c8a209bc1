"""The second phase of the exactly-once sink: an epoch's records are published in one Kafka transaction, with their marker; epochs that waited together
share it.

    committable [branch, writer subtask, checkpoint id, closed at, records, prefix, topic of markers]
        │ confirm(n), or recovery to n
    producer with transactional id <prefix>-<branch>-<writer subtask>
        │ first use: init_transactions (fences the id's former producer, ends its transaction), then read the markers
        │ marker there: it was published, done          marker missing: begin · records · marker · commit
        ▼
    visible to read_committed consumers, once

Laws. Only the producer of the epoch's own (prefix, branch, writer subtask) publishes it; between its ``init_transactions`` and its
commit no other process can have published under that id. After any doubt (lost answer, fenced, aborted) the producer is thrown
away, and the next one looks at the markers first. See docs/adr/0050 for the table of failures.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tidegate.connectors.base import Committer
from tidegate.connectors.kafka.client import library, typed_error
from tidegate.connectors.kafka.markers import ABORTED, RETENTION_MS, Markers, is_abort, key_of
from tidegate.connectors.kafka.producer_port import BatchLimit, TransactionalProducer
from tidegate.connectors.kafka.records import from_bytes, topics_of
from tidegate.connectors.kafka.topic_rules import TopicRules
from tidegate.connectors.kafka.transactional_producers import make_transactional_producer
from tidegate.model.errors import ON_DAMAGE, CorruptData, ExternalError, InvalidJob, TidegateError, UserError
from tidegate.model.values import Committable

INIT_TIMEOUT_S = 30.0
"""The limit for taking a transactional id, in seconds. Chosen, not measured: the coordinator may be starting."""
COMMIT_TIMEOUT_S = 60.0
"""Kafka's default of ``transaction.timeout.ms``."""
TOGETHER_BYTES = 32 << 20
"""How many bytes of epochs go into one transaction; a larger epoch goes alone."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Epoch:
    """The records that one writer wrote between two checkpoints. Stored as a list."""

    branch: str
    subtask: int
    checkpoint_id: int
    closed_at_ms: int
    records: bytes | memoryview
    prefix: str = ""
    """The prefix of the transactional id; empty in older checkpoints: the sink's own."""
    marker_topic: str = ""

    @staticmethod
    def of(committable: Committable) -> Epoch:
        """Parses a committable. Raises ``CorruptData`` when it is not an epoch."""
        try:
            branch, subtask, checkpoint_id, closed_at_ms, records, *more = committable
            prefix, topic = more or ("", "")
            numbers = int(subtask), int(checkpoint_id), int(closed_at_ms)
            return Epoch(str(branch), *numbers, _as_bytes(records), str(prefix), str(topic))
        except (TypeError, ValueError) as error:
            raise CorruptData(
                f"the checkpoint holds what is not an epoch of a Kafka sink: {str(committable)[:100]}; {ON_DAMAGE}, or give the sink another uid "
                "where another kind of sink had its uid"
            ) from error

    def as_list(self) -> list[Committable]:
        """Returns the epoch as a committable."""
        values = [self.branch, self.subtask, self.checkpoint_id, self.closed_at_ms, self.records]
        return [*values, self.prefix, self.marker_topic]

    @property
    def key(self) -> str:
        """Returns the key of the epoch's marker."""
        return key_of(self.branch, self.subtask, self.checkpoint_id)


def _as_bytes(records: Any) -> bytes | memoryview:
    """Returns the records as bytes. Raises ``TypeError``."""
    if not isinstance(records, bytes | memoryview):
        raise TypeError(f"records are {type(records).__name__}")
    return records


def is_too_old(epoch: Epoch, now_ms: int) -> bool:
    """Returns whether the epoch is so old that its marker may have expired."""
    return now_ms - epoch.closed_at_ms > RETENTION_MS // 2


class _Name(NamedTuple):
    """The parts of a transactional id."""

    prefix: str
    branch: str
    subtask: int

    def __str__(self) -> str:
        return f"{self.prefix}-{self.branch}-{self.subtask}"


@dataclass(slots=True)
class _Identity:
    """A Kafka producer with its transactional id, and the last epoch that was published with that id before."""

    producer: TransactionalProducer
    published: dict[str, str]
    """The markers that exist: values by key."""
    is_own: bool
    """Whether no other process can have published under the id, and no outcome is in doubt."""


class EpochPublisher(Committer):
    """Publishes epochs. ``own_branch``: of this process's attempt; empty for a process that closed no epochs itself."""

    def __init__(
        self,
        servers: str,
        properties: dict[str, str],
        prefix: str,
        markers: Markers,
        own_branch: str,
        clock: Callable[[], float] = time.time,
        *,
        is_whole: bool = False,
    ) -> None:
        self._servers = servers
        self._properties = properties
        self._prefix = prefix
        self._markers = markers
        self._own_branch = own_branch
        self._is_whole = is_whole
        self._clock = clock
        self._identities: dict[_Name, _Identity] = {}
        self._doubted: set[_Name] = set()
        self._batch_limit = BatchLimit.of(properties)

    def commit(self, committables: Sequence[Committable]) -> None:
        """Publishes epochs. Those of one writer that waited together go into one transaction, since a broker takes its time for each."""
        for epochs in self._together(Epoch.of(committable) for committable in committables):
            self._publish(epochs, with_records=True)

    def abort(self, committable: Committable) -> None:
        """Aborts an epoch: its marker alone is written. Does nothing when there is one already."""
        self._publish([Epoch.of(committable)], with_records=False)

    def name_of(self, committable: Committable) -> str:
        return f"epoch {Epoch.of(committable).key}"

    def close(self) -> None:
        for identity in self._identities.values():
            identity.producer.close()
        self._identities.clear()

    def prepare(self, subtask: int) -> None:
        """Takes this attempt's transactional id before the first commit, since the broker takes a moment for a new one."""
        self._identity(_Name(self._prefix, self._own_branch, subtask), self._markers, self._now_ms())

    def _together(self, epochs: Iterable[Epoch]) -> Iterator[list[Epoch]]:
        """Groups consecutive epochs of one writer, up to a size that a broker takes well before the transaction's timeout."""
        group: list[Epoch] = []
        taken = 0
        for epoch in epochs:
            same = bool(group) and self._place(epoch) == self._place(group[0])
            if group and not (same and taken + len(epoch.records) <= TOGETHER_BYTES):
                yield group
                group, taken = [], 0
            group.append(epoch)
            taken += len(epoch.records)
        if group:
            yield group

    def _place(self, epoch: Epoch) -> tuple[_Name, str]:
        return self._name(epoch), epoch.marker_topic

    def _publish(self, epochs: Sequence[Epoch], *, with_records: bool) -> None:
        """Publishes epochs of one writer, oldest first."""
        kafka = library()
        markers = self._markers.on(epochs[0].marker_topic)
        identity = self._identity(self._name(epochs[0]), markers, epochs[0].closed_at_ms)
        left = [epoch for epoch in epochs if not _is_decided(epoch, identity)]
        if not left:
            return
        if with_records and not identity.is_own:
            self._check_age(left[0])
        says = {epoch.key: str(epoch.closed_at_ms) if with_records else ABORTED for epoch in left}
        producer = identity.producer
        try:
            producer.begin()
            for epoch in left if with_records else ():
                for records in from_bytes(epoch.records):
                    producer.send(records)
            producer.mark(markers.topic, says)
            producer.commit(COMMIT_TIMEOUT_S)
            identity.published.update(says)
        except kafka.KafkaException as error:
            self._give_up(left[0])
            producer.give_up(error.args[0])
            producer.close()
            why, topic = producer.refusal() or (error.args[0], "")
            if with_records:
                self._check_for_good(left, why)
            topics = [topic] if topic else topics_of([r for epoch in left for r in from_bytes(epoch.records)])
            doing = f"publish epoch {', '.join(says)} to topic {', '.join(map(repr, topics))}"
            raise _retriable(typed_error(why, doing, self._servers)) from error
        except TidegateError:
            self._give_up(left[0])
            producer.close()
            raise

    def _check_for_good(self, epochs: Sequence[Epoch], why: Any) -> None:
        """Checks that the topics would accept the records when they are sent again, so that a refusal is not retried without end. Raises ``UserError``."""
        codes = library().KafkaError
        of_records = (codes.MSG_SIZE_TOO_LARGE, codes.UNKNOWN_TOPIC_OR_PART, codes._UNKNOWN_TOPIC, codes.INVALID_RECORD)
        if why.code() not in of_records:
            return
        rules = TopicRules(self._servers, self._properties)
        for epoch in epochs:
            first = 1
            try:
                for records in from_bytes(epoch.records):
                    rules.check(records, first)
                    first += records.num_rows
            except UserError as error:
                raise UserError(
                    f"Kafka refuses epoch {epoch.key} ({why.str()}): {error.message}. When the topic takes it, restart the job from its last checkpoint; "
                    f"or give all records of this epoch up by `tidegate txn abort CHECKPOINT --kafka {self._servers} --only {epoch.key}`, and restart "
                    "the job from it then"
                ) from error

    def _check_age(self, epoch: Epoch) -> None:
        """Raises if a missing marker of the epoch may have expired, for one that another process closed or whose outcome is in doubt."""
        if is_too_old(epoch, self._now_ms()):
            raise CorruptData(
                f"epoch {epoch.key} was closed {(self._now_ms() - epoch.closed_at_ms) // 3_600_000} hours ago: markers are "
                f"kept for {RETENTION_MS // 3_600_000} hours, so it is not known whether it was published; look into "
                "the topic, then restore without this operator's state (another uid and --allow-non-restored-state)"
            )

    def _name(self, epoch: Epoch) -> _Name:
        return _Name(epoch.prefix or self._prefix, epoch.branch, epoch.subtask)

    def _identity(self, name: _Name, markers: Markers, since_ms: int) -> _Identity:
        found = self._identities.get(name)
        if found is not None:
            return found
        kafka = library()
        producer = make_transactional_producer(
            self._servers, self._properties, str(name), self._batch_limit, is_whole=self._is_whole
        )
        try:
            producer.init(INIT_TIMEOUT_S)
        except kafka.KafkaException as error:
            producer.close()
            typed = typed_error(error.args[0], f"take the transactional id {name}", self._servers)
            # a timeout that the broker does not allow is refused for good
            raise (typed if isinstance(typed, InvalidJob) else _retriable(typed)) from error
        is_own = name.branch == self._own_branch and name not in self._doubted
        try:
            published = {} if is_own else markers.read(since_ms)
        except BaseException:
            producer.close()
            raise
        self._identities[name] = identity = _Identity(producer, published, is_own)
        return identity

    def _give_up(self, epoch: Epoch) -> None:
        """Closes the producer, since the transaction's outcome is unknown: the next one of this id ends it, and reads the markers."""
        self._identities.pop(self._name(epoch), None)
        self._doubted.add(self._name(epoch))

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)


def _is_decided(epoch: Epoch, identity: _Identity) -> bool:
    said = identity.published.get(epoch.key)
    if said is not None:
        was = "given up by hand, its records are not published" if is_abort(said) else "published before"
        _LOG.info("epoch %s was %s", epoch.key, was)
    return said is not None


def _retriable(error: TidegateError) -> ExternalError:
    """Converts an error to one that is retried."""
    return error if isinstance(error, ExternalError) else ExternalError(error.message)
