"""Takes a subtask's snapshots: carries out what ``machines.snapshot`` and ``machines.snapshot_write`` decide.

    request ─▶ prepare ─▶ barrier to all outputs ─▶ freeze │ background: write, report │ mail: release
    └──────────── synchronous part, subtask's thread ──────┘

Laws: a frozen state is released in the subtask's thread exactly once, also after errors; nothing is sent after ``stop``. The background thread writes, and
reports to the machine of its write (``_report``); the thread with the last missing report sends the acknowledgement. Everything else is decided in the
subtask's thread, which gets the end of each piece of work as a mail. Events are handled one at a time: an event that arises while commands are carried out is
handled after them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import assert_never

from tidegate.model.channel_events import Barrier
from tidegate.model.checkpoint import Acknowledgement, Alignment, CheckpointMetrics, SubtaskSnapshot
from tidegate.model.errors import ErrorInfo, TidegateError
from tidegate.store.segments import InlineSegmentStore
from tidegate.taskmanager.machines import snapshot as m
from tidegate.taskmanager.machines import snapshot_write as w
from tidegate.taskmanager.recording.recorder import Recorder
from tidegate.taskmanager.runtime.chain import OperatorChain
from tidegate.taskmanager.runtime.checkpointing.async_part import (
    AlignmentMetrics,
    AsyncPart,
    FrozenOperators,
    OpenStore,
    SnapshotWriter,
    one_by_one,
    write_operators,
)
from tidegate.taskmanager.runtime.checkpointing.barriers import BarrierSender, has_timeout
from tidegate.taskmanager.runtime.checkpointing.in_flight import ChannelContent, write_channels
from tidegate.taskmanager.runtime.services import SubtaskServices
from tidegate.taskmanager.state.files.local_copies import LocalCopies

CLOSE_TIMEOUT_MS = 2_000.0
"""Milliseconds for which ``close`` waits for a write that is under way."""


@dataclass(frozen=True, slots=True)
class SnapshotTarget:
    """The destination of snapshots and the writer. ``copies``: for local recovery. ``inline_bytes``: a state known to be no larger is written in the subtask's
    thread, into the acknowledgement.
    """

    writer: SnapshotWriter
    open_store: OpenStore
    copies: LocalCopies | None = None
    inline_bytes: int = 0
    recorder: Recorder | None = None
    """Records the subtask's input for a replay, and must know which checkpoint its recording starts from."""


class SnapshotDriver:
    """Takes and commits the snapshots of one subtask. Used from the subtask's thread."""

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
        self._recorder = target.recorder
        self._alignment = AlignmentMetrics()
        self._overtaken: list[ChannelContent] = []
        self._sync_began_ms = 0.0
        self._writes: dict[int, AsyncPart] = {}
        self._events: deque[m.SnapshotEvent] = deque()
        self._is_busy = False

    @property
    def has_confirmed(self) -> bool:
        """Whether a checkpoint that this attempt took part in is complete."""
        return self._coordinator.has_confirmed

    @property
    def last_confirmed(self) -> int:
        """Id of the newest checkpoint that is known to be complete, or that this attempt was restored from; 0: none."""
        return self._coordinator.last_confirmed

    @property
    def is_writing(self) -> bool:
        return bool(self._coordinator.writing)

    def request(self, barrier: Barrier, alignment: AlignmentMetrics) -> None:
        self._alignment = alignment
        self._probe("before-barrier", {"checkpoint_id": barrier.checkpoint_id})
        self.on(barrier)

    def on(self, event: m.SnapshotEvent) -> None:
        """Handles an event and carries out its commands. An event that arises meanwhile is handled after them."""
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
        """Stops all snapshots: nothing is acknowledged or committed from now on."""
        self.on(m.SubtaskStopped())

    def close(self) -> None:
        """Stops, waits for the background writes, and releases the frozen states."""
        self.stop()
        if self._writer.close(CLOSE_TIMEOUT_MS):
            for write in self._writes.values():
                write.release()
            self._writes.clear()

    def inputs_persisted(
        self, checkpoint_id: int, contents: list[ChannelContent], alignment_ms: float, waited_for: str
    ) -> None:
        """Adds the in-flight data of the input channels to the snapshot of a checkpoint, which waits for it (``AlignmentMetrics.persists``)."""
        write = self._writes.get(checkpoint_id)
        if write is not None:
            self._report(write, w.InputsPersisted(contents, alignment_ms, waited_for))
            self._look_after(write)

    def look_at_outputs(self) -> None:
        """Checks whether announced barriers have left the outputs, and completes the snapshots that waited for it."""
        for write in list(self._writes.values()):
            if write.awaits(w.Part.OUTPUTS) and not self._barriers.holds(write.checkpoint_id):
                self._report(write, w.OutputsPassed())
                self._look_after(write)

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
        """Sends an acknowledgement. Runs in the thread that reported the last part of the snapshot."""
        details = {"checkpoint_id": acknowledgement.checkpoint_id}
        self._probe("before-ack", details)
        if self._recorder is not None:
            self._recorder.acknowledged(int(acknowledgement.checkpoint_id), acknowledgement.snapshot)
        self._port.acknowledge(acknowledgement)
        self._probe("after-ack", details)

    def commit(self, checkpoint_id: int) -> None:
        """Lets the operators commit everything up to ``checkpoint_id``. An exception that they raise fails the attempt."""
        details = {"checkpoint_id": checkpoint_id}
        self._probe("before-commit", details)
        self._chain.notify_complete(
            checkpoint_id, lambda name: self._probe("during-commit", {**details, "operator": name})
        )
        self._probe("after-commit", details)

    def _freeze(self, barrier: Barrier) -> None:
        checkpoint_id, alignment = barrier.checkpoint_id, self._alignment
        in_flight, self._overtaken = self._overtaken, []
        frozen = self._chain.freeze(checkpoint_id, barrier.timestamp_ms, barrier.options)
        now_ms = self._clock.monotonic_ms()
        metrics = CheckpointMetrics(
            start_delay_ms=alignment.start_delay_ms,
            alignment_ms=alignment.alignment_ms,
            sync_ms=now_ms - self._sync_began_ms,
            bytes_processed_during_alignment=alignment.bytes_processed,
            barrier_timestamp_ms=self._clock.now_ms(),
            unaligned=barrier.options.alignment is Alignment.UNALIGNED,
            waited_for=alignment.waited_for,
        )
        awaits = {w.Part.INPUTS} if alignment.persists else set()
        if has_timeout(barrier) and self._barriers.holds(checkpoint_id):
            awaits.add(w.Part.OUTPUTS)
            at_ms = barrier.timestamp_ms + (barrier.options.aligned_timeout_ms or 0)
            self._alarms.schedule(at_ms, lambda _: self._on_time_up(checkpoint_id))
        machine = w.SnapshotWrite(self._attempt, checkpoint_id, metrics, now_ms, awaits=awaits, in_flight=in_flight)
        self._writes[checkpoint_id] = write = AsyncPart(barrier, frozen, machine)
        self._probe("frozen", {"checkpoint_id": checkpoint_id})
        self._begin(write)

    def _begin(self, write: AsyncPart) -> None:
        """Begins to write a snapshot: the state first, since the background writes one piece after the other."""
        if not write.frozen:
            self._report(write, w.StateWritten(SubtaskSnapshot()))
        elif self._copies is None and self._is_small(write.frozen):
            self._write_inline(write)
        else:
            self._writer.submit(lambda: self._write(write), lambda error: self._on_state_ended(write, error))
        self._carry_out_of_write(write, write.begin(self._clock.monotonic_ms()))
        self._look_after(write)

    def _is_small(self, frozen: FrozenOperators) -> bool:
        sizes = [state.size_limit_bytes() for _, state in frozen]
        return all(size is not None and size <= self._inline_bytes for size in sizes)

    def _write_inline(self, write: AsyncPart) -> None:
        """Writes small states into the acknowledgement, without waiting for a disk or another thread."""
        store = InlineSegmentStore()
        try:
            snapshot = write_operators(write.frozen, store, one_by_one)
        except Exception as error:  # noqa: BLE001  driver: a snapshot that cannot be written is declined
            self._on_state_ended(write, error)
            return
        self._report(write, w.StateWritten(snapshot, store.written_bytes))
        self._on_state_ended(write, None)

    def _write(self, write: AsyncPart) -> None:
        """Writes the states of the operators, all at the same time. Runs in the background."""
        if write.is_over:
            return
        options, checkpoint_id = write.barrier.options, write.checkpoint_id
        store = self._open_store(options, self._attempt, checkpoint_id)
        copies = None if options.snapshot_type.is_savepoint else self._copies
        if copies is not None:
            store = copies.store(store, checkpoint_id)
        snapshot = write_operators(write.frozen, store, self._writer.write_states)
        if copies is not None:
            copies.complete(checkpoint_id, snapshot)
        self._report(write, w.StateWritten(snapshot, store.written_bytes))

    def _write_channels(self, write: AsyncPart, contents: Sequence[ChannelContent]) -> None:
        """Writes the in-flight data of channels. Runs in the background."""
        if write.is_over:
            return
        store = self._open_store(write.barrier.options, self._attempt, write.checkpoint_id)
        self._report(write, w.ChannelsWritten(write_channels(store, contents)))

    def _report(self, write: AsyncPart, event: w.WriteEvent[ChannelContent]) -> None:
        """Reports the result of a part of the write, and acknowledges if it was the last one. Runs in the thread that has the result, since the subtask may be
        busy with a batch for long.
        """
        self._carry_out_of_write(write, write.on(event, self._clock.monotonic_ms()))

    def _carry_out_of_write(self, write: AsyncPart, commands: Sequence[w.WriteCommand[ChannelContent]]) -> None:
        for command in commands:
            match command:
                case w.WriteChannels(contents):
                    self._writer.submit(
                        partial(self._write_channels, write, contents), lambda error: self._on_ended(write, error)
                    )
                case Acknowledgement():
                    self._acknowledge(command)
                case _:
                    assert_never(command)

    def _on_time_up(self, checkpoint_id: int) -> None:
        write = self._writes.get(checkpoint_id)
        if write is not None and write.awaits(w.Part.OUTPUTS):
            self._report(write, w.OutputsPassed(self._barriers.prioritise(write.barrier)))
            self._look_after(write)

    def _on_state_ended(self, write: AsyncPart, error: BaseException | None) -> None:
        write.release()
        self._on_ended(write, error)

    def _on_ended(self, write: AsyncPart, error: BaseException | None) -> None:
        """Handles the end of a piece of background work, which has reported its result unless there is an error."""
        if error is not None and not write.is_over:
            self._report(write, w.WriteCanceled())
            self.on(m.SnapshotFailed(write.checkpoint_id, _storage_info(error)))
        self._look_after(write)

    def _look_after(self, write: AsyncPart) -> None:
        """Removes a write that has ended and whose states were released, and reports an acknowledged one to the coordinator."""
        is_settled = write.is_over and not write.frozen
        if is_settled and self._writes.pop(write.checkpoint_id, None) is not None and write.is_acknowledged:
            self.on(m.SnapshotWritten(write.checkpoint_id))

    def _cancel(self, checkpoint_id: int) -> None:
        write = self._writes.get(checkpoint_id)
        if write is not None:
            self._report(write, w.WriteCanceled())
            self._look_after(write)

    def _tidy(self, work: Callable[[], None]) -> None:
        """Runs cleanup of local copies in the background, after the writes that are under way."""
        self._writer.submit(work, lambda error: None)


def _storage_info(error: BaseException) -> ErrorInfo:
    if isinstance(error, TidegateError):
        return ErrorInfo.of(error)
    return ErrorInfo("storage", "external", f"writing the snapshot failed: {type(error).__name__}: {error}")
