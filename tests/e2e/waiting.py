"""Waiting for conditions: every wait has a limit and says what it waited for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

HANG_LIMIT_S = 120
"""For what takes seconds on an idle machine: a limit against hanging, not a figure. Other tests may have the processors meanwhile."""
_LOOK_EVERY_S = 0.02
_never = threading.Event()


def wait_until(condition: Callable[[], T], limit_s: float, what: str | Callable[[], str]) -> T:
    """The first true value of ``condition``. Raises ``AssertionError`` that says what did not happen (told when it is known)."""
    deadline = time.monotonic() + limit_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            told = what if isinstance(what, str) else what()
            raise AssertionError(f"not within {limit_s:g} s: {told} (last seen: {value!r})")
        _never.wait(_LOOK_EVERY_S)
