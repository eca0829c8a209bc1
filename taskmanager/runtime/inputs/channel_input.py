"""The input of a subtask that reads from channels: batches and events of its gate go through barrier alignment and the watermark valve.

    step():  events with priority ─▶ the batch at hand, slice by slice ─▶ restored data in flight ─▶ the gate

Laws: events take effect in the order in which their channel delivered them, and only after every record before them was processed. Events with priority are
handled between two slices, and while outputs have no room. The snapshot starts in the step that read the barrier which triggers it. The input ends once, when
the data of all channels has ended.

The in-flight data of an unaligned snapshot is the rest of the current batch, data that has not been replayed, and the data that the gate records (``persist``).
The snapshot gets it when the barriers of all channels have arrived.
"""

from __future__ import annotations

import math
from typing import Protocol, assert_never

from tidegate.model.channel_events import (
    Barrier,
    BarrierAnnouncement,
    CancelBarrier,
    ChannelEvent,
    EndOfData,
    EndOfPartition,
    UserEvent,
    WatermarkEvent,
    WatermarkStatus,
)
from tidegate.model.errors import CorruptFrame, InternalError
from tidegate.records.batch import ArrowBatch, to_wire
from tidegate.taskmanager.exchange.ports import InputGate, RecordingEnded
from tidegate.taskmanager.machines import alignment as a
from tidegate.taskmanager.machines import watermarks as w
from tidegate.taskmanager.machines.snapshot import AlignmentAborted
from tidegate.taskmanager.runtime.chain import OperatorChain
from tidegate.taskmanager.runtime.checkpointing.async_part import AlignmentMetrics
from tidegate.taskmanager.runtime.checkpointing.in_flight import Item
from tidegate.taskmanager.runtime.checkpointing.input_channels import InputChannels
from tidegate.taskmanager.runtime.checkpointing.replay import Replay
from tidegate.taskmanager.runtime.checkpointing.snapshots import SnapshotDriver
from tidegate.taskmanager.runtime.services import SubtaskServices
from tidegate.taskmanager.runtime.slicing import SliceSizer


class SubtaskInput(Protocol):
    """The input of a subtask: channels (``ChannelInput``) or a source (``SourceInput``)."""

    def step(self) -> bool:
        """Does one short step of work. Returns whether there was any."""

    @property
    def data_ended(self) -> bool: ...

    @property
    def closed(self) -> bool:
        """Whether every channel has ended its partition, so that not even a barrier follows. Always true for a source."""

    @property
    def drained(self) -> bool:
        """Whether the end of data is also the end of event time, which it is not when a job is suspended."""

    @property
    def retry_ms(self) -> float | None:
        """Milliseconds after which ``step`` has to be called again if nothing wakes the mailbox; ``None``: it need not be."""

    def step_priority(self) -> bool:
        """Does work that must not wait for space in the outputs, such as barriers that overtake. Returns whether there was any."""

    def end_data(self, *, drain: bool) -> None:
        """Ends the data of a source. Other subtasks receive the end from their channels."""

    def trigger(self, barrier: Barrier) -> None:
        """Handles the JobManager's trigger of a checkpoint at this subtask."""

    def abort(self, checkpoint_id: int) -> None:
        """Handles the abort of a checkpoint by the JobManager."""


class ChannelInput:
    """The input of a subtask that reads from channels."""

    def __init__(
        self,
        services: SubtaskServices,
        *,
        gate: InputGate,
        channels: InputChannels,
        chain: OperatorChain,
        handler: a.BarrierHandler,
        snapshots: SnapshotDriver,
        sizer: SliceSizer,
    ) -> None:
        """Connects the parts of an input. ``channels``: the channels of the gate, as the deployment and checkpoints describe them."""
        self._gate = gate
        self._alarms = services.alarms
        self._channels = channels
        self._replay: Replay | None = None
        self._in_flight: dict[int, list[Item]] = {}
        self._chain = chain
        self._handler = handler
        self._valve = w.WatermarkValve(gate.channels)
        self._snapshots = snapshots
        self._counters = services.counters
        self._clock = services.clock
        self._probe = services.probe
        self._sizer = sizer
        self._input_of = [described.input_index for described in channels.described]
        self._open_data = set(range(gate.channels))
        self._open = set(range(gate.channels))
        self._drains = True
        self._batch: ArrowBatch | None = None
        self._channel = 0
        self._edge = 0
        self._position = 0
        self._alignment_bytes = 0

    def restore(self, replay: Replay | None) -> None:
        """Takes the in-flight data of the restored checkpoint, which is processed before anything that arrives."""
        self._replay = replay

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
        if self.step_priority():
            return True
        if self._batch is None:
            polled = self._poll()
            if polled is None:
                return False
            channel, item = polled
            if not isinstance(item, ArrowBatch):
                self._on_event(channel, item)
                return True
            self._accept(channel, item)
        self._process_slice()
        return True

    def step_priority(self) -> bool:
        polled = self._gate.poll_priority()
        if polled is None:
            return False
        self._on_event(*polled)
        return True

    def _poll(self) -> tuple[int, ArrowBatch | ChannelEvent | RecordingEnded] | None:
        if self._replay is not None:
            replayed = self._replay.next()
            if replayed is not None:
                return replayed.channel, replayed.item
            self._replay = None
        return self._gate.poll(self._sizer.gather_bytes)

    def end_data(self, *, drain: bool) -> None:
        raise InternalError("only a source can end its data early, and this subtask reads from other subtasks")

    def trigger(self, barrier: Barrier) -> None:
        self._align(barrier)

    def abort(self, checkpoint_id: int) -> None:
        self._align(a.CheckpointAborted(checkpoint_id))

    def _accept(self, channel: int, batch: ArrowBatch) -> None:
        if channel not in self._open_data and not self._chain.takes_reports:
            raise CorruptFrame(f"the producer of input channel {channel} sent records after its end of data")
        size_bytes = batch.data.nbytes
        self._counters.records_in += len(batch)
        self._counters.bytes_in += size_bytes
        if self._handler.collecting is not None:
            self._alignment_bytes += size_bytes
        self._batch, self._edge, self._position = batch, self._gate.input_of(channel), 0
        self._channel = channel

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

    def _on_event(self, channel: int, event: ChannelEvent | RecordingEnded) -> None:
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
                    raise CorruptFrame(
                        f"the producer of input channel {channel} ended its partition without the end of its data"
                    )
                self._open.discard(channel)
                self._align(a.ChannelEnded(channel))
            case BarrierAnnouncement(barrier):
                self._align(a.BarrierAnnounced(channel, barrier))
            case RecordingEnded(checkpoint_id):
                self._align(a.ChannelDrained(channel, checkpoint_id))
            case UserEvent():
                if channel not in self._open_data:
                    raise CorruptFrame(
                        f"the producer of input channel {channel} sent a user event after its end of data"
                    )
                self._chain.on_user_event(event, self._gate.input_of(channel))
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
            self._carry_out(command, event)

    def _carry_out(self, command: a.AlignmentCommand, event: a.AlignmentEvent) -> None:
        match command:
            case a.BlockChannel(channel):
                self._gate.block(channel)
            case a.UnblockChannel(channel):
                self._gate.unblock(channel)
            case a.StartAlignmentTimer(checkpoint_id, delay_ms):
                at_ms = math.ceil(self._clock.now_ms() + delay_ms)
                self._alarms.schedule(at_ms, lambda _: self._align(a.AlignmentTimedOut(checkpoint_id)))
            case a.StartSnapshot():
                self._start_snapshot(command, self._channels.last(event))
            case a.PersistChannel(checkpoint_id, channel):
                self._gate.persist(channel, checkpoint_id)
            case a.StopPersisting():
                pass  # the gate knows from the barrier itself
            case a.FinishPersisting(checkpoint_id, alignment_ms):
                contents = self._channels.contents(self._in_flight, self._gate.take_persisted(checkpoint_id))
                self._in_flight = {}
                self._snapshots.inputs_persisted(checkpoint_id, contents, alignment_ms, self._channels.last(event))
            case a.DropPersisted(checkpoint_id):
                self._gate.take_persisted(checkpoint_id)
                self._in_flight = {}
            case a.AbortAlignment(checkpoint_id, reason):
                self._alignment_bytes = 0
                self._snapshots.on(AlignmentAborted(checkpoint_id, reason))
            case _:
                assert_never(command)

    def _start_snapshot(self, start: a.StartSnapshot, waited_for: str) -> None:
        metrics = AlignmentMetrics(
            start.start_delay_ms, start.alignment_ms, self._alignment_bytes, waited_for, start.persists
        )
        self._alignment_bytes = 0
        if start.persists:
            self._in_flight = self._at_hand()
        self._snapshots.request(start.barrier, metrics)

    def _at_hand(self) -> dict[int, list[Item]]:
        """Returns the data that was taken from the gate or restored, and is not processed yet, by channel."""
        found: dict[int, list[Item]] = {}
        if self._batch is not None:
            found[self._channel] = [to_wire(self._batch.slice(self._position, len(self._batch)))]
        for replayed in [] if self._replay is None else self._replay.rest():
            item = replayed.item
            found.setdefault(replayed.channel, []).append(to_wire(item) if isinstance(item, ArrowBatch) else item)
        return found

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
