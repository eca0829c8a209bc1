"""Kafka's transactions as its coordinators keep them, in memory, with faults: the law of epochs, timeouts, and answers that are lost.

Empty ─ send ─▶ Ongoing ─ EndTxn ─▶ Committed (again: the same answer)      a fresh ``begin`` raises the epoch from anywhere
                   └─ timeout, begin ─▶ Aborted, epoch + 1
"""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass, field

import pyarrow as pa

from tidegate.connectors.kafka.open_transactions.broker import NotOpen, TransactionBroker, TransactionProducer
from tidegate.connectors.kafka.open_transactions.prepared import ProducerIdentity
from tidegate.model.errors import ExternalError


@dataclass
class _Id:
    producer_id: int
    epoch: int = -1
    state: str = "Empty"
    values: list[str] = field(default_factory=list)

    @property
    def identity(self) -> ProducerIdentity:
        return ProducerIdentity(self.producer_id, self.epoch)


@dataclass
class SimulatedKafka:
    """``fault_share``: of requests that fail, half of them after they were carried out."""

    random: random.Random
    fault_share: float = 0.0
    committed: list[str] = field(default_factory=list)
    noted: dict[str, str] = field(default_factory=dict)
    _ids: dict[str, _Id] = field(default_factory=dict)

    def begin(self, name: str) -> ProducerIdentity:
        found = self._ids.setdefault(name, _Id(len(self._ids)))
        found.epoch += 1
        found.state, found.values = "Empty", []
        return found.identity

    def send(self, name: str, identity: ProducerIdentity, values: list[str]) -> None:
        found = self._checked(name, identity)
        if found.state != "Ongoing":  # an epoch may have transactions one after the other
            found.state, found.values = "Ongoing", []
        found.values += values

    def commit(self, name: str, identity: ProducerIdentity) -> None:
        found = self._checked(name, identity)
        if found.state == "Ongoing":
            found.state = "Committed"
            self.committed += found.values
        elif found.state != "Committed":
            raise NotOpen(name)

    def abort(self, name: str, identity: ProducerIdentity) -> None:
        found = self._checked(name, identity)
        if found.state == "Ongoing":
            found.state = "Aborted"

    def open_ids(self) -> list[str]:
        return sorted(name for name, found in self._ids.items() if found.state == "Ongoing")

    def time_out(self) -> None:
        """What is open was open for too long."""
        for name in self.open_ids():
            self._ids[name].epoch += 1
            self._ids[name].state = "Aborted"

    def fault(self) -> str:
        if self.random.random() >= self.fault_share:
            return ""
        return self.random.choice(["before", "after"])

    def _checked(self, name: str, identity: ProducerIdentity) -> _Id:
        found = self._ids.get(name)
        if found is None or found.identity != identity:
            raise NotOpen(name)
        return found


class SimulatedProducer(TransactionProducer):
    def __init__(self, kafka: SimulatedKafka) -> None:
        self._kafka = kafka
        self._name = ""
        self._identity = ProducerIdentity(-1, -1)

    def begin(self, transactional_id: str) -> ProducerIdentity:
        self._name = transactional_id
        with _Faults(self._kafka):
            self._identity = self._kafka.begin(transactional_id)
        return self._identity

    def send(self, records: pa.RecordBatch) -> None:
        with _Faults(self._kafka):
            values = [value.decode() for value in records.column("value").to_pylist()]
            self._kafka.send(self._name, self._identity, values)

    def prepare(self) -> None:
        with _Faults(self._kafka):
            self._kafka.send(self._name, self._identity, [])

    def commit(self) -> None:
        with _Faults(self._kafka):
            self._kafka.commit(self._name, self._identity)

    def abort(self) -> None:
        try:
            self._kafka.abort(self._name, self._identity)
        except NotOpen:
            return

    def close(self) -> None: ...


class SimulatedBroker(TransactionBroker):
    """What one process has of the cluster."""

    def __init__(self, kafka: SimulatedKafka) -> None:
        self._kafka = kafka

    def producer(self) -> TransactionProducer:
        return SimulatedProducer(self._kafka)

    def commit(self, transactional_id: str, identity: ProducerIdentity) -> None:
        with _Faults(self._kafka):
            self._kafka.commit(transactional_id, identity)

    def open_ids(self, prefix: str) -> list[str]:
        with _Faults(self._kafka):
            return [name for name in self._kafka.open_ids() if name.startswith(prefix)]

    def abort(self, transactional_id: str) -> None:
        with _Faults(self._kafka):
            self._kafka.begin(transactional_id)

    def note(self, topic: str, key: str, says: str) -> None:
        with _Faults(self._kafka):
            self._kafka.noted[key] = says

    def notes(self, topic: str, keys: Collection[str], since_ms: int) -> dict[str, str]:
        with _Faults(self._kafka):
            return {key: self._kafka.noted[key] for key in keys if key in self._kafka.noted}

    def close(self) -> None: ...


class _Faults:
    """A request fails before it is carried out, or its answer is lost."""

    def __init__(self, kafka: SimulatedKafka) -> None:
        self._fault = kafka.fault()

    def __enter__(self) -> None:
        if self._fault == "before":
            raise ExternalError("injected: the broker does not answer")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and self._fault == "after":
            raise ExternalError("injected: the answer is lost")
