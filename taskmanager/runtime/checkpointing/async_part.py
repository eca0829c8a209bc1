"""The asynchronous part of one snapshot: its state machine, which two threads report to, and the frozen states that have to be released.

The writing thread reports the result of its work with ``on``, and sends an acknowledgement that this returns at once, since the subtask may be busy with a
batch for long. The subtask's thread does everything else: errors, and the end of each piece of work, reach it as mails.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tidegate.model.channel_events import Barrier
from tidegate.model.checkpoint import CheckpointOptions, OperatorSnapshot, SubtaskSnapshot
from tidegate.model.ids import AttemptId, OperatorId
from tidegate.taskmanager.machines.snapshot_write import Part, SnapshotWrite, WriteCommand, WriteEvent, WriteStage
from tidegate.taskmanager.runtime.background import Background
from tidegate.taskmanager.runtime.checkpointing.in_flight import ChannelContent
from tidegate.taskmanager.state.ports import FrozenState, SegmentStore

OpenStore = Callable[[CheckpointOptions, AttemptId, int], SegmentStore]
"""Opens the store of a snapshot: ``(options, attempt, checkpoint id)``. Called in the background."""
WriteStates = Callable[[Sequence[FrozenState], SegmentStore], list[OperatorSnapshot]]
FrozenOperators = Sequence[tuple[OperatorId, FrozenState]]


class SnapshotWriter(Background, Protocol):
    """Runs the asynchronous part of snapshots."""

    def write_states(self, states: Sequence[FrozenState], store: SegmentStore) -> list[OperatorSnapshot]:
        """Writes every state, in the order given; called by submitted work. Raises the first error after all are done."""


@dataclass(frozen=True, slots=True)
class AlignmentMetrics:
    """Metrics of one checkpoint's alignment at a subtask.

    ``start_delay_ms``: from the trigger to the first barrier. ``bytes_processed``: read during the alignment. ``waited_for``: the channel whose barrier came
    last.
    """

    start_delay_ms: float = 0.0
    alignment_ms: float = 0.0
    bytes_processed: int = 0
    waited_for: str = ""
    persists: bool = False
    """Whether in-flight data of the input channels is part of the snapshot: ``inputs_persisted`` follows."""


class AsyncPart:
    """The asynchronous part of one snapshot. ``on`` and ``is_over`` may be called from any thread, the rest from the subtask's."""

    def __init__(self, barrier: Barrier, frozen: FrozenOperators, machine: SnapshotWrite[ChannelContent]) -> None:
        self.barrier = barrier
        self.frozen = frozen
        self._machine = machine
        self._lock = threading.Lock()

    @property
    def checkpoint_id(self) -> int:
        return self.barrier.checkpoint_id

    @property
    def is_over(self) -> bool:
        """Whether the snapshot was acknowledged or canceled, so that nothing more has to be written."""
        return self._machine.is_over

    @property
    def is_acknowledged(self) -> bool:
        return self._machine.stage is WriteStage.DONE

    def awaits(self, part: Part) -> bool:
        return self._machine.awaits(part)

    def begin(self, now_ms: float) -> Sequence[WriteCommand[ChannelContent]]:
        with self._lock:
            return self._machine.begin(now_ms)

    def on(self, event: WriteEvent[ChannelContent], now_ms: float) -> Sequence[WriteCommand[ChannelContent]]:
        """Handles an event; returns the commands to carry out. Exactly one caller gets the acknowledgement, and has to send it."""
        with self._lock:
            return self._machine.on(event, now_ms)

    def release(self) -> None:
        """Releases the frozen states, once. To be called after the work that reads them has ended."""
        frozen, self.frozen = self.frozen, ()
        for _, state in frozen:
            state.release()


def write_operators(frozen: FrozenOperators, store: SegmentStore, write_states: WriteStates) -> SubtaskSnapshot:
    """Writes the frozen states of the operators. Returns the snapshot of the subtask, without operators that wrote nothing. Raises ``StorageError``."""
    snapshots = write_states([state for _, state in frozen], store)
    written = zip((operator_id for operator_id, _ in frozen), snapshots, strict=True)
    return SubtaskSnapshot({i: found for i, found in written if found.keyed or found.operator})


def one_by_one(states: Sequence[FrozenState], store: SegmentStore) -> list[OperatorSnapshot]:
    return [state.write(store) for state in states]
