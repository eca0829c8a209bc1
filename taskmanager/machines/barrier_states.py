"""The states of ``ExactlyOnceBarrierHandler``, one class each, with the transitions that it has.

States are immutable values. A method takes an event, the open channels and the time, and returns the next state with the commands of the transition; an event
that a class does not define leaves the state unchanged. A state gets only events of its own checkpoint: the handler compares ids, and replaces the state when a
newer checkpoint begins.

Follows Flink's ``BarrierHandlerState.java`` and its implementations.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from tidegate.model.channel_events import Barrier
from tidegate.model.checkpoint import Alignment, DeclineReason
from tidegate.taskmanager.machines.alignment import (
    AbortAlignment,
    AlignmentCommand,
    BlockChannel,
    DropPersisted,
    FinishPersisting,
    PersistChannel,
    StartAlignmentTimer,
    StartSnapshot,
    StopPersisting,
    UnblockChannel,
)

Step = tuple["BarrierState", Sequence[AlignmentCommand]]


@dataclass(frozen=True, slots=True)
class BarrierState:
    """The behaviour that states have in common: an event changes nothing unless the class of the state says otherwise."""

    @property
    def collecting(self) -> int | None:
        """Id of the checkpoint whose barriers are being collected, ``None`` if there is none."""
        return None

    @property
    def blocked(self) -> tuple[int, ...]:
        """The blocked channels, in the order in which their barriers came."""
        return ()

    def on_barrier(self, channel: int, barrier: Barrier, open_channels: Set[int], now_ms: float) -> Step:
        return self, []

    def on_announced(self, barrier: Barrier, open_channels: Set[int], now_ms: float) -> Step:
        return self, []

    def on_drained(self, channel: int, open_channels: Set[int], now_ms: float) -> Step:
        return self, []

    def on_timed_out(self, open_channels: Set[int], now_ms: float) -> Step:
        return self, []

    def on_channel_ended(self, channel: int, open_channels: Set[int], now_ms: float) -> Step:
        """Takes the end of a channel. ``open_channels``: those that are still open, without it."""
        return self, []

    def without(self, channel: int) -> BarrierState:
        """Returns the state in which this channel takes no part."""
        return self

    def drop(self, reason: DeclineReason | None) -> Sequence[AlignmentCommand]:
        """Returns the commands that give the checkpoint up. The caller enters ``Waiting`` after them."""
        return []

    def check_invariants(self, open_channels: Set[int]) -> None:
        """Raises ``AssertionError`` when the state cannot be with these open channels."""


@dataclass(frozen=True, slots=True)
class Waiting(BarrierState):
    """No checkpoint is under way: the next barrier begins one."""

    def on_barrier(self, channel: int, barrier: Barrier, open_channels: Set[int], now_ms: float) -> Step:
        return Aligning(barrier, now_ms).on_barrier(channel, barrier, open_channels, now_ms)

    def on_announced(self, barrier: Barrier, open_channels: Set[int], now_ms: float) -> Step:
        return Announced(barrier).on_announced(barrier, open_channels, now_ms)


@dataclass(frozen=True, slots=True)
class Announced(BarrierState):
    """A barrier was announced that comes after data, and no barrier has arrived."""

    barrier: Barrier
    has_timer: bool = False

    @property
    def collecting(self) -> int | None:
        return self.barrier.checkpoint_id

    def on_barrier(self, channel: int, barrier: Barrier, open_channels: Set[int], now_ms: float) -> Step:
        aligning = Aligning(self.barrier, now_ms, has_timer=self.has_timer)
        return aligning.on_barrier(channel, barrier, open_channels, now_ms)

    def on_announced(self, barrier: Barrier, open_channels: Set[int], now_ms: float) -> Step:
        return _watch_time(self, barrier, open_channels, now_ms)

    def on_timed_out(self, open_channels: Set[int], now_ms: float) -> Step:
        return start_unaligned(self.barrier, open_channels, now_ms)

    def on_channel_ended(self, channel: int, open_channels: Set[int], now_ms: float) -> Step:
        return (self, []) if open_channels else (Waiting(), [])

    def drop(self, reason: DeclineReason | None) -> Sequence[AlignmentCommand]:
        return [AbortAlignment(self.barrier.checkpoint_id, reason)]

    def check_invariants(self, open_channels: Set[int]) -> None:
        assert open_channels, f"checkpoint {self.collecting} is announced, and no channel is open to deliver it"


@dataclass(frozen=True, slots=True)
class Aligning(BarrierState):
    """Aligned barriers are being collected: a channel is blocked when its barrier arrives. ``barrier`` is the first that was announced or arrived."""

    barrier: Barrier
    first_ms: float
    waiting_channels: tuple[int, ...] = ()
    has_timer: bool = False

    @property
    def collecting(self) -> int | None:
        return self.barrier.checkpoint_id

    @property
    def blocked(self) -> tuple[int, ...]:
        return self.waiting_channels

    def on_barrier(self, channel: int, barrier: Barrier, open_channels: Set[int], now_ms: float) -> Step:
        if channel in self.waiting_channels:
            return self, []
        if barrier.options.alignment is Alignment.UNALIGNED:
            return self._switch(open_channels, now_ms, overtaking=channel)
        if len(open_channels) == 1:  # one alone is waited for: nothing to hold back
            return self._complete(now_ms)
        aligning = replace(self, waiting_channels=(*self.waiting_channels, channel))
        if len(aligning.waiting_channels) == len(open_channels):
            state, commands = aligning._complete(now_ms)
        else:
            state, commands = _watch_time(aligning, barrier, open_channels, now_ms)
        return state, [BlockChannel(channel), *commands]

    def on_announced(self, barrier: Barrier, open_channels: Set[int], now_ms: float) -> Step:
        return _watch_time(self, barrier, open_channels, now_ms)

    def on_timed_out(self, open_channels: Set[int], now_ms: float) -> Step:
        return self._switch(open_channels, now_ms)

    def on_channel_ended(self, channel: int, open_channels: Set[int], now_ms: float) -> Step:
        aligning = self.without(channel)
        return aligning._complete(now_ms) if len(aligning.waiting_channels) == len(open_channels) else (aligning, [])

    def without(self, channel: int) -> Aligning:
        return replace(self, waiting_channels=tuple(c for c in self.waiting_channels if c != channel))

    def drop(self, reason: DeclineReason | None) -> Sequence[AlignmentCommand]:
        return [AbortAlignment(self.barrier.checkpoint_id, reason), *self._unblock()]

    def check_invariants(self, open_channels: Set[int]) -> None:
        waiting = self.waiting_channels
        assert len(set(waiting)) == len(waiting), f"a channel of {waiting} is blocked twice"
        assert set(waiting) <= open_channels, f"blocked {waiting}, of which only {sorted(open_channels)} are open"
        assert len(waiting) < len(open_channels), (
            f"all of {waiting} wait for checkpoint {self.collecting}, and none for them"
        )

    def _complete(self, now_ms: float) -> Step:
        aligned_ms = max(0.0, now_ms - self.first_ms)
        snapshot = StartSnapshot(_after_forced(self.barrier), start_delay(self.barrier, self.first_ms), aligned_ms)
        return Waiting(), [snapshot, *self._unblock()]

    def _switch(self, open_channels: Set[int], now_ms: float, overtaking: int | None = None) -> Step:
        """Switches from aligned to unaligned: starts the unaligned snapshot. ``overtaking`` is the channel whose barrier has just overtaken its data."""
        persisting = Persisting(self.barrier.checkpoint_id, self.first_ms, self.waiting_channels)
        commands = [*persisting.start(self.barrier, open_channels, now_ms), *self._unblock()]
        if overtaking is None:
            return persisting, commands
        state, last = persisting.on_drained(overtaking, open_channels, now_ms)
        return state, [*commands, *last]

    def _unblock(self) -> list[AlignmentCommand]:
        return [UnblockChannel(channel) for channel in self.waiting_channels]


@dataclass(frozen=True, slots=True)
class Persisting(BarrierState):
    """The unaligned snapshot was started: channels are persisted up to their barriers. ``arrived``: the channels whose barrier came."""

    checkpoint_id: int
    first_ms: float
    arrived: tuple[int, ...] = ()

    @property
    def collecting(self) -> int | None:
        return self.checkpoint_id

    def start(self, barrier: Barrier, open_channels: Set[int], now_ms: float) -> list[AlignmentCommand]:
        delay_ms, aligned_ms = start_delay(barrier, self.first_ms), max(0.0, now_ms - self.first_ms)
        snapshot = StartSnapshot(as_unaligned(barrier), delay_ms, aligned_ms, persists=True)
        return [
            snapshot,
            *(PersistChannel(self.checkpoint_id, c) for c in sorted(open_channels) if c not in self.arrived),
        ]

    def on_barrier(self, channel: int, barrier: Barrier, open_channels: Set[int], now_ms: float) -> Step:
        return self.on_drained(channel, open_channels, now_ms)

    def on_drained(self, channel: int, open_channels: Set[int], now_ms: float) -> Step:
        if channel in self.arrived or channel not in open_channels:
            return self, []
        state, commands = replace(self, arrived=(*self.arrived, channel))._finish_if_all(open_channels, now_ms)
        return state, [StopPersisting(self.checkpoint_id, channel), *commands]

    def on_channel_ended(self, channel: int, open_channels: Set[int], now_ms: float) -> Step:
        left = replace(self, arrived=tuple(c for c in self.arrived if c != channel))
        state, commands = left._finish_if_all(open_channels, now_ms)
        stop = [] if channel in self.arrived else [StopPersisting(self.checkpoint_id, channel)]
        return state, [*stop, *commands]

    def drop(self, reason: DeclineReason | None) -> Sequence[AlignmentCommand]:
        return [AbortAlignment(self.checkpoint_id, reason), DropPersisted(self.checkpoint_id)]

    def check_invariants(self, open_channels: Set[int]) -> None:
        arrived = self.arrived
        assert len(set(arrived)) == len(arrived), f"a channel of {arrived} has delivered its barrier twice"
        assert set(arrived) <= open_channels, f"barriers of {arrived}, of which only {sorted(open_channels)} are open"
        assert len(arrived) < len(open_channels), (
            f"checkpoint {self.checkpoint_id} has all barriers and is not finished"
        )

    def _finish_if_all(self, open_channels: Set[int], now_ms: float) -> Step:
        if len(self.arrived) < len(open_channels):
            return self, []
        return Waiting(), [FinishPersisting(self.checkpoint_id, max(0.0, now_ms - self.first_ms))]


def start_unaligned(barrier: Barrier, open_channels: Set[int], now_ms: float) -> Step:
    """Starts an unaligned snapshot before any barrier has arrived. Returns the next state and its commands."""
    persisting = Persisting(barrier.checkpoint_id, now_ms)
    return persisting, persisting.start(barrier, open_channels, now_ms)


def as_unaligned(barrier: Barrier) -> Barrier:
    options = replace(barrier.options, alignment=Alignment.UNALIGNED, aligned_timeout_ms=None)
    return replace(barrier, options=options)


def start_delay(barrier: Barrier, now_ms: float) -> float:
    return max(0.0, now_ms - barrier.timestamp_ms)


def _after_forced(barrier: Barrier) -> Barrier:
    """Returns the barrier with the alignment that it had before an edge forced it to be aligned."""
    if barrier.options.alignment is not Alignment.FORCED_ALIGNED:
        return barrier
    again = Alignment.UNALIGNED if barrier.options.aligned_timeout_ms is None else Alignment.ALIGNED
    return replace(barrier, options=replace(barrier.options, alignment=again))


def _watch_time(state: Announced | Aligning, barrier: Barrier, open_channels: Set[int], now_ms: float) -> Step:
    """Starts the unaligned snapshot if the aligned timeout is over; otherwise starts a timer, once."""
    timeout_ms = barrier.options.aligned_timeout_ms
    if timeout_ms is None or barrier.options.alignment is not Alignment.ALIGNED:
        return state, []
    left_ms = barrier.timestamp_ms + timeout_ms - now_ms
    if left_ms <= 0:
        return state.on_timed_out(open_channels, now_ms)
    if state.has_timer:
        return state, []
    return replace(state, has_timer=True), [StartAlignmentTimer(barrier.checkpoint_id, left_ms)]
