"""The transactions of one subtask. The writer writes to the current one, in the subtask's thread; the committer commits prepared ones, in another.

    write ─▶ current ─ vote ─▶ prepared[id, epoch] ─ commit ─▶ idle producers
                                     └ an error ─▶ its producer is closed; the next try resumes the transaction by id and epoch

Laws. A transaction has an epoch of its own, so a commit that comes late never commits the beginning of a later one. That a transaction was
committed can be seen for as long as notes are kept: its coordinator answers a repeated commit, until the id is used again; and before that
it is noted. So a commit that is refused, and of which there is no note, means that records are lost, which is an error. See docs/adr/0173
for the table of failures.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from tidegate.connectors.base import SinkContext
from tidegate.connectors.kafka.client import TRANSACTION_TIMEOUT_KEY
from tidegate.connectors.kafka.markers import RETENTION_MS, is_abort
from tidegate.connectors.kafka.open_transactions.broker import NotOpen, TransactionBroker, TransactionProducer
from tidegate.connectors.kafka.open_transactions.naming import (
    Bundle,
    Numbers,
    Ownership,
    TransactionName,
    TransactionNamingStrategy,
    lingering,
    mark_of,
)
from tidegate.connectors.kafka.open_transactions.prepared import Prepared, ProducerIdentity
from tidegate.connectors.kafka.writers import branch_of
from tidegate.model.errors import CorruptData, ExternalError

COMMITTED = "committed"
"""The value of a note about a commit; the other value is ``markers.ABORTED``."""
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """A sink's settings of its transactions."""

    prefix: str
    strategy: TransactionNamingStrategy
    notes_topic: str
    timeout_ms: int
    servers: str


@dataclass(slots=True)
class _Open:
    name: TransactionName
    identity: ProducerIdentity
    producer: TransactionProducer
    begun_ms: int


class SubtaskTransactions:
    """The transactions of one subtask, which its writer and its committer share."""

    def __init__(self, broker: TransactionBroker, settings: TransactionSettings, context: SinkContext) -> None:
        self._broker = broker
        self._settings = settings
        self._context = context
        self._branch = branch_of(context)
        self._mark = mark_of(context.operator_id)
        self._numbers = Numbers(settings.strategy, context.restored_checkpoint_id or 0)
        self._current: _Open | None = None
        self._lock = threading.Lock()
        self._idle: list[TransactionProducer] = []
        self._prepared: dict[str, TransactionProducer | None] = {}
        """By name; without the producer after an error."""

    # --- the subtask's thread ---------------------------------------------------------------------------------

    def abort_lingering(self, bundles: Sequence[Bundle]) -> None:
        """Aborts transactions that earlier attempts left open. Called after everything restored is committed, and before anything is written."""
        context = self._context
        restored = context.restored_checkpoint_id is not None
        ownership = Ownership(tuple(bundles), context.subtask_index, context.parallelism, restored)
        prefixes = ownership.prefixes(self._settings.prefix)
        found = [one for prefix in prefixes for one in self._broker.open_ids(f"{prefix}-{self._mark}-")]
        for transactional_id in lingering(found, ownership, self._mark, self._branch, prefixes):
            _LOG.warning("the transaction %s is in no checkpoint and is aborted", transactional_id)
            self._broker.abort(transactional_id)

    def write(self, records: pa.RecordBatch) -> None:
        """Writes records. Raises ``ExternalError``, which fails the attempt, so that the records are read again."""
        if self._current is None:
            self._current = self._begin()
        try:
            self._current.producer.send(records)
        except NotOpen as error:
            raise self._gone(self._current) from error

    def vote(self, checkpoint_id: int) -> Prepared | None:
        """Prepares the current transaction and returns it; ``None`` when nothing was written. Raises ``ExternalError``."""
        self._numbers.last_checkpoint = checkpoint_id
        current = self._current
        if current is None:
            return None
        context = self._context
        about = self._branch, context.subtask_index, checkpoint_id, context.now_ms(), self._settings.notes_topic
        prepared = Prepared(str(current.name), current.identity, *about)
        try:
            current.producer.prepare()
        except NotOpen as error:
            raise self._gone(current) from error
        with self._lock:
            self._prepared[prepared.name] = current.producer
        self._current = None
        return prepared

    def bundle(self) -> Bundle:
        """Returns the writer's state for a checkpoint."""
        return Bundle(self._settings.prefix, self._context.subtask_index, self._context.parallelism)

    def close_writer(self) -> None:
        """Aborts the current transaction, so that no reader waits for it. Prepared ones stay."""
        current, self._current = self._current, None
        if current is not None:
            current.producer.abort()
            current.producer.close()

    # --- the thread that commits ------------------------------------------------------------------------------

    def commit(self, prepared: Prepared) -> None:
        """Commits a prepared transaction. Idempotent. Raises ``ExternalError`` to be retried, ``CorruptData`` when the transaction's records are lost."""
        with self._lock:
            producer = self._prepared.get(prepared.name)
        try:
            if producer is None:
                self._broker.commit(prepared.transactional_id, prepared.identity)
            else:
                producer.commit()
            self.note_commit(prepared)
        except NotOpen:
            self._drop(prepared, producer)
            self.look_up(prepared)
        except ExternalError:
            self._drop(prepared, producer)
            with self._lock:
                self._prepared[prepared.name] = None  # its number stays taken
            raise
        with self._lock:
            kept = self._prepared.pop(prepared.name, None)
            if kept is not None:
                self._idle.append(kept)

    def close(self) -> None:
        """Closes all connections. Prepared transactions stay open, for the next attempt."""
        with self._lock:
            producers = [*self._idle, *(one for one in self._prepared.values() if one is not None)]
            self._idle.clear()
            self._prepared.clear()
        for producer in producers:
            producer.close()
        self._broker.close()

    def _drop(self, prepared: Prepared, producer: TransactionProducer | None) -> None:
        with self._lock:
            self._prepared.pop(prepared.name, None)
        if producer is not None:
            producer.close()

    def note_commit(self, prepared: Prepared) -> None:
        """Notes a commit, where the transaction's id will be used again."""
        if self._settings.strategy is TransactionNamingStrategy.POOLING and prepared.branch == self._branch:
            self._broker.note(prepared.notes_topic, prepared.name, COMMITTED)

    def _begin(self) -> _Open:
        with self._lock:
            taken = {_number_of(name) for name in self._prepared}
            producer = self._idle.pop() if self._idle else None
        number = self._numbers.next(taken)
        about = self._settings.prefix, self._mark, self._branch, self._context.subtask_index
        name = TransactionName(*about, number)
        producer = producer or self._broker.producer()
        try:
            return _Open(name, producer.begin(str(name)), producer, self._context.now_ms())
        except BaseException:
            producer.close()
            raise

    def look_up(self, prepared: Prepared) -> None:
        """Determines the outcome of a transaction that the broker has forgotten. Raises when there is no note of it."""
        said = self._broker.notes(prepared.notes_topic, [prepared.name], prepared.prepared_at_ms).get(prepared.name)
        if said is None:
            raise lost(prepared, self._settings, self._context.now_ms())
        was = "given up by hand, its records are not published" if is_abort(said) else "committed before"
        _LOG.info("the transaction %s was %s", prepared.name, was)

    def _gone(self, current: _Open) -> ExternalError:
        open_s = (self._context.now_ms() - current.begun_ms) / 1000
        return ExternalError(
            f"the Kafka transaction {current.name} was ended at {self._settings.servers} while it was written, {open_s:.0f} s after it "
            f"began: the broker aborts what is open for longer than {TRANSACTION_TIMEOUT_KEY} ({self._settings.timeout_ms} ms), and "
            "another sink with the same prefix of transactional ids aborts it too. Nothing is lost: its records are read again. Make the "
            "timeout longer than the interval of checkpoints and a restart, and the prefix one of this sink alone"
        )


def _number_of(name: str) -> int:
    parsed = TransactionName.parse(name.rpartition("/")[0])
    return -1 if parsed is None else parsed.number


def lost(prepared: Prepared, settings: TransactionSettings, now_ms: int) -> CorruptData:
    """Builds the error for a transaction of a checkpoint that ended without a commit, or whose outcome is unknown because notes of its time have expired."""
    ago_s = (now_ms - prepared.prepared_at_ms) / 1000
    if now_ms - prepared.prepared_at_ms > RETENTION_MS // 2:
        return CorruptData(
            f"the Kafka transaction {prepared.name} was prepared {ago_s / 3600:.0f} hours ago and is over: that it was committed is known for "
            f"{RETENTION_MS // 3_600_000} hours, so it is not known whether it was committed; look into the topic, then restore without "
            "this operator's state (another uid and --allow-non-restored-state)"
        )
    return CorruptData(
        f"records are lost: the Kafka transaction {prepared.name}, which checkpoint {prepared.checkpoint_id} holds, was prepared "
        f"{ago_s:.0f} s ago and aborted at {settings.servers} before it was committed. The broker aborts what is open for longer than "
        f"{TRANSACTION_TIMEOUT_KEY} ({settings.timeout_ms} ms); another sink with the same prefix of transactional ids does, too. Restore an "
        f"older checkpoint, whose records are read again; or go on without these records: tidegate txn abort CHECKPOINT --kafka "
        f"{settings.servers} --only {prepared.name}"
    )
