"""What outlives every process: the checkpoint directories, and the system that the sinks write to.

The checkpoint storage may be slow or full, may refuse, may tear a write, or may not know whether it wrote. The external system
has transactions that are prepared, then committed or aborted; what is committed is the output that must be exact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.sim.world import Outage, World
from tidegate.jobmanager.machines.events import FoundCheckpoint
from tidegate.model.checkpoint import CheckpointManifest, SnapshotType
from tidegate.model.errors import CorruptData, ErrorInfo, StorageError
from tidegate.model.ids import AttemptId, CheckpointId, JobId
from tidegate.model.rescaling.shape import Shape

Record = tuple[int, int]
"""Key and count: what the keyed counter emits. Each appears once in an exact output."""

Content = dict[int, int]
"""Of a shared file: counts by key."""

Durable = tuple[JobId, CheckpointId]


@dataclass(slots=True)
class Storage:
    world: World
    files: dict[str, set[AttemptId]] = field(default_factory=dict)
    """By location of a checkpoint: who wrote something into it that is still there."""
    manifests: dict[str, CheckpointManifest] = field(default_factory=dict)
    """By location."""
    torn: set[str] = field(default_factory=set)
    """Locations whose ``_metadata`` is there, but is not whole."""
    ever_durable: set[Durable] = field(default_factory=set)
    shapes: dict[JobId, Shape] = field(default_factory=dict)
    """What the job store has of jobs that are not in the shape of their submission."""
    shared: dict[str, Content] = field(default_factory=dict)
    """By path."""
    met_damage: bool = False
    """Since the last run began."""
    on_durable: Callable[[CheckpointManifest], None] = lambda manifest: None

    # ---- does it work? -----------------------------------------------------------------------------------------------

    def refuses_write(self) -> ErrorInfo | None:
        outage = self.world.outage(Outage.FULL, Outage.DENIED)
        if outage is not None or self.world.chance(self.world.plan.storage_fails):
            return ErrorInfo.of(StorageError(outage.value if outage else "the disk said no"))
        return None

    def refuses_delete(self) -> ErrorInfo | None:
        if self.world.outage(Outage.DENIED) or self.world.chance(self.world.plan.storage_fails):
            return ErrorInfo.of(StorageError("it cannot be removed"))
        return None

    def rots(self, times: int = 1) -> bool:
        """Something that has to be read now is damaged, so many times as probable as it is for one file of state."""
        if not self.world.chance(self.world.plan.storage_rots * times):
            return False
        self.met_damage = True
        return True

    def delay_ms(self, least: int, most: int) -> int:
        world = self.world
        slow = world.outage(Outage.SLOW) is not None or world.chance(world.plan.slow)
        return world.between(least, most) * (20 if slow else 1)

    # ---- checkpoints -------------------------------------------------------------------------------------------------

    def create(self, location: str) -> str:
        self.files.setdefault(location, set())
        return location

    def put(self, location: str, attempt: AttemptId) -> None:
        self.files.setdefault(location, set()).add(attempt)

    def remove_file(self, location: str, attempt: AttemptId) -> None:
        self.files.get(location, set()).discard(attempt)

    def put_manifest(self, location: str, manifest: CheckpointManifest) -> None:
        self.manifests[location] = manifest
        self.torn.discard(location)
        self.ever_durable.add((manifest.job_id, manifest.checkpoint_id))
        self.on_durable(manifest)

    def discard(self, location: str) -> None:
        self.manifests.pop(location, None)
        self.torn.discard(location)
        self.files.pop(location, None)

    def found(self, job_id: JobId) -> list[FoundCheckpoint]:
        """All checkpoint directories of a job, and the savepoint that it was being stopped with."""
        places, newest = [], self.newest(job_id)
        for location in self.files:
            manifest = self.manifests.get(location)
            if location.startswith(f"/cp/{job_id}/chk-"):
                number = CheckpointId(int(location.rpartition("-")[2]))
            elif manifest and manifest.job_id == job_id and manifest.snapshot_type.is_synchronous:
                number = manifest.checkpoint_id
            else:
                continue
            damage = None
            if location == newest and self.rots(times=6):
                manifest, damage = None, ErrorInfo.of(CorruptData("_metadata is damaged"))
            places.append(FoundCheckpoint(number, location, manifest, damage))
        return places

    def newest(self, job_id: JobId) -> str | None:
        """Where a job that is not there any more can go on: its newest checkpoint, or the savepoint that it was being stopped
        with. (A plain savepoint is older than what sinks may have committed since.)"""
        found = [
            (manifest.checkpoint_id, location)
            for location, manifest in self.manifests.items()
            if manifest.job_id == job_id and manifest.snapshot_type is not SnapshotType.SAVEPOINT
        ]
        return max(found)[1] if found else None


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

    def abort_others(self, attempt: AttemptId, parallelism: int, restored_id: int) -> None:
        """A restored sink: what earlier attempts prepared for checkpoints behind the restored one is dropped, each subtask's by one of those that
        there are now. What was prepared for earlier ones is some subtask's to commit."""
        for transaction in self.prepared:
            old = transaction.attempt
            same = old.job_id == attempt.job_id and old.subtask % parallelism == attempt.subtask
            is_behind = old.attempt < attempt.attempt and transaction.checkpoint_id > restored_id
            if same and is_behind and transaction not in self.committed:
                self.aborted.add(transaction)
