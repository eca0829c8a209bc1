"""The operators of the simulated job, each with copy-on-write snapshots."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tests.sim.channel import Row
from tests.sim.counts import CounterState, FrozenCounts
from tests.sim.handles import (
    assigned_snapshot,
    counter_snapshot,
    restored_elements,
    restored_groups,
    restored_offsets,
    restored_transactions,
    sink_snapshot,
    source_snapshot,
)
from tests.sim.job import SimJob, group_of, target_of
from tests.sim.splits import kept, own
from tests.sim.storage import External, Record, Storage, Transaction
from tests.sim.watch import Watch
from tidegate.model.checkpoint import CheckpointOptions, SubtaskSnapshot
from tidegate.model.deployment import OutputDeployment, TaskDeployment
from tidegate.model.graph import Partitioner


@dataclass(frozen=True, slots=True)
class Frozen:
    """References taken at the barrier; what they point to must not change until it is written."""

    operator: Operator
    state: object

    def digest(self) -> str:
        return repr(self.state)

    def snapshot(self) -> SubtaskSnapshot:
        if self.operator.deployment.finished_on_restore:
            return SubtaskSnapshot()
        return self.operator.to_snapshot(self.state)


class Operator:
    def __init__(self, deployment: TaskDeployment) -> None:
        self.deployment = deployment
        self.attempt = deployment.attempt

    def open(self) -> None:
        """State is there, inputs are connected."""

    def poll(self) -> Row | None:
        raise AssertionError("not a source")

    def process(self, row: Row) -> Iterable[Row]:
        raise AssertionError("a source")

    def target(self, row: Row, output: OutputDeployment) -> int:
        match output.partitioner:
            case Partitioner.FORWARD:
                return 0
            case Partitioner.HASH:
                return target_of(row.key, output.consumer_parallelism)
            case _:
                return row.offset % len(output.consumers)

    def prepare(self, checkpoint_id: int) -> None:
        """Before the barrier."""

    def freeze(self, checkpoint_id: int, options: CheckpointOptions) -> Frozen:
        raise AssertionError("every operator of this job has state")

    def to_snapshot(self, state: object) -> SubtaskSnapshot:
        """Written: what is acknowledged."""
        raise AssertionError("every operator of this job has state")

    def commit(self, checkpoint_id: int) -> None:
        """Confirmed, with everything before it."""


class SourceOperator(Operator):
    def __init__(self, job: SimJob, deployment: TaskDeployment) -> None:
        super().__init__(deployment)
        self._job = job
        splits = job.splits_of(self.attempt.subtask, deployment.parallelism)
        restored = restored_offsets(deployment.restore)
        if deployment.finished_on_restore:
            restored = dict(enumerate(job.rows))
        self.offsets = {split: restored.get(split, 0) for split in splits}

    def poll(self) -> Row | None:
        split = min(self.offsets, key=self._turn, default=None)
        if split is None or self.offsets[split] >= self._job.rows[split]:
            return None
        row = Row(split, self.offsets[split], self._job.key_of(split, self.offsets[split]), 0)
        self.offsets[split] += 1
        return row

    def _turn(self, split: int) -> tuple[bool, int]:
        offset = self.offsets[split]
        return offset >= self._job.rows[split], offset

    def freeze(self, checkpoint_id: int, options: CheckpointOptions) -> Frozen:
        return Frozen(self, dict(self.offsets))

    def to_snapshot(self, state: object) -> SubtaskSnapshot:
        assert isinstance(state, dict)
        return source_snapshot(state, self.attempt)


class AssignedSourceOperator(SourceOperator):
    """One whose splits a coordinator hands out."""

    def __init__(self, job: SimJob, deployment: TaskDeployment) -> None:
        super().__init__(job, deployment)
        elements = restored_elements(deployment.restore) or []
        self.offsets = own(elements, self.attempt.subtask, deployment.parallelism)
        self.all_restored = {int(element[0]) for element in elements}
        """The splits that any reader had."""

    def to_snapshot(self, state: object) -> SubtaskSnapshot:
        assert isinstance(state, dict)
        elements = kept(state, self._job.rows, self.attempt.subtask, self.deployment.parallelism)
        return assigned_snapshot(elements, self.attempt)


class CounterOperator(Operator):
    def __init__(self, storage: Storage, deployment: TaskDeployment) -> None:
        super().__init__(deployment)
        self._storage = storage
        self.state = CounterState(self.attempt)

    def open(self) -> None:
        restore = self.deployment.restore
        if restore is not None:
            self.state.restore(restored_groups(restore, self._storage), restore.checkpoint_id)

    def process(self, row: Row) -> Iterable[Row]:
        group = group_of(row.key, self.attempt.subtask, self.deployment.parallelism)
        self.copy_on_write(group)
        yield row._replace(number=self.state.count(group, row.key))

    def copy_on_write(self, group: int) -> None:
        self.state.unshare(group)

    def freeze(self, checkpoint_id: int, options: CheckpointOptions) -> Frozen:
        return Frozen(self, self.state.freeze(checkpoint_id, options))

    def to_snapshot(self, state: object) -> SubtaskSnapshot:
        assert isinstance(state, FrozenCounts)
        for group, file in state.files.items():
            if file.is_new:
                self._storage.shared[file.path] = dict(state.groups[group])
        return counter_snapshot(state.groups, state.files, self.attempt)

    def commit(self, checkpoint_id: int) -> None:
        self.state.on_confirmed(checkpoint_id)


class SinkOperator(Operator):
    def __init__(self, external: External, watch: Watch, deployment: TaskDeployment) -> None:
        super().__init__(deployment)
        self._external = external
        self._watch = watch
        self._records: list[Record] = []
        self._pending: tuple[Transaction, ...] = ()

    def open(self) -> None:
        restored = restored_transactions(self.deployment.restore)
        for transaction in restored:
            self._commit(transaction)
        restore = self.deployment.restore
        restored_id = restore.checkpoint_id if restore is not None else 0
        self._external.abort_others(self.attempt, self.deployment.parallelism, restored_id)

    def process(self, row: Row) -> Iterable[Row]:
        self._records.append((row.key, row.number))
        return ()

    def prepare(self, checkpoint_id: int) -> None:
        if self._records:
            transaction = Transaction(self.attempt, checkpoint_id)
            self._external.prepare(transaction, tuple(self._records))
            self._pending, self._records = (*self._pending, transaction), []
            self.on_prepared(transaction)

    def on_prepared(self, transaction: Transaction) -> None:
        """The vote is cast."""

    def freeze(self, checkpoint_id: int, options: CheckpointOptions) -> Frozen:
        return Frozen(self, self._pending)

    def to_snapshot(self, state: object) -> SubtaskSnapshot:
        assert isinstance(state, tuple)
        return sink_snapshot(list(state), self.attempt)

    def commit(self, checkpoint_id: int) -> None:
        for transaction in self._pending:
            if transaction.checkpoint_id <= checkpoint_id:
                self._commit(transaction)
        self._pending = tuple(t for t in self._pending if t.checkpoint_id > checkpoint_id)

    def _commit(self, transaction: Transaction) -> None:
        self._watch.on_commit(transaction, was_aborted=not self._external.commit(transaction))
