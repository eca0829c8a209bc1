"""The asynchronous part of a snapshot, from the freeze to the acknowledgement.

    WRITING ── state written ──▶ IN_FLIGHT ── data in flight written ──▶ DONE: acknowledged
       │                             │
       └── it failed, was aborted, or the subtask stopped ─┴──▶ CANCELED: nothing leaves

Data in flight is the data of the input channels before their barriers (INPUTS), and the data that a barrier overtook in the outputs (OUTPUTS). It is written
together (CHANNELS) as soon as all of it is known, which may be before the state is written. Without such data, DONE follows as soon as the state is written.

Laws. At most one acknowledgement is sent, and none after CANCELED; it contains everything that was written. DONE and CANCELED are final.

Two threads report to it: the subtask's, and the one that writes. Transitions are serialized (``checkpointing.async_part``), and the thread that reported the
last part gets the acknowledgement to send. Follows Flink's ``AsyncCheckpointRunnable.java``, whose thread acknowledges by a transition from RUNNING to
COMPLETED.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Generic, TypeAlias, TypeVar, assert_never

from tidegate.model.checkpoint import Acknowledgement, CheckpointMetrics, OperatorSnapshot, SubtaskSnapshot
from tidegate.model.ids import AttemptId, CheckpointId, OperatorId

Content = TypeVar("Content")
"""The in-flight data of one channel."""


class Part(Enum):
    """The parts of a snapshot besides the operators' state."""

    INPUTS = "INPUTS"
    OUTPUTS = "OUTPUTS"
    CHANNELS = "CHANNELS"


class WriteStage(Enum):
    """The stages of the asynchronous part; DONE and CANCELED are final."""

    WRITING = "WRITING"
    IN_FLIGHT = "IN_FLIGHT"
    DONE = "DONE"
    CANCELED = "CANCELED"


@dataclass(frozen=True, slots=True)
class StateWritten:
    """The state of all operators is durable. ``size_bytes``: bytes that were written for this snapshot."""

    snapshot: SubtaskSnapshot
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class InputsPersisted(Generic[Content]):
    """The barriers of all input channels came, and their in-flight data is known. ``waited_for``: the channel whose barrier came last."""

    contents: Sequence[Content]
    alignment_ms: float
    waited_for: str


@dataclass(frozen=True, slots=True)
class OutputsPassed(Generic[Content]):
    """The barrier was sent on all outputs. ``overtaken``: the data that it overtook there when the aligned timeout was over."""

    overtaken: Sequence[Content] = ()


@dataclass(frozen=True, slots=True)
class ChannelsWritten:
    """All in-flight data is durable."""

    channels: Mapping[OperatorId, OperatorSnapshot]


@dataclass(frozen=True, slots=True)
class WriteCanceled:
    """The write is canceled: a part could not be written, the checkpoint was aborted, or the subtask stopped."""


WriteEvent: TypeAlias = (
    StateWritten | InputsPersisted[Content] | OutputsPassed[Content] | ChannelsWritten | WriteCanceled
)


@dataclass(frozen=True, slots=True)
class WriteChannels(Generic[Content]):
    """Orders that the in-flight data of channels is written. The result is the event ``ChannelsWritten`` or ``WriteCanceled``."""

    contents: Sequence[Content]


WriteCommand: TypeAlias = WriteChannels[Content] | Acknowledgement


@dataclass(frozen=True, slots=True)
class _Written:
    """The contents of the acknowledgement, as far as they are known."""

    metrics: CheckpointMetrics
    snapshot: SubtaskSnapshot = field(default_factory=SubtaskSnapshot)
    state_bytes: int = 0
    channels: Mapping[OperatorId, OperatorSnapshot] = field(default_factory=dict)


class SnapshotWrite(Generic[Content]):
    """Decides when a snapshot is complete. ``metrics``: those of the synchronous part, which ended at ``began_ms``. ``awaits``: INPUTS, OUTPUTS, or both.
    ``in_flight``: the data that the barrier overtook when it was sent.
    """

    def __init__(
        self,
        attempt: AttemptId,
        checkpoint_id: int,
        metrics: CheckpointMetrics,
        began_ms: float,
        *,
        awaits: Set[Part] = frozenset(),
        in_flight: Sequence[Content] = (),
    ) -> None:
        self._attempt = attempt
        self._checkpoint_id = checkpoint_id
        self._began_ms = began_ms
        self._stage = WriteStage.WRITING
        self._awaits = set(awaits)
        self._in_flight = list(in_flight)
        self._written = _Written(metrics)

    @property
    def stage(self) -> WriteStage:
        return self._stage

    @property
    def is_over(self) -> bool:
        return self._stage in (WriteStage.DONE, WriteStage.CANCELED)

    def awaits(self, part: Part) -> bool:
        return part in self._awaits and not self.is_over

    def begin(self, now_ms: float) -> Sequence[WriteCommand[Content]]:
        """Begins to write the in-flight data that is known from the start, in parallel with the state."""
        return [] if self.is_over else self._advance(now_ms)

    def on(self, event: WriteEvent[Content], now_ms: float) -> Sequence[WriteCommand[Content]]:
        """Takes an event, returns the commands to carry out. ``now_ms``: by the clock of ``began_ms``. A part that is not awaited, or comes too late, changes
        nothing.
        """
        if self.is_over:
            return []
        written = self._written
        match event:
            case StateWritten(snapshot, size_bytes):
                if self._stage is WriteStage.IN_FLIGHT:
                    return []
                self._stage = WriteStage.IN_FLIGHT
                self._written = replace(written, snapshot=snapshot, state_bytes=size_bytes)
            case InputsPersisted(contents, alignment_ms, waited_for):
                if not self._has_come(Part.INPUTS, contents):
                    return []
                metrics = replace(written.metrics, alignment_ms=alignment_ms, waited_for=waited_for)
                self._written = replace(written, metrics=metrics)
            case OutputsPassed(overtaken):
                if not self._has_come(Part.OUTPUTS, overtaken):
                    return []
                metrics = replace(written.metrics, unaligned=written.metrics.unaligned or bool(overtaken))
                self._written = replace(written, metrics=metrics)
            case ChannelsWritten(channels):
                if not self._has_come(Part.CHANNELS, ()):
                    return []
                self._written = replace(written, channels=channels)
            case WriteCanceled():
                self._stage = WriteStage.CANCELED
                self._in_flight.clear()
                return []
            case _:
                assert_never(event)
        return self._advance(now_ms)

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when the awaited parts contradict the stage, or in-flight data would be lost."""
        assert self._stage is not WriteStage.DONE or not self._awaits, (
            f"checkpoint {self._checkpoint_id} was acknowledged without {sorted(part.value for part in self._awaits)}"
        )
        assert Part.CHANNELS not in self._awaits or len(self._awaits) == 1, (
            f"data in flight of checkpoint {self._checkpoint_id} is written before all of it is known"
        )
        assert not self._in_flight or self._awaits & {Part.INPUTS, Part.OUTPUTS}, (
            f"nobody writes the data in flight of checkpoint {self._checkpoint_id}"
        )

    def _has_come(self, part: Part, contents: Sequence[Content]) -> bool:
        """Takes the contents of a part. Returns whether the part was awaited."""
        if part not in self._awaits:
            return False
        self._awaits.remove(part)
        self._in_flight += contents
        return True

    def _advance(self, now_ms: float) -> Sequence[WriteCommand[Content]]:
        if self._awaits:
            return []
        if self._in_flight:
            contents, self._in_flight = self._in_flight, []
            self._awaits.add(Part.CHANNELS)
            return [WriteChannels(contents)]
        if self._stage is WriteStage.WRITING:
            return []
        self._stage = WriteStage.DONE
        return [self._acknowledgement(now_ms)]

    def _acknowledgement(self, now_ms: float) -> Acknowledgement:
        written = self._written
        in_flight_bytes = sum(found.size_bytes for found in written.channels.values())
        metrics = replace(
            written.metrics,
            async_ms=now_ms - self._began_ms,
            bytes_persisted=written.state_bytes + in_flight_bytes,
            in_flight_bytes=in_flight_bytes,
        )
        snapshot = _with_channels(written.snapshot, written.channels)
        return Acknowledgement(self._attempt, CheckpointId(self._checkpoint_id), snapshot, metrics)


def _with_channels(snapshot: SubtaskSnapshot, channels: Mapping[OperatorId, OperatorSnapshot]) -> SubtaskSnapshot:
    operators = dict(snapshot.operators)
    for operator_id, found in channels.items():
        state = operators.get(operator_id, OperatorSnapshot())
        operators[operator_id] = replace(
            state,
            input_channels=(*state.input_channels, *found.input_channels),
            output_channels=(*state.output_channels, *found.output_channels),
        )
    return SubtaskSnapshot(operators)
