"""Carries out what ``machines.snapshot`` decides: barriers, freezing, the asynchronous write, acknowledgements, commits.

    request ─▶ prepare ─▶ barrier to all outputs ─▶ freeze │ background: write segments │ mail: release, acknowledge
    └──────────── synchronous part, subtask's thread ──────┘

    acknowledged when all of these are there: STATE written │ INPUTS, of an unaligned one: each channel up to its barrier
                  │ OUTPUTS: an announced barrier has left, or overtook │ CHANNELS: data in flight written

Laws: a frozen state is released in the subtask's thread exactly once, whatever happened; nothing leaves after ``stop``. The
background shares one thing with the subtask's thread, the ``Answer``: who takes it gives it. The last piece of work acknowledges at
once, since the subtask may be busy with a batch for long; all else comes back as a mail. Events are taken one after the other:
one that arises while commands are carried out waits until they are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import assert_never

from tidegate.model.channel_events import Barrier
from tidegate.model.checkpoint import (
    Acknowledgement,
    Alignment,
    CheckpointMetrics,
)
from tidegate.model.errors import ErrorInfo, TidegateError
from tidegate.model.ids import CheckpointId, OperatorId
from tidegate.store.segments import InlineSegmentStore
from tidegate.taskmanager.machines import snapshot as m
from tidegate.taskmanager.runtime.chain import OperatorChain
from tidegate.taskmanager.runtime.checkpointing.async_part import (
    OF_CHANNELS,
    AlignmentFigures,
    Answer,
    AsyncPart,
    OpenStore,
    Part,
    SnapshotWriter,
    one_by_one,
)
from tidegate.taskmanager.runtime.checkpointing.barriers import BarrierSender, has_timeout
from tidegate.taskmanager.runtime.checkpointing.in_flight import ChannelContent, with_channels, write_channels
from tidegate.taskmanager.runtime.services import SubtaskServices
from tidegate.taskmanager.state.base import FrozenState
from tidegate.taskmanager.state.files.local_copies import LocalCopies

CLOSE_TIMEOUT_MS = 2_000.0
"""How long ``close`` waits for a write that is under way before it leaves it to the end of the process."""


@dataclass(frozen=True, slots=True)
class SnapshotTarget:
    """Where snapshots are written, and by what. ``copies``: for local recovery. ``inline_bytes``: a state known to be no larger
    is written by the subtask's thread, into the acknowledgement."""

    writer: SnapshotWriter
    open_store: OpenStore
    copies: LocalCopies | None = None
    inline_bytes: int = 0


class SnapshotDriver:
    """Used from the subtask's thread."""

    def __init__(
        self,
        services: SubtaskServices,
        *,
        coordinator: m.SnapshotCoordinator,
        chain: OperatorChain,
        barriers: BarrierSender,
        target: SnapshotTarget,
        on_started: Callable[[int], None],
    ) -> None:
        self._attempt = services.attempt
        self._coordinator = coordinator
        self._chain = chain
        self._barriers = barriers
        self._alarms = services.alarms
        self._writer = target.writer
        self._open_store = target.open_store
        self._port = services.port
        self._clock = services.clock
        self._probe = services.probe
        self._on_started = on_started
        self._copies = target.copies
        self._inline_bytes = target.inline_bytes
        self._figures = AlignmentFigures()
        self._overtaken: list[ChannelContent] = []
        self._sync_began_ms = 0.0
        self._writes: dict[int, AsyncPart] = {}
        self._answers: dict[int, Answer] = {}
        self._events: deque[m.SnapshotEvent] = deque()
        self._is_busy = False

    @property
    def has_confirmed(self) -> bool:
        """A checkpoint of this attempt is complete."""
        return self._coordinator.has_confirmed

    @property
    def last_confirmed(self) -> int:
        """Number of the newest checkpoint that is known to be complete, or that this attempt was restored from; 0: none."""
        return self._coordinator.last_confirmed

    @property
    def is_writing(self) -> bool:
        return bool(self._coordinator.writing)

    def request(self, barrier: Barrier, figures: AlignmentFigures) -> None:
        self._figures = figures
        self._probe("before-barrier", {"checkpoint_id": barrier.checkpoint_id})
        self.on(barrier)

    def on(self, event: m.SnapshotEvent) -> None:
        """At once; behind the event whose commands are being carried out, where there is one."""
        self._events.append(event)
        if self._is_busy:
            return
        self._is_busy = True
        try:
            while self._events:
                for command in self._coordinator.on(self._events.popleft(), self._clock.now_ms()):
                    self._carry_out(command)
        finally:
            self._is_busy = False
            self._events.clear()

    def decline(self, command: m.Decline) -> None:
        self._port.decline(command.checkpoint_id, command.reason, command.error)

    def stop(self) -> None:
        """Nothing is acknowledged or committed from now on."""
        self.on(m.SubtaskStopped())

    def close(self) -> None:
        """Give frozen states back, after the background is done with them."""
        self.stop()
        if self._writer.close(CLOSE_TIMEOUT_MS):
            for write in list(self._writes.values()):
                self._release(write)
            self._writes.clear()

    def inputs_persisted(
        self, checkpoint_id: int, contents: list[ChannelContent], alignment_ms: float, waited_for: str
    ) -> None:
        """What the input channels had in front of their barriers, of a checkpoint that was requested with ``persists``."""
        write = self._writes.get(checkpoint_id)
        if write is not None and Part.INPUTS in write.waits_for:
            write.add_inputs(contents, alignment_ms, waited_for)
            self._part_ready(write, Part.INPUTS)

    def look_at_outputs(self) -> None:
        """Announced barriers may have left meanwhile."""
        for write in list(self._writes.values()):
            if Part.OUTPUTS in write.waits_for and not self._barriers.holds(write.checkpoint_id):
                self._part_ready(write, Part.OUTPUTS)

    def _carry_out(self, command: m.SnapshotCommand) -> None:
        match command:
            case m.PrepareSnapshot(checkpoint_id):
                self._sync_began_ms = self._clock.monotonic_ms()
                self._on_started(checkpoint_id)
                self._chain.prepare_snapshot(checkpoint_id)
            case m.BroadcastBarrier(barrier):
                self._overtaken = self._barriers.send(barrier)
                self._probe("barrier-sent", {"checkpoint_id": barrier.checkpoint_id})
            case m.FreezeState(barrier):
                self._freeze(barrier)
            case m.BroadcastCancelBarrier(checkpoint_id):
                self._barriers.cancel(checkpoint_id)
            case Acknowledgement():
                if self._takes_answer(command.checkpoint_id):
                    self._acknowledge(command)
            case m.Decline():
                self.decline(command)
            case m.CancelWrite(checkpoint_id):
                self._cancel(checkpoint_id)
            case m.NotifyComplete(checkpoint_id):
                self.commit(checkpoint_id)
                if self._copies is not None:
                    self._tidy(partial(self._copies.on_confirmed, checkpoint_id))
            case m.NotifyAborted(checkpoint_id):
                self._chain.notify_aborted(checkpoint_id)
                if self._copies is not None:
                    self._tidy(partial(self._copies.on_aborted, checkpoint_id))
            case _:
                assert_never(command)

    def _acknowledge(self, acknowledgement: Acknowledgement) -> None:
        """Called by the thread that took the answer, whichever that is."""
        told = {"checkpoint_id": acknowledgement.checkpoint_id}
        self._probe("before-ack", told)
        self._port.acknowledge(acknowledgement)
        self._probe("after-ack", told)

    def commit(self, checkpoint_id: int) -> None:
        """Operators make everything up to ``checkpoint_id`` visible. What they raise fails the attempt."""
        told = {"checkpoint_id": checkpoint_id}
        self._probe("before-commit", told)
        self._chain.notify_complete(
            checkpoint_id, lambda name: self._probe("during-commit", {**told, "operator": name})
        )
        self._probe("after-commit", told)

    def _freeze(self, barrier: Barrier) -> None:
        checkpoint_id, figures = barrier.checkpoint_id, self._figures
        in_flight, self._overtaken = self._overtaken, []
        frozen = self._chain.freeze(checkpoint_id, barrier.timestamp_ms, barrier.options)
        now_ms = self._clock.monotonic_ms()
        metrics = CheckpointMetrics(
            start_delay_ms=figures.start_delay_ms,
            alignment_ms=figures.alignment_ms,
            sync_ms=now_ms - self._sync_began_ms,
            bytes_processed_during_alignment=figures.bytes_processed,
            barrier_timestamp_ms=self._clock.now_ms(),
            unaligned=barrier.options.alignment is Alignment.UNALIGNED,
            waited_for=figures.waited_for,
        )
        waits_for = {Part.STATE, Part.INPUTS} if figures.persists else {Part.STATE}
        write = AsyncPart(barrier, frozen, metrics, now_ms, waits_for, in_flight)
        self._writes[checkpoint_id], self._answers[checkpoint_id] = write, write.answer
        if has_timeout(barrier) and self._barriers.holds(checkpoint_id):
            waits_for.add(Part.OUTPUTS)
            at_ms = barrier.timestamp_ms + (barrier.options.aligned_timeout_ms or 0)
            self._alarms.schedule(at_ms, lambda _: self._on_time_up(checkpoint_id))
        self._probe("frozen", {"checkpoint_id": checkpoint_id})
        if frozen and self._copies is None and self._is_small(frozen):
            self._write_inline(write)
        elif frozen:
            is_last = waits_for == {Part.STATE} and not in_flight
            self._writer.submit(
                lambda: self._write(write, frozen, is_last=is_last), lambda error: self._on_state(write, error)
            )
        else:
            write.end_without_state()
            self._on_state(write, None)

    def _on_time_up(self, checkpoint_id: int) -> None:
        write = self._writes.get(checkpoint_id)
        if write is not None and Part.OUTPUTS in write.waits_for:
            write.add_overtaken(self._barriers.prioritise(write.barrier))
            self._part_ready(write, Part.OUTPUTS)

    def _is_small(self, frozen: Sequence[tuple[OperatorId, FrozenState]]) -> bool:
        sizes = [state.size_limit_bytes() for _, state in frozen]
        return all(size is not None and size <= self._inline_bytes for size in sizes)

    def _write_inline(self, write: AsyncPart) -> None:
        """All of it travels in the acknowledgement: nothing here waits for a disk, nor for another thread."""
        try:
            write.write(InlineSegmentStore(), write.frozen, one_by_one)
        except Exception as error:  # noqa: BLE001  driver: a snapshot that cannot be written is declined
            self._on_state(write, error)
            return
        self._on_state(write, None)

    def _write(self, write: AsyncPart, frozen: list[tuple[OperatorId, FrozenState]], *, is_last: bool) -> None:
        """In the background. What takes long is waiting for disks, so the operators are written at the same time."""
        if write.canceled:
            return
        store = self._open_store(write.options, self._attempt, write.checkpoint_id)
        copies = None if write.options.snapshot_type.is_savepoint else self._copies
        if copies is not None:
            store = copies.store(store, write.checkpoint_id)
        snapshot = write.write(store, frozen, self._writer.write_states)
        if copies is not None:
            copies.complete(write.checkpoint_id, snapshot)
        if is_last:
            self._answer(write)

    def _on_state(self, write: AsyncPart, error: BaseException | None) -> None:
        self._release(write)
        self._on_part(write, Part.STATE, error)

    def _write_channels(self, write: AsyncPart, contents: list[ChannelContent]) -> None:
        """In the background, behind the state of the same snapshot: with that it has all, unless its state failed."""
        if write.canceled:
            return
        store = self._open_store(write.options, self._attempt, write.checkpoint_id)
        write.wrote_channels(write_channels(store, contents))
        self._answer(write)

    def _answer(self, write: AsyncPart) -> None:
        """In the background, when all is there."""
        if write.snapshot is not None and write.answer.take():
            snapshot = with_channels(write.snapshot, write.channels)
            number = CheckpointId(write.checkpoint_id)
            self._acknowledge(Acknowledgement(self._attempt, number, snapshot, self._final_metrics(write)))

    def _on_part(self, write: AsyncPart, part: Part, error: BaseException | None) -> None:
        if error is not None:
            write.cancel()
            if self._takes_answer(write.checkpoint_id):
                self.on(m.SnapshotFailed(write.checkpoint_id, _storage_info(error)))
        self._part_ready(write, part)

    def _part_ready(self, write: AsyncPart, part: Part) -> None:
        """One more of the parts: once all data in flight is known it is written; once all is there, acknowledged."""
        write.waits_for.discard(part)
        if write.canceled:
            self._forget_if_over(write)
            return
        if write.in_flight and not write.waits_for & OF_CHANNELS:
            contents = write.take_in_flight()
            write.waits_for.add(Part.CHANNELS)
            self._writer.submit(
                lambda: self._write_channels(write, contents), lambda error: self._on_part(write, Part.CHANNELS, error)
            )
        if not write.waits_for and write.snapshot is not None:
            self._forget_if_over(write)
            snapshot = with_channels(write.snapshot, write.channels)
            self.on(m.SnapshotWritten(write.checkpoint_id, snapshot, self._final_metrics(write)))

    def _takes_answer(self, checkpoint_id: int) -> bool:
        """For the subtask's thread: the background gives none from now on. ``False``: it gave it, or there was none."""
        answer = self._answers.pop(checkpoint_id, None)
        return answer is not None and answer.take()

    def _cancel(self, checkpoint_id: int) -> None:
        self._takes_answer(checkpoint_id)
        write = self._writes.get(checkpoint_id)
        if write is not None:
            write.cancel()
            self._forget_if_over(write)

    def _final_metrics(self, write: AsyncPart) -> CheckpointMetrics:
        in_flight = sum(channels.size_bytes for channels in write.channels.values())
        return replace(
            write.metrics,
            async_ms=self._clock.monotonic_ms() - write.began_ms,
            bytes_persisted=write.written_bytes + in_flight,
            in_flight_bytes=in_flight,
        )

    def _tidy(self, work: Callable[[], None]) -> None:
        """Behind the writes that are under way."""
        self._writer.submit(work, lambda error: None)

    def _release(self, write: AsyncPart) -> None:
        for _, state in write.take_frozen():
            state.release()

    def _forget_if_over(self, write: AsyncPart) -> None:
        """Forgets a write once nothing is under way for it, and what it had frozen was given back."""
        under_way = {Part.STATE, Part.CHANNELS} if write.canceled else set(Part)
        if not write.frozen and not write.waits_for & under_way:
            self._writes.pop(write.checkpoint_id, None)


def _storage_info(error: BaseException) -> ErrorInfo:
    if isinstance(error, TidegateError):
        return ErrorInfo.of(error)
    return ErrorInfo("storage", "external", f"writing the snapshot failed: {type(error).__name__}: {error}")
