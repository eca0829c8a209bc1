"""An event loop that notices when its process did not run for a while: it was stopped (SIGSTOP), its machine slept, or it got no processor.

    select ─▶ longer than it was to wait? ─▶ on_gap, while everything else waits ─▶ callbacks, timers, sockets

What such a process knows of the world may be old, and timers are due that it could not serve. ``on_gap`` is called before any of them, and before any
message is read, so it may look first.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable

WAIT_S = 0.25
"""The longest wait of the selector, in seconds; a gap is the time beyond it. Chosen: four rounds of an idle loop a second cost nothing."""
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # also counts while the machine sleeps


def _now_s() -> float:
    return time.clock_gettime(_CLOCK)


class _WatchedSelector(selectors.DefaultSelector):
    def __init__(self) -> None:
        super().__init__()
        self.limit_s = 0.0
        """The shortest gap that is reported; 0: none is."""
        self.on_gap: Callable[[], None] = lambda: None
        self._returned_s = _now_s()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(WAIT_S if timeout is None else min(timeout, WAIT_S))
        now_s = _now_s()
        if 0 < self.limit_s < now_s - self._returned_s - WAIT_S:
            self.on_gap()
            now_s = _now_s()
        self._returned_s = now_s
        return found


class WakefulLoop(asyncio.SelectorEventLoop):
    """The event loop of a JobManager, which reports gaps in its execution."""

    def __init__(self) -> None:
        self._watched = _WatchedSelector()
        super().__init__(self._watched)

    def watch_gaps(self, limit_s: float, on_gap: Callable[[], None]) -> None:
        """Calls ``on_gap`` after each gap longer than ``limit_s`` seconds; 0: never. It is called in the loop's thread, which it may block. Callbacks
        that run for so long count too."""
        self._watched.limit_s, self._watched.on_gap = limit_s, on_gap
