"""Credit-based flow control of one channel, both ends, as pure machines. All figures are bytes of batch payloads.

    consumer  received ─▶ queued ─▶ consumed            producer  queued ─▶ sent
                  └──── granted = consumed + window ──credit──▶ granted

Laws: the producer never has more in flight (sent, not consumed) than was granted, but for one frame: a frame larger
than the window may go when nothing is in flight, so nothing waits forever. Grants are cumulative and never taken back;
a window shrinks by granting later. The window is bounded in bytes, and in milliseconds of the consumer's work, measured
(``BufferDebloater``). A producer that is out of credit says so (BACKLOG), behind everything it sent; the consumer answers as
soon as it consumed all that, which is when the producer learns that nothing is in flight.

Events cost no credit (Flink: ``RemoteInputChannel.java``, ``CreditBasedSequenceNumberingViewReader.java`` count buffers).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tidegate.model.errors import CorruptFrame

_MEMORY_MS = 200.0
"""Chosen, not measured: how long an observed rate counts."""


@dataclass(frozen=True, slots=True)
class WindowBounds:
    """What may be in flight on one channel: at least ``min_bytes``, at most ``max_bytes``, and not more than
    ``max_work_ms`` of work for all channels of a consumer together."""

    min_bytes: int = 64 * 1024
    max_bytes: int = 4 * 1024 * 1024
    max_work_ms: float = 25.0
    """``math.inf``: the bytes alone count (no debloating)."""
    period_ms: float = 20.0
    """A window holds for so long before it is decided anew."""
    samples: int = 10
    """The speed is an average over about so many periods."""
    threshold: float = 0.25
    """A window that differs by less (part of the one in use) is not taken."""

    def __post_init__(self) -> None:
        assert 0 < self.min_bytes <= self.max_bytes, self
        assert self.max_work_ms > 0, self
        assert self.period_ms > 0, self
        assert self.samples > 0, self


class WorkRate:
    """How fast work is done while there is some: bytes per millisecond, older work counting less and less: work that lies
    ``memory_ms`` back counts 1/e."""

    def __init__(self, memory_ms: float = _MEMORY_MS) -> None:
        self._memory_ms = memory_ms
        self._bytes = 0.0
        self._ms = 0.0

    @property
    def bytes_per_ms(self) -> float | None:
        """``None`` until something was measured."""
        return self._bytes / self._ms if self._ms > 0 else None

    def on_worked(self, size_bytes: int, elapsed_ms: float) -> None:
        """``size_bytes`` took ``elapsed_ms`` of work; waiting for input is not work."""
        elapsed_ms = max(elapsed_ms, 0.0)
        keep = math.exp(-elapsed_ms / self._memory_ms)
        self._bytes = self._bytes * keep + size_bytes
        self._ms = self._ms * keep + elapsed_ms


def decide_window(bounds: WindowBounds, rate: WorkRate, channels: int) -> int:
    """Window of each of ``channels`` channels that share one consumer. Before it is measured a 32nd of the most: a consumer that
    turns out to be slow keeps what it was granted, and the first batches of a fast one measure it."""
    if math.isinf(bounds.max_work_ms):
        return bounds.max_bytes
    per_ms = rate.bytes_per_ms
    worth = bounds.max_bytes / 32 if per_ms is None else per_ms * bounds.max_work_ms / max(channels, 1)
    return round(min(max(worth, bounds.min_bytes), bounds.max_bytes))


class BufferDebloater:
    """The window in use: decided anew once in a period, and kept while it is about right (Flink: ``BufferDebloater.java``).
    Before the speed is known, and when channels end, it is decided at once."""

    def __init__(self, bounds: WindowBounds) -> None:
        self._bounds = bounds
        self._rate = WorkRate(bounds.period_ms * bounds.samples)
        self._channels = 0
        self._window = decide_window(bounds, self._rate, 1)
        self._decided_ms: float | None = None

    def on_worked(self, size_bytes: int, elapsed_ms: float) -> None:
        """``size_bytes`` took ``elapsed_ms`` of work; waiting for input is not work."""
        self._rate.on_worked(size_bytes, elapsed_ms)

    def window(self, now_ms: float, channels: int) -> int:
        """Bytes that may be in flight on each of ``channels`` channels."""
        is_new = self._decided_ms is None or channels != self._channels
        if is_new or now_ms - (self._decided_ms or 0.0) >= self._bounds.period_ms:
            wanted = decide_window(self._bounds, self._rate, channels)
            if is_new or abs(wanted - self._window) >= self._bounds.threshold * self._window:
                self._window = wanted
            self._channels = channels
            self._decided_ms = None if self._rate.bytes_per_ms is None else now_ms
        return self._window

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when the window is outside its bounds."""
        least, most = self._bounds.min_bytes, self._bounds.max_bytes
        assert least <= self._window <= most, f"a window of {self._window} bytes, and {least} to {most} are allowed"


@dataclass(frozen=True, slots=True)
class GrantCredit:
    """Command of the consumer's side: tell the producer."""

    granted_bytes: int
    consumed_bytes: int


class SenderCredit:
    """The producer's side. Nothing may be sent before the first grant."""

    def __init__(self) -> None:
        self.granted = 0
        self.consumed = 0
        self.sent = 0
        self._open = False
        self._asked = False

    @property
    def in_flight(self) -> int:
        return self.sent - self.consumed

    def may_send(self, size_bytes: int) -> bool:
        """Whether a batch of this size may go now."""
        return self._open and (self.sent + size_bytes <= self.granted or self.sent == self.consumed)

    def should_ask(self) -> bool:
        """Once for each time that credit ran out: whether to tell the consumer that data waits."""
        ask = self._open and not self._asked
        self._asked = self._asked or ask
        return ask

    def on_sent(self, size_bytes: int) -> None:
        assert self.may_send(size_bytes), (size_bytes, self.sent, self.granted, self.consumed)
        self.sent += size_bytes
        self._asked = False

    def on_credit(self, granted_bytes: int, consumed_bytes: int) -> None:
        """Raises ``CorruptFrame`` for a credit that cannot be: one that takes back, or consumed what was not sent."""
        if granted_bytes < self.granted or not self.consumed <= consumed_bytes <= self.sent:
            raise CorruptFrame(
                f"credit of {granted_bytes} bytes with {consumed_bytes} consumed, after {self.granted} with "
                f"{self.consumed} and {self.sent} sent"
            )
        self._open = True
        self.granted, self.consumed = granted_bytes, consumed_bytes

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when sent, consumed and granted bytes contradict each other."""
        assert 0 <= self.consumed <= self.sent, f"{self.consumed} bytes are consumed, and {self.sent} were sent"
        assert self._open or not (self.sent or self.granted), f"{self.sent} bytes were sent before the first grant"
        assert self._open or not self._asked, "credit is asked for before the first grant"


class ReceiverCredit:
    """The consumer's side."""

    def __init__(self) -> None:
        self.granted = 0
        self.received = 0
        self.consumed = 0
        self._asked = False

    @property
    def queued(self) -> int:
        return self.received - self.consumed

    def open(self, window_bytes: int) -> GrantCredit:
        """The first grant."""
        self.granted = window_bytes
        return GrantCredit(self.granted, self.consumed)

    def on_received(self, size_bytes: int) -> None:
        """Raises ``CorruptFrame`` when the producer sent more than it was granted."""
        if self.received + size_bytes > self.granted and self.received > self.consumed:
            raise CorruptFrame(
                f"the producer sent {self.received + size_bytes} bytes; {self.granted} were granted and {self.consumed} consumed"
            )
        self.received += size_bytes

    def on_consumed(self, size_bytes: int) -> None:
        self.consumed += size_bytes
        assert self.consumed <= self.received, (self.consumed, self.received)

    def on_asked(self) -> None:
        """The producer is out of credit (and everything that it sent before has been received)."""
        self._asked = True

    def decide_grant(self, window_bytes: int) -> GrantCredit | None:
        """What to tell now: a quarter of a window, or any news to a producer that asked and whose data is consumed."""
        wanted = max(self.granted, self.consumed + window_bytes)
        answers = self._asked and self.queued == 0
        if not answers and wanted - self.granted < max(window_bytes // 4, 1):
            return None
        if answers:
            self._asked = False
        self.granted = wanted
        return GrantCredit(self.granted, self.consumed)

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when received and consumed bytes contradict each other."""
        assert 0 <= self.consumed <= self.received, f"{self.consumed} bytes are consumed, {self.received} were received"
        assert self.consumed <= self.granted or self.consumed == self.received, (
            f"{self.granted} bytes are granted, {self.consumed} consumed, and more is queued"
        )
