"""Checkpoint statistics of a job: counts since its submission, and the last checkpoints in detail.

Follows Flink's ``DefaultCheckpointStatsTracker.java``: acknowledgements that arrive after a checkpoint has failed are shown but do
not count.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import fields, replace

from tidegate.jobmanager.machines.checkpoint.completed_checkpoints import CompletedCheckpoint
from tidegate.jobmanager.machines.views import (
    CheckpointSummary,
    CheckpointsView,
    CheckpointTotals,
    CheckpointView,
    SubtaskCheckpointView,
)
from tidegate.model.checkpoint import CheckpointMetrics, SnapshotType
from tidegate.model.ids import AttemptId, CheckpointId, SubtaskId
from tidegate.model.stats_summary import Samples

IN_PROGRESS, COMPLETED, FAILED = "IN_PROGRESS", "COMPLETED", "FAILED"
KEPT_BEYOND = 5
"""How many failed and how many of the slowest checkpoints are kept beyond the history.

Chosen, not measured: a job that fails once an hour would soon show nothing of it otherwise.
"""


class _Record:
    """A checkpoint of the history: its view, and acknowledgements that the view does not contain yet.

    The view holds all subtasks and is rebuilt only when it is read, since rebuilding one of 10,000 subtasks for each
    acknowledgement would be too slow.
    """

    def __init__(self, view: CheckpointView) -> None:
        self._view = view
        self._subtasks: dict[SubtaskId, SubtaskCheckpointView] = {}
        self._size_bytes, self._totals = view.size_bytes, view.totals
        self._is_stale = False

    @property
    def view(self) -> CheckpointView:
        if self._is_stale:
            self._view = replace(
                self._view,
                subtasks=tuple(self._subtasks.values()),
                acknowledged=sum(not subtask.aborted for subtask in self._subtasks.values()),
                size_bytes=self._size_bytes,
                totals=self._totals,
            )
            self._is_stale = False
        return self._view

    def show(self, view: CheckpointView) -> None:
        """Replaces the view by a copy of it with some fields changed."""
        self._view, self._size_bytes = view, view.size_bytes

    def add(self, subtask: SubtaskCheckpointView) -> None:
        """Adds the acknowledgement of a subtask; only its first one counts."""
        if subtask.attempt.subtask_id in self._subtasks:
            return
        metrics, before = subtask.metrics, self._totals
        self._subtasks[subtask.attempt.subtask_id] = subtask
        self._size_bytes += subtask.size_bytes
        self._totals = CheckpointTotals(
            before.last_ack_ms if subtask.aborted else max(before.last_ack_ms, subtask.ack_ms),
            before.bytes_persisted + metrics.bytes_persisted,
            before.bytes_processed_during_alignment + metrics.bytes_processed_during_alignment,
            before.in_flight_bytes + metrics.in_flight_bytes,
            before.is_unaligned or metrics.unaligned,
        )
        self._is_stale = True


class _Summary:
    """Samples of completed checkpoints; their summary is recomputed only after a new one."""

    def __init__(self) -> None:
        self._samples = tuple(Samples() for _ in fields(CheckpointSummary))
        self._shown: CheckpointSummary | None = CheckpointSummary()

    def add(self, checkpoint: CheckpointView) -> None:
        totals = checkpoint.totals
        values = (
            totals.bytes_persisted,
            checkpoint.size_bytes,
            max(0, totals.last_ack_ms - checkpoint.trigger_ms),
            totals.bytes_processed_during_alignment,
            totals.in_flight_bytes,
        )
        for samples, value in zip(self._samples, values, strict=True):
            samples.add(value)
        self._shown = None

    def view(self) -> CheckpointSummary:
        if self._shown is None:
            self._shown = CheckpointSummary(*(samples.summary() for samples in self._samples))
        return self._shown


class _Remarkable:
    """Checkpoints that are kept beyond the history: the last failed ones and the slowest completed ones."""

    def __init__(self) -> None:
        self._failed: deque[_Record] = deque(maxlen=KEPT_BEYOND)
        self._slowest: list[_Record] = []

    def add(self, record: _Record) -> list[_Record]:
        """Takes a checkpoint that leaves the history; returns those dropped for it: itself, an older one, or none."""
        if record.view.status == FAILED:
            oldest = [self._failed[0]] if len(self._failed) == KEPT_BEYOND else []
            self._failed.append(record)
            return oldest
        if record.view.status != COMPLETED:
            return [record]
        self._slowest = sorted([*self._slowest, record], key=_duration_ms, reverse=True)
        forgotten, self._slowest = self._slowest[KEPT_BEYOND:], self._slowest[:KEPT_BEYOND]
        return forgotten

    def views(self) -> tuple[CheckpointView, ...]:
        """Returns the views, newest first."""
        kept = [record.view for record in (*self._failed, *self._slowest)]
        return tuple(sorted(kept, key=lambda view: view.checkpoint_id, reverse=True))


def _duration_ms(record: _Record) -> int:
    view = record.view
    return 0 if view.end_ms is None else view.end_ms - view.trigger_ms


class CheckpointStatistics:
    """Collects what is shown of the checkpoints of one job."""

    def __init__(self, history: int) -> None:
        self._history: deque[_Record] = deque(maxlen=max(1, history))
        self._beyond = _Remarkable()
        self._by_id: dict[CheckpointId, _Record] = {}
        """The checkpoints of the history and beyond, by id; late acknowledgements are added to them."""
        self._completed = self._failed = self._in_progress = self._restored = 0
        self._last_completed: _Record | None = None
        self._last_failed: _Record | None = None
        self._last_savepoint: _Record | None = None
        self._last_restored: _Record | None = None
        self._last_restored_ms: int | None = None
        self._summary = _Summary()

    @property
    def in_progress(self) -> int:
        return self._in_progress

    @property
    def failed(self) -> int:
        return self._failed

    @property
    def savepoints(self) -> dict[str, CheckpointId]:
        """Returns the locations of completed savepoints of the history, with their checkpoint ids."""
        views = [record.view for record in self._history]
        return {v.location: v.checkpoint_id for v in views if v.status == COMPLETED and v.snapshot_type.is_savepoint}

    def recall(self, past: CheckpointsView, completed: Collection[CheckpointId], now_ms: int) -> None:
        """Takes over the statistics of earlier JobManagers. A checkpoint that was in progress is shown as completed if it is in ``completed``,
        otherwise as failed.
        """
        self._completed, self._failed, self._restored = past.completed, past.failed, past.restored
        for view in reversed(past.history):
            record = _Record(self._ended(view, completed, now_ms))
            self._history.append(record)
            self._by_id[view.checkpoint_id] = record
            if record.view.status == COMPLETED:
                self._summary.add(record.view)
        for view in reversed(past.beyond):
            self._by_id[view.checkpoint_id] = record = _Record(view)
            self._beyond.add(record)
        self._last_completed = self._recalled(past.last_completed)
        self._last_failed = self._recalled(past.last_failed)
        self._last_savepoint = self._recalled(past.last_savepoint)
        self._last_restored, self._last_restored_ms = self._recalled(past.last_restored), past.last_restored_ms

    def _ended(self, view: CheckpointView, completed: Collection[CheckpointId], now_ms: int) -> CheckpointView:
        if view.status != IN_PROGRESS:
            return view
        if view.checkpoint_id in completed:
            self._completed += 1
            return replace(view, status=COMPLETED, end_ms=now_ms)
        self._failed += 1
        return replace(view, status=FAILED, end_ms=now_ms, failure="the JobManager that took it was lost")

    def _recalled(self, view: CheckpointView | None) -> _Record | None:
        """Returns the record of a view, the one of the history if it is there."""
        return (self._by_id.get(view.checkpoint_id) or _Record(view)) if view else None

    def on_started(
        self, checkpoint_id: CheckpointId, snapshot_type: SnapshotType, now_ms: int, expected: int, *, is_periodic: bool
    ) -> None:
        if len(self._history) == self._history.maxlen:
            for forgotten in self._beyond.add(self._history[0]):
                self._by_id.pop(forgotten.view.checkpoint_id, None)
        record = _Record(
            CheckpointView(checkpoint_id, IN_PROGRESS, snapshot_type, is_periodic, trigger_ms=now_ms, expected=expected)
        )
        self._history.append(record)
        self._by_id[checkpoint_id] = record
        self._in_progress += 1

    def on_sent(self, checkpoint_id: CheckpointId, location: str, now_ms: int) -> None:
        """Notes that the directory exists and the sources are triggered."""
        if record := self._by_id.get(checkpoint_id):
            record.show(replace(record.view, location=location, sent_ms=now_ms))

    def on_sealed(self, checkpoint_id: CheckpointId, now_ms: int) -> None:
        """Notes that all subtasks have acknowledged."""
        if record := self._by_id.get(checkpoint_id):
            record.show(replace(record.view, sealed_ms=now_ms))

    def on_confirmed(self, checkpoint_id: CheckpointId, now_ms: int) -> None:
        """Notes that tasks are notified that the checkpoint is complete."""
        if record := self._by_id.get(checkpoint_id):
            record.show(replace(record.view, confirmed_ms=now_ms))

    def on_acknowledged(
        self,
        attempt: AttemptId,
        checkpoint_id: CheckpointId,
        now_ms: int,
        metrics: CheckpointMetrics,
        size_bytes: int,
    ) -> None:
        if record := self._by_id.get(checkpoint_id):
            aborted = record.view.status == FAILED
            record.add(SubtaskCheckpointView(attempt, now_ms, metrics, size_bytes, aborted))

    def on_completed(self, checkpoint_id: CheckpointId, now_ms: int, manifest_bytes: int) -> None:
        self._completed += 1
        self._in_progress -= 1
        if record := self._by_id.get(checkpoint_id):
            size_bytes = max(record.view.size_bytes, manifest_bytes)
            complete = replace(record.view, status=COMPLETED, end_ms=now_ms, size_bytes=size_bytes)
            record.show(replace(complete, metadata_bytes=manifest_bytes))
            self._summary.add(record.view)
            if record.view.snapshot_type.is_savepoint:
                self._last_savepoint = record
            else:
                self._last_completed = record

    def on_failed(self, checkpoint_id: CheckpointId | None, now_ms: int, failure: str) -> None:
        """Notes a failed checkpoint; with ``None`` it failed before it had an id and is only counted."""
        self._failed += 1
        if checkpoint_id is None:
            return
        self._in_progress -= 1
        if record := self._by_id.get(checkpoint_id):
            record.show(replace(record.view, status=FAILED, end_ms=now_ms, failure=failure))
            self._last_failed = record

    def on_withdrawn(self, checkpoint_id: CheckpointId) -> None:
        """Removes a checkpoint that the job itself gave up to restart on purpose: it counts neither as completed nor as failed."""
        record = self._by_id.get(checkpoint_id)
        if record is not None and record in self._history:
            self._history.remove(record)
            del self._by_id[checkpoint_id]
        self._in_progress -= 1

    def on_discarded(self, checkpoint_id: CheckpointId) -> None:
        """Marks a checkpoint as discarded, also when it has left the history and is only reported as the last of its kind."""
        latest = (self._last_completed, self._last_savepoint, self._last_restored)
        for record in (self._by_id.get(checkpoint_id), *latest):
            if record is not None and record.view.checkpoint_id == checkpoint_id:
                record.show(replace(record.view, discarded=True))

    def on_restored(self, checkpoint: CompletedCheckpoint, now_ms: int) -> None:
        self._restored += 1
        manifest, place = checkpoint.manifest, checkpoint.location
        record = self._by_id.get(checkpoint.checkpoint_id)
        if record is None:
            view = CheckpointView(
                manifest.checkpoint_id,
                COMPLETED,
                manifest.snapshot_type,
                is_periodic=False,
                trigger_ms=manifest.timestamp_ms,
                expected=0,
                end_ms=now_ms,
                location=place,
            )
            record = _Record(view)
        record.show(replace(record.view, restored=True))
        self._last_restored, self._last_restored_ms = record, now_ms

    def view(self, latest_completed_id: CheckpointId | None) -> CheckpointsView:
        def shown(record: _Record | None) -> CheckpointView | None:
            return record.view if record else None

        return CheckpointsView(
            history=tuple(record.view for record in reversed(self._history)),
            completed=self._completed,
            failed=self._failed,
            in_progress=self._in_progress,
            restored=self._restored,
            latest_completed_id=latest_completed_id,
            last_completed=shown(self._last_completed),
            last_failed=shown(self._last_failed),
            last_savepoint=shown(self._last_savepoint),
            last_restored=shown(self._last_restored),
            last_restored_ms=self._last_restored_ms,
            summary=self._summary.view(),
            beyond=self._beyond.views(),
        )
