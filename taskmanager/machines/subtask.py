"""The life of a subtask, with the rules of its final checkpoint.

    CREATED ─▶ INITIALIZING ─▶ RUNNING ── data ended ──▶ AT_END ── final checkpoint confirmed, ──▶ SETTLING ─▶ CLOSING ─▶ FINISHED
                   │              │                        │       inputs closed                     │           │
                   └──────────────┴────────────────────────┴─────────────────────────────────────────┴───────────┘
                              cancel ─▶ CANCELED    error ─▶ FAILED    control stream lost ─▶ CUT_OFF (silent)

To the outside RUNNING, AT_END, SETTLING and CLOSING are all RUNNING. AT_END: all input was processed, operators have finished,
end of data was sent and reported once; the subtask still takes part in checkpoints, also after its final one while its
producers have not ended their partitions. SETTLING: asynchronous parts are awaited.
CLOSING: end of partition was sent, the outputs drain. With checkpointing off no final checkpoint is waited for: everything is
committed at the end of data.

A stop with a savepoint is an end of data where the sources stand, with that savepoint as the final checkpoint.

Laws. A final checkpoint lets a subtask finish only if its snapshot was taken at the end of data and the JobManager says that
every sibling was there too. After CANCELED, FAILED or CUT_OFF nothing is committed or acknowledged; CUT_OFF says nothing at all.
Follows Flink's ``StreamTask.java`` (``finalCheckpointMinId``, ``endData``) and FLIP-147.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import assert_never

from tidegate.model.channel_events import Barrier
from tidegate.model.checkpoint import DeclineReason, SnapshotType
from tidegate.model.errors import ErrorInfo
from tidegate.model.states import ExecutionState

COMMIT_EVERYTHING = 2**62
"""Checkpoint id that stands for "all there is", when checkpointing is off."""


class LifeState(Enum):
    CREATED = "CREATED"
    INITIALIZING = "INITIALIZING"
    RUNNING = "RUNNING"
    AT_END = "AT_END"
    SETTLING = "SETTLING"
    CLOSING = "CLOSING"
    FINISHED = "FINISHED"
    CANCELED = "CANCELED"
    FAILED = "FAILED"
    CUT_OFF = "CUT_OFF"


_OVER = frozenset({LifeState.FINISHED, LifeState.CANCELED, LifeState.FAILED, LifeState.CUT_OFF})
_ACTIVE = frozenset({LifeState.RUNNING, LifeState.AT_END, LifeState.SETTLING, LifeState.CLOSING})


@dataclass(frozen=True, slots=True)
class InitializationStarted:
    pass


@dataclass(frozen=True, slots=True)
class Initialized:
    """State restored, operators open, inputs connected."""


@dataclass(frozen=True, slots=True)
class TriggerReceived:
    barrier: Barrier


@dataclass(frozen=True, slots=True)
class SnapshotStarted:
    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class DataFinished:
    """All input was processed, operators have finished, end of data was sent."""


@dataclass(frozen=True, slots=True)
class InputsClosed:
    """The end of partition of every channel was read. (A source has none: never told.)"""


@dataclass(frozen=True, slots=True)
class CheckpointConfirmed:
    """After operators were notified of it."""

    checkpoint_id: int
    may_finish: bool


@dataclass(frozen=True, slots=True)
class SnapshotsSettled:
    """No asynchronous part runs."""


@dataclass(frozen=True, slots=True)
class OutputsDrained:
    pass


@dataclass(frozen=True, slots=True)
class CancelRequested:
    pass


@dataclass(frozen=True, slots=True)
class ControlBroken:
    pass


@dataclass(frozen=True, slots=True)
class SubtaskFailed:
    error: ErrorInfo


LifeEvent = (
    InitializationStarted
    | Initialized
    | TriggerReceived
    | SnapshotStarted
    | DataFinished
    | InputsClosed
    | CheckpointConfirmed
    | SnapshotsSettled
    | OutputsDrained
    | CancelRequested
    | ControlBroken
    | SubtaskFailed
)


@dataclass(frozen=True, slots=True)
class ReportState:
    state: ExecutionState


@dataclass(frozen=True, slots=True)
class ReportEndOfData:
    pass


@dataclass(frozen=True, slots=True)
class EndData:
    """The job is being stopped: a source emits nothing more, as if its data had ended here (``DataFinished`` follows).
    ``drain``: event time ends too, and operators finish; else they stay as they are."""

    drain: bool


@dataclass(frozen=True, slots=True)
class PassTrigger:
    """On to the alignment, or to the snapshot at once in a source."""

    barrier: Barrier


@dataclass(frozen=True, slots=True)
class DeclineTrigger:
    checkpoint_id: int
    reason: DeclineReason


@dataclass(frozen=True, slots=True)
class CommitAll:
    """Checkpointing is off: what the operators prepared is committed now."""


@dataclass(frozen=True, slots=True)
class EndPartitions:
    """Send end of partition on every output, and let them drain."""


@dataclass(frozen=True, slots=True)
class StopWork:
    """Leave the loop and close everything; the last word to the TaskManager follows after that, unless cut off."""


LifeCommand = (
    ReportState | ReportEndOfData | EndData | PassTrigger | DeclineTrigger | CommitAll | EndPartitions | StopWork
)


class SubtaskLife:
    def __init__(self, *, checkpointing: bool, has_inputs: bool, has_snapshots: bool = True) -> None:
        """``has_snapshots``: false for a job in BATCH execution mode, which has no savepoints either."""
        self.state = LifeState.CREATED
        self._has_snapshots = has_snapshots
        self._checkpointing = checkpointing
        self._has_inputs = has_inputs
        self._inputs_closed = not has_inputs
        self._may_settle = False
        """The final checkpoint was confirmed, or none is needed."""
        self._final_min_id: int | None = None
        """First snapshot taken at the end of data: the final checkpoint is this one or a later one."""

    @property
    def is_over(self) -> bool:
        return self.state in _OVER

    def on(self, event: LifeEvent, now_ms: float) -> Sequence[LifeCommand]:
        if self.is_over:
            return []
        match event:
            case InitializationStarted():
                assert self.state is LifeState.CREATED, self.state
                self.state = LifeState.INITIALIZING
                return [ReportState(ExecutionState.INITIALIZING)]
            case Initialized():
                assert self.state is LifeState.INITIALIZING, self.state
                self.state = LifeState.RUNNING
                return [ReportState(ExecutionState.RUNNING)]
            case TriggerReceived(barrier):
                return self._on_trigger(barrier)
            case SnapshotStarted(checkpoint_id):
                if self.state is LifeState.AT_END and self._final_min_id is None:
                    self._final_min_id = checkpoint_id
                return []
            case DataFinished():
                return self._on_data_finished()
            case InputsClosed():
                self._inputs_closed = True
                return self._settle()
            case CheckpointConfirmed(checkpoint_id, may_finish):
                return self._on_confirmed(checkpoint_id, may_finish)
            case SnapshotsSettled():
                if self.state is not LifeState.SETTLING:
                    return []
                self.state = LifeState.CLOSING
                return [EndPartitions()]
            case OutputsDrained():
                if self.state is not LifeState.CLOSING:
                    return []
                self.state = LifeState.FINISHED
                return [StopWork()]
            case CancelRequested():
                self.state = LifeState.CANCELED
                return [StopWork()]
            case ControlBroken():
                self.state = LifeState.CUT_OFF
                return [StopWork()]
            case SubtaskFailed():
                self.state = LifeState.FAILED
                return [StopWork()]
            case _:
                assert_never(event)

    def _on_trigger(self, barrier: Barrier) -> list[LifeCommand]:
        kind = barrier.options.snapshot_type
        if not self._has_snapshots or (
            kind.is_synchronous and not self._checkpointing
        ):  # everything was, or will be, committed at the end of data
            return [DeclineTrigger(barrier.checkpoint_id, DeclineReason.DECLINED)]
        if kind.is_synchronous and self.state is LifeState.RUNNING and not self._has_inputs:
            return [EndData(drain=kind is SnapshotType.TERMINATE), PassTrigger(barrier)]
        if self.state in (LifeState.RUNNING, LifeState.AT_END):
            return [PassTrigger(barrier)]
        closing = self.state in _ACTIVE
        reason = DeclineReason.TASK_CLOSING if closing else DeclineReason.TASK_NOT_READY
        return [DeclineTrigger(barrier.checkpoint_id, reason)]

    def _on_data_finished(self) -> list[LifeCommand]:
        assert self.state is LifeState.RUNNING, self.state
        self.state = LifeState.AT_END
        if self._checkpointing:
            return [ReportEndOfData()]
        self._may_settle = True
        return [ReportEndOfData(), CommitAll(), *self._settle()]

    def _on_confirmed(self, checkpoint_id: int, may_finish: bool) -> list[LifeCommand]:
        if self.state is not LifeState.AT_END or not may_finish:
            return []
        if self._final_min_id is None or checkpoint_id < self._final_min_id:
            return []
        self._may_settle = True
        return self._settle()

    def _settle(self) -> list[LifeCommand]:
        if self.state is LifeState.AT_END and self._may_settle and self._inputs_closed:
            self.state = LifeState.SETTLING
        return []
