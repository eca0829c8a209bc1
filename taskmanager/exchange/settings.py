"""What bounds an exchange: sizes in bytes, times in milliseconds. Values, which the composition of a subtask sets."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tidegate.taskmanager.machines.credit import WindowBounds
from tidegate.wire.frames import DEFAULT_MAX_PAYLOAD_BYTES

Clock = Callable[[], float]
"""Monotonic milliseconds."""


def monotonic_ms() -> float:
    return time.monotonic() * 1000.0


@dataclass(frozen=True, slots=True)
class ExchangeSettings:
    """``window`` bounds what is on the way to a consumer and in its gate, ``queue`` what waits in one subpartition;
    their milliseconds add up to the work that a barrier may find in front of it (50 ms)."""

    window: WindowBounds = field(default_factory=WindowBounds)
    queue: WindowBounds = field(default_factory=WindowBounds)
    frame_rows: int = 65_536
    """Small pieces are gathered until they have this many rows, or ``frame_bytes``."""
    frame_bytes: int = 256 * 1024
    cut_bytes: int = 2 * 1024 * 1024
    """A larger batch leaves in pieces of about this size."""
    max_payload_bytes: int = DEFAULT_MAX_PAYLOAD_BYTES
    """No frame may be larger, not even one with a single record."""
    connect_timeout_ms: float = 10_000.0
    """For how long a producer that cannot be reached is tried again."""
    handshake_timeout_ms: float = 30_000.0
    """It ends strangers, not consumers: of 128 subtasks that start on two processors some came to speak only after more than five seconds."""
    max_handshakes: int = 1024
    """Connections that have not proven their token yet."""
    checksum_batches: bool = True
    advertised_host: str = ""
    """Announced instead of the bind host (TCP only)."""
    clock: Clock = monotonic_ms
