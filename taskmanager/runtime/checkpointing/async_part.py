"""The asynchronous part of one snapshot: what it waits for, what it has, and who writes it.

Changed in the subtask's thread only. The background reads ``canceled`` before it begins, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, Protocol

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


class WrittenState(NamedTuple):
    snapshot: SubtaskSnapshot
    size_bytes: int


@dataclass(slots=True)
class AsyncPart:
    """One asynchronous part. ``canceled`` is all that the background reads of it, before it begins."""

    barrier: Barrier
    frozen: list[tuple[OperatorId, FrozenState]]
    metrics: CheckpointMetrics
    began_ms: float
    waits_for: set[Part]
    in_flight: list[ChannelContent]
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


def write_to(
    store: SegmentStore, frozen: Sequence[tuple[OperatorId, FrozenState]], write_states: WriteStates
) -> WrittenState:
    snapshots = write_states([state for _, state in frozen], store)
    written = zip((operator_id for operator_id, _ in frozen), snapshots, strict=True)
    return WrittenState(
        SubtaskSnapshot({i: found for i, found in written if found.keyed or found.operator}), store.written_bytes
    )


def one_by_one(states: Sequence[FrozenState], store: SegmentStore) -> list[OperatorSnapshot]:
    return [state.write(store) for state in states]
