"""Limits the share of the JobManager's loop that answers take, so that checkpoints come first when the processor is busy.

    request ─▶ waits for those before it ─▶ waits PAUSE_FACTOR times what the answer before took ─▶ is answered

A loop handles in turn whatever is ready: with more requests than it can answer they would delay each acknowledgement, and each of its further
steps. So no answer follows another at once; and when requests wait long for their turn, which shows that more is asked than the processor can
answer, twelve parts of thirteen are for control.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator

PAUSE_FACTOR = 1.0
"""The pause after an answer, as a multiple of its time: half of the loop is left for control. An answer takes a millisecond or less."""
PRESSED_FACTOR = 12.0
"""The pause after an answer when requests wait long.

An answer costs three times as much outside of what is measured here. With 100 requests a second and 3 % of a processor, four times as many
checkpoints were completed with 12 as without a pause, and two and a half times as many with 4 (docs/benchmarks.md).
"""
WAITED_S = 0.25
"""From this wait on ``PRESSED_FACTOR`` applies: longer than the last of a hundred simultaneous requests waits on a free processor."""
REMEMBERED_S = 5.0
"""How long ``PRESSED_FACTOR`` applies after a long wait. Chosen, not measured: some intervals of checkpoints."""


class Turns:
    """The queue of answers of one loop. ``clock_s`` never decreases."""

    def __init__(
        self,
        clock_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._clock_s = clock_s
        self._sleep = sleep
        self._queue = asyncio.Lock()
        self._free_at_s = 0.0
        self._pressed_until_s = float("-inf")

    async def wait(self) -> None:
        """Waits until this request may be answered: those before it have been, except where they wait for something."""
        came_s = self._clock_s()
        async with self._queue:  # first come, first served
            left_s = self._free_at_s - self._clock_s()
            if left_s > 0:
                await self._sleep(left_s)
            now_s = self._clock_s()
            if now_s - came_s > WAITED_S:
                self._pressed_until_s = now_s + REMEMBERED_S

    @contextlib.contextmanager
    def work(self) -> Iterator[None]:
        """Measures a part of an answer that does not wait for anything, while the block runs."""
        began_s = self._clock_s()
        try:
            yield
        finally:
            now_s = self._clock_s()
            factor = PRESSED_FACTOR if now_s < self._pressed_until_s else PAUSE_FACTOR
            self._free_at_s = now_s + factor * (now_s - began_s)
