"""One write of a snapshot in the runtime: its machine, which two threads report to, and what the subtask's thread has to give back.

The thread that writes does its piece of work and reports what came of it, by ``on``; an acknowledgement that this returns it sends at once, since
the subtask may be busy with a batch for long. Everything else is the subtask's: errors, and the end of each piece of work, come as mails.
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
from tidegate.taskmanager.state.base import FrozenState, SegmentStore

OpenStore = Callable[[CheckpointOptions, AttemptId, int], SegmentStore]
"""``(options, attempt, checkpoint id)``; called in the background."""
WriteStates = Callable[[Sequence[FrozenState], SegmentStore], list[OperatorSnapshot]]
FrozenOperators = Sequence[tuple[OperatorId, FrozenState]]


class SnapshotWriter(Background, Protocol):
    """What runs the asynchronous part."""

    def write_states(self, states: Sequence[FrozenState], store: SegmentStore) -> list[OperatorSnapshot]:
        """Called by the work: every state, in the order given. Raises the first error when all are done."""


@dataclass(frozen=True, slots=True)
class AlignmentFigures:
    start_delay_ms: float = 0.0
    alignment_ms: float = 0.0
    bytes_processed: int = 0
    waited_for: str = ""
    persists: bool = False
    """Data of the input channels belongs to it: ``inputs_persisted`` follows."""


class AsyncPart:
    """``on`` and ``is_over`` from any thread, the rest from the subtask's."""

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
        """It was acknowledged or canceled: there is nothing more to write."""
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
        """One transition. The acknowledgement is returned to one caller, who sends it."""
        with self._lock:
            return self._machine.on(event, now_ms)

    def release(self) -> None:
        """Gives back what was frozen, once, after the work that reads it has ended."""
        frozen, self.frozen = self.frozen, ()
        for _, state in frozen:
            state.release()


def write_operators(frozen: FrozenOperators, store: SegmentStore, write_states: WriteStates) -> SubtaskSnapshot:
    """Raises ``StorageError``."""
    snapshots = write_states([state for _, state in frozen], store)
    written = zip((operator_id for operator_id, _ in frozen), snapshots, strict=True)
    return SubtaskSnapshot({i: found for i, found in written if found.keyed or found.operator})


def one_by_one(states: Sequence[FrozenState], store: SegmentStore) -> list[OperatorSnapshot]:
    return [state.write(store) for state in states]
