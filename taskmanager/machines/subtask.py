"""The lifecycle of a subtask, with the rules of its final checkpoint.

The states and where each event leads are data, ``SUBTASK_TRANSITIONS``; docs/state-machines.md draws them.

RUNNING, AT_END, SETTLING and CLOSING are all reported as RUNNING. AT_END: all input was processed, operators have finished, end of data was sent and reported
once; the subtask still takes part in checkpoints, also after its final one while its producers have not ended their partitions. SETTLING: asynchronous parts of
snapshots are awaited. CLOSING: end of partition was sent, and the outputs drain. Without checkpointing there is no final checkpoint: everything is committed at
the end of data.

A stop with a savepoint ends the data at the current positions of the sources, with that savepoint as the final checkpoint.

Laws. A subtask finishes with a final checkpoint only if its snapshot was taken at the end of data and the JobManager confirms that every sibling had reached it
too. A trigger at or below the last one that was handled is ignored: it is a repeated call whose answer got lost, and declining it would fail a checkpoint in
which the subtask takes part. After CANCELED, FAILED or CUT_OFF nothing is committed or acknowledged; after CUT_OFF nothing at all is sent. Follows Flink's
``StreamTask.java`` (``finalCheckpointMinId``, ``endData``) and FLIP-147.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import ClassVar

from tidegate.model.channel_events import Barrier
from tidegate.model.checkpoint import DeclineReason, SnapshotType
from tidegate.model.errors import ErrorInfo
from tidegate.model.states import ExecutionState

EOI_CHECKPOINT_ID = 2**62
"""The checkpoint id of what is committed at the end of input when checkpointing is off (Flink: ``CommittableMessage.EOI``)."""


class LifecycleState(Enum):
    """The states of a subtask."""

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


@dataclass(frozen=True, slots=True)
class InitializationStarted:
    """The subtask begins to restore its state."""


@dataclass(frozen=True, slots=True)
class Initialized:
    """The subtask has restored its state, opened its operators and connected its inputs."""


@dataclass(frozen=True, slots=True)
class SnapshotStarted:
    """The asynchronous part of a snapshot was started."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class DataFinished:
    """All input was processed, operators have finished, and end of data was sent."""


@dataclass(frozen=True, slots=True)
class InputsClosed:
    """The end of partition of every input channel was read. A source has no channels and never gets this event."""


@dataclass(frozen=True, slots=True)
class CheckpointConfirmed:
    """A checkpoint was confirmed, and operators were notified of it."""

    checkpoint_id: int
    may_finish: bool


@dataclass(frozen=True, slots=True)
class SnapshotsSettled:
    """No asynchronous part of a snapshot is running."""


@dataclass(frozen=True, slots=True)
class OutputsDrained:
    """All consumers have taken everything, the end of partition included."""


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """The TaskManager cancels the subtask."""


@dataclass(frozen=True, slots=True)
class ControlBroken:
    """The control stream to the TaskManager broke: the subtask is cut off."""


@dataclass(frozen=True, slots=True)
class SubtaskFailed:
    """The subtask failed, by an error of its own or of the user's code."""

    error: ErrorInfo


@dataclass(frozen=True, slots=True)
class ClosingFailed:
    """The operators could not be closed, after the subtask had finished."""


LifecycleEvent = (
    InitializationStarted
    | Initialized
    | Barrier
    | SnapshotStarted
    | DataFinished
    | InputsClosed
    | CheckpointConfirmed
    | SnapshotsSettled
    | OutputsDrained
    | CancelRequested
    | ControlBroken
    | SubtaskFailed
    | ClosingFailed
)


@dataclass(frozen=True, slots=True)
class ReportState:
    """Reports a state to the TaskManager."""

    state: ExecutionState


@dataclass(frozen=True, slots=True)
class ReportEndOfData:
    """Reports that all input was processed."""


@dataclass(frozen=True, slots=True)
class EndData:
    """The job is being stopped: a source emits nothing more, as if its data had ended here (``DataFinished`` follows). ``drain``: event time ends too, and
    operators finish; otherwise they stay as they are.
    """

    drain: bool


@dataclass(frozen=True, slots=True)
class PassTrigger:
    """Passes the trigger of a checkpoint on: to the barrier handler, or in a source to the snapshot at once."""

    barrier: Barrier


@dataclass(frozen=True, slots=True)
class DeclineTrigger:
    """Declines the trigger of a checkpoint in which the subtask cannot take part in its present state."""

    checkpoint_id: int
    reason: DeclineReason


@dataclass(frozen=True, slots=True)
class CommitAll:
    """Commits what the operators prepared, since checkpointing is off."""


@dataclass(frozen=True, slots=True)
class EndPartitions:
    """Sends end of partition on every output; ``OutputsDrained`` follows when they are empty."""


@dataclass(frozen=True, slots=True)
class StopWork:
    """Leaves the loop and closes everything. After that the final state is reported to the TaskManager, unless the control stream is cut off."""


LifecycleCommand = (
    ReportState | ReportEndOfData | EndData | PassTrigger | DeclineTrigger | CommitAll | EndPartitions | StopWork
)


# ---- states: a class with its payload for each -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Created:
    """The subtask has not begun to restore."""

    state: ClassVar = LifecycleState.CREATED


@dataclass(frozen=True, slots=True)
class Initializing:
    """The subtask restores its state, opens its operators and connects its inputs."""

    state: ClassVar = LifecycleState.INITIALIZING


@dataclass(frozen=True, slots=True)
class Running:
    """The subtask processes data. ``inputs_closed``: every input channel has ended its partition."""

    state: ClassVar = LifecycleState.RUNNING
    inputs_closed: bool


@dataclass(frozen=True, slots=True)
class AtEnd:
    """All data was processed. ``is_confirmed``: the final checkpoint was confirmed, or none is needed. ``final_min_id``: the first snapshot taken at the end of
    data; the final checkpoint is this one or a later one.
    """

    state: ClassVar = LifecycleState.AT_END
    inputs_closed: bool
    is_confirmed: bool = False
    final_min_id: int | None = None


@dataclass(frozen=True, slots=True)
class Settling:
    """The subtask has done its final checkpoint, and waits for asynchronous parts of snapshots."""

    state: ClassVar = LifecycleState.SETTLING


@dataclass(frozen=True, slots=True)
class Closing:
    """The subtask has sent the end of partition, and its outputs drain."""

    state: ClassVar = LifecycleState.CLOSING


@dataclass(frozen=True, slots=True)
class Over:
    """The subtask has ended in ``state``, which was reported, or with CUT_OFF never will be."""

    state: LifecycleState


Lifecycle = Created | Initializing | Running | AtEnd | Settling | Closing | Over
Step = tuple[Lifecycle, Sequence[LifecycleCommand]]

_S = LifecycleState
_ENDS: dict[type[LifecycleEvent], tuple[LifecycleState, ...]] = {
    CancelRequested: (_S.CANCELED,),
    SubtaskFailed: (_S.FAILED,),
    ControlBroken: (_S.CUT_OFF,),
}
SUBTASK_TRANSITIONS: Mapping[LifecycleState, Mapping[type[LifecycleEvent], tuple[LifecycleState, ...]]] = {
    _S.CREATED: {InitializationStarted: (_S.INITIALIZING,), **_ENDS},
    _S.INITIALIZING: {Initialized: (_S.RUNNING,), **_ENDS},
    _S.RUNNING: {DataFinished: (_S.AT_END, _S.SETTLING), **_ENDS},
    _S.AT_END: {CheckpointConfirmed: (_S.SETTLING,), InputsClosed: (_S.SETTLING,), **_ENDS},
    _S.SETTLING: {SnapshotsSettled: (_S.CLOSING,), **_ENDS},
    _S.CLOSING: {OutputsDrained: (_S.FINISHED,), **_ENDS},
    _S.FINISHED: {ClosingFailed: (_S.FAILED,)},
    _S.CANCELED: {},
    _S.FAILED: {},
    _S.CUT_OFF: {},
}
"""The states that an event may lead to from each state. An event may also leave the state as it is."""

ILLEGAL: Mapping[type[LifecycleEvent], frozenset[LifecycleState]] = {
    InitializationStarted: frozenset({_S.INITIALIZING, _S.RUNNING, _S.AT_END, _S.SETTLING, _S.CLOSING}),
    Initialized: frozenset({_S.CREATED, _S.RUNNING, _S.AT_END, _S.SETTLING, _S.CLOSING}),
    DataFinished: frozenset({_S.CREATED, _S.INITIALIZING, _S.AT_END, _S.SETTLING, _S.CLOSING}),
    InputsClosed: frozenset({_S.CREATED, _S.INITIALIZING}),
    ClosingFailed: frozenset({_S.CREATED, _S.INITIALIZING, _S.RUNNING, _S.AT_END, _S.SETTLING, _S.CLOSING}),
}
"""The states in which each event can only come from a mistake in this code."""


class SubtaskLifecycle:
    """The state machine of one subtask. ``checkpointing``: the job takes checkpoints. ``has_inputs``: false for a source."""

    def __init__(self, *, checkpointing: bool, has_inputs: bool, has_snapshots: bool = True) -> None:
        """Begins in CREATED. ``has_snapshots``: false for a job in BATCH execution mode, which has no savepoints either."""
        self._now: Lifecycle = Created()
        self._has_snapshots = has_snapshots
        self._checkpointing = checkpointing
        self._has_inputs = has_inputs
        self._last_trigger = 0
        """Id of the newest checkpoint whose trigger was passed on; 0: none."""

    @property
    def state(self) -> LifecycleState:
        return self._now.state

    @property
    def is_over(self) -> bool:
        return isinstance(self._now, Over)

    def on(self, event: LifecycleEvent, now_ms: float) -> Sequence[LifecycleCommand]:
        """Takes an event, returns the commands to carry out. Raises ``AssertionError`` for an event that cannot come in the state."""
        before = self.state
        assert before not in ILLEGAL.get(type(event), ()), f"{type(event).__name__} while {before.value}"
        self._now, commands = self._decide(event)
        allowed = (before, *SUBTASK_TRANSITIONS[before].get(type(event), ()))
        assert self.state in allowed, f"{type(event).__name__} led from {before.value} to {self.state.value}"
        return commands

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when the state and its payload contradict each other."""
        match self._now:
            case Running(inputs_closed):
                assert inputs_closed or self._has_inputs, "a source waits for the ends of its inputs"
            case AtEnd(inputs_closed, is_confirmed):
                assert not (inputs_closed and is_confirmed), "at its end, and nothing is waited for"
                assert not is_confirmed or self._has_inputs, "a source is confirmed, and goes on waiting"
            case Over(state):
                assert not SUBTASK_TRANSITIONS[state].keys() - {ClosingFailed}, f"over, and {state.value}"

    def _decide(self, event: LifecycleEvent) -> Step:
        now = self._now
        match now, event:
            case Over(LifecycleState.FINISHED), ClosingFailed():
                return Over(LifecycleState.FAILED), []
            case Over(), _:
                return now, []
            case _, CancelRequested():
                return Over(LifecycleState.CANCELED), [ReportState(ExecutionState.CANCELING), StopWork()]
            case _, ControlBroken():
                return Over(LifecycleState.CUT_OFF), [StopWork()]
            case _, SubtaskFailed():
                return Over(LifecycleState.FAILED), [StopWork()]
            case _, Barrier():  # the trigger, which is the barrier to come
                return now, self._on_trigger(event)
            case Created(), InitializationStarted():
                return Initializing(), [ReportState(ExecutionState.INITIALIZING)]
            case Initializing(), Initialized():
                return Running(inputs_closed=not self._has_inputs), [ReportState(ExecutionState.RUNNING)]
            case Running(inputs_closed), DataFinished():
                return self._at_end(inputs_closed)
            case Running() | AtEnd(), InputsClosed():
                return _settled(replace(now, inputs_closed=True)), []
            case AtEnd(final_min_id=None), SnapshotStarted(checkpoint_id):
                return replace(now, final_min_id=checkpoint_id), []
            case AtEnd(final_min_id=int(first)), CheckpointConfirmed(checkpoint_id, True) if checkpoint_id >= first:
                return _settled(replace(now, is_confirmed=True)), []
            case Settling(), SnapshotsSettled():
                return Closing(), [EndPartitions()]
            case Closing(), OutputsDrained():
                return Over(LifecycleState.FINISHED), [StopWork()]
            case _:
                return now, []

    def _at_end(self, inputs_closed: bool) -> Step:
        if self._checkpointing:
            return AtEnd(inputs_closed), [ReportEndOfData()]
        return _settled(AtEnd(inputs_closed, is_confirmed=True)), [ReportEndOfData(), CommitAll()]

    def _on_trigger(self, barrier: Barrier) -> list[LifecycleCommand]:
        kind = barrier.options.snapshot_type
        if not self._has_snapshots or (
            kind.is_synchronous and not self._checkpointing
        ):  # everything was, or will be, committed at the end of data
            return [DeclineTrigger(barrier.checkpoint_id, DeclineReason.DECLINED)]
        if barrier.checkpoint_id <= self._last_trigger:
            return []
        if isinstance(self._now, Running | AtEnd):
            self._last_trigger = barrier.checkpoint_id
        match self._now:
            case Running() if kind.is_synchronous and not self._has_inputs:
                return [EndData(drain=kind is SnapshotType.TERMINATE), PassTrigger(barrier)]
            case Running() | AtEnd():
                return [PassTrigger(barrier)]
            case Settling() | Closing():
                return [DeclineTrigger(barrier.checkpoint_id, DeclineReason.TASK_CLOSING)]
            case _:
                return [DeclineTrigger(barrier.checkpoint_id, DeclineReason.TASK_NOT_READY)]


def _settled(lifecycle: Running | AtEnd) -> Lifecycle:
    """Returns ``Settling`` if the subtask is at its end, confirmed and with closed inputs (only snapshots are waited for then), otherwise the state
    as it is.
    """
    is_through = isinstance(lifecycle, AtEnd) and lifecycle.is_confirmed and lifecycle.inputs_closed
    return Settling() if is_through else lifecycle
