"""Finds the JobManager that leads: before each attempt to register, and watched while registered (Flink: ``LeaderRetrievalService``)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from tidegate.aio.pool import Pool
from tidegate.high_availability.drivers import make_retrieval, storage_directory
from tidegate.high_availability.port import Retrieval
from tidegate.model.configuration import Configuration
from tidegate.model.errors import TidegateError, Unreachable
from tidegate.model.options import HighAvailabilityOptions, HighAvailabilityType

LOOK_S = 1.0
"""Seconds between two checks of the leader while registered. A leader that ends breaks its connections, which is noticed at once; this is for one that hangs or
is cut off, and whose successor had to wait for the end of its session, which takes longer.
"""
ANSWER_S = 20.0
"""Seconds for one answer of the store: it connects first, for which ZooKeeper is given 15 s by default."""


class LeaderRetrieval(Protocol):
    """Finds the address of the leading JobManager."""

    async def address(self) -> str:
        """Returns ``host:port`` of the last known leader, which may have been deposed meanwhile. Raises ``TidegateError`` while there is no leader, or it
        cannot be looked up.
        """

    async def moved(self, address: str) -> str:
        """Waits until the leader is elsewhere than at ``address``; returns its address."""

    async def close(self) -> None:
        """Closes its connections."""


class StandaloneLeaderRetrieval:
    """Returns the configured address as the leader's: a JobManager that takes over has the ports of the one before (Flink:
    ``StandaloneLeaderRetrievalService``).
    """

    def __init__(self, address: str) -> None:
        self._address = address

    async def address(self) -> str:
        return self._address

    async def moved(self, address: str) -> str:
        never: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        return await never

    async def close(self) -> None:
        """Does nothing, as nothing is open."""


class StoredLeaderRetrieval:
    """Reads the leader's address from the cluster's store. A store that does not answer blocks a thread only, which ends with the process."""

    def __init__(self, retrieval: Retrieval, look_s: float = LOOK_S) -> None:
        self._retrieval = retrieval
        self._look_s = look_s
        self._pool = Pool(1, "leader-retrieval")

    async def address(self) -> str:
        try:
            async with asyncio.timeout(ANSWER_S):
                leader = await self._pool.submit(self._retrieval.leader)
        except TimeoutError:
            raise Unreachable(f"the store of the cluster did not say within {ANSWER_S:g} s who leads") from None
        if leader is None:
            raise Unreachable("no JobManager leads this cluster just now")
        return leader.contact.rpc

    async def moved(self, address: str) -> str:
        while True:
            await asyncio.sleep(self._look_s)
            try:
                found = await self.address()
            except TidegateError:
                continue  # whoever led goes on, as long as its connection holds
            if found != address:
                return found

    async def close(self) -> None:
        self._pool.submit(self._retrieval.close)
        self._pool.close()


def make_leader_retrieval(configuration: Configuration, address: Callable[[Configuration], str]) -> LeaderRetrieval:
    """Makes the retrieval that the high-availability configuration selects. Raises ``ConfigurationError``.

    ``address``: returns the address of a JobManager without high availability, or of one that keeps its jobs on a disk that is not this machine's.
    """
    kind = configuration.get(HighAvailabilityOptions.TYPE)
    if kind is HighAvailabilityType.NONE:
        return StandaloneLeaderRetrieval(address(configuration))
    if kind is HighAvailabilityType.FILESYSTEM and not Path(storage_directory(configuration)).is_dir():
        return StandaloneLeaderRetrieval(address(configuration))
    return StoredLeaderRetrieval(make_retrieval(configuration))
