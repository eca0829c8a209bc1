"""Transactions that jobs left in external systems between the vote and the commit: inspection and manual resolution.

    checkpoint ─▶ listed_in ─▶ Listed ─┐
                                       ├─▶ TransactionLog of the system ─▶ Transaction with its status ─▶ commit | abort
    the system itself: unlisted ───────┘

Committables are read as they lie in the checkpoint (msgpack), nothing of a job is unpickled. A decision is noted where the
sink's own commits are, so that a job restored later finds it: what was committed here is not committed again, what was
aborted here stays out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import msgspec

from tidegate.model.errors import CorruptData, Misuse
from tidegate.model.values import Committable
from tidegate.wire.state_columns import ELEMENT

STATE = "committables"
EPOCHS = "_epochs"
"""The state of a sink that stores its committables and its writer's state together."""


class TransactionStatus(Enum):
    """The status of a transaction that a job has not finished."""

    PENDING = "pending"
    """Prepared, not visible yet."""
    COMMITTED = "committed"
    ABORTED = "aborted"
    """Aborted by hand; a restored job continues without it."""
    LOST = "lost"
    """Neither pending nor committed: it was removed by hand. A restored job would fail on it."""
    UNCERTAIN = "uncertain"
    """The committable is too old to tell whether it was committed."""
    UNKNOWN = "unknown"
    """The external system was not asked."""

    @property
    def is_open(self) -> bool:
        """Returns whether the transaction can still be committed or aborted."""
        return self in (TransactionStatus.PENDING, TransactionStatus.LOST)


@dataclass(frozen=True, slots=True)
class Listed:
    """A committable in a checkpoint."""

    job_id: str
    operator_id: str
    operator: str
    checkpoint_id: int
    committable: Committable


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction in an external system. ``checkpoint_id``: the checkpoint with which it is to be committed. ``listed``: whether one of the given
    checkpoints contains it."""

    system: str
    name: str
    place: str
    operator: str
    subtask: int
    checkpoint_id: int
    status: TransactionStatus
    listed: bool
    size_bytes: int | None = None
    committable: Committable = None


class TransactionLog(ABC):
    """The transactions of one external system."""

    system: str

    @abstractmethod
    def takes(self, committable: Committable) -> bool:
        """Returns whether a committable has the form of this system's sink."""

    @abstractmethod
    def transactions(self, listed: Sequence[Listed]) -> list[Transaction]:
        """Returns the listed transactions with their status. Raises ``ExternalError`` when the system does not answer."""

    @abstractmethod
    def unlisted(self, known: frozenset[str], operators: Mapping[tuple[str, str], str]) -> list[Transaction]:
        """Returns open transactions that are not among the ``known`` names. ``operators``: names by (job id, operator id); those of other jobs have none."""

    def refusal(self, transaction: Transaction) -> str:
        """Returns why a transaction of unknown status cannot be resolved."""
        return f"the state of {transaction.name} is in {self.system}, which was not asked: give --{self.system}"

    @abstractmethod
    def commit(self, transaction: Transaction) -> None:
        """Commits a transaction. Idempotent. Raises ``TidegateError``."""

    @abstractmethod
    def abort(self, transaction: Transaction) -> None:
        """Aborts a transaction. Idempotent. Raises ``TidegateError``."""


class FunctionLog(TransactionLog):
    """The transactions of a system that only the job's own function can reach: they are listed, and resolved by a restore."""

    @abstractmethod
    def described(self, committable: Committable) -> tuple[str, str, int | None]:
        """Returns a transaction's name, its location, and its size if that is known."""

    def transactions(self, listed: Sequence[Listed]) -> list[Transaction]:
        return [self._transaction(one) for one in listed]

    def _transaction(self, one: Listed) -> Transaction:
        name, place, size_bytes = self.described(one.committable)
        return Transaction(
            system=self.system,
            name=name,
            place=place,
            operator=one.operator,
            subtask=-1,
            checkpoint_id=one.checkpoint_id,
            status=TransactionStatus.UNKNOWN,
            listed=True,
            size_bytes=size_bytes,
            committable=one.committable,
        )

    def unlisted(self, known: frozenset[str], operators: Mapping[tuple[str, str], str]) -> list[Transaction]:
        return []

    def commit(self, transaction: Transaction) -> None:
        raise Misuse(self.refusal(transaction))

    def abort(self, transaction: Transaction) -> None:
        raise Misuse(self.refusal(transaction))


def listed_in(path: str) -> list[Listed]:
    """Returns all committables of one checkpoint or savepoint. Raises ``StorageError``, ``CorruptData``."""
    from tidegate.state_reader import open_checkpoint  # subtasks import sinks, not the library that inspects state

    checkpoint = open_checkpoint(path)
    found = []
    for operator in checkpoint.operators:
        for state in operator.states:
            if state.name not in (STATE, EPOCHS) or not state.elements:
                continue
            contents = checkpoint.table_of(state).column(ELEMENT).to_pylist()
            about = checkpoint.manifest.job_id, operator.described.operator_id, operator.title
            found += [Listed(*about, *vote) for vote in _decoded(contents, state.name, checkpoint.location)]
    return found


def operators_in(path: str) -> dict[tuple[str, str], str]:
    """Returns the name of every operator in a checkpoint, by (job id, operator id)."""
    from tidegate.state_reader import open_checkpoint  # subtasks import sinks, not the library that inspects state

    checkpoint = open_checkpoint(path)
    job_id = checkpoint.manifest.job_id
    return {(job_id, found.described.operator_id): found.title for found in checkpoint.operators}


def _decoded(contents: Sequence[bytes], state: str, place: str) -> list[tuple[int, Committable]]:
    try:
        elements = [msgspec.msgpack.decode(content) for content in contents]
        votes = elements if state == STATE else [vote for _, voted in elements for vote in voted]
        return [(int(checkpoint_id), committable) for checkpoint_id, committable in votes]
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
        raise CorruptData(f"{place}: a committable is unreadable ({error})") from error
