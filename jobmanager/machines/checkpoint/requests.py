"""Queues requests for checkpoints, adds periodic ones, and picks the next to start.

Of checkpoints that have started it knows only their number.

    periodic timer, users, the end of data ─▶ queue ─▶ decide ─▶ the request that starts now
                     ▲                                   │
                     └──── re-armed at the end of the minimal pause, when a periodic one is dropped
"""

from __future__ import annotations

from tidegate.jobmanager.machines.checkpoint.trigger import (
    CheckpointRequest,
    CoordinatorLoad,
    DropWithinPause,
    PeriodicSchedule,
    RequestQueue,
    request_of,
)
from tidegate.jobmanager.machines.command_buffer import CommandBuffer
from tidegate.jobmanager.machines.coordination.operator_coordinators import OperatorCoordinators
from tidegate.jobmanager.machines.events import SnapshotRequested
from tidegate.jobmanager.machines.settings import CheckpointSettings
from tidegate.model.checkpoint import SnapshotType
from tidegate.model.ids import JobId

TRIGGER_TIMER = "checkpoint-trigger"
RETRY_MS = 1_000
"""The time from a failed checkpoint to the next attempt in ms, where the interval is longer and the minimum pause shorter."""


class CheckpointRequests:
    """The requests for checkpoints of one job that wait for their start."""

    def __init__(
        self, job_id: JobId, operators: OperatorCoordinators, settings: CheckpointSettings, buffer: CommandBuffer
    ) -> None:
        self._settings = settings
        self._buffer = buffer
        self._timer = f"job/{job_id}/{TRIGGER_TIMER}"
        self._queue = RequestQueue(settings)
        interval_ms = settings.interval_ms
        during_backlog_ms = settings.interval_during_backlog_ms
        self._schedule = (
            PeriodicSchedule(interval_ms, settings.min_pause_ms, during_backlog_ms) if interval_ms else None
        )
        self._retry_ms = max(settings.min_pause_ms, min(interval_ms or 0, RETRY_MS))
        self._numbered = 0
        self._last_end_ms: int | None = None
        self.is_active = False
        """Whether the periodic scheduler is on: the job and all its tasks are running."""
        operators.watch_backlog(self.note_backlog)

    @property
    def is_periodic(self) -> bool:
        """Tells whether the job takes periodic checkpoints."""
        return self._schedule is not None

    def activate(self) -> None:
        self.is_active = True
        if self._schedule is not None:
            self._arm(self._schedule.start(self._buffer.now_ms, self._buffer.random))

    def deactivate(self) -> list[CheckpointRequest]:
        """Stops the timer; returns the queued requests, which will never start."""
        self.is_active = False
        self._buffer.cancel_timer(self._timer)
        return self._queue.clear()

    def on_timer(self) -> CheckpointRequest | None:
        """Starts the timer again; returns a periodic request, or ``None`` when the scheduler is off."""
        if not self.is_active or self._schedule is None:
            return None
        next_ms = self._schedule.next(self._buffer.now_ms)
        if next_ms is not None:
            self._arm(next_ms)
        return self.own(is_periodic=True)

    def note_backlog(self, is_backlog: bool) -> None:
        """Switches the interval when sources start or stop processing a backlog."""
        if self._schedule is not None:
            earlier_ms = self._schedule.note_backlog(self._buffer.now_ms, is_backlog=is_backlog)
            if earlier_ms is not None and self.is_active:
                self._arm(earlier_ms)

    def own(self, *, is_periodic: bool) -> CheckpointRequest:
        """Creates a request that no user has made."""
        self._numbered += 1
        return CheckpointRequest(SnapshotType.CHECKPOINT, self._buffer.now_ms, self._numbered, is_periodic)

    def of_user(self, event: SnapshotRequested) -> CheckpointRequest:
        self._numbered += 1
        return request_of(event, self._buffer.now_ms, self._numbered, self._settings)

    def add(self, request: CheckpointRequest) -> CheckpointRequest | None:
        """Queues a request; returns the request that was dropped for it, if any."""
        return self._queue.add(request)

    def take_next(self, *, is_triggering: bool, pending: int, cleaning: int) -> CheckpointRequest | None:
        """Returns the request that starts now; ``None`` when none may. Periodic ones within the minimum pause are dropped."""
        load = CoordinatorLoad(is_triggering, pending, cleaning, self._last_end_ms)
        while True:
            match self._queue.decide_next(load, self._buffer.now_ms):
                case None:
                    return None
                case DropWithinPause(_, resume_at_ms):
                    assert self._schedule is not None
                    self._arm(self._schedule.move_to(resume_at_ms))
                case start:
                    return start.request

    def on_completed(self) -> None:
        """Starts the minimum pause, after savepoints too."""
        self._last_end_ms = self._buffer.now_ms

    def on_failed(self, *, is_urgent: bool) -> None:
        """Drops queued periodic requests and plans the next one after a pause, because what failed now would fail again at once.

        ``is_urgent``: the job waits only for a checkpoint.
        """
        is_overdue = self._queue.drop_periodic()
        if (is_overdue or is_urgent) and self.is_active and self._schedule is not None:
            self._arm(self._schedule.bring_forward(self._buffer.now_ms + self._retry_ms))

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when a periodic request is queued while periodic checkpoints are off, or the queue violates its own
        invariants (order and limits).
        """
        self._queue.check_invariants()
        assert self.is_active or not self._queue.periodic, "a periodic request waits, and the scheduler is off"

    def _arm(self, at_ms: int) -> None:
        self._buffer.start_timer(self._timer, at_ms - self._buffer.now_ms)
