"""What outlives every process: the checkpoint directories, and the system that the sinks write to.

The checkpoint storage may be slow, may fail, or may not know whether it wrote. The external system has transactions that are
prepared, then committed or aborted; what is committed is the output that must be exact.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tidegate.model.checkpoint import CheckpointManifest
from tidegate.model.ids import AttemptId

Record = tuple[int, int]
"""Key and count: what the keyed counter emits. Each appears once in an exact output."""


@dataclass(slots=True)
class Storage:
    locations: dict[int, str] = field(default_factory=dict)
    files: dict[int, set[AttemptId]] = field(default_factory=dict)
    """By checkpoint: who wrote something into its directory that is still there."""
    manifests: dict[int, CheckpointManifest] = field(default_factory=dict)
    ever_durable: set[int] = field(default_factory=set)

    def create(self, checkpoint_id: int) -> str:
        self.files.setdefault(checkpoint_id, set())
        return self.locations.setdefault(checkpoint_id, f"/cp/chk-{checkpoint_id}")

    def put(self, checkpoint_id: int, attempt: AttemptId) -> None:
        self.files.setdefault(checkpoint_id, set()).add(attempt)

    def remove_file(self, checkpoint_id: int, attempt: AttemptId) -> None:
        self.files.get(checkpoint_id, set()).discard(attempt)

    def put_manifest(self, manifest: CheckpointManifest) -> None:
        self.manifests[manifest.checkpoint_id] = manifest
        self.ever_durable.add(manifest.checkpoint_id)

    def discard(self, checkpoint_id: int) -> None:
        self.manifests.pop(checkpoint_id, None)
        self.files.pop(checkpoint_id, None)


@dataclass(frozen=True, slots=True)
class Transaction:
    """Named by the attempt and the checkpoint that closed it."""

    attempt: AttemptId
    checkpoint_id: int


@dataclass(slots=True)
class External:
    prepared: dict[Transaction, tuple[Record, ...]] = field(default_factory=dict)
    committed: set[Transaction] = field(default_factory=set)
    aborted: set[Transaction] = field(default_factory=set)
    output: Counter[Record] = field(default_factory=Counter)

    def prepare(self, transaction: Transaction, records: tuple[Record, ...]) -> None:
        assert transaction not in self.committed
        self.prepared[transaction] = records

    def commit(self, transaction: Transaction) -> bool:
        """Idempotent. ``False``: it was aborted before, and its records are lost."""
        if transaction in self.aborted:
            return False
        if transaction not in self.committed:
            self.committed.add(transaction)
            self.output.update(self.prepared[transaction])
        return True

    def abort_others(self, attempt: AttemptId, keep: set[Transaction]) -> None:
        """A restored sink: what earlier attempts of its subtask prepared, and its checkpoint does not hold, is dropped."""
        for transaction in self.prepared:
            same = transaction.attempt.subtask_id == attempt.subtask_id
            earlier = transaction.attempt.attempt < attempt.attempt
            if same and earlier and transaction not in keep and transaction not in self.committed:
                self.aborted.add(transaction)
