"""Recovers a job after its JobManager was lost: turns the checkpoints that the storage holds into what the new JobManager starts from.

    found in storage ─┬─ whole             completed, whether or not it was confirmed: the newest is restored
                      ├─ no _metadata, or one that is cut off    never completed: removed
                      └─ damaged           newer than every whole one: refused, since its sinks may have published what it
                                           holds (docs/adr/0015); older: left alone

Checkpoint ids continue after everything found, attempt numbers after everything that ever ran. Follows Flink's
``DefaultCompletedCheckpointStoreUtils.retrieveCompletedCheckpoints`` and ``CheckpointCoordinator.restoreInitialCheckpointIfPresent``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tidegate.jobmanager.machines.checkpoint.completed_checkpoints import CompletedCheckpoint
from tidegate.jobmanager.machines.events import FoundCheckpoint, JobRecovered, JobSubmitted
from tidegate.jobmanager.machines.settings import CheckpointSettings
from tidegate.jobmanager.machines.views import EarlierAttempt
from tidegate.model.checkpoint import CheckpointManifest
from tidegate.model.errors import CorruptData, ErrorInfo, InvalidJob
from tidegate.model.graph import JobGraph
from tidegate.model.ids import CheckpointId, SubtaskId
from tidegate.model.leadership.noted_attempts import NotedAttempts
from tidegate.model.rescaling.bounds import with_parallelism
from tidegate.model.restore_check import check_restore


@dataclass(frozen=True, slots=True)
class Inventory:
    """The checkpoints of a job in the storage. ``completed`` is ordered by id; ``next_id``: the next free checkpoint id."""

    completed: tuple[CompletedCheckpoint, ...]
    incomplete: tuple[FoundCheckpoint, ...]
    next_id: CheckpointId


def choices(whole: Sequence[str]) -> str:
    """Describes what a user can start the job from when its newest checkpoint cannot be restored. ``whole``: locations that can be, newest first."""
    if not whole:
        return (
            "The JobManager knows no other intact checkpoint or savepoint of the job: start it from one that you kept with run -s PATH, "
            "or without -s from its beginning"
        )
    return (
        "No older checkpoint is restored automatically, because sinks may already have published what this one holds. Intact ones are: "
        f"{', '.join(whole)}. Start the job from one of them with run -s PATH, or without -s from its beginning"
    )


def take_inventory(found: Iterable[FoundCheckpoint], *, restores_older: bool = False) -> Inventory:
    """Sorts found checkpoints into completed and incomplete ones.

    ``restores_older``: damaged checkpoints are skipped, even the newest. Otherwise raises ``CorruptData`` when the newest completed
    checkpoint cannot be read.
    """
    by_id = sorted(found, key=lambda f: f.checkpoint_id)
    completed = tuple(
        CompletedCheckpoint(
            f.checkpoint_id, f.location, f.manifest, 0, is_ours=not f.manifest.snapshot_type.is_savepoint
        )
        for f in by_id
        if f.manifest is not None
    )
    newest = completed[-1].checkpoint_id if completed else CheckpointId(0)
    for place in by_id:
        if place.damage is not None and place.checkpoint_id > newest and not restores_older:
            whole = [checkpoint.location for checkpoint in reversed(completed)]
            raise CorruptData(
                f"checkpoint {place.checkpoint_id} at {place.location} is the newest of its job and cannot be read: "
                f"{place.damage.message}. Repair it, if you can. {choices(whole)}"
            )
    return Inventory(
        completed=completed,
        incomplete=tuple(f for f in by_id if f.manifest is None and f.damage is None),
        next_id=CheckpointId(by_id[-1].checkpoint_id + 1 if by_id else 1),
    )


@dataclass(frozen=True, slots=True)
class Origin:
    """How a job starts: its graph (a restored max parallelism wins), its checkpoints, or why it cannot start (``refusal``)."""

    submitted: JobSubmitted
    graph: JobGraph
    inventory: Inventory
    first_attempt: int = 0
    noted: NotedAttempts = field(default_factory=NotedAttempts)
    refusal: ErrorInfo | None = None
    attempts: Mapping[SubtaskId, EarlierAttempt] = field(default_factory=dict)
    """The last attempts under earlier JobManagers, as far as known; for display only."""

    @property
    def newest(self) -> CompletedCheckpoint | None:
        """Returns the checkpoint to restore: the newest completed one, otherwise the one that the job was submitted with."""
        if self.inventory.completed:
            return self.inventory.completed[-1]
        restore = self.submitted.restore
        return (
            CompletedCheckpoint(restore.manifest.checkpoint_id, restore.location, restore.manifest, 0)
            if restore
            else None
        )

    @property
    def newest_manifest(self) -> CheckpointManifest | None:
        return self.newest.manifest if self.newest else None


def decide_origin(event: JobSubmitted | JobRecovered, settings: CheckpointSettings) -> Origin:
    """Decides from which checkpoints and with which graph a job starts. A job that cannot be restored gets a ``refusal`` and fails at once."""
    recovered = event if isinstance(event, JobRecovered) else JobRecovered(event)
    submitted, nothing = recovered.submitted, Inventory((), (), CheckpointId(1))
    restore = submitted.restore
    shape = recovered.shape
    graph = with_parallelism(submitted.graph, shape.parallelism) if shape is not None else submitted.graph
    try:
        inventory = take_inventory(recovered.checkpoints, restores_older=settings.restores_older)
        if recovered.next_id is not None and recovered.next_id > inventory.next_id:
            inventory = replace(inventory, next_id=recovered.next_id)
        latest = inventory.completed[-1].manifest if inventory.completed else restore.manifest if restore else None
        if latest is not None:
            allowed = restore is not None and restore.allow_non_restored_state
            graph = check_restore(graph, kept_manifest(latest, settings), allow_non_restored=allowed)
    except (InvalidJob, CorruptData) as error:
        return Origin(submitted, graph, nothing, recovered.first_attempt, refusal=ErrorInfo.of(error))
    earlier = (
        {one.attempt.subtask_id: one for one in recovered.history.attempts} if recovered.history is not None else {}
    )
    noted = recovered.noted or NotedAttempts(recovered.first_attempt - 1)
    return Origin(submitted, graph, inventory, recovered.first_attempt, noted, attempts=earlier)


def kept_manifest(manifest: CheckpointManifest, settings: CheckpointSettings) -> CheckpointManifest:
    """Returns the manifest to restore, without in-flight data if the configuration drops it for this checkpoint."""
    return manifest.without_channels() if manifest.checkpoint_id == settings.drop_channels_of else manifest
