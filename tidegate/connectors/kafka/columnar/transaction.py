"""The columnar transactional producer: sends its requests over kafka-python's connections.

    init  ─▶ coordinator gives producer id and epoch
    send  ─▶ gathered until they are worth it ─▶ pieces of one partition each, as record batches ─▶ AddPartitionsToTxn for all that are
             new ─▶ Produce, several on their way to a leader; what is less than a request waits for more
    commit ─▶ all of them acknowledged ─▶ EndTxn

Laws. Nothing that bears a sequence number is sent twice: every error but a coordinator's "not now" ends this producer, and its
successor looks at the markers first (``publisher``). Records of a partition go out in the order in which they came.
A transaction is not aborted while records of it may still be on their way.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from kafka.protocol.producer import ProduceRequest

from tidegate.connectors.kafka.client import TRANSACTION_TIMEOUT_KEY, TRANSACTION_TIMEOUT_MS, library
from tidegate.connectors.kafka.columnar.client_properties import number
from tidegate.connectors.kafka.columnar.connection import Connections, failure, refusal
from tidegate.connectors.kafka.columnar.coordinator import Coordinator, PartitionRefused
from tidegate.connectors.kafka.columnar.topics import Topics, pieces
from tidegate.connectors.kafka.consumer_port import Place
from tidegate.connectors.kafka.producer_port import ABORT_TIMEOUT_S, BatchLimit, Refusal, TransactionalProducer
from tidegate.connectors.kafka.record_batches import Producer, encode
from tidegate.connectors.kafka.records import SCHEMA, by_topic, is_whole
from tidegate.model.errors import InvalidJob

ON_THEIR_WAY = 5
"""How many requests to one leader may be in flight: a broker remembers so many batches of a producer in a partition."""
ANSWER_LIMIT_S = 60.0
"""How long records may take to be acknowledged, in seconds: Kafka's default of ``transaction.timeout.ms``, after which the broker aborts by itself."""
METADATA_LIMIT_S = 30.0
"""How long metadata may take, in seconds. Chosen, not measured: a topic that is just being created is known by then."""
GATHER_BYTES = 1 << 18
"""How many bytes are buffered before they are sent. Chosen, not measured: enough to be worth a request, few enough to be sent at a barrier."""
GATHER_S = 0.1
"""How many seconds records are buffered. Chosen, not measured: so a barrier does not find all of them unsent."""
ACKNOWLEDGE_MS = 30_000
"""The timeout that produce requests name, in ms: Kafka's default of ``request.timeout.ms``."""


@dataclass(slots=True)
class _Request:
    """A produce request to one leader, with at most one batch for each partition: (batch, count of its records)."""

    batches: dict[Place, tuple[Any, int]] = field(default_factory=dict)
    size_bytes: int = 0
    future: Any = None


class ColumnarProducer(TransactionalProducer):
    """Writes records by column in transactions of one transactional id."""

    def __init__(
        self,
        servers: str,
        properties: Mapping[str, str],
        transactional_id: str,
        limit: BatchLimit,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._id = transactional_id
        self._limit = limit
        self._clock = clock
        self._monotonic = monotonic
        self._gathered: list[pa.RecordBatch] = []
        self._gathered_bytes = 0
        self._dealt_at = 0.0
        """When records went to their partitions last."""
        self._compression = str(properties.get("compression.type", properties.get("compression.codec", "none")))
        self._acknowledge_ms = number(properties, ACKNOWLEDGE_MS, "request.timeout.ms")
        self._connections = Connections(servers, properties)
        self._timeout_ms = number(properties, TRANSACTION_TIMEOUT_MS, TRANSACTION_TIMEOUT_KEY)
        self._coordinator = Coordinator(self._connections, transactional_id, self._timeout_ms)
        self._is_connected = False
        self._topics = Topics(self._connections)
        self._producer: Producer | None = None
        self._sequences: Counter[Place] = Counter()
        self._touched: set[Place] = set()
        """Partitions of the transaction; before the coordinator's answer: when it is lost they may be."""
        self._waiting: dict[int, _Request] = {}
        self._sent: dict[int, list[_Request]] = {}
        self._turn = 0
        self._is_open = False
        self._refused: Refusal | None = None

    def init(self, limit_s: float) -> None:
        self.take(self._id, limit_s)

    def take(self, transactional_id: str, limit_s: float) -> Producer:
        """Switches to another transactional id after the last transaction has ended; every epoch numbers its records from 0."""
        if not self._is_connected:
            self._connections.connect(limit_s)
            self._is_connected = True
        if transactional_id != self._id:
            self._id = transactional_id
            self._coordinator = Coordinator(self._connections, transactional_id, self._timeout_ms)
        self._producer = self._coordinator.init(limit_s)
        self._sequences.clear()
        return self._producer

    def begin(self) -> None:
        codes = library().KafkaError
        if self._is_open:
            raise library().KafkaException(
                codes(codes._STATE, "a transaction is still open; commit or abort it before the next begins")
            )
        self._connections.flush()  # connections that were closed while nothing was to do are known before they are used
        self._is_open = True
        self._touched.clear()
        self._gathered, self._gathered_bytes = [], 0

    def send(self, records: pa.RecordBatch) -> None:
        """Adds records to the transaction. Raises ``KafkaException``, and ``InvalidJob`` for records that cannot be sent by column."""
        if is_whole(records):
            raise InvalidJob(
                "the checkpoint holds records with headers or chosen partitions, which this sink cannot write: restore it into a table that "
                "has them, and leave them out after its next savepoint"
            )
        self._gathered.append(records)
        self._gathered_bytes += records.nbytes
        if self._gathered_bytes >= GATHER_BYTES:
            self._deal()

    def mark(self, topic: str, markers: Mapping[str, str]) -> None:
        """Adds markers to the transaction. Raises ``KafkaException``."""
        columns = [[topic] * len(markers), list(markers), list(markers.values()), [None] * len(markers)]
        arrays = [pa.array(column, one.type) for column, one in zip(columns, SCHEMA, strict=True)]
        self.send(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))

    def push(self) -> None:
        """Sends buffered records without waiting for acknowledgements, at most ten times a second; others stay buffered, since readers wait for the
        commit anyway. Raises ``KafkaException``."""
        if self._gathered and self._monotonic() - self._dealt_at >= GATHER_S:
            self._deal()
        self._send_waiting()

    def flush(self, limit_s: float) -> None:
        """Sends everything and waits for acknowledgements. Raises ``KafkaException``."""
        self._deal()
        self._send_waiting()
        gives_up_at = time.monotonic() + limit_s
        for leader in list(self._sent):
            self._acknowledged(leader, 0, gives_up_at - time.monotonic())

    def prepare(self, limit_s: float) -> None:
        """Sends everything and checks that the coordinator still has the transaction open for this producer; one that timed out meanwhile would
        otherwise be committed to in a checkpoint, and lost. Raises ``KafkaException``."""
        gives_up_at = time.monotonic() + limit_s
        self.flush(limit_s)
        assert self._producer is not None
        try:
            left_s = gives_up_at - time.monotonic()
            self._coordinator.add(self._producer, sorted(self._touched), left_s, repeats_lost=True)
        except PartitionRefused as refused:
            raise refused.error from None

    def commit(self, limit_s: float) -> None:
        """Commits the transaction. Raises ``KafkaException``."""
        gives_up_at = time.monotonic() + limit_s
        self.flush(limit_s)
        assert self._producer is not None
        if self._touched:
            self._coordinator.end(self._producer, gives_up_at - time.monotonic(), commits=True)
        self._is_open = False

    def commit_prepared(self, limit_s: float) -> None:
        """Commits a transaction that ``prepare`` completed. Its epoch is unique to it, so the commit is repeated when its answer is lost. Raises
        ``KafkaException``."""
        assert self._producer is not None
        self._coordinator.end(self._producer, limit_s, commits=True, repeats_lost=True)
        self._is_open = False

    def give_up(self, error: Any) -> None:
        if error.txn_requires_abort():
            self.abort()

    def abort(self) -> None:
        """Aborts the transaction, unless records may still be in transit."""
        if self._producer is None or not self._touched:
            return
        gives_up_at = time.monotonic() + ABORT_TIMEOUT_S
        requests = [one for sent in self._sent.values() for one in sent]
        if not self._connections.wait(lambda: all(one.future.is_done for one in requests), ABORT_TIMEOUT_S):
            return
        if any(one.future.exception is not None for one in requests):
            return  # it may still reach its broker, behind the abort: the successor's epoch keeps it out
        with contextlib.suppress(library().KafkaException):
            self._coordinator.end(self._producer, gives_up_at - time.monotonic(), commits=False)

    def refusal(self) -> Refusal | None:
        return self._refused

    def close(self) -> None:
        self._connections.close()

    def _deal(self) -> None:
        """Distributes buffered records to requests by partition, and sends full requests."""
        gathered, self._gathered, self._gathered_bytes = self._gathered, [], 0
        self._dealt_at = self._monotonic()
        if not gathered:
            return
        for topic, found in by_topic(gathered[0] if len(gathered) == 1 else pa.concat_batches(gathered)):
            with self._telling(topic):
                self._send(topic, found)

    def _send_waiting(self) -> None:
        for leader in list(self._waiting):
            self._send_request(leader)

    def _send(self, topic: str, records: pa.RecordBatch) -> None:
        leaders = self._topics.leaders(topic, METADATA_LIMIT_S)
        for partition, piece in pieces(records, len(leaders), self._turn, self._limit.size_bytes):
            self._turn += 1
            self._put(leaders[partition], (topic, partition), piece)

    def _touch(self) -> None:
        """Adds all partitions with waiting records to the transaction in one request to the coordinator."""
        fresh = sorted({place for waiting in self._waiting.values() for place in waiting.batches} - self._touched)
        if not fresh:
            return
        assert self._producer is not None
        self._touched.update(fresh)
        try:
            self._coordinator.add(self._producer, fresh, ANSWER_LIMIT_S)
        except PartitionRefused as refused:
            self._refused = refused.error.args[0], refused.topic
            raise refused.error from None

    def _put(self, leader: int, place: Place, piece: pa.RecordBatch) -> None:
        """Encodes records into a request; if it is full, sends it first."""
        assert self._producer is not None
        stamps = piece.column("timestamp")
        times = pc.if_else(pc.greater(stamps, 0), stamps, None)  # as librdkafka: what is not after 1970 is now
        sequence = self._sequences[place]
        batch = encode(
            piece.column("key"),
            piece.column("value"),
            times,
            self._producer,
            sequence,
            self._compression,
            int(self._clock() * 1000),
        )
        self._sequences[place] = (sequence + piece.num_rows) % (1 << 31)
        waiting = self._waiting.get(leader)
        if waiting is not None and (
            place in waiting.batches or waiting.size_bytes + len(batch) > self._limit.size_bytes
        ):
            self._send_request(leader)
        waiting = self._waiting.setdefault(leader, _Request())
        waiting.batches[place] = batch, piece.num_rows
        waiting.size_bytes += len(batch)

    def _send_request(self, leader: int) -> None:
        """Sends the waiting request of a leader, once few enough are in flight."""
        self._touch()
        request = self._waiting.pop(leader)
        self._acknowledged(leader, ON_THEIR_WAY - 1, ANSWER_LIMIT_S)
        self._connections.wait(lambda: not self._connections.is_paused(leader), ANSWER_LIMIT_S)
        request.future = self._connections.send(leader, self._produce(request), ANSWER_LIMIT_S)
        self._sent.setdefault(leader, []).append(request)
        self._connections.flush()

    def _produce(self, request: _Request) -> Any:
        kind = ProduceRequest.TopicProduceData
        topics: dict[str, list[Any]] = {}
        for (topic, partition), (batch, _) in request.batches.items():
            topics.setdefault(topic, []).append(kind.PartitionProduceData(index=partition, records=batch))
        return ProduceRequest(
            transactional_id=self._id,
            acks=-1,
            timeout_ms=self._acknowledge_ms,
            topic_data=[kind(name=topic, partition_data=found) for topic, found in topics.items()],
            min_version=3,
            max_version=11,
        )

    def _acknowledged(self, leader: int, most: int, limit_s: float) -> None:
        """Waits until at most ``most`` requests to a leader are in flight, and checks all answers. Raises ``KafkaException``."""
        sent = self._sent.get(leader, [])

        def few() -> bool:
            return sum(not one.future.is_done for one in sent) <= most

        if not self._connections.wait(few, limit_s):
            raise failure(TimeoutError(f"records were not acknowledged in {limit_s:g} s"), abort=True)
        while sent and sent[0].future.is_done:
            request = sent[0]
            if request.future.exception is not None:
                raise failure(request.future.exception, abort=True)
            self._check_response(request)
            del sent[0]

    def _check_response(self, request: _Request) -> None:
        for topic in request.future.value.responses:
            for one in topic.partition_responses:
                if one.error_code:
                    batch, count = request.batches[topic.name, one.index]
                    self._batch_refused(topic.name, one.error_code, len(batch), count)

    def _batch_refused(self, topic: str, code: int, size_bytes: int, count: int) -> None:
        codes = library().KafkaError
        if code in (codes.MSG_SIZE_TOO_LARGE, codes.RECORD_LIST_TOO_LARGE) and count > 1:
            self._limit.halve(size_bytes)
        error = refusal(code, abort=code not in (codes.INVALID_PRODUCER_EPOCH, codes.PRODUCER_FENCED))
        self._refused = self._refused or (error.args[0], topic)
        raise error

    @contextlib.contextmanager
    def _telling(self, topic: str) -> Iterator[None]:
        """Adds the topic's name to errors that say that it cannot be written."""
        try:
            yield
        except library().KafkaException as error:
            if self._refused is None and error.args[0].code() > 0:
                self._refused = error.args[0], topic
            raise
