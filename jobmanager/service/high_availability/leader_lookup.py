"""Looks up the leader and the standbys in the cluster's store without blocking the loop; answers are cached briefly."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

from tidegate.aio.pool import Pool
from tidegate.high_availability.port import Retrieval
from tidegate.model.errors import TidegateError
from tidegate.model.leadership import Contact, Leader

KEPT_S = 0.5
"""How long an answer is cached, in seconds. Chosen, not measured: a page and several clients ask at the same time, and a failover takes longer."""
ANSWER_S = 5.0
"""The timeout of a look-up, in seconds. Chosen, not measured: a client waits for this answer."""

T = TypeVar("T")


class LeaderLookup:
    """Looks up leader and standbys in one thread; a store that does not answer blocks only that. Belongs to the loop's thread."""

    def __init__(self, retrieval: Retrieval, clock: Callable[[], float] = time.monotonic) -> None:
        """Creates a look-up without cached answers. ``clock``: in seconds."""
        self._retrieval = retrieval
        self._clock = clock
        self._pool = Pool(1, "leader-lookup")
        self._leader: tuple[float, Leader | None] | None = None
        self._standbys: tuple[float, list[Contact]] | None = None

    async def leader(self) -> Leader | None:
        """Returns the leader; ``None`` when there is none, or the store does not answer."""
        if self._leader is None or self._clock() - self._leader[0] >= KEPT_S:
            self._leader = (self._clock(), await self._looked_up(self._retrieval.leader, None))
        return self._leader[1]

    async def standbys(self) -> list[Contact]:
        """Returns the standbys, the next leader first; empty when the store does not answer."""
        if self._standbys is None or self._clock() - self._standbys[0] >= KEPT_S:
            self._standbys = (self._clock(), await self._looked_up(self._retrieval.standbys, []))
        return self._standbys[1]

    async def close(self) -> None:
        self._pool.submit(self._retrieval.close)
        self._pool.close()

    async def _looked_up(self, call: Callable[[], T], otherwise: T) -> T:
        try:
            async with asyncio.timeout(ANSWER_S):
                return await self._pool.submit(call)
        except (TidegateError, TimeoutError):
            return otherwise
