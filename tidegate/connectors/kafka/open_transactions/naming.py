"""Names of transactions, their free numbers, and which subtask aborts a transaction that will not be committed. No I/O.

    transactional id   <prefix>-<mark of the operator>-<branch>-<subtask>-<number>

The branch is that of the attempt, so a process that was given up never takes the id of its successor's transaction, which would abort it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import Enum

from tidegate.model.errors import ON_DAMAGE, CorruptData
from tidegate.model.values import StateValue

_MARK_DIGITS, _BRANCH_DIGITS = 8, 16
"""Hexadecimal digits of digests: few operators share a prefix, while attempts must never meet."""
_BUNDLE = "kafka-transactions"


class TransactionNamingStrategy(Enum):
    """How transactions that are kept open are numbered (Flink: ``TransactionNamingStrategy``)."""

    INCREMENTING = "incrementing"
    """A new id for each checkpoint. The broker remembers each for a week (``transactional.id.expiration.ms``)."""
    POOLING = "pooling"
    """An id is used again when its transaction has ended: two or three for each attempt of a subtask."""


@dataclass(frozen=True, slots=True)
class TransactionName:
    """A transactional id that this sink made, by its parts."""

    prefix: str
    mark: str
    branch: str
    subtask: int
    number: int

    def __str__(self) -> str:
        return f"{self.prefix}-{self.mark}-{self.branch}-{self.subtask}-{self.number}"

    @staticmethod
    def parse(text: str) -> TransactionName | None:
        """Parses a transactional id; ``None`` for one that this sink did not make."""
        parts = text.rsplit("-", 4)
        if len(parts) != 5 or not (parts[3].isdecimal() and parts[4].isdecimal()):
            return None
        prefix, mark, branch, subtask, number = parts
        if not (prefix and _is_digest(mark, _MARK_DIGITS) and _is_digest(branch, _BRANCH_DIGITS)):
            return None
        return TransactionName(prefix, mark, branch, int(subtask), int(number))


def mark_of(operator_id: str) -> str:
    """Returns the mark of an operator, which stays the same in every submission when the operator has a uid."""
    return hashlib.sha256(operator_id.encode()).hexdigest()[:_MARK_DIGITS]


def _is_digest(text: str, digits: int) -> bool:
    return len(text) == digits and set(text) <= set("0123456789abcdef")


@dataclass(slots=True)
class Numbers:
    """The numbers of one attempt's transactions."""

    strategy: TransactionNamingStrategy
    last_checkpoint: int = 0
    """The last checkpoint that was restored or taken."""
    _last: int = field(default=0)

    def next(self, taken: Collection[int]) -> int:
        """Returns the number of the next transaction. ``taken``: the numbers of transactions that have not ended."""
        if self.strategy is TransactionNamingStrategy.INCREMENTING:
            self._last = max(self._last, self.last_checkpoint) + 1
            return self._last
        number = 0
        while number in taken:
            number += 1
        return number


@dataclass(frozen=True, slots=True)
class Bundle:
    """The state of a writer in a checkpoint besides its prepared transactions: one element, which one subtask restores."""

    prefix: str
    subtask: int
    parallelism: int

    def as_list(self) -> list[StateValue]:
        """Returns the bundle as an element of the state."""
        return [_BUNDLE, self.prefix, self.subtask, self.parallelism]

    @staticmethod
    def of(element: StateValue) -> Bundle:
        """Parses an element of the state. Raises ``CorruptData``."""
        try:
            tag, prefix, subtask, parallelism = element
            if tag == _BUNDLE:
                return Bundle(str(prefix), int(subtask), int(parallelism))
        except (TypeError, ValueError):
            pass
        raise CorruptData(
            f"the restored state is not that of a Kafka sink with a transaction naming strategy: {str(element)[:100]}; {ON_DAMAGE}, or give the sink "
            "another uid where another kind of sink had its uid"
        )


@dataclass(frozen=True, slots=True)
class Ownership:
    """Determines which subtask aborts transactions that earlier attempts left open: the one that restored a writer's bundle has all that the checkpoint
    contains of it, so whatever else is open under its number is in no checkpoint.

        bundles {j of 3}        numbers j, j + 3, j + 6, ...: also those of attempts with more subtasks that took no checkpoint
        a new job               its own number modulo the parallelism
        restored, no bundle     none: what is open may be another subtask's to commit
    """

    bundles: tuple[Bundle, ...]
    subtask: int
    parallelism: int
    is_restored: bool

    def prefixes(self, own: str) -> list[str]:
        """Returns the prefixes under which transactions may be open: the sink's prefix may have changed."""
        return sorted({own, *(bundle.prefix for bundle in self.bundles)})

    def owns(self, subtask: int) -> bool:
        """Returns whether the transactions of this subtask of an earlier attempt are to be aborted here."""
        if self.bundles:
            return any(subtask % bundle.parallelism == bundle.subtask for bundle in self.bundles)
        return not self.is_restored and subtask % self.parallelism == self.subtask


def lingering(
    open_ids: Sequence[str], ownership: Ownership, mark: str, own_branch: str, prefixes: Collection[str]
) -> list[str]:
    """Returns the ids that this subtask has to abort once everything restored is committed."""
    names = [(text, TransactionName.parse(text)) for text in open_ids]
    return [
        text
        for text, name in names
        if name is not None
        and name.prefix in prefixes
        and name.mark == mark
        and name.branch != own_branch
        and ownership.owns(name.subtask)
    ]
