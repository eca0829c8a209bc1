"""When a checkpoint may start: the periodic timer, and the queue of requests with the rule that picks the next.

Order: savepoints, forced ones, those of users, periodic ones; then by time. Only one checkpoint is in its trigger phase at a time;
at most ``max-concurrent`` are pending (forced ones may exceed it); none starts while more than that many are being deleted; a
periodic one within the minimum pause is dropped and the timer moved to the end of the pause. At most ``max-concurrent`` periodic
requests wait.

Follows Flink's ``CheckpointRequestDecider.java`` and ``CheckpointCoordinator.startTriggeringCheckpoint``.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field

from tidegate.jobmanager.machines.events import SnapshotRequested
from tidegate.jobmanager.machines.random import SplitMix64
from tidegate.jobmanager.machines.settings import CheckpointSettings
from tidegate.model.checkpoint import SnapshotType

MAX_QUEUED_REQUESTS = 1000
"""How many requests may wait, as in Flink's ``CheckpointRequestDecider``."""


@dataclass(frozen=True, slots=True)
class CheckpointRequest:
    """A request for a checkpoint. ``request_id`` names the user who waits for the outcome; ``None`` for a periodic one."""

    snapshot_type: SnapshotType
    timestamp_ms: int
    number: int
    is_periodic: bool = False
    request_id: str | None = None
    target_directory: str | None = None
    is_full: bool = False
    is_forced: bool = False
    """Whether it may exceed ``max-concurrent``: savepoints do, as long as checkpoints are aligned."""

    @property
    def order(self) -> tuple[bool, bool, bool, int, int]:
        return (
            not self.snapshot_type.is_savepoint,
            not self.is_forced,
            self.is_periodic,
            self.timestamp_ms,
            self.number,
        )


def request_of(
    event: SnapshotRequested, timestamp_ms: int, number: int, settings: CheckpointSettings
) -> CheckpointRequest:
    """Creates the request of a user."""
    return CheckpointRequest(
        event.snapshot_type,
        timestamp_ms,
        number,
        request_id=event.request_id,
        target_directory=event.target_directory,
        is_full=event.is_full,
        is_forced=event.snapshot_type.is_savepoint and not settings.unaligned,
    )


@dataclass(frozen=True, slots=True)
class Start:
    """The decision to start the checkpoint of a request."""

    request: CheckpointRequest


@dataclass(frozen=True, slots=True)
class DropWithinPause:
    """The decision to drop a periodic request because of the minimum pause, which ends at ``resume_at_ms``."""

    request: CheckpointRequest
    resume_at_ms: int


@dataclass(frozen=True, slots=True)
class CoordinatorLoad:
    """The state of the coordinator that decides which request starts next. ``last_end_ms``: when the last checkpoint completed; ``None`` before the first."""

    is_triggering: bool
    pending: int
    cleaning: int
    last_end_ms: int | None


@dataclass(slots=True)
class RequestQueue:
    """Holds the requests for checkpoints, and decides which starts next."""

    settings: CheckpointSettings
    _queue: list[CheckpointRequest] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, request: CheckpointRequest) -> CheckpointRequest | None:
        """Queues a request; returns the request that was dropped for it, if any.

        A periodic one is dropped when ``max-concurrent`` of them wait; in a full queue the last periodic one, or the new one.
        """
        if request.is_periodic and self.periodic >= self.settings.max_concurrent:
            return request
        if len(self._queue) >= MAX_QUEUED_REQUESTS:
            last = self._queue[-1]
            if not last.is_periodic or request.order > last.order:
                return request
            self._queue.pop()
            insort(self._queue, request, key=lambda r: r.order)
            return last
        insort(self._queue, request, key=lambda r: r.order)
        return None

    @property
    def periodic(self) -> int:
        """Returns the number of periodic requests that wait."""
        return sum(request.is_periodic for request in self._queue)

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when the queue is out of order or too long."""
        orders = [request.order for request in self._queue]
        assert orders == sorted(orders), f"requests wait out of order: {orders}"
        assert len(orders) <= MAX_QUEUED_REQUESTS, f"{len(orders)} requests wait"
        most = self.settings.max_concurrent
        assert self.periodic <= most, f"{self.periodic} periodic requests wait, and {most} may be pending"

    def drop_periodic(self) -> bool:
        """Drops waiting periodic requests; returns whether there were any."""
        kept = [request for request in self._queue if not request.is_periodic]
        dropped, self._queue = len(kept) < len(self._queue), kept
        return dropped

    def clear(self) -> list[CheckpointRequest]:
        dropped, self._queue = self._queue, []
        return dropped

    def decide_next(self, load: CoordinatorLoad, now_ms: int) -> Start | DropWithinPause | None:
        """Takes the next request out of the queue; ``None`` when none may start now."""
        if not self._queue or load.is_triggering or load.cleaning > self.settings.max_concurrent:
            return None
        head = self._queue[0]
        if load.pending >= self.settings.max_concurrent and not head.is_forced:
            return None
        del self._queue[0]
        if head.is_periodic and load.last_end_ms is not None:
            resume_at_ms = load.last_end_ms + self.settings.min_pause_ms
            if now_ms < resume_at_ms:
                return DropWithinPause(head, resume_at_ms)
        return Start(head)


class PeriodicSchedule:
    """The schedule of periodic checkpoints at a fixed rate: each planned time is the last planned one plus the interval.

    While a source processes a backlog another interval applies, or none is planned. What is planned when that begins starts as
    planned; when it ends, the next one comes after at most the shorter interval. Follows Flink's
    ``CheckpointCoordinator.setIsProcessingBacklog`` and its ``ScheduledTrigger``.
    """

    def __init__(self, interval_ms: int, min_pause_ms: int, during_backlog_ms: int | None = None) -> None:
        """Creates a schedule of periodic checkpoints. ``during_backlog_ms``: the interval during a backlog; ``None``: ``interval_ms``; 0: no checkpoint is
        planned then.
        """
        self._interval_ms = interval_ms
        self._min_pause_ms = min_pause_ms
        self._during_backlog_ms = interval_ms if during_backlog_ms is None else during_backlog_ms
        self._planned_ms: int | None = None
        self._started_before = False
        self._is_backlog = False

    def start(self, now_ms: int, random: SplitMix64) -> int:
        """Returns the time of the first trigger: random within the interval, or after the minimum pause when it started before."""
        delay_ms = self._min_pause_ms if self._started_before else random.integer(self._min_pause_ms, self._interval_ms)
        self._started_before = True
        self._planned_ms = now_ms + delay_ms
        return self._planned_ms

    @property
    def _current_ms(self) -> int:
        return self._during_backlog_ms if self._is_backlog else self._interval_ms

    def next(self, now_ms: int) -> int | None:
        """Returns the time of the next trigger, not before ``now_ms``; ``None``: none is planned."""
        interval_ms, planned_ms = self._current_ms, self._planned_ms
        self._planned_ms = (
            max((now_ms if planned_ms is None else planned_ms) + interval_ms, now_ms) if interval_ms else None
        )
        return self._planned_ms

    def note_backlog(self, now_ms: int, *, is_backlog: bool) -> int | None:
        """Notes whether any source processes a backlog. Returns the time of the next trigger if it becomes earlier, otherwise ``None``."""
        self._is_backlog = is_backlog
        at_ms = now_ms + self._current_ms
        if not self._current_ms or (self._planned_ms is not None and self._planned_ms <= at_ms):
            return None
        self._planned_ms = at_ms
        return at_ms

    def move_to(self, at_ms: int) -> int:
        self._planned_ms = at_ms
        return at_ms

    def bring_forward(self, at_ms: int) -> int:
        """Moves the next trigger to ``at_ms`` unless it is planned earlier; returns its time."""
        self._planned_ms = at_ms if self._planned_ms is None else min(self._planned_ms, at_ms)
        return self._planned_ms
