"""The input side of a subtask that reads from channels: what the gate yields goes through alignment and watermarks.

Laws: events take effect in the order in which their channel delivered them, and only after every record before them was
processed. The snapshot starts inside the step that read the last barrier. The ends of all channels' data end the input once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, assert_never

from taskmanager.exchange.base import InputGate
from taskmanager.machines import alignment as a
from taskmanager.machines import watermarks as w
from taskmanager.machines.snapshot import AlignmentAborted
from taskmanager.operators.base import Clock
from taskmanager.runtime.chain import OperatorChain
from taskmanager.runtime.metrics import TaskCounters
from taskmanager.runtime.slicing import SliceSizer
from taskmanager.runtime.snapshots import AlignmentFigures, SnapshotDriver
from tidegate.common.batch import ArrowBatch
from tidegate.model.channel_events import (
    Barrier,
    BarrierAnnouncement,
    CancelBarrier,
    ChannelEvent,
    EndOfChannelState,
    EndOfData,
    EndOfPartition,
    WatermarkEvent,
    WatermarkStatus,
)
from tidegate.model.errors import CorruptFrame, InternalError


class SubtaskInput(Protocol):
    """Where a subtask's work comes from: channels (``ChannelInput``) or a source (``SourceInput``)."""

    def step(self) -> bool:
        """One short step of work; whether there was any."""

    @property
    def data_ended(self) -> bool: ...

    @property
    def closed(self) -> bool:
        """Every channel ended its partition; nothing comes any more, no barrier either. True for a source."""

    @property
    def drained(self) -> bool:
        """Whether the end of data is the end of event time too (it is not when a job is suspended)."""

    @property
    def retry_ms(self) -> float | None:
        """When to look again although nobody wakes the mailbox; ``None``: not before a wake."""

    def end_data(self, *, drain: bool) -> None:
        """A source ends its data here. (Whoever reads from channels is told by them.)"""

    def trigger(self, barrier: Barrier) -> None:
        """The JobManager triggers a checkpoint at this subtask."""

    def abort(self, checkpoint_id: int) -> None:
        """The JobManager gave a checkpoint up."""


class ChannelInput:
    def __init__(
        self,
        *,
        gate: InputGate,
        input_indices: list[int],
        chain: OperatorChain,
        handler: a.BarrierHandler,
        snapshots: SnapshotDriver,
        sizer: SliceSizer,
        counters: TaskCounters,
        clock: Clock,
        probe: Callable[[str, dict[str, Any]], None],
    ) -> None:
        """``input_indices[e]``: the operator's input that is fed by edge e of the deployment."""
        self._gate = gate
        self._chain = chain
        self._handler = handler
        self._valve = w.WatermarkValve(gate.channels)
        self._snapshots = snapshots
        self._counters = counters
        self._clock = clock
        self._probe = probe
        self._sizer = sizer
        self._input_of = [input_indices[gate.input_of(channel)] for channel in range(gate.channels)]
        self._open_data = set(range(gate.channels))
        self._open = set(range(gate.channels))
        self._drains = True
        self._batch: ArrowBatch | None = None
        self._edge = 0
        self._position = 0
        self._alignment_bytes = 0

    @property
    def data_ended(self) -> bool:
        return not self._open_data

    @property
    def closed(self) -> bool:
        return not self._open

    @property
    def drained(self) -> bool:
        return self._drains

    @property
    def retry_ms(self) -> float | None:
        return None

    def step(self) -> bool:
        if self._batch is None:
            polled = self._gate.poll()
            if polled is None:
                return False
            channel, item = polled
            if not isinstance(item, ArrowBatch):
                self._on_event(channel, item)
                return True
            self._accept(channel, item)
        self._process_slice()
        return True

    def end_data(self, *, drain: bool) -> None:
        raise InternalError("a subtask that is no source was told to end its data")

    def trigger(self, barrier: Barrier) -> None:
        self._align(a.CheckpointTriggered(barrier))

    def abort(self, checkpoint_id: int) -> None:
        self._align(a.CheckpointAborted(checkpoint_id))

    def _accept(self, channel: int, batch: ArrowBatch) -> None:
        if channel not in self._open_data:
            raise CorruptFrame(f"records on channel {channel} behind its end of data")
        size_bytes = batch.data.nbytes
        self._counters.records_in += len(batch)
        self._counters.bytes_in += size_bytes
        if self._handler.collecting is not None:
            self._alignment_bytes += size_bytes
        self._batch, self._edge, self._position = batch, self._gate.input_of(channel), 0

    def _process_slice(self) -> None:
        batch = self._batch
        assert batch is not None
        start = self._position
        stop = min(len(batch), start + self._sizer.size())
        part = batch if start == 0 and stop == len(batch) else batch.slice(start, stop)
        if stop == len(batch):
            self._batch = None
        self._position = stop
        began_ms = self._clock.monotonic_ms()
        self._chain.process(part, self._edge)
        self._sizer.observe(stop - start, self._clock.monotonic_ms() - began_ms)

    def _on_event(self, channel: int, event: ChannelEvent) -> None:
        match event:
            case Barrier():
                self._probe("barrier-received", {"checkpoint_id": event.checkpoint_id, "channel": channel})
                self._align(a.BarrierArrived(channel, event))
            case CancelBarrier(checkpoint_id):
                self._align(a.CancelBarrierArrived(channel, checkpoint_id))
            case WatermarkEvent(timestamp_ms):
                self._pass(w.WatermarkArrived(channel, timestamp_ms))
            case WatermarkStatus(idle):
                self._pass(w.StatusArrived(channel, idle))
            case EndOfData(drain):
                self._on_end_of_data(channel, drain)
            case EndOfPartition():
                if channel in self._open_data:
                    raise CorruptFrame(f"channel {channel} ended without its end of data")
                self._open.discard(channel)
                self._align(a.ChannelEnded(channel))
            case EndOfChannelState() | BarrierAnnouncement():
                pass  # of unaligned checkpoints: an aligned handler waits for the barrier itself
            case _:
                assert_never(event)

    def _on_end_of_data(self, channel: int, drain: bool) -> None:
        self._open_data.discard(channel)
        self._drains = self._drains and drain
        self._pass(w.DataEnded(channel, drain))
        index = self._input_of[channel]
        if self._drains and not any(self._input_of[other] == index for other in self._open_data):
            self._chain.end_input(index)

    def _align(self, event: a.AlignmentEvent) -> None:
        for command in self._handler.on(event, self._clock.now_ms()):
            match command:
                case a.BlockChannel(channel):
                    self._gate.block(channel)
                case a.UnblockChannel(channel):
                    self._gate.unblock(channel)
                case a.StartSnapshot(barrier, start_delay_ms, alignment_ms):
                    figures = AlignmentFigures(start_delay_ms, alignment_ms, self._alignment_bytes)
                    self._alignment_bytes = 0
                    self._snapshots.request(barrier, figures)
                case a.AbortAlignment(checkpoint_id, reason):
                    self._alignment_bytes = 0
                    self._snapshots.on(AlignmentAborted(checkpoint_id, reason))
                case _:
                    assert_never(command)

    def _pass(self, event: w.ValveEvent) -> None:
        for command in self._valve.on(event, self._clock.now_ms()):
            match command:
                case w.AdvanceWatermark(timestamp_ms):
                    self._counters.watermark_ms = timestamp_ms
                    self._chain.advance_watermark(timestamp_ms)
                case w.ChangeStatus(idle):
                    self._chain.change_status(idle)
                case _:
                    assert_never(command)
