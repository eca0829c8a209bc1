"""Where the JobManager that leads is: asked before each try to register (Flink: ``LeaderRetrievalService``)."""

from __future__ import annotations

from typing import Protocol


class LeaderRetrieval(Protocol):
    async def address(self) -> str:
        """Returns ``host:port`` of the last known leader, which may have been deposed meanwhile. Raises ``TidegateError`` while there is no
        leader, or it cannot be looked up."""


class StandaloneLeaderRetrieval:
    """The leader is always at ``jobmanager.rpc.address``: a JobManager that takes the lead has the ports of the one before (Flink: ``StandaloneLeaderRetrievalService``)."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def address(self) -> str:
        return self._address
