"""How a JobManager that stands by tells a client of gRPC where the leader is."""

from __future__ import annotations

from collections.abc import Iterable

LEADER_METADATA = "tidegate-leader"
"""A trailer of UNAVAILABLE: ``host:port`` of the leader's gRPC service."""


def leader_in(metadata: Iterable[tuple[str, object]]) -> str:
    """Returns the address in the trailers of a failed call, or an empty text."""
    return next((str(value) for key, value in metadata if key == LEADER_METADATA), "")
