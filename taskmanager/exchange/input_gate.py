"""The input gate: one queue for each channel, filled by the I/O thread and emptied by the subtask's thread.

    I/O thread ─▶ on_frames(channel) ─▶ queue ─▶ ready, in turn ─▶ poll: subtask's thread ─▶ credit back to the producer
                        └── event with priority, of any channel ─▶ first in poll, alone in poll_priority

Laws: frames of a channel are polled in their order (priority ones first); a blocked channel fills up to its credit and does not delay others; polls serve the
channels with data in turn, so none starves. The time between two polls is the processing time of the last batch, from which the limit on bytes in flight is
derived. Events with priority cost no credit: a channel's may take ``PRIORITY_BYTES`` while they wait, thousands of checkpoints, since each checkpoint sends two
of them (an announcement and a barrier); a producer that sends more, or gives priority to other events, fails its channel.

The data of a channel before an overtaking barrier is determined by the sequence numbers of the frames, so it does not matter when the subtask's thread polls
the barrier (``channel_recording``).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

import pyarrow as pa

from tidegate.model.channel_events import Barrier, BarrierAnnouncement, ChannelEvent, ChannelUnavailable, EndOfPartition
from tidegate.model.errors import CorruptFrame, SubtaskLost, TidegateError
from tidegate.records.batch import ArrowBatch, from_wire
from tidegate.taskmanager.exchange.channel_recording import QueuedFrame, Recording, ends_recording, find_barrier
from tidegate.taskmanager.exchange.counts import ReceivedFrames
from tidegate.taskmanager.exchange.exchange_settings import ExchangeSettings
from tidegate.taskmanager.exchange.ports import InFlightItem, RecordingEnded
from tidegate.taskmanager.machines.credit import BufferDebloater, GrantCredit, ReceiverCredit
from tidegate.wire.channel_messages import decode_event
from tidegate.wire.frames import Frame, FrameFlags, FrameType, read_schema

PRIORITY_BYTES = 1 << 20
"""The most bytes of one channel's events that wait ahead of its data. Chosen: a barrier has some 100 bytes, and a checkpoint two events."""
_DATA = (FrameType.SCHEMA, FrameType.BATCH, FrameType.EVENT)
_CreditSink = Callable[[int, GrantCredit], None]


class _Channel:
    __slots__ = (
        "blocked",
        "credit",
        "ended",
        "frames",
        "input_index",
        "is_local",
        "is_ready",
        "name",
        "overtook",
        "priority_bytes",
        "recording",
        "schema",
    )

    def __init__(self, input_index: int, name: str) -> None:
        self.input_index = input_index
        self.name = name
        self.frames: deque[QueuedFrame] = deque()
        self.schema: pa.Schema | None = None
        self.credit = ReceiverCredit()
        self.recording: Recording | None = None
        self.overtook: tuple[int, int] | None = None
        """Checkpoint id and frame sequence number of the newest barrier that came with priority, or while its channel was recorded. A barrier that was
        overtaken by a newer one may come after it.
        """
        self.priority_bytes = 0
        """Bytes of this channel's events in the queue of events with priority."""
        self.blocked = False
        self.is_ready = False
        self.ended = False
        self.is_local = False


class ChannelInputGate:
    """Implements ``InputGate`` of ``tidegate.taskmanager.exchange.ports``."""

    def __init__(
        self,
        names: Sequence[tuple[int, str]],
        settings: ExchangeSettings,
        wakeup: Callable[[], None],
        send: _CreditSink,
    ) -> None:
        """Creates the channels. ``names``: for each channel the index of its input, and its name in messages. ``wakeup``: wakes the subtask, from any thread.
        ``send``: queues a channel's grant for its producer; called under the lock by both threads, so that grants leave in their order.
        """
        self._channels = [_Channel(index, name) for index, name in names]
        self._clock = settings.clock
        self._wakeup = wakeup
        self._send = send
        self._lock = threading.Lock()
        self._ready: deque[int] = deque()
        self._priority: deque[tuple[int, ChannelEvent | RecordingEnded, int]] = deque()
        """Of each: its channel, the event, and its bytes."""
        self._open = len(self._channels)
        self._queued_bytes = 0
        self._failure: TidegateError | None = None
        self._debloater = BufferDebloater(settings.window)
        self._meter = settings.open_meter()
        self._worked_bytes = 0
        self._worked_records = 0
        self._handed_out_ms = 0.0
        self._window_bytes = settings.window.max_bytes
        self.received = ReceivedFrames()

    # --- subtask's thread ---

    @property
    def channels(self) -> int:
        return len(self._channels)

    def input_of(self, channel: int) -> int:
        return self._channels[channel].input_index

    def poll(self, gather_bytes: int = 0) -> tuple[int, ArrowBatch | ChannelEvent | RecordingEnded] | None:
        if self._worked_bytes:
            elapsed_ms = self._clock() - self._handed_out_ms
            own_ms = self._meter.spent_ms(self._worked_records, elapsed_ms)
            self._debloater.on_worked(self._worked_bytes, elapsed_ms, own_ms)
            self._worked_bytes = 0
        with self._lock:
            if self._failure is not None:
                raise self._failure
            if self._priority:
                return self._take_priority()
            if not self._ready:
                return None
            index = self._ready.popleft()
            channel, taken = self._take(index, gather_bytes)
        return index, self._item(index, channel, taken)

    def poll_priority(self) -> tuple[int, ChannelEvent | RecordingEnded] | None:
        if not self._priority:
            return None
        with self._lock:
            if self._failure is not None:
                raise self._failure
            return self._take_priority()

    def persist(self, channel: int, checkpoint_id: int) -> None:
        with self._lock:
            found = self._channels[channel]
            overtook = found.overtook
            place = overtook[1] if overtook is not None and overtook[0] == checkpoint_id else None
            found.recording = Recording.of(checkpoint_id, found.frames, place)
            waiting = find_barrier(checkpoint_id, found.frames)
            if waiting is not None:  # it overtakes now, what was in front of it is recorded
                found.frames.remove(waiting)
                self._queued_bytes -= waiting.size_bytes
                assert waiting.event is not None
                self._add_priority(channel, waiting.event, waiting.size_bytes)
                if not found.frames and found.is_ready:
                    found.is_ready = False
                    self._ready.remove(channel)
            elif found.ended and place is None:
                self._add_priority(channel, RecordingEnded(checkpoint_id))

    def take_persisted(self, checkpoint_id: int) -> list[tuple[int, list[InFlightItem]]]:
        taken: list[tuple[int, list[InFlightItem]]] = []
        with self._lock:
            for index, channel in enumerate(self._channels):
                recording = channel.recording
                if recording is not None and recording.checkpoint_id == checkpoint_id:
                    channel.recording = None
                    taken.append((index, recording.items))
        return taken

    def block(self, channel: int) -> None:
        with self._lock:
            found = self._channels[channel]
            found.blocked = True
            if found.is_ready:
                found.is_ready = False
                self._ready.remove(channel)

    def unblock(self, channel: int) -> None:
        with self._lock:
            self._channels[channel].blocked = False
            self._make_ready(channel)

    def queued_bytes(self) -> int:
        return self._queued_bytes

    def queued_frames(self) -> int:
        return sum(len(channel.frames) for channel in self._channels)

    def used_share(self) -> float:
        return min(1.0, self._queued_bytes / max(1, self._window_bytes * self._open))

    def check(self) -> None:
        """Raises what ``poll`` would raise, without taking anything."""
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        with self._lock:
            self._ready.clear()
            self._priority.clear()
            for channel in self._channels:
                channel.priority_bytes = 0
                channel.frames.clear()
                channel.is_ready = False
                channel.blocked = True
            self._queued_bytes = 0

    # --- I/O thread ---

    def open_channel(self, channel: int, *, is_local: bool) -> GrantCredit:
        """Opens a channel whose producer has accepted; returns its first credit. ``is_local``: the producer is on this machine."""
        with self._lock:
            self._channels[channel].is_local = is_local
            return self._channels[channel].credit.open(self._window())

    def on_frames(self, channel: int, frames: Sequence[Frame]) -> bool:
        """Queues frames that arrived. Returns whether the end of the partition is among them. Raises ``CorruptFrame`` when the producer exceeded its credit or
        sent too many events with priority, and ``SubtaskLost`` when it reports that its data is lost.
        """
        grant = None
        with self._lock:
            found = self._channels[channel]
            for frame in frames:
                if frame.type is FrameType.BACKLOG:
                    found.credit.on_requested()
                    grant = found.credit.decide_grant(self._window())
                    continue
                self._enqueue(channel, found, frame)
            self._make_ready(channel)
            ended = found.ended
            if grant is not None:
                self._send(channel, grant)
        self._wakeup()
        return ended

    def on_failure(self, error: TidegateError) -> None:
        """Stores an error that the next ``poll`` raises. The first error stays."""
        with self._lock:
            self._failure = self._failure or error
        self._wakeup()

    def _enqueue(self, index: int, channel: _Channel, frame: Frame) -> None:
        if frame.type not in _DATA:
            raise CorruptFrame(
                f"{channel.name}: the producer sent a {frame.type.name} frame, which has no place among the data"
            )
        if channel.ended:
            raise CorruptFrame(
                f"{channel.name}: the producer sent a {frame.type.name} frame after the end of its partition"
            )
        event: ChannelEvent | None = None
        try:
            if frame.type is FrameType.SCHEMA:
                channel.schema = read_schema(frame)
                return
            if frame.type is FrameType.EVENT:
                event = self._event_of(channel, frame)
        except CorruptFrame as error:
            raise type(error)(f"{channel.name}: {error.message}") from error
        if frame.type is FrameType.BATCH:
            channel.credit.on_received(frame.size_bytes)
        if frame.flags & FrameFlags.END:
            channel.ended = True
            self._open -= 1
        self._put(index, channel, QueuedFrame(frame, event, channel.schema))

    def _event_of(self, channel: _Channel, frame: Frame) -> ChannelEvent:
        event = decode_event(memoryview(frame.payload))
        if isinstance(event, ChannelUnavailable):
            raise SubtaskLost(f"{channel.name}: the producer lost its data: {event.reason}")
        return event

    def _put(self, index: int, channel: _Channel, queued: QueuedFrame) -> None:
        recording, event = channel.recording, queued.event
        if recording is not None and not recording.complete:
            if ends_recording(event, recording.checkpoint_id):
                recording.complete = True
                if isinstance(event, EndOfPartition):
                    self._add_priority(index, RecordingEnded(recording.checkpoint_id))
            elif not queued.has_priority:
                recording.add(queued)
        is_awaited = recording is not None and queued.is_barrier_of(recording.checkpoint_id)
        if event is not None and (queued.has_priority or is_awaited):
            self._check_priority(channel, queued, event)
            if isinstance(event, Barrier) and (channel.overtook is None or event.checkpoint_id > channel.overtook[0]):
                channel.overtook = (event.checkpoint_id, queued.sequence)
            self._add_priority(index, event, queued.size_bytes)
            return
        channel.frames.append(queued)
        self._queued_bytes += queued.size_bytes

    def _check_priority(self, channel: _Channel, queued: QueuedFrame, event: ChannelEvent) -> None:
        """Raises ``CorruptFrame`` for an event that may not overtake data, and for one too many."""
        if queued.has_priority and not isinstance(event, (Barrier, BarrierAnnouncement)):
            raise CorruptFrame(
                f"{channel.name}: a {type(event).__name__} came with priority, which barriers alone have"
            )
        if channel.priority_bytes + queued.size_bytes > PRIORITY_BYTES:
            raise CorruptFrame(
                f"{channel.name}: {channel.priority_bytes + queued.size_bytes} bytes of barriers wait ahead of the data, and {PRIORITY_BYTES} are allowed: "
                "the producer sends more than those of checkpoints, or this subtask handled none for thousands of them"
            )

    def _add_priority(self, index: int, event: ChannelEvent | RecordingEnded, size_bytes: int = 0) -> None:
        self._priority.append((index, event, size_bytes))
        self._channels[index].priority_bytes += size_bytes

    def _take_priority(self) -> tuple[int, ChannelEvent | RecordingEnded]:
        index, event, size_bytes = self._priority.popleft()
        self._channels[index].priority_bytes -= size_bytes
        return index, event

    def _window(self) -> int:
        self._window_bytes = self._debloater.window(self._clock(), self._open)
        return self._window_bytes

    def _make_ready(self, index: int) -> None:
        channel = self._channels[index]
        if channel.frames and not channel.blocked and not channel.is_ready:
            channel.is_ready = True
            self._ready.append(index)

    def _take(self, index: int, gather_bytes: int) -> tuple[_Channel, list[QueuedFrame]]:
        channel = self._channels[index]
        frames = channel.frames
        taken = [frames.popleft()]
        size_bytes = taken[0].size_bytes
        while frames and size_bytes + frames[0].size_bytes <= gather_bytes and frames[0].continues(taken[0]):
            taken.append(frames.popleft())
            size_bytes += taken[-1].size_bytes
        channel.is_ready = False
        self._queued_bytes -= size_bytes
        self._make_ready(index)
        return channel, taken

    def _item(self, index: int, channel: _Channel, taken: list[QueuedFrame]) -> ArrowBatch | ChannelEvent:
        if taken[0].event is not None:
            return taken[0].event
        batches = []
        for queued in taken:
            try:
                batches.append(queued.batch().decode())
            except CorruptFrame as error:
                raise CorruptFrame(f"{channel.name}, frame {queued.sequence}: {error.message}") from error
        size_bytes = sum(queued.size_bytes for queued in taken)
        with self._lock:
            channel.credit.on_consumed(size_bytes)
            grant = channel.credit.decide_grant(self._window())
            if grant is not None and not channel.ended:
                self._send(index, grant)
        self.received.add(len(taken), size_bytes, is_local=channel.is_local)
        self._worked_bytes += size_bytes
        self._worked_records = sum(batch.num_rows for batch in batches)
        self._handed_out_ms = self._clock()
        self._meter.start()
        return from_wire(batches[0] if len(batches) == 1 else pa.concat_batches(batches))
