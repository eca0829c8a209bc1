"""Credit-based flow control of one channel, both ends, as pure machines. All figures are bytes of batch payloads.

    consumer  received ─▶ queued ─▶ consumed            producer  queued ─▶ sent
                  └──── granted = consumed + window ──credit──▶ granted

Laws: the producer never has more in flight (sent, not consumed) than was granted, except for one frame: a frame larger than the window may be sent when nothing
is in flight, so that it does not wait forever. Grants are cumulative and never revoked; a window shrinks by granting later. The window is bounded in bytes and
in milliseconds of the consumer's measured processing time (``BufferDebloater``). A producer without credit sends BACKLOG after its data; the consumer answers
when it has consumed that data, which tells the producer that nothing is in flight.

A consumer is slow when ``min_bytes`` are more than ``slow_work_ms`` of its own work, as with a function of a millisecond for each record. Its window is
smaller then, so that a barrier does not wait for seconds behind what is in flight, and so is the one of a consumer whose speed is not known yet. Two things
make no consumer slow, since small batches would then be what makes it slow, down to a few records: time in which other processes had the processor, and the
fixed cost of a batch, for which each of many channels has at least ``channel_work_ms``.

Events cost no credit (Flink: ``RemoteInputChannel.java``, ``CreditBasedSequenceNumberingViewReader.java`` count buffers).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tidegate.model.errors import CorruptFrame

_LEAST_BYTES = 256
"""The smallest window in bytes: ``taskmanager.memory.min-segment-size`` of Flink, below which its buffers are never debloated."""
_MEMORY_MS = 200.0
"""Milliseconds for which an observed rate counts. Chosen, not measured."""


@dataclass(frozen=True, slots=True)
class WindowBounds:
    """Bounds of the bytes in flight on one channel: at least ``min_bytes``, at most ``max_bytes``, and at most ``max_work_ms`` of work for all channels of a
    consumer together.
    """

    min_bytes: int = 64 * 1024
    max_bytes: int = 4 * 1024 * 1024
    max_work_ms: float = 25.0
    """Milliseconds of the consumer's work that may be in flight. ``math.inf``: only bytes count (no debloating)."""
    period_ms: float = 20.0
    """Milliseconds for which a window stays before it is decided again."""
    samples: int = 10
    """Number of periods over which the speed is averaged."""
    threshold: float = 0.25
    """Share of the window in use by which a new one must differ, otherwise the old one stays."""
    slow_work_ms: float = 100.0
    """Most milliseconds of a slow consumer's work for which ``min_bytes`` holds. Chosen, not measured: consumers so slow gain nothing by a larger window."""
    channel_work_ms: float = 10.0
    """Least milliseconds of a slow consumer's work for each of its channels. Chosen, not measured: a few times the fixed cost of a batch."""
    first_bytes: int = 4 * 1024
    """Window while the consumer's speed is not known. Chosen, not measured: a fast consumer is known after the first of it."""

    def __post_init__(self) -> None:
        assert 0 < self.min_bytes <= self.max_bytes, self
        assert self.max_work_ms > 0, self
        assert self.period_ms > 0, self
        assert self.samples > 0, self


class WorkRate:
    """The rate at which work is done, in bytes per millisecond of work: an average in which work of ``memory_ms`` ago counts 1/e."""

    def __init__(self, memory_ms: float = _MEMORY_MS) -> None:
        self._memory_ms = memory_ms
        self._bytes = 0.0
        self._ms = 0.0

    @property
    def bytes_per_ms(self) -> float | None:
        """The rate; ``None`` until something was measured."""
        return self._bytes / self._ms if self._ms > 0 else None

    def on_worked(self, size_bytes: int, elapsed_ms: float) -> None:
        """Adds ``size_bytes`` that took ``elapsed_ms`` of work. Waiting for input is not work."""
        elapsed_ms = max(elapsed_ms, 0.0)
        keep = math.exp(-elapsed_ms / self._memory_ms)
        self._bytes = self._bytes * keep + size_bytes
        self._ms = self._ms * keep + elapsed_ms


def decide_window(bounds: WindowBounds, rate: WorkRate, channels: int, own: WorkRate | None = None) -> int:
    """Returns the window, in bytes, of each of ``channels`` channels that share one consumer. ``own``: the rate in the consumer's own work, without the time in
    which other processes had the processor; ``None``: as ``rate``.

    Before the rate is measured it is ``first_bytes``: enough for the first batches of a fast consumer, and little for a slow one, which keeps what it was
    granted.
    """
    if math.isinf(bounds.max_work_ms):
        return bounds.max_bytes
    per_ms = rate.bytes_per_ms
    if per_ms is None:
        return min(bounds.first_bytes, bounds.max_bytes)
    slow_work_ms = max(bounds.slow_work_ms / max(channels, 1), bounds.channel_work_ms)
    own_per_ms = per_ms if own is None or own.bytes_per_ms is None else own.bytes_per_ms
    least = min(bounds.min_bytes, max(_LEAST_BYTES, own_per_ms * slow_work_ms))
    return round(min(max(per_ms * bounds.max_work_ms / max(channels, 1), least), bounds.max_bytes))


class BufferDebloater:
    """Decides the window of the channels, once in a period, and keeps it while it is about right (Flink: ``BufferDebloater.java``). While the speed is not
    known, and when the number of channels changes, it decides at once.
    """

    def __init__(self, bounds: WindowBounds) -> None:
        self._bounds = bounds
        self._rate = WorkRate(bounds.period_ms * bounds.samples)
        self._own = WorkRate(bounds.period_ms * bounds.samples)
        self._channels = 0
        self._window = decide_window(bounds, self._rate, 1)
        self._decided_ms: float | None = None

    def on_worked(self, size_bytes: int, elapsed_ms: float, own_ms: float | None = None) -> None:
        """Adds ``size_bytes`` that took ``elapsed_ms`` of work. Waiting for input is not work. ``own_ms``: the part of it in which the consumer itself worked
        or waited; ``None``: all of it.
        """
        self._rate.on_worked(size_bytes, elapsed_ms)
        self._own.on_worked(size_bytes, elapsed_ms if own_ms is None else own_ms)

    def window(self, now_ms: float, channels: int) -> int:
        """Returns the bytes that may be in flight on each of ``channels`` channels."""
        is_new = self._decided_ms is None or channels != self._channels
        if is_new or now_ms - (self._decided_ms or 0.0) >= self._bounds.period_ms:
            wanted = decide_window(self._bounds, self._rate, channels, self._own)
            if is_new or abs(wanted - self._window) >= self._bounds.threshold * self._window:
                self._window = wanted
            self._channels = channels
            self._decided_ms = None if self._rate.bytes_per_ms is None else now_ms
        return self._window

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when the window is outside its bounds."""
        least, most = min(_LEAST_BYTES, self._bounds.min_bytes), self._bounds.max_bytes
        assert least <= self._window <= most, f"a window of {self._window} bytes, and {least} to {most} are allowed"


@dataclass(frozen=True, slots=True)
class GrantCredit:
    """Command of the consumer's side: send this credit to the producer. Both numbers are totals since the channel was opened."""

    granted_bytes: int
    consumed_bytes: int


class SenderCredit:
    """The producer's side of the credit of a channel. Nothing may be sent before the first grant."""

    def __init__(self) -> None:
        self.granted = 0
        self.consumed = 0
        self.sent = 0
        self._open = False
        self._requested = False

    @property
    def in_flight(self) -> int:
        return self.sent - self.consumed

    def may_send(self, size_bytes: int) -> bool:
        """Tells whether a batch of this size may be sent now."""
        return self._open and (self.sent + size_bytes <= self.granted or self.sent == self.consumed)

    def should_ask(self) -> bool:
        """Tells whether the consumer has to be informed that data waits for credit: once each time that credit runs out."""
        ask = self._open and not self._requested
        self._requested = self._requested or ask
        return ask

    def on_sent(self, size_bytes: int) -> None:
        assert self.may_send(size_bytes), (size_bytes, self.sent, self.granted, self.consumed)
        self.sent += size_bytes
        self._requested = False

    def on_credit(self, granted_bytes: int, consumed_bytes: int) -> None:
        """Takes a credit. Raises ``CorruptFrame`` if it takes credit back, or claims more consumed bytes than were sent."""
        if granted_bytes < self.granted or not self.consumed <= consumed_bytes <= self.sent:
            raise CorruptFrame(
                f"the consumer granted {granted_bytes} bytes of credit, with {consumed_bytes} consumed, which contradicts the "
                f"{self.granted} granted, {self.consumed} consumed and {self.sent} sent before"
            )
        self._open = True
        self.granted, self.consumed = granted_bytes, consumed_bytes

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when sent, consumed and granted bytes contradict each other."""
        assert 0 <= self.consumed <= self.sent, f"{self.consumed} bytes are consumed, and {self.sent} were sent"
        assert self._open or not (self.sent or self.granted), f"{self.sent} bytes were sent before the first grant"
        assert self._open or not self._requested, "credit is asked for before the first grant"


def short_window(bounds: WindowBounds, credit: SenderCredit) -> int | None:
    """Returns the window of a consumer that is slow, or whose speed is not known: the producer makes no more for it at once. ``None``: the consumer is fast, or
    only bytes count.

    The window is that of the last grant. A consumer counts data as consumed when it begins with it, so the producer cannot measure the speed itself before much
    was sent.
    """
    if math.isinf(bounds.max_work_ms):
        return None
    if not credit.granted:
        return bounds.first_bytes
    window = credit.granted - credit.consumed
    return None if window >= bounds.min_bytes else max(window, _LEAST_BYTES)


class ReceiverCredit:
    """The consumer's side of the credit of a channel."""

    def __init__(self) -> None:
        self.granted = 0
        self.received = 0
        self.consumed = 0
        self._requested = False

    @property
    def queued(self) -> int:
        return self.received - self.consumed

    def open(self, window_bytes: int) -> GrantCredit:
        """Opens the channel with a window; returns the first grant."""
        self.granted = window_bytes
        return GrantCredit(self.granted, self.consumed)

    def on_received(self, size_bytes: int) -> None:
        """Counts received bytes. Raises ``CorruptFrame`` when the producer sent more than it was granted."""
        if self.received + size_bytes > self.granted and self.received > self.consumed:
            raise CorruptFrame(
                f"the producer sent {self.received + size_bytes} bytes, more than its credit: {self.granted} were granted and {self.consumed} consumed"
            )
        self.received += size_bytes

    def on_consumed(self, size_bytes: int) -> None:
        self.consumed += size_bytes
        assert self.consumed <= self.received, (self.consumed, self.received)

    def on_requested(self) -> None:
        """Notes that the producer is out of credit. Everything that it sent before has been received."""
        self._requested = True

    def decide_grant(self, window_bytes: int) -> GrantCredit | None:
        """Returns the grant to send now, ``None`` if there is none: when it adds a quarter of a window, or when the producer asked for credit and its data is
        consumed.
        """
        wanted = max(self.granted, self.consumed + window_bytes)
        answers = self._requested and self.queued == 0
        if not answers and wanted - self.granted < max(window_bytes // 4, 1):
            return None
        if answers:
            self._requested = False
        self.granted = wanted
        return GrantCredit(self.granted, self.consumed)

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when received and consumed bytes contradict each other."""
        assert 0 <= self.consumed <= self.received, f"{self.consumed} bytes are consumed, {self.received} were received"
        assert self.consumed <= self.granted or self.consumed == self.received, (
            f"{self.granted} bytes are granted, {self.consumed} consumed, and more is queued"
        )
