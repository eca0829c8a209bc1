"""Calls of the clock are found where a function makes them, and not where the garbage collector calls a library's callback."""

from __future__ import annotations

import gc
import time
from typing import Any

from tidegate.taskmanager.replaying.chance import AskedForChance


def test_a_call_of_the_clock_is_found_with_its_place() -> None:
    asked = AskedForChance()
    with asked.watching():
        time.perf_counter()
    (found,) = asked.found
    assert found.startswith(f"{__file__}:")
    assert found.endswith("calls time.perf_counter()")


def test_what_the_garbage_collector_calls_is_not_the_functions() -> None:
    called = []

    def callback(phase: str, info: dict[str, Any]) -> None:
        called.append(time.perf_counter())

    gc.callbacks.append(callback)
    try:
        asked = AskedForChance()
        with asked.watching():
            gc.collect()
    finally:
        gc.callbacks.remove(callback)
    assert len(called) >= 2
    assert asked.found == []
