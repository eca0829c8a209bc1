"""The leader's address in the gRPC answers of a standby JobManager."""

from __future__ import annotations

from collections.abc import Iterable

LEADER_METADATA = "tidegate-leader"
"""The trailer of an UNAVAILABLE answer with the leader's gRPC address ``host:port``."""


def leader_in(metadata: Iterable[tuple[str, object]]) -> str:
    """Returns the leader's address in the trailers of a failed call, or an empty text."""
    return next((str(value) for key, value in metadata if key == LEADER_METADATA), "")
