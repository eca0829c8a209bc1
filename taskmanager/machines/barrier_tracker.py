"""The barrier handler of at-least-once checkpoints: barriers are counted, channels are never blocked.

Laws. At most ``MAX_TRACKED`` checkpoints are tracked at once; beyond that the oldest is forgotten. The snapshot of checkpoint n starts with its last barrier
and silently drops older checkpoints; a cancel barrier of n aborts n and all older ones, once.

Follows Flink's ``CheckpointBarrierTracker.java``; triggers by RPC are held as in ``barrier_handler``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from tidegate.model.channel_events import Barrier
from tidegate.model.checkpoint import DeclineReason
from tidegate.taskmanager.machines.alignment import (
    AbortAlignment,
    AlignmentCommand,
    AlignmentEvent,
    AlignmentTimedOut,
    BarrierAnnounced,
    BarrierArrived,
    CancelBarrierArrived,
    ChannelDrained,
    ChannelEnded,
    CheckpointAborted,
    StartSnapshot,
)

MAX_TRACKED = 50
"""Limit on the checkpoints that are tracked at once: Flink's ``CheckpointBarrierTracker.MAX_CHECKPOINTS_TO_TRACK``."""


@dataclass(slots=True)
class _Entry:
    checkpoint_id: int
    waits_for: set[int]
    barrier: Barrier | None = None
    """The checkpoint's barrier; ``None`` while only cancel barriers came."""
    first_ms: float = 0.0
    aborted: bool = field(default=False)


class TrackingHandler:
    """Counts barriers for at-least-once checkpoints, without blocking channels."""

    def __init__(
        self, channels: Iterable[int], *, last_id: int = 0, checkpoints_after_tasks_finish: bool = True
    ) -> None:
        self._open = set(channels)
        self._last_id = last_id
        self._entries: deque[_Entry] = deque()
        self._held: Barrier | None = None
        self._after_finish = checkpoints_after_tasks_finish

    @property
    def collecting(self) -> int | None:
        live = [entry.checkpoint_id for entry in self._entries if not entry.aborted]
        return live[-1] if live else None

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when entries, open channels, ids and the held trigger contradict each other."""
        ids = [entry.checkpoint_id for entry in self._entries]
        assert ids == sorted(set(ids)), f"checkpoints are followed out of order: {ids}"
        assert len(ids) <= MAX_TRACKED, f"{len(ids)} checkpoints are followed, {MAX_TRACKED} may be"
        assert not ids or ids[-1] <= self._last_id, f"follows {ids[-1]}, and the newest id is {self._last_id}"
        for entry in self._entries:
            n, waits_for = entry.checkpoint_id, sorted(entry.waits_for)
            assert waits_for, f"checkpoint {n} waits for no channel and is still followed"
            assert entry.waits_for <= self._open, f"checkpoint {n} waits for {waits_for}, of which some have ended"
            assert entry.aborted or entry.barrier is not None, f"checkpoint {n} is neither aborted nor has a barrier"
        if self._held is not None:
            assert self._open, f"holds trigger {self._held.checkpoint_id}, and all channels have ended"

    def on(self, event: AlignmentEvent, now_ms: float) -> Sequence[AlignmentCommand]:
        match event:
            case BarrierArrived(channel, barrier):
                return self._on_barrier(channel, barrier, now_ms)
            case CancelBarrierArrived(channel, checkpoint_id):
                return self._on_cancel(channel, checkpoint_id)
            case ChannelEnded(channel):
                return self._on_end(channel, now_ms)
            case Barrier():  # of a trigger: nothing runs before this subtask
                return self._on_trigger(event, now_ms)
            case CheckpointAborted(checkpoint_id):
                return self._on_abort(checkpoint_id)
            case BarrierAnnounced() | ChannelDrained() | AlignmentTimedOut():
                return []  # of unaligned checkpoints
            case _:
                assert_never(event)

    def _on_barrier(self, channel: int, barrier: Barrier, now_ms: float) -> list[AlignmentCommand]:
        entry = self._find(barrier.checkpoint_id)
        if entry is None:
            if barrier.checkpoint_id <= self._last_id:
                return []
            self._last_id = barrier.checkpoint_id
            entry = _Entry(barrier.checkpoint_id, set(self._open), first_ms=now_ms)
            self._entries.append(entry)
            if len(self._entries) > MAX_TRACKED:
                self._entries.popleft()
        if entry.barrier is None:
            entry.barrier = barrier
        entry.waits_for.discard(channel)
        return self._complete(entry, now_ms)

    def _on_cancel(self, channel: int, checkpoint_id: int) -> list[AlignmentCommand]:
        reason = DeclineReason.ON_CANCELLATION_BARRIER
        commands: list[AlignmentCommand] = []
        while self._entries and self._entries[0].checkpoint_id < checkpoint_id:
            commands += self._abort(self._entries.popleft(), reason)
        entry = self._find(checkpoint_id)
        if entry is None and checkpoint_id > self._last_id:
            self._last_id = checkpoint_id
            entry = _Entry(checkpoint_id, set(self._open))
            self._entries.appendleft(entry)
        if entry is None:
            return commands
        commands += self._abort(entry, reason)
        entry.waits_for.discard(channel)
        if not entry.waits_for:
            self._entries.remove(entry)
        return commands

    def _on_end(self, channel: int, now_ms: float) -> list[AlignmentCommand]:
        if channel not in self._open:
            return []
        self._open.discard(channel)
        commands: list[AlignmentCommand] = []
        if self._after_finish:
            for entry in reversed(tuple(self._entries)):  # the newest complete one drops the older ones
                entry.waits_for.discard(channel)
            for entry in reversed(tuple(self._entries)):
                if not entry.waits_for:
                    commands += self._complete(entry, now_ms)
                    break
        else:
            while self._entries:
                commands += self._abort(self._entries.popleft(), DeclineReason.INPUT_END_OF_STREAM)
        if not self._open and self._held is not None:
            held, self._held = self._held, None
            commands += self._on_trigger(held, now_ms)
        return commands

    def _on_trigger(self, barrier: Barrier, now_ms: float) -> list[AlignmentCommand]:
        if barrier.checkpoint_id <= self._last_id:
            return []
        if self._open:
            if self._held is None or self._held.checkpoint_id < barrier.checkpoint_id:
                self._held = barrier
            return []
        self._last_id = barrier.checkpoint_id
        return [StartSnapshot(barrier, max(0.0, now_ms - barrier.timestamp_ms), 0.0)]

    def _on_abort(self, checkpoint_id: int) -> list[AlignmentCommand]:
        if self._held is not None and self._held.checkpoint_id == checkpoint_id:
            self._held = None
        entry = self._find(checkpoint_id)
        return [] if entry is None else self._abort(entry, None)

    def _complete(self, entry: _Entry, now_ms: float) -> list[AlignmentCommand]:
        if entry.waits_for:
            return []
        while self._entries[0] is not entry:
            self._entries.popleft()
        self._entries.popleft()
        if entry.aborted or entry.barrier is None:
            return []
        barrier = entry.barrier
        delay_ms = max(0.0, entry.first_ms - barrier.timestamp_ms)
        return [StartSnapshot(barrier, delay_ms, max(0.0, now_ms - entry.first_ms))]

    def _abort(self, entry: _Entry, reason: DeclineReason | None) -> list[AlignmentCommand]:
        if entry.aborted:
            return []
        entry.aborted = True
        return [AbortAlignment(entry.checkpoint_id, reason)]

    def _find(self, checkpoint_id: int) -> _Entry | None:
        return next((entry for entry in self._entries if entry.checkpoint_id == checkpoint_id), None)
