"""A transaction that is prepared: everything of it is acknowledged, and any process that knows producer id and epoch can commit it."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.model.errors import CorruptData
from tidegate.model.values import Committable

TAG = "kafka-transaction"


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """Under which a broker knows a producer. A transaction has one of its own: the epoch rises with each."""

    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Prepared:
    """The vote of a subtask: a committable. Travels as a list."""

    transactional_id: str
    identity: ProducerIdentity
    branch: str
    subtask: int
    checkpoint_id: int
    prepared_at_ms: int
    notes_topic: str

    @staticmethod
    def of(committable: Committable) -> Prepared:
        """Raises ``CorruptData`` when it is none."""
        try:
            tag, name, producer_id, epoch, branch, subtask, checkpoint_id, at_ms, topic = committable
            if tag == TAG:
                identity = ProducerIdentity(int(producer_id), int(epoch))
                return Prepared(
                    str(name), identity, str(branch), int(subtask), int(checkpoint_id), int(at_ms), str(topic)
                )
        except (TypeError, ValueError):
            pass
        raise CorruptData(f"not a transaction of the Kafka sink: {str(committable)[:100]}")

    @staticmethod
    def fits(committable: Committable) -> bool:
        """Tells whether a committable is one of this form."""
        return isinstance(committable, list | tuple) and bool(committable) and committable[0] == TAG

    def as_list(self) -> list[Committable]:
        """Returns the transaction in the form in which checkpoints hold it."""
        told = [TAG, self.transactional_id, self.identity.producer_id, self.identity.epoch]
        return [*told, self.branch, self.subtask, self.checkpoint_id, self.prepared_at_ms, self.notes_topic]

    @property
    def name(self) -> str:
        """What it is called, and the key of its note: an id may have had other transactions before, and may have some after it."""
        return f"{self.transactional_id}/{self.identity.epoch}"
