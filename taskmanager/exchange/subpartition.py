"""One subpartition: the frames that wait for one consumer. It is the only object that the two threads of a producer share.

    subtask's thread: push ─▶ queue ─▶ take: I/O thread           (a lock, held for a few operations only)

A barrier that overtakes is put at the front; the data that it overtook (batches, watermarks, user events) stays queued and is also returned to the caller, who
persists it. A barrier that may time out is remembered until it is sent (``holds``): ``prioritise`` lets it overtake later.

One consumer attempt reads it, once: a pipelined subpartition cannot be read again. If the consumer disconnects before the end, the subpartition is ``gone``:
its frames are dropped, and it counts as full, so that the producer waits for the JobManager's decision.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Sequence

from tidegate.taskmanager.exchange.exchange_settings import Clock
from tidegate.taskmanager.machines.credit import BufferDebloater, SenderCredit, WindowBounds, short_window
from tidegate.wire.frames import FrameFlags, FrameType, OutgoingFrame


class Subpartition:
    """The queue of frames for one consumer, filled by the subtask's thread and emptied by the I/O thread.

    ``bounds``: how many bytes may be queued. ``wakeup``: called by the I/O thread when the subtask may go on, because the queue has room or the consumer is
    gone.
    """

    def __init__(self, bounds: WindowBounds, clock: Clock, wakeup: Callable[[], None]) -> None:
        self.credit = SenderCredit()
        self.taken_by = ""
        """The consumer's attempt id as text, set by the I/O thread; empty before."""
        self._bounds = bounds
        self._debloater = BufferDebloater(bounds)
        self._clock = clock
        self._wakeup = wakeup
        self._lock = threading.Lock()
        self._queue: deque[OutgoingFrame] = deque()
        self._priorities = 0
        self._queued_bytes = 0
        self._limit_bytes = self._debloater.window(clock(), 1)
        self._busy_since_ms = 0.0
        self._pump: Callable[[], None] | None = None
        self._producer_waits = False
        """Whether the producer was refused since it was woken last."""
        self._idle = False
        self._held: tuple[int, OutgoingFrame] | None = None
        """The id of a checkpoint, and its queued barrier that may still overtake."""
        self._end_queued = False
        self._gone = False
        self._done = False

    # --- subtask's thread ---

    def push(self, frames: Sequence[OutgoingFrame], *, priority: bool = False) -> None:
        with self._lock:
            if self._gone:
                self._end_queued |= any(frame.flags & FrameFlags.END for frame in frames)
                return
            if not self._queue:
                self._busy_since_ms = self._clock()
            for frame in frames:
                if priority:
                    self._queue.insert(self._priorities, frame)
                    self._priorities += 1
                else:
                    self._queue.append(frame)
                self._queued_bytes += frame.size_bytes
                self._end_queued |= bool(frame.flags & FrameFlags.END)
            pump = self._pump if self._idle or priority else None
            self._idle = False
        if pump is not None:
            pump()

    def push_barrier(self, checkpoint_id: int, barrier: OutgoingFrame) -> None:
        """Queues a barrier after all frames. Until it is sent (``holds``), ``prioritise`` may move it ahead of them."""
        with self._lock:
            self._held = None if self._gone else (checkpoint_id, barrier)
        self.push([barrier])

    def overtake(self, barrier: OutgoingFrame) -> list[OutgoingFrame]:
        """Puts ``barrier`` ahead of all queued frames. Returns the BATCH and EVENT frames that it overtook, oldest first."""
        with self._lock:
            if self._gone:
                return []
            self._held = None
            overtaken = self._data_before(len(self._queue))
            pump = self._put_first(barrier)
        if pump is not None:
            pump()
        return overtaken

    def prioritise(self, checkpoint_id: int, barrier: OutgoingFrame) -> list[OutgoingFrame]:
        """Replaces the queued barrier of a checkpoint by ``barrier``, ahead of all frames. Returns the frames that it overtook; none if that barrier was sent
        already.
        """
        with self._lock:
            held = self._held
            if held is None or held[0] != checkpoint_id or self._gone:
                return []
            self._held = None
            at = next(i for i, frame in enumerate(self._queue) if frame is held[1])
            overtaken = self._data_before(at)
            del self._queue[at]
            self._queued_bytes -= held[1].size_bytes
            pump = self._put_first(barrier)
        if pump is not None:
            pump()
        return overtaken

    def holds(self, checkpoint_id: int) -> bool:
        """Tells whether the barrier of ``push_barrier`` was not sent yet."""
        held = self._held
        return held is not None and held[0] == checkpoint_id

    def _data_before(self, at: int) -> list[OutgoingFrame]:
        frames = itertools.islice(self._queue, self._priorities, at)
        return [frame for frame in frames if frame.type is not FrameType.SCHEMA]

    def _put_first(self, frame: OutgoingFrame) -> Callable[[], None] | None:
        self._queue.insert(self._priorities, frame)
        self._priorities += 1
        self._queued_bytes += frame.size_bytes
        self._idle = False
        return self._pump

    def is_available(self) -> bool:
        if self._gone or self._queued_bytes < self.limit_bytes:
            return not self._gone
        with self._lock:  # a credit raises the limit, too: ``take``, which follows it, wakes the producer
            self._producer_waits = self._queued_bytes >= self.limit_bytes
            return not self._producer_waits

    def is_drained(self) -> bool:
        return self._done or (self._gone and self._end_queued)

    @property
    def limit_bytes(self) -> int:
        """The number of bytes up to which the subtask may add frames. It is lower for a slow consumer."""
        return self._limit_bytes if self.short_bytes is None else min(self.short_bytes, self._limit_bytes)

    @property
    def short_bytes(self) -> int | None:
        """The lower limit in bytes that applies while the consumer is slow or its speed is unknown; ``None``: the consumer is fast."""
        return short_window(self._bounds, self.credit)

    @property
    def queued_bytes(self) -> int:
        return self._queued_bytes

    @property
    def queued_frames(self) -> int:
        return len(self._queue)

    @property
    def used_share(self) -> float:
        """The queued bytes as a share of ``limit_bytes``, from 0 to 1."""
        return min(1.0, self._queued_bytes / max(1, self.limit_bytes))

    # --- I/O thread ---

    def attach(self, consumer: str, pump: Callable[[], None]) -> None:
        """Attaches a consumer. ``pump``: called in the subtask's thread when there are new frames after ``take`` returned none."""
        self.taken_by = consumer
        self._pump = pump

    def take(self, limit_bytes: int) -> list[tuple[OutgoingFrame, int]]:
        """Takes frames of about ``limit_bytes`` that credit allows to send now, in order, each with the number of bytes that are queued after it."""
        taken: list[tuple[OutgoingFrame, int]] = []
        total, now_ms, released = 0, self._clock(), False
        with self._lock:
            while self._queue and total < limit_bytes and self._may_leave(self._queue[0]):
                frame = self._queue.popleft()
                self._priorities = max(0, self._priorities - 1)
                self._queued_bytes -= frame.size_bytes
                total += frame.size_bytes
                if frame.type is FrameType.BATCH:
                    self.credit.on_sent(frame.size_bytes)
                elif self._held is not None and frame is self._held[1]:
                    self._held, released = None, True
                taken.append((frame, self._queued_bytes))
            if total:
                self._debloater.on_worked(total, now_ms - self._busy_since_ms)
                self._busy_since_ms = now_ms
                self._limit_bytes = self._debloater.window(now_ms, 1)
            self._idle = not taken and not self._queue
            has_room = self._producer_waits and self._queued_bytes < self.limit_bytes
            if has_room:
                self._producer_waits = False
        if has_room or released:
            self._wakeup()
        return taken

    def waits_for_credit(self) -> int:
        """Returns how many bytes wait for credit, if the consumer has not been informed of it yet; otherwise 0."""
        with self._lock:
            if self._queue and not self._may_leave(self._queue[0]) and self.credit.should_ask():
                return max(self._queued_bytes, 1)
        return 0

    def detach(self, *, end_was_sent: bool) -> None:
        """Detaches the consumer, which closed its connection after the end of the partition (all was received) or before."""
        with self._lock:
            self._pump = None
            self._done = end_was_sent
            self._gone = not end_was_sent
            self._held = None
            if self._gone:
                self._queue.clear()
                self._queued_bytes = 0
        self._wakeup()

    def _may_leave(self, frame: OutgoingFrame) -> bool:
        return frame.type is not FrameType.BATCH or self.credit.may_send(frame.size_bytes)
