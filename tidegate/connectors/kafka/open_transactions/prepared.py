"""Prepared transactions: all their records are acknowledged, and any process that knows producer id and epoch can commit them."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.model.errors import ON_DAMAGE, CorruptData
from tidegate.model.values import Committable

TAG = "kafka-transaction"


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """The producer id and epoch by which a broker knows a producer. The epoch rises with each transaction."""

    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Prepared:
    """A prepared transaction as a committable, which is stored as a list."""

    transactional_id: str
    identity: ProducerIdentity
    branch: str
    subtask: int
    checkpoint_id: int
    prepared_at_ms: int
    notes_topic: str

    @staticmethod
    def of(committable: Committable) -> Prepared:
        """Parses a committable. Raises ``CorruptData``."""
        try:
            tag, name, producer_id, epoch, branch, subtask, checkpoint_id, at_ms, topic = committable
            if tag == TAG:
                identity = ProducerIdentity(int(producer_id), int(epoch))
                return Prepared(
                    str(name), identity, str(branch), int(subtask), int(checkpoint_id), int(at_ms), str(topic)
                )
        except (TypeError, ValueError):
            pass
        raise CorruptData(
            f"the checkpoint holds what is not a transaction of a Kafka sink: {str(committable)[:100]}; {ON_DAMAGE}, or give the sink another uid "
            "where another kind of sink had its uid"
        )

    @staticmethod
    def fits(committable: Committable) -> bool:
        """Returns whether a committable is a prepared transaction."""
        return isinstance(committable, list | tuple) and bool(committable) and committable[0] == TAG

    def as_list(self) -> list[Committable]:
        """Returns the transaction as a committable."""
        values = [TAG, self.transactional_id, self.identity.producer_id, self.identity.epoch]
        return [*values, self.branch, self.subtask, self.checkpoint_id, self.prepared_at_ms, self.notes_topic]

    @property
    def name(self) -> str:
        """Returns the name of the transaction, which is also the key of its note; unique, while an id may have other transactions before and after it."""
        return f"{self.transactional_id}/{self.identity.epoch}"
