"""A subtask's part in checkpoints: from the barrier to the acknowledgement, and the confirmation or abort that follows.

    (not seen) ── requested ──▶ RUNNING ── written ──▶ COMPLETED (``SnapshotWrite`` acknowledged it)
        │                          ├────── failed ───▶ DISCARDED (declined)
        └ aborted: remembered      └────── aborted ──▶ DISCARDED (silent)

Laws. An id at or below the last one seen is ignored. The barrier is sent first, then the state is frozen. Exactly one of acknowledge (by ``snapshot_write``)
and decline is sent for an id, and none after its abort or the end of the subtask: an abandoned write is canceled before anything else is sent about it. A
checkpoint that was aborted before it started is passed on as a cancel barrier and never acknowledged. A confirmation of n confirms all checkpoints up to n; ids
at or below the last confirmed one are skipped; an abort names the latest completed checkpoint, whose confirmation may have been missed.

Follows Flink's ``SubtaskCheckpointCoordinatorImpl.java`` and ``AsyncCheckpointRunnable.java``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import assert_never

from tidegate.model.channel_events import Barrier
from tidegate.model.checkpoint import DeclineReason
from tidegate.model.errors import ErrorInfo


@dataclass(frozen=True, slots=True)
class AlignmentAborted:
    """The alignment of a checkpoint ended without its barrier. ``reason``: why the subtask declines; ``None``: the checkpoint was canceled, and nothing is
    declined.
    """

    checkpoint_id: int
    reason: DeclineReason | None


@dataclass(frozen=True, slots=True)
class SnapshotWritten:
    """The asynchronous part of a snapshot is done and acknowledged."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class SnapshotFailed:
    """The asynchronous part of a snapshot failed. (An error of the synchronous part fails the attempt.)"""

    checkpoint_id: int
    error: ErrorInfo


@dataclass(frozen=True, slots=True)
class ConfirmReceived:
    """The JobManager confirmed a checkpoint: it is complete."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class AbortReceived:
    """The JobManager aborted a checkpoint. ``latest_completed_id``: the newest completed one, whose confirmation may have been missed."""

    checkpoint_id: int
    latest_completed_id: int | None = None


@dataclass(frozen=True, slots=True)
class SubtaskStopped:
    """The subtask was canceled, failed or lost its control stream: it sends nothing from now on."""


SnapshotEvent = (
    Barrier | AlignmentAborted | SnapshotWritten | SnapshotFailed | ConfirmReceived | AbortReceived | SubtaskStopped
)


@dataclass(frozen=True, slots=True)
class PrepareSnapshot:
    """Lets the operators flush what must be sent before the barrier."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class BroadcastBarrier:
    """Sends the barrier to all outputs."""

    barrier: Barrier


@dataclass(frozen=True, slots=True)
class FreezeState:
    """Freezes the operators' state, then writes it in the background (``SnapshotWrite``). ``SnapshotWritten`` or ``SnapshotFailed`` follows."""

    barrier: Barrier


@dataclass(frozen=True, slots=True)
class BroadcastCancelBarrier:
    """Sends a cancel barrier to all outputs, so that consumers do not wait for the barrier."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class Decline:
    """Declines a checkpoint. ``error``: the failure that is the reason, if there was one."""

    checkpoint_id: int
    reason: DeclineReason
    error: ErrorInfo | None = None


@dataclass(frozen=True, slots=True)
class CancelWrite:
    """Cancels the asynchronous part of a snapshot, which then acknowledges nothing."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class NotifyComplete:
    """Notifies the operators that the checkpoint is complete: they commit everything up to ``checkpoint_id``."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class NotifyAborted:
    """Notifies the operators that a checkpoint was aborted."""

    checkpoint_id: int


SnapshotCommand = (
    PrepareSnapshot
    | BroadcastBarrier
    | FreezeState
    | BroadcastCancelBarrier
    | Decline
    | CancelWrite
    | NotifyComplete
    | NotifyAborted
)


MAX_ABORTED = 64
"""The number of aborted checkpoints that are remembered until their barriers come. (Flink remembers as many as may run at once, so that a barrier that is late
by two aborts is acknowledged there.)
"""


class WriteState(Enum):
    """The states of one checkpoint's snapshot after it was requested."""

    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    DISCARDED = "DISCARDED"


class SnapshotCoordinator:
    """Runs the checkpoints of one subtask. ``restored_id``: the checkpoint that the attempt was restored from (0: none); it counts as seen and confirmed."""

    def __init__(self, *, restored_id: int = 0) -> None:
        self._last_id = restored_id
        self._restored_id = restored_id
        self._last_confirmed = restored_id
        self._aborted: set[int] = set()
        self._aborted_floor = 0
        self._writes: dict[int, WriteState] = {}
        self._stopped = False

    @property
    def last_id(self) -> int:
        return self._last_id

    @property
    def last_confirmed(self) -> int:
        """Id of the newest checkpoint known to be complete, or of the restored one; 0 if there is none."""
        return self._last_confirmed

    @property
    def has_confirmed(self) -> bool:
        """Whether a checkpoint that this attempt took part in is complete."""
        return self._last_confirmed > self._restored_id

    @property
    def writing(self) -> tuple[int, ...]:
        """Ids of the checkpoints whose asynchronous part is running."""
        return tuple(n for n, state in self._writes.items() if state is WriteState.RUNNING)

    def on(self, event: SnapshotEvent, now_ms: float) -> Sequence[SnapshotCommand]:
        if self._stopped:
            return []
        match event:
            case Barrier():  # of a trigger (source), or of all channels
                return self._on_requested(event)
            case AlignmentAborted(checkpoint_id, reason):
                return self._on_alignment_aborted(checkpoint_id, reason)
            case SnapshotWritten(checkpoint_id):
                self._settle(checkpoint_id, WriteState.COMPLETED)
                return []
            case SnapshotFailed(checkpoint_id, error):
                if not self._settle(checkpoint_id, WriteState.DISCARDED):
                    return []
                return [Decline(checkpoint_id, DeclineReason.ASYNC_EXCEPTION, error)]
            case ConfirmReceived(checkpoint_id):
                return self._on_confirm(checkpoint_id)
            case AbortReceived(checkpoint_id, latest_completed_id):
                return self._on_abort(checkpoint_id, latest_completed_id)
            case SubtaskStopped():
                self._stopped = True
                cancels: list[SnapshotCommand] = [CancelWrite(n) for n in self.writing]
                self._writes.clear()
                return cancels
            case _:
                assert_never(event)

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when written, confirmed and aborted checkpoints contradict each other."""
        ahead = [n for n in self._writes if n > self._last_id]
        past = [n for n in self._aborted if n <= self._last_id]
        assert not ahead, f"checkpoints {ahead} are written, and the newest id is {self._last_id}"
        assert not past, f"remembers the aborts of {past}, and has seen {self._last_id}"
        assert len(self._aborted) <= MAX_ABORTED, f"remembers {len(self._aborted)} aborts"
        assert self._restored_id <= min(self._last_id, self._last_confirmed), (
            f"forgot that {self._restored_id} is restored"
        )
        assert not (self._stopped and self._writes), f"has stopped, and writes {sorted(self._writes)}"

    def _on_requested(self, barrier: Barrier) -> list[SnapshotCommand]:
        checkpoint_id = barrier.checkpoint_id
        if checkpoint_id <= self._last_id:
            return []
        self._last_id = checkpoint_id
        if self._was_aborted(checkpoint_id):
            return [BroadcastCancelBarrier(checkpoint_id)]
        self._writes[checkpoint_id] = WriteState.RUNNING
        return [PrepareSnapshot(checkpoint_id), BroadcastBarrier(barrier), FreezeState(barrier)]

    def _on_alignment_aborted(self, checkpoint_id: int, reason: DeclineReason | None) -> list[SnapshotCommand]:
        if self._settle(checkpoint_id, WriteState.DISCARDED):  # unaligned: it began, and its channels were not complete
            given_up: list[SnapshotCommand] = [CancelWrite(checkpoint_id)]
            if reason is not None:
                given_up.append(Decline(checkpoint_id, reason))
            return [*given_up, BroadcastCancelBarrier(checkpoint_id)]
        if checkpoint_id <= self._last_id:
            return []
        self._last_id = checkpoint_id
        known = self._was_aborted(checkpoint_id)
        cancel = BroadcastCancelBarrier(checkpoint_id)
        return [cancel] if reason is None or known else [Decline(checkpoint_id, reason), cancel]

    def _on_confirm(self, checkpoint_id: int) -> list[SnapshotCommand]:
        if checkpoint_id <= self._last_confirmed:
            return []
        self._last_confirmed = checkpoint_id
        for settled in [
            n for n, state in self._writes.items() if n <= checkpoint_id and state is not WriteState.RUNNING
        ]:
            del self._writes[settled]
        return [NotifyComplete(checkpoint_id)]

    def _on_abort(self, checkpoint_id: int, latest_completed_id: int | None) -> list[SnapshotCommand]:
        commands: list[SnapshotCommand] = []
        if latest_completed_id is not None:
            commands += self._on_confirm(latest_completed_id)
        if checkpoint_id <= self._last_confirmed:
            return commands  # it completed: an abort that comes after that is late or false
        if checkpoint_id > self._last_id:
            self._remember_aborted(checkpoint_id)
        elif self._settle(checkpoint_id, WriteState.DISCARDED):
            commands.append(CancelWrite(checkpoint_id))
        return [*commands, NotifyAborted(checkpoint_id)]

    def _settle(self, checkpoint_id: int, outcome: WriteState) -> bool:
        """Ends the asynchronous part of a checkpoint with an outcome. Returns whether it was running."""
        if self._writes.get(checkpoint_id) is not WriteState.RUNNING:
            return False
        self._writes[checkpoint_id] = outcome
        return True

    def _remember_aborted(self, checkpoint_id: int) -> None:
        self._aborted.add(checkpoint_id)
        if len(self._aborted) > MAX_ABORTED:
            self._aborted_floor = min(self._aborted)
            self._aborted.discard(self._aborted_floor)

    def _was_aborted(self, checkpoint_id: int) -> bool:
        """Tells whether a checkpoint was aborted. Ids far below the newest aborted ones, which are not remembered,
        count as aborted."""
        found = checkpoint_id in self._aborted or checkpoint_id <= self._aborted_floor
        self._aborted = {n for n in self._aborted if n > checkpoint_id}
        return found
