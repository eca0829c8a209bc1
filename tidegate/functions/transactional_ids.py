"""Transactional ids for sinks of systems whose transactions have reusable names, such as Kafka.

    hint (union state, written by subtask 0): last parallelism, next free id
      ├─▶ a subtask with a restored context: its pool is in there, and what is open under an id of it is aborted
      └─▶ a new subtask: a pool of its own, behind all ids that were ever used;  no hint at all: ids of earlier runs are guessed and aborted

Follows Flink's ``TransactionalIdsGenerator.java`` and ``FlinkKafkaProducer.java`` (flink-connector-kafka 3).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from tidegate.common.typeinfo import Types
from tidegate.functions.checkpointed_function import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from tidegate.functions.state import ListState, ListStateDescriptor
from tidegate.functions.two_phase_commit import TwoPhaseCommitSinkFunction
from tidegate.model.errors import ON_DAMAGE, CorruptData

if TYPE_CHECKING:
    from tidegate.functions.base import RuntimeContext

__all__ = ["NextTransactionalIdHint", "TransactionalIdsGenerator", "TransactionalIdsSinkFunction"]

DEFAULT_POOL_SIZE = 5
SAFE_SCALE_DOWN_FACTOR = 5
"""How many times fewer subtasks a job that failed before its first checkpoint may restart with, and still abort what it left."""

IN = TypeVar("IN")
TXN = TypeVar("TXN")


@dataclass(frozen=True, slots=True)
class NextTransactionalIdHint:
    """A hint that the subtasks share: no id from ``next_free_transactional_id`` on was ever used."""

    last_parallelism: int
    next_free_transactional_id: int

    def at(self, parallelism: int, pool_size: int) -> NextTransactionalIdHint:
        """Returns the hint for the next checkpoint. After a scale-up, new subtasks may have taken any ids of theirs."""
        taken = parallelism * pool_size if parallelism > self.last_parallelism else 0
        return NextTransactionalIdHint(parallelism, self.next_free_transactional_id + taken)


@dataclass(frozen=True, slots=True)
class TransactionalIdsGenerator:
    """Generates ids so that no two subtasks have the same."""

    prefix: str
    subtask_index: int
    total_number_of_subtasks: int
    pool_size: int = DEFAULT_POOL_SIZE
    safe_scale_down_factor: int = SAFE_SCALE_DOWN_FACTOR

    def generate_ids_to_use(self, next_free_transactional_id: int) -> list[str]:
        """Returns the pool of this subtask."""
        first = next_free_transactional_id + self.subtask_index * self.pool_size
        return [f"{self.prefix}-{number}" for number in range(first, first + self.pool_size)]

    def generate_ids_to_abort(self) -> list[str]:
        """Returns the share of this subtask in all ids that a run before the first checkpoint may have used."""
        rounds = range(self.safe_scale_down_factor)
        all_pools = self.pool_size * self.total_number_of_subtasks
        return [one for number in rounds for one in self.generate_ids_to_use(number * all_pools)]


class TransactionalIdsSinkFunction(TwoPhaseCommitSinkFunction[IN, TXN, list[str]], CheckpointedFunction):
    """A two-phase commit sink whose transactions have ids from a pool. ``begin_transaction`` calls ``next_transactional_id``; an id is free again when
    its transaction is committed or aborted. The user context is the pool. A function that overrides ``open``, ``initialize_state`` or
    ``snapshot_state`` must call ``super()``."""

    def __init__(self, transactional_id_prefix: str, pool_size: int = DEFAULT_POOL_SIZE) -> None:
        """Creates the sink. ``pool_size``: how many checkpoints may be pending, plus 2: for the open transaction, and for one that a late confirmation
        commits. Raises ``ValueError`` for less than 2."""
        super().__init__()
        if pool_size < 2:
            raise ValueError(
                f"a pool of {pool_size} transactional ids is too small: one is open while another is committed; give at least 2"
            )
        self.transactional_id_prefix = transactional_id_prefix
        self.pool_size = pool_size

    @abstractmethod
    def transactional_id_of(self, transaction: TXN) -> str:
        """Returns the id under which a transaction runs."""

    @abstractmethod
    def abort_transactional_ids(self, transactional_ids: Collection[str]) -> None:
        """Aborts whatever is open or pre-committed under these ids, if anything is. What is committed stays."""

    def next_transactional_id(self) -> str:
        """Returns an id under which nothing of this subtask is open. Raises ``RuntimeError`` when all are in use."""
        holders = [*(self.pending or {}).values(), *([] if self.current is None else [self.current])]
        used = {self.transactional_id_of(holder.handle) for holder in holders}
        pool = self.get_user_context() or []
        free = [one for one in pool if one not in used]
        if not free:
            raise RuntimeError(
                f"all {len(pool)} transactional ids of {self.transactional_id_prefix} are in use: too many checkpoints are pending. Make the "
                "pool larger, or execution.checkpointing.max-concurrent-checkpoints smaller"
            )
        return free[0]

    def open(self, runtime_context: RuntimeContext) -> None:
        index, parallelism = (
            runtime_context.get_index_of_this_subtask(),
            runtime_context.get_number_of_parallel_subtasks(),
        )
        self._ids = TransactionalIdsGenerator(self.transactional_id_prefix, index, parallelism, self.pool_size)

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        described = ListStateDescriptor("next-transactional-id-hint", Types.TUPLE([Types.INT(), Types.LONG()]))
        self._hints: ListState[tuple[int, int]] = context.get_operator_state_store().get_union_list_state(described)
        found = [NextTransactionalIdHint(*hint) for hint in self._hints.get()]
        if len(found) > 1:
            raise CorruptData(
                f"the restored state of the sink with the prefix {self.transactional_id_prefix!r} has {len(found)} hints of transactional ids, there "
                f"must be one; {ON_DAMAGE}"
            )
        self._has_hint = bool(found)
        self._hint = found[0] if found else NextTransactionalIdHint(0, 0)

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        ids = self._ids
        self._hints.clear()
        if ids.subtask_index == 0:  # one is enough: all would write the same
            hint = self._hint.at(ids.total_number_of_subtasks, ids.pool_size)
            self._hints.add((hint.last_parallelism, hint.next_free_transactional_id))

    def initialize_user_context(self) -> list[str]:
        if not self._has_hint:  # the first run, or one that comes after a failure before the first checkpoint
            self.abort_transactional_ids(self._ids.generate_ids_to_abort())
        return self._ids.generate_ids_to_use(self._hint.next_free_transactional_id)

    def finish_recovering_context(self, handled_transactions: Sequence[TXN]) -> None:
        handled = {self.transactional_id_of(transaction) for transaction in handled_transactions}
        self.abort_transactional_ids([one for one in self.get_user_context() or [] if one not in handled])
