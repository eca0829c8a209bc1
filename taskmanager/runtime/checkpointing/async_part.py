"""The asynchronous part of one snapshot: what it waits for, what it has, and who writes it.

The subtask's thread owns all of it but what was written: ``snapshot``, ``written_bytes`` and ``channels`` are the
background's until the mail that says so. The background reads ``canceled`` before it begins, and takes the ``Answer``
when its piece of work is the last one: an acknowledgement does not wait for a subtask that is busy with a batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Protocol

from tidegate.model.channel_events import Barrier
from tidegate.model.checkpoint import CheckpointMetrics, CheckpointOptions, OperatorSnapshot, SubtaskSnapshot
from tidegate.model.ids import AttemptId, OperatorId
from tidegate.taskmanager.runtime.background import Background
from tidegate.taskmanager.runtime.checkpointing.in_flight import ChannelContent
from tidegate.taskmanager.state.base import FrozenState, SegmentStore

OpenStore = Callable[[CheckpointOptions, AttemptId, int], SegmentStore]
"""``(options, attempt, checkpoint id)``; called in the background."""
WriteStates = Callable[[Sequence[FrozenState], SegmentStore], list[OperatorSnapshot]]


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


class Part(Enum):
    """What an acknowledgement waits for."""

    STATE = "STATE"
    INPUTS = "INPUTS"
    OUTPUTS = "OUTPUTS"
    CHANNELS = "CHANNELS"


OF_CHANNELS = {Part.INPUTS, Part.OUTPUTS, Part.CHANNELS}


class Answer:
    """The one answer that a checkpoint gets: the thread that takes it may give it."""

    def __init__(self) -> None:
        self._left = deque((None,))

    def take(self) -> bool:
        """Whether it was there; it is taken now."""
        try:
            self._left.pop()
        except IndexError:
            return False
        return True


@dataclass(slots=True)
class AsyncPart:
    barrier: Barrier
    frozen: list[tuple[OperatorId, FrozenState]]
    metrics: CheckpointMetrics
    began_ms: float
    waits_for: set[Part]
    in_flight: list[ChannelContent]
    answer: Answer = field(default_factory=Answer)
    canceled: bool = False
    snapshot: SubtaskSnapshot | None = None
    channels: dict[OperatorId, OperatorSnapshot] = field(default_factory=dict)
    written_bytes: int = 0

    @property
    def checkpoint_id(self) -> int:
        return self.barrier.checkpoint_id

    @property
    def options(self) -> CheckpointOptions:
        return self.barrier.options

    def cancel(self) -> None:
        """What is not written yet need not be, and is not acknowledged."""
        self.canceled = True

    def add_inputs(self, contents: Sequence[ChannelContent], alignment_ms: float, waited_for: str) -> None:
        """What the input channels had in front of their barriers."""
        self.in_flight += contents
        self.metrics = replace(self.metrics, alignment_ms=alignment_ms, waited_for=waited_for)

    def add_overtaken(self, contents: Sequence[ChannelContent]) -> None:
        """What a barrier that had been announced overtook in the outputs."""
        self.in_flight += contents
        self.metrics = replace(self.metrics, unaligned=self.metrics.unaligned or bool(contents))

    def take_in_flight(self) -> list[ChannelContent]:
        contents, self.in_flight = self.in_flight, []
        return contents

    def take_frozen(self) -> list[tuple[OperatorId, FrozenState]]:
        """What is to be given back, once."""
        frozen, self.frozen = self.frozen, []
        return frozen

    def end_without_state(self) -> None:
        """No operator froze anything: the snapshot is empty, but for data in flight."""
        self.snapshot = SubtaskSnapshot()

    def wrote_channels(self, channels: dict[OperatorId, OperatorSnapshot]) -> None:
        self.channels = channels

    def write(
        self, store: SegmentStore, frozen: Sequence[tuple[OperatorId, FrozenState]], write_states: WriteStates
    ) -> SubtaskSnapshot:
        snapshots = write_states([state for _, state in frozen], store)
        written = zip((operator_id for operator_id, _ in frozen), snapshots, strict=True)
        self.snapshot = SubtaskSnapshot({i: found for i, found in written if found.keyed or found.operator})
        self.written_bytes = store.written_bytes
        return self.snapshot


def one_by_one(states: Sequence[FrozenState], store: SegmentStore) -> list[OperatorSnapshot]:
    return [state.write(store) for state in states]
