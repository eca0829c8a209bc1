"""Times as cells of a table."""

from __future__ import annotations

from collections.abc import Sequence


def percentiles(times_ms: Sequence[float], shares: Sequence[int]) -> list[str]:
    """The time below which so many percent lie, for each of ``shares``; 100 is the worst. Without any times: dashes."""
    if not times_ms:
        return ["-"] * len(shares)
    times = sorted(times_ms)
    return [f"{times[min(len(times) - 1, len(times) * share // 100)]:.0f}" for share in shares]
