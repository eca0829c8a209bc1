"""The consumer's end: one queue for each channel, filled by the I/O thread and emptied by the subtask's thread.

    I/O thread ─▶ on_frames(channel) ─▶ queue ─▶ ready, in turn ─▶ poll: subtask's thread ─▶ credit back to the producer

Laws: frames of a channel come out in their order (priority ones first); a blocked channel fills up to its credit and
hinders no other; each poll takes the next channel that has something, so none starves. Time between two polls is the
work that the last batch made: it bounds how much may be in flight.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from taskmanager.exchange.settings import ExchangeSettings
from taskmanager.machines.credit import GrantCredit, ReceiverCredit, WorkRate, decide_window
from tidegate.common.batch import ArrowBatch, from_wire
from tidegate.model.channel_events import ChannelEvent
from tidegate.model.errors import CorruptFrame, TidegateError
from tidegate.wire.frames import BatchDecoder, Frame, FrameFlags, FrameType

_DATA = (FrameType.SCHEMA, FrameType.BATCH, FrameType.EVENT)
_CreditSink = Callable[[int, GrantCredit], None]


class _Channel:
    __slots__ = ("blocked", "credit", "decoder", "ended", "frames", "input_index", "is_ready", "name", "priorities")

    def __init__(self, input_index: int, name: str) -> None:
        self.input_index = input_index
        self.name = name
        self.frames: deque[Frame] = deque()
        self.priorities = 0
        self.decoder = BatchDecoder()
        self.credit = ReceiverCredit()
        self.blocked = False
        self.is_ready = False
        self.ended = False


class ChannelInputGate:
    """``InputGate`` of ``taskmanager.exchange.base``."""

    def __init__(
        self,
        names: Sequence[tuple[int, str]],
        settings: ExchangeSettings,
        wakeup: Callable[[], None],
        send: _CreditSink,
    ) -> None:
        """``names``: for each channel the index of its input, and what to call it in messages. ``send`` takes a grant
        for a channel to its producer, from any thread."""
        self._channels = [_Channel(index, name) for index, name in names]
        self._bounds = settings.window
        self._clock = settings.clock
        self._wakeup = wakeup
        self._send = send
        self._lock = threading.Lock()
        self._ready: deque[int] = deque()
        self._open = len(self._channels)
        self._queued_bytes = 0
        self._failure: TidegateError | None = None
        self._rate = WorkRate()
        self._worked_bytes = 0
        self._handed_out_ms = 0.0

    # --- subtask's thread ---

    @property
    def channels(self) -> int:
        return len(self._channels)

    def input_of(self, channel: int) -> int:
        return self._channels[channel].input_index

    def poll(self) -> tuple[int, ArrowBatch | ChannelEvent] | None:
        if self._worked_bytes:
            self._rate.on_worked(self._worked_bytes, self._clock() - self._handed_out_ms)
            self._worked_bytes = 0
        while True:
            with self._lock:
                if self._failure is not None:
                    raise self._failure
                if not self._ready:
                    return None
                index = self._ready.popleft()
                channel, frame = self._take(index)
            item = self._decode(index, channel, frame)
            if item is not None:
                return index, item

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

    def check(self) -> None:
        """Raises what ``poll`` would raise, and takes nothing."""
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        with self._lock:
            self._ready.clear()
            for channel in self._channels:
                channel.frames.clear()
                channel.is_ready = False
                channel.blocked = True
            self._queued_bytes = 0

    # --- I/O thread ---

    def open_channel(self, channel: int) -> GrantCredit:
        """The producer accepted: its first credit."""
        with self._lock:
            return self._channels[channel].credit.open(decide_window(self._bounds, self._rate, self._open))

    def on_frames(self, channel: int, frames: Sequence[Frame]) -> bool:
        """Whether the end of the partition came with them. Raises ``CorruptFrame`` when credit was overstepped."""
        grant = None
        with self._lock:
            found = self._channels[channel]
            for frame in frames:
                if frame.type is FrameType.BACKLOG:
                    found.credit.on_asked()
                    grant = found.credit.decide_grant(decide_window(self._bounds, self._rate, self._open))
                    continue
                self._enqueue(found, frame)
            self._make_ready(channel)
            ended = found.ended
        if grant is not None:
            self._send(channel, grant)
        self._wakeup()
        return ended

    def on_failure(self, error: TidegateError) -> None:
        """The next ``poll`` raises it; the first failure counts."""
        with self._lock:
            self._failure = self._failure or error
        self._wakeup()

    def _enqueue(self, channel: _Channel, frame: Frame) -> None:
        if frame.type not in _DATA:
            raise CorruptFrame(f"{channel.name}: a {frame.type.name} frame among the data")
        if channel.ended:
            raise CorruptFrame(f"{channel.name}: a {frame.type.name} frame after the end of the partition")
        if frame.type is FrameType.BATCH:
            channel.credit.on_received(frame.size_bytes)
        if frame.flags & FrameFlags.END:
            channel.ended = True
            self._open -= 1
        if frame.flags & FrameFlags.PRIORITY:
            channel.frames.insert(channel.priorities, frame)
            channel.priorities += 1
        else:
            channel.frames.append(frame)
        self._queued_bytes += frame.size_bytes

    def _make_ready(self, index: int) -> None:
        channel = self._channels[index]
        if not channel.frames or channel.blocked:
            return
        if channel.is_ready:
            if not channel.priorities or self._ready[0] == index:
                return
            self._ready.remove(index)
        channel.is_ready = True
        if channel.priorities:
            self._ready.appendleft(index)
        else:
            self._ready.append(index)

    def _take(self, index: int) -> tuple[_Channel, Frame]:
        channel = self._channels[index]
        frame = channel.frames.popleft()
        channel.priorities = max(0, channel.priorities - 1)
        channel.is_ready = False
        self._queued_bytes -= frame.size_bytes
        self._make_ready(index)
        return channel, frame

    def _decode(self, index: int, channel: _Channel, frame: Frame) -> ArrowBatch | ChannelEvent | None:
        try:
            item = channel.decoder.decode(frame)
        except CorruptFrame as error:
            raise CorruptFrame(f"{channel.name}: {error.message}") from error
        if frame.type is not FrameType.BATCH:
            event: ChannelEvent | None = item
            return event
        with self._lock:
            channel.credit.on_consumed(frame.size_bytes)
            grant = channel.credit.decide_grant(decide_window(self._bounds, self._rate, self._open))
            ended = channel.ended
        if grant is not None and not ended:
            self._send(index, grant)
        self._worked_bytes += frame.size_bytes
        self._handed_out_ms = self._clock()
        return from_wire(item)
