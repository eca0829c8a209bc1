from __future__ import annotations

from collections.abc import Callable

import pytest

from tidegate.jobmanager.machines.checkpoint.completed_checkpoints import CompletedCheckpoint
from tidegate.jobmanager.machines.checkpoint.statistics import CheckpointStatistics
from tidegate.jobmanager.machines.views import CheckpointView
from tidegate.model.checkpoint import CheckpointManifest, CheckpointMetrics, SnapshotType
from tidegate.model.ids import AttemptId, CheckpointId, JobId, VertexId

ID = CheckpointId(1)
ATTEMPT = AttemptId(JobId("a" * 32), VertexId("1" * 32), 0, 0)
MANIFEST = CheckpointManifest(JobId("a" * 32), "job", ID, 10, SnapshotType.CHECKPOINT, ())

Change = Callable[[CheckpointStatistics], object]
CHANGES: dict[str, tuple[Change, Callable[[CheckpointView], object]]] = {
    "sent": (lambda s: s.on_sent(ID, "/cp/chk-1", 11), lambda v: (v.location, v.sent_ms) == ("/cp/chk-1", 11)),
    "acknowledged": (
        lambda s: s.on_acknowledged(ATTEMPT, ID, 12, CheckpointMetrics(bytes_persisted=7), 7),
        lambda v: (len(v.subtasks), v.size_bytes, v.totals.bytes_persisted) == (1, 7, 7),
    ),
    "sealed": (lambda s: s.on_sealed(ID, 13), lambda v: v.sealed_ms == 13),
    "completed": (
        lambda s: s.on_completed(ID, 14, 99),
        lambda v: (v.status, v.end_ms, v.size_bytes) == ("COMPLETED", 14, 99),
    ),
    "confirmed": (lambda s: s.on_confirmed(ID, 15), lambda v: v.confirmed_ms == 15),
    "failed": (
        lambda s: s.on_failed(ID, 16, "late"),
        lambda v: (v.status, v.end_ms, v.failure) == ("FAILED", 16, "late"),
    ),
    "discarded": (lambda s: s.on_discarded(ID), lambda v: v.discarded),
    "restored": (lambda s: s.on_restored(CompletedCheckpoint(ID, "/cp/chk-1", MANIFEST, 7), 17), lambda v: v.restored),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_changes_after_somebody_looked_is_seen_by_who_looks_next(what: str) -> None:
    change, is_seen = CHANGES[what]
    stats = CheckpointStatistics(history=10)
    stats.on_started(ID, SnapshotType.CHECKPOINT, 10, 2, is_periodic=True)
    (before,) = stats.view(None).history
    assert not is_seen(before)
    change(stats)
    (after,) = stats.view(None).history
    assert is_seen(after)


def test_a_checkpoint_that_did_not_change_is_not_made_ready_again() -> None:
    stats = CheckpointStatistics(history=10)
    stats.on_started(ID, SnapshotType.CHECKPOINT, 10, 2, is_periodic=True)
    stats.on_completed(ID, 14, 99)
    (before,) = stats.view(ID).history
    stats.on_started(CheckpointId(2), SnapshotType.CHECKPOINT, 20, 2, is_periodic=True)
    _, after = stats.view(ID).history
    assert after is before


def test_what_is_told_of_beside_the_history_is_discarded_too() -> None:
    """Many failures later a checkpoint has left the history, and is still the latest that was completed."""
    stats = CheckpointStatistics(history=1)
    for number, kind in ((1, SnapshotType.CHECKPOINT), (2, SnapshotType.SAVEPOINT), (3, SnapshotType.CHECKPOINT)):
        stats.on_started(CheckpointId(number), kind, 10, 2, is_periodic=True)
        if number < 3:
            stats.on_completed(CheckpointId(number), 14, 99)
    stats.on_restored(CompletedCheckpoint(ID, "/cp/chk-1", MANIFEST, 7), 17)
    stats.on_discarded(ID)
    seen = stats.view(None)
    assert (
        seen.last_completed and seen.last_completed.discarded,
        seen.last_restored and seen.last_restored.discarded,
    ) == (True, True)
    assert seen.last_savepoint is not None
    assert not seen.last_savepoint.discarded
    assert [view.discarded for view in seen.history] == [False]


def test_the_slowest_and_the_last_failed_ones_outlive_the_history() -> None:
    stats = CheckpointStatistics(history=2)
    for number in range(1, 41):
        checkpoint_id = CheckpointId(number)
        stats.on_started(checkpoint_id, SnapshotType.CHECKPOINT, 1000 * number, 1, is_periodic=True)
        if number % 5 == 0:
            stats.on_failed(checkpoint_id, 1000 * number + 1, "late")
        else:
            stats.on_completed(checkpoint_id, 1000 * number + number % 19, 9)
    seen = stats.view(None)
    assert [view.checkpoint_id for view in seen.history] == [40, 39]
    failed = [view.checkpoint_id for view in seen.beyond if view.status == "FAILED"]
    slowest = [view.checkpoint_id for view in seen.beyond if view.status == "COMPLETED"]
    assert failed == [35, 30, 25, 20, 15]
    assert slowest == [37, 36, 18, 17, 16]
    stats.on_acknowledged(ATTEMPT, CheckpointId(15), 16_000, CheckpointMetrics(sync_ms=3), 7)
    late = next(view for view in stats.view(None).beyond if view.checkpoint_id == 15)
    assert [part.ack_ms for part in late.subtasks] == [16_000]


def test_who_acknowledges_a_failed_checkpoint_is_shown_and_does_not_count() -> None:
    """Also in the millisecond in which it failed, and when its TaskManager had held the acknowledgement since before."""
    stats = CheckpointStatistics(history=2)
    stats.on_started(ID, SnapshotType.CHECKPOINT, 10, 2, is_periodic=True)
    stats.on_acknowledged(ATTEMPT, ID, 12, CheckpointMetrics(), 3)
    stats.on_failed(ID, 20, "expired")
    other = AttemptId(ATTEMPT.job_id, ATTEMPT.vertex_id, 1, 0)
    stats.on_acknowledged(other, ID, 20, CheckpointMetrics(start_delay_ms=4, async_ms=5), 7)
    (seen,) = stats.view(None).history
    assert [(part.attempt, part.aborted) for part in seen.subtasks] == [(ATTEMPT, False), (other, True)]
    assert (seen.acknowledged, seen.totals.last_ack_ms, seen.size_bytes) == (1, 12, 10)


def test_what_an_earlier_jobmanager_showed_is_shown_on() -> None:
    """Checkpoint 2 was completed in the last second, of which nothing was kept but its pointer; checkpoint 3 was lost with the JobManager."""
    earlier = CheckpointStatistics(history=10)
    for number in (1, 2, 3):
        earlier.on_started(CheckpointId(number), SnapshotType.CHECKPOINT, 10 * number, 2, is_periodic=True)
    earlier.on_completed(ID, 14, 99)
    stats = CheckpointStatistics(history=10)
    stats.recall(earlier.view(ID), {ID, CheckpointId(2)}, 40)
    seen = stats.view(CheckpointId(2))
    assert (seen.completed, seen.failed, seen.in_progress) == (2, 1, 0)
    assert [(one.checkpoint_id, one.status) for one in seen.history] == [
        (3, "FAILED"),
        (2, "COMPLETED"),
        (1, "COMPLETED"),
    ]
    stats.on_discarded(ID)
    again = stats.view(CheckpointId(2))
    assert again.history[-1].discarded
    assert again.last_completed is not None
    assert again.last_completed.discarded
