"""Options of a job become the bounds of its exchanges."""

from __future__ import annotations

import math

from tidegate.taskmanager.runtime.environment import RuntimeSettings

DEBLOAT = "taskmanager.network.memory.buffer-debloat"


def test_half_of_the_debloating_target_is_for_the_queue_and_half_for_the_way() -> None:
    texts = {
        f"{DEBLOAT}.target": "100 ms",
        f"{DEBLOAT}.period": "7 ms",
        f"{DEBLOAT}.samples": "3",
        f"{DEBLOAT}.threshold-percentages": "40",
        "tidegate.exchange.channel-credit": "1 mb",
    }
    exchange = RuntimeSettings.of(texts).exchange
    for bounds in (exchange.window, exchange.queue):
        assert bounds.max_work_ms == 50
        assert bounds.max_bytes == 1 << 20
        assert (bounds.period_ms, bounds.samples, bounds.threshold) == (7, 3, 0.4)


def test_without_debloating_only_bytes_bound_what_is_in_flight() -> None:
    exchange = RuntimeSettings.of({f"{DEBLOAT}.enabled": "false"}).exchange
    assert exchange.window.max_work_ms == math.inf
    assert exchange.queue.max_work_ms == math.inf
