"""Waiting for what a benchmark's cluster is to do."""

from __future__ import annotations

import time
from collections.abc import Callable

LOOK_S = 0.02
"""How late a change is seen at most: far less than what is measured with it."""


def wait_until(condition: Callable[[], bool], what: str, limit_s: float) -> float:
    """Returns the moment, in seconds since the epoch. Raises ``RuntimeError`` with ``what`` when it does not come within the limit."""
    limit = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > limit:
            raise RuntimeError(f"not within {limit_s:.0f} s: {what}")
        time.sleep(LOOK_S)
    return time.time()
