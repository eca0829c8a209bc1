"""The pending checkpoints of a job: their ids, timeouts and requests.

    begin: an id is drawn, the timeout runs ─▶ its directory is made (one at a time) ─▶ ... ─▶ forget: completed or aborted
                     └── expire: remembered for a while, since its tasks may still acknowledge it

Ids have no gaps and begin at 1, or after what the job starts from. Follows Flink's ``CheckpointCoordinator.pendingCheckpoints``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from tidegate.jobmanager.machines.checkpoint.pending_checkpoint import PendingCheckpoint, PendingState
from tidegate.jobmanager.machines.checkpoint.plan import CheckpointPlan
from tidegate.jobmanager.machines.checkpoint.trigger import CheckpointRequest
from tidegate.jobmanager.machines.command_buffer import CommandBuffer
from tidegate.model.ids import AttemptId, CheckpointId, JobId

TIMEOUT_TIMER = "checkpoint-timeout"
EXPIRED_REMEMBERED = 16
"""How many expired checkpoints are remembered: Flink's ``CheckpointCoordinator.NUM_GHOST_CHECKPOINT_IDS``."""


class PendingCheckpoints:
    """The pending checkpoints of one job, by id."""

    def __init__(self, job_id: JobId, timeout_ms: int, buffer: CommandBuffer) -> None:
        self._job_id = job_id
        self._timeout_ms = timeout_ms
        self._buffer = buffer
        self._pending: dict[CheckpointId, PendingCheckpoint] = {}
        self._next_id = CheckpointId(1)
        self._locating = 0
        self._expired: deque[CheckpointId] = deque(maxlen=EXPIRED_REMEMBERED)

    def __len__(self) -> int:
        return len(self._pending)

    def __contains__(self, checkpoint_id: object) -> bool:
        return checkpoint_id in self._pending

    def __iter__(self) -> Iterator[PendingCheckpoint]:
        """Iterates over a copy, so that checkpoints may be removed meanwhile."""
        return iter(list(self._pending.values()))

    def get(self, checkpoint_id: CheckpointId) -> PendingCheckpoint | None:
        return self._pending.get(checkpoint_id)

    def settling(self, checkpoint_id: CheckpointId) -> PendingCheckpoint | None:
        """Returns the checkpoint if only the storage's answer can decide it now, otherwise ``None``."""
        pending = self._pending.get(checkpoint_id)
        return pending if pending is not None and pending.state.is_settling else None

    @property
    def is_triggering(self) -> bool:
        """Tells whether the directory of a checkpoint is being created."""
        return self._locating > 0

    @property
    def is_any_untold(self) -> bool:
        """Tells whether the tasks of some pending checkpoint have not been triggered yet."""
        return any(p.state is PendingState.LOCATING for p in self._pending.values())

    @property
    def is_settling(self) -> bool:
        """Tells whether a ``_metadata`` file is being written, so that it is not known yet which checkpoint is the latest."""
        return any(p.state.is_settling for p in self._pending.values())

    @property
    def is_idle(self) -> bool:
        """Tells whether no checkpoint is pending and no directory is being created."""
        return not self._locating and not self._pending

    def count_from(self, next_id: CheckpointId) -> None:
        self._next_id = next_id

    def begin(self, request: CheckpointRequest, plan: CheckpointPlan) -> PendingCheckpoint:
        """Starts a checkpoint with the next id; its timeout counts from here, before any task is triggered."""
        checkpoint_id, self._next_id = self._next_id, CheckpointId(self._next_id + 1)
        pending = self._pending[checkpoint_id] = PendingCheckpoint(checkpoint_id, self._buffer.now_ms, request, plan)
        self._locating += 1
        self._buffer.changed(self._job_id)
        self._buffer.start_timer(self._timer(checkpoint_id), self._timeout_ms)
        return pending

    def on_located(self, checkpoint_id: CheckpointId) -> PendingCheckpoint | None:
        """Handles the answer that a directory was created or could not be; returns its checkpoint, or ``None`` when it was aborted meanwhile."""
        self._locating -= 1
        return self._pending.get(checkpoint_id)

    def expire(self, checkpoint_id: CheckpointId) -> PendingCheckpoint | None:
        """Handles the timeout of a checkpoint; returns ``None`` when it is decided or only the storage can decide it now."""
        pending = self._pending.get(checkpoint_id)
        if pending is None or not pending.state.is_abortable:
            return None
        self._expired.append(checkpoint_id)
        return pending

    def has_expired(self, checkpoint_id: CheckpointId) -> bool:
        """Tells whether the checkpoint is among the last expired ones."""
        return checkpoint_id in self._expired

    def subsumed_by(self, checkpoint_id: CheckpointId) -> list[PendingCheckpoint]:
        """Returns older pending checkpoints that a completed one makes unnecessary; savepoints are not among them."""
        return [p for p in self if p.checkpoint_id < checkpoint_id and not p.request.snapshot_type.is_savepoint]

    def waiting_for(self, attempt: AttemptId) -> list[PendingCheckpoint]:
        return [p for p in self if p.is_waiting_for(attempt)]

    def forget(self, pending: PendingCheckpoint) -> None:
        self._buffer.changed(self._job_id)
        del self._pending[pending.checkpoint_id]
        self._buffer.cancel_timer(self._timer(pending.checkpoint_id))

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when ids, directories and states contradict each other."""
        locating = sum(p.state is PendingState.LOCATING for p in self._pending.values())
        assert locating <= self._locating <= 1, f"{locating} wait for {self._locating} directories that are made"
        for checkpoint_id, pending in self._pending.items():
            pending.check_invariants()
            over = not (pending.state.is_abortable or pending.state.is_settling)
            assert pending.checkpoint_id == checkpoint_id < self._next_id, f"{checkpoint_id}, next is {self._next_id}"
            assert not over, f"checkpoint {checkpoint_id} is {pending.state.value}, and pending"

    def _timer(self, checkpoint_id: CheckpointId) -> str:
        return f"job/{self._job_id}/{TIMEOUT_TIMER}/{checkpoint_id}"
