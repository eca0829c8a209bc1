"""The settings of an exchange: sizes in bytes, times in milliseconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from tidegate.taskmanager.machines.credit import WindowBounds
from tidegate.wire.frames import DEFAULT_MAX_PAYLOAD_BYTES

Clock = Callable[[], float]
"""Returns monotonic milliseconds."""


class WorkMeter(Protocol):
    """Measures what the work on a batch costs, without the time in which other processes had the processor."""

    def start(self) -> None: ...

    def spent_ms(self, records: int, elapsed_ms: float) -> float:
        """Returns the cost in ms of the work that began with ``start``. ``elapsed_ms``: its duration."""


class Elapsed:
    """The meter for which all elapsed time is work."""

    def start(self) -> None: ...

    def spent_ms(self, records: int, elapsed_ms: float) -> float:
        return elapsed_ms


def monotonic_ms() -> float:
    return time.monotonic() * 1000.0


@dataclass(frozen=True, slots=True)
class ExchangeSettings:
    """The settings of one subtask's exchange. ``window`` bounds what is on the way to a consumer and in its gate, ``queue`` what waits in one subpartition;
    their milliseconds add up to the work that a barrier may find in front of it (50 ms).
    """

    window: WindowBounds = field(default_factory=WindowBounds)
    queue: WindowBounds = field(default_factory=WindowBounds)
    frame_rows: int = 65_536
    """Small pieces are gathered until they have this many rows, or ``frame_bytes``."""
    frame_bytes: int = 256 * 1024
    cut_bytes: int = 2 * 1024 * 1024
    """Bytes from which a batch is sent in pieces of about this size."""
    max_payload_bytes: int = DEFAULT_MAX_PAYLOAD_BYTES
    """The largest payload of a frame in bytes, also for a frame with a single record."""
    connect_timeout_ms: float = 10_000.0
    """Milliseconds for which connecting to a producer is tried."""
    handshake_timeout_ms: float = 30_000.0
    """Milliseconds for a handshake. It has to be long: of 128 subtasks that start on two processors some send theirs only after more than five seconds."""
    max_handshakes: int = 1024
    """Most connections at the same time that have not proven their token."""
    checksum_batches: bool = True
    advertised_host: str = ""
    """The host that is announced instead of the one that is bound (TCP only)."""
    clock: Clock = monotonic_ms
    open_meter: Callable[[], WorkMeter] = Elapsed
