"""The operators of the simulated job, each with copy-on-write snapshots."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tests.sim.channel import Row
from tests.sim.job import (
    SimJob,
    counter_snapshot,
    restored_counts,
    restored_offset,
    restored_transactions,
    sink_snapshot,
    source_snapshot,
    target_of,
)
from tests.sim.storage import External, Record, Transaction
from tests.sim.watch import Watch
from tidegate.model.checkpoint import SubtaskSnapshot
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

    def freeze(self, checkpoint_id: int) -> Frozen:
        raise AssertionError("every operator of this job has state")

    def to_snapshot(self, state: object) -> SubtaskSnapshot:
        raise AssertionError("every operator of this job has state")

    def commit(self, checkpoint_id: int) -> None:
        """Confirmed, with everything before it."""


class SourceOperator(Operator):
    def __init__(self, job: SimJob, deployment: TaskDeployment) -> None:
        super().__init__(deployment)
        self._job = job
        if deployment.finished_on_restore:
            self.offset = job.rows[self.attempt.subtask]
        else:
            self.offset = restored_offset(deployment.restore, self.attempt.subtask)

    def poll(self) -> Row | None:
        source = self.attempt.subtask
        if self.offset >= self._job.rows[source]:
            return None
        row = Row(source, self.offset, self._job.key_of(source, self.offset), 0)
        self.offset += 1
        return row

    def freeze(self, checkpoint_id: int) -> Frozen:
        return Frozen(self, self.offset)

    def to_snapshot(self, state: object) -> SubtaskSnapshot:
        assert isinstance(state, int)
        return source_snapshot(self.attempt.subtask, state, self.attempt)


class CounterOperator(Operator):
    def __init__(self, deployment: TaskDeployment) -> None:
        super().__init__(deployment)
        self.counts = restored_counts(deployment.restore)
        self._is_shared = False

    def process(self, row: Row) -> Iterable[Row]:
        self.copy_on_write()
        self.counts[row.key] = self.counts.get(row.key, 0) + 1
        yield row._replace(number=self.counts[row.key])

    def copy_on_write(self) -> None:
        if self._is_shared:
            self.counts, self._is_shared = dict(self.counts), False

    def freeze(self, checkpoint_id: int) -> Frozen:
        self._is_shared = True
        return Frozen(self, self.counts)

    def to_snapshot(self, state: object) -> SubtaskSnapshot:
        assert isinstance(state, dict)
        return counter_snapshot(state, self.attempt.subtask, self.deployment.parallelism, self.attempt)


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
        self._external.abort_others(self.attempt, set(restored))

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

    def freeze(self, checkpoint_id: int) -> Frozen:
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
