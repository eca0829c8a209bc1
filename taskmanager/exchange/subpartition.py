"""One subpartition: the frames that wait for one consumer. The only thing that the two threads of a producer share.

    subtask's thread: push ─▶ queue ─▶ take: I/O thread           (a lock, held for a few operations only)

It is taken by one consumer attempt, once: a pipelined subpartition cannot be read again. A consumer that goes away
before the end leaves it ``gone``: nothing is kept any more, and it counts as full, so that the producer waits for the
JobManager's word instead of running ahead into nothing.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from taskmanager.exchange.settings import Clock
from taskmanager.machines.credit import SenderCredit, WindowBounds, WorkRate, decide_window
from tidegate.wire.frames import FrameFlags, FrameType, OutgoingFrame


class Subpartition:
    def __init__(self, bounds: WindowBounds, clock: Clock, wakeup: Callable[[], None]) -> None:
        self.credit = SenderCredit()
        self.taken_by = ""
        """Text of the consumer's attempt id (I/O thread)."""
        self._bounds = bounds
        self._clock = clock
        self._wakeup = wakeup
        self._lock = threading.Lock()
        self._queue: deque[OutgoingFrame] = deque()
        self._priorities = 0
        self._queued_bytes = 0
        self._limit_bytes = decide_window(bounds, WorkRate(), 1)
        self._rate = WorkRate()
        self._busy_since_ms = 0.0
        self._pump: Callable[[], None] | None = None
        self._idle = False
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

    def is_available(self) -> bool:
        return self._queued_bytes < self._limit_bytes and not self._gone

    def is_drained(self) -> bool:
        return self._done or (self._gone and self._end_queued)

    @property
    def queued_bytes(self) -> int:
        return self._queued_bytes

    # --- I/O thread ---

    def attach(self, consumer: str, pump: Callable[[], None]) -> None:
        """``pump()`` is called from the subtask's thread when there is something to take after ``take`` gave nothing."""
        self.taken_by = consumer
        self._pump = pump

    def take(self, limit_bytes: int) -> list[tuple[OutgoingFrame, int]]:
        """Frames that credit allows to send now, in order, each with the backlog behind it; about ``limit_bytes``."""
        taken: list[tuple[OutgoingFrame, int]] = []
        total, now_ms = 0, self._clock()
        with self._lock:
            was_full = self._queued_bytes >= self._limit_bytes
            while self._queue and total < limit_bytes and self._may_leave(self._queue[0]):
                frame = self._queue.popleft()
                self._priorities = max(0, self._priorities - 1)
                self._queued_bytes -= frame.size_bytes
                total += frame.size_bytes
                if frame.type is FrameType.BATCH:
                    self.credit.on_sent(frame.size_bytes)
                taken.append((frame, self._queued_bytes))
            if total:
                self._rate.on_worked(total, now_ms - self._busy_since_ms)
                self._busy_since_ms = now_ms
                self._limit_bytes = decide_window(self._bounds, self._rate, 1)
            self._idle = not taken and not self._queue
            has_room = was_full and self._queued_bytes < self._limit_bytes
        if has_room:
            self._wakeup()
        return taken

    def waits_for_credit(self) -> int:
        """Bytes that wait although the connection is ready, when the consumer has not been told yet; else 0."""
        with self._lock:
            if self._queue and not self._may_leave(self._queue[0]) and self.credit.should_ask():
                return max(self._queued_bytes, 1)
        return 0

    def detach(self, *, end_was_sent: bool) -> None:
        """The consumer closed its connection: after the end of the partition (all was received), or before."""
        with self._lock:
            self._pump = None
            self._done = end_was_sent
            self._gone = not end_was_sent
            if self._gone:
                self._queue.clear()
                self._queued_bytes = 0
        self._wakeup()

    def _may_leave(self, frame: OutgoingFrame) -> bool:
        return frame.type is not FrameType.BATCH or self.credit.may_send(frame.size_bytes)
