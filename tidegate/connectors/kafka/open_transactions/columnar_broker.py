"""The transaction port by column: ``ColumnarProducer`` writes, and a coordinator's ``EndTxn`` commits what another process wrote."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence

import pyarrow as pa

from tidegate.connectors.kafka.client import TRANSACTION_TIMEOUT_KEY, library, typed_error
from tidegate.connectors.kafka.columnar.connection import Connections
from tidegate.connectors.kafka.columnar.coordinator import Coordinator
from tidegate.connectors.kafka.columnar.transaction import ColumnarProducer
from tidegate.connectors.kafka.columnar.transaction_list import TransactionList
from tidegate.connectors.kafka.markers import Markers
from tidegate.connectors.kafka.open_transactions.broker import (
    NotOpen,
    TransactionBroker,
    TransactionProducer,
)
from tidegate.connectors.kafka.open_transactions.prepared import ProducerIdentity
from tidegate.connectors.kafka.producer_port import BatchLimit
from tidegate.connectors.kafka.publisher import COMMIT_TIMEOUT_S, INIT_TIMEOUT_S
from tidegate.connectors.kafka.record_batches import Producer
from tidegate.model.errors import ExternalError, InvalidJob


class ColumnarTransactionProducer(TransactionProducer):
    """A producer with connections of its own."""

    def __init__(self, servers: str, properties: Mapping[str, str], limit: BatchLimit) -> None:
        self._servers = servers
        self._properties = properties
        self._limit = limit
        self._client: ColumnarProducer | None = None
        self._id = ""

    def begin(self, transactional_id: str) -> ProducerIdentity:
        self._id = transactional_id
        if self._client is None:
            self._client = ColumnarProducer(self._servers, self._properties, transactional_id, self._limit)
        with _telling(f"take the transactional id {transactional_id}", self._servers, is_ours=False):
            taken = self._client.take(transactional_id, INIT_TIMEOUT_S)
            self._client.begin()
        return ProducerIdentity(taken.id, taken.epoch)

    def send(self, records: pa.RecordBatch) -> None:
        client = self._begun()
        with self._writing("write to"):
            client.send(records)
            client.push()

    def prepare(self) -> None:
        client = self._begun()
        with self._writing("prepare"):
            client.prepare(COMMIT_TIMEOUT_S)

    def commit(self) -> None:
        client = self._begun()
        with _telling(f"commit the transaction {self._id}", self._servers):
            client.commit_prepared(COMMIT_TIMEOUT_S)

    def abort(self) -> None:
        if self._client is not None:
            self._client.abort()

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    def _begun(self) -> ColumnarProducer:
        assert self._client is not None
        return self._client

    @contextlib.contextmanager
    def _writing(self, doing: str) -> Iterator[None]:
        """Adds the topic to errors of refused records."""
        kafka = library()
        try:
            yield
        except kafka.KafkaException as error:
            why, topic = self._begun().refusal() or (error.args[0], "")
            if _is_over(why):
                raise NotOpen(self._id) from error
            place = f" (topic {topic!r})" if topic else ""
            raise _external(typed_error(why, f"{doing} the transaction {self._id}{place}", self._servers)) from error


class ColumnarTransactionBroker(TransactionBroker):
    """A broker client that connects at the first request."""

    def __init__(self, servers: str, properties: Mapping[str, str], timeout_ms: int) -> None:
        self._servers = servers
        self._properties = {**properties, TRANSACTION_TIMEOUT_KEY: str(timeout_ms)}
        self._timeout_ms = timeout_ms
        self._limit = BatchLimit.of(properties)
        self._connections: Connections | None = None
        self._topics: dict[str, Markers] = {}

    def producer(self) -> TransactionProducer:
        return ColumnarTransactionProducer(self._servers, self._properties, self._limit)

    def commit(self, transactional_id: str, identity: ProducerIdentity) -> None:
        with self._asking(f"commit the transaction {transactional_id}") as connections:
            coordinator = Coordinator(connections, transactional_id, self._timeout_ms)
            producer = Producer(identity.producer_id, identity.epoch)
            coordinator.end(producer, COMMIT_TIMEOUT_S, commits=True, repeats_lost=True)

    def open_ids(self, prefix: str) -> list[str]:
        with self._asking(f"list the transactions of {prefix}") as connections:
            return TransactionList(connections, INIT_TIMEOUT_S).open_ids(prefix)

    def described(self, transactional_ids: Collection[str]) -> dict[str, tuple[ProducerIdentity, str]]:
        """Returns the last producer and the transaction's state, in the broker's words, of each known transactional id."""
        with self._asking("describe transactions") as connections:
            found = TransactionList(connections, INIT_TIMEOUT_S).described(transactional_ids)
        return {one: (ProducerIdentity(producer.id, producer.epoch), state) for one, (producer, state) in found.items()}

    def abort(self, transactional_id: str) -> None:
        with self._asking(f"abort the transaction {transactional_id}", is_ours=False) as connections:
            Coordinator(connections, transactional_id, self._timeout_ms).init(INIT_TIMEOUT_S)

    def note(self, topic: str, key: str, says: str) -> None:
        self._notes(topic).note(key, says)

    def notes(self, topic: str, keys: Collection[str], since_ms: int) -> dict[str, str]:
        return self._notes(topic).find(keys, since_ms)

    def _notes(self, topic: str) -> Markers:
        if topic not in self._topics:
            self._topics[topic] = Markers(self._servers, dict(self._properties), topic)
        return self._topics[topic]

    def close(self) -> None:
        connections, self._connections = self._connections, None
        if connections is not None:
            connections.close()

    @contextlib.contextmanager
    def _asking(self, doing: str, *, is_ours: bool = True) -> Iterator[Connections]:
        """Yields the connections for a request; closes them after an error, so that the next one reconnects."""
        try:
            with _telling(doing, self._servers, is_ours=is_ours):
                if self._connections is None:
                    self._connections = Connections(self._servers, self._properties)
                    self._connections.connect(INIT_TIMEOUT_S)
                yield self._connections
        except (ExternalError, InvalidJob):
            self.close()
            raise


@contextlib.contextmanager
def _telling(doing: str, servers: str, *, is_ours: bool = True) -> Iterator[None]:
    """Converts exceptions to typed errors. ``is_ours``: the broker may answer that the transaction is not open."""
    kafka = library()
    try:
        yield
    except kafka.KafkaException as error:
        if is_ours and _is_over(error.args[0]):
            raise NotOpen(doing) from error
        typed = typed_error(error.args[0], doing, servers)
        # a timeout that the broker does not allow is refused for good
        raise (typed if isinstance(typed, InvalidJob) else _external(typed)) from error


def _is_over(error: object) -> bool:
    codes = library().KafkaError
    over: Sequence[int] = (
        codes.INVALID_PRODUCER_EPOCH,
        codes.PRODUCER_FENCED,
        codes.INVALID_TXN_STATE,
        codes.INVALID_PRODUCER_ID_MAPPING,
        codes.UNKNOWN_PRODUCER_ID,
    )
    return isinstance(error, codes) and error.code() in over


def _external(error: ExternalError | InvalidJob) -> ExternalError:
    """Converts an error to one that is retried."""
    return error if isinstance(error, ExternalError) else ExternalError(error.message)
