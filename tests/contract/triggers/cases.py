"""Sequences of records, watermarks and times of the clock for every trigger on every kind of window."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

ASSIGNERS: list[list[Any]] = [
    ["TumblingEventTimeWindows", 10],
    ["SlidingEventTimeWindows", 10, 5],
    ["EventTimeSessionWindows", 5],
    ["TumblingProcessingTimeWindows", 10],
    ["SlidingProcessingTimeWindows", 10, 5],
    ["ProcessingTimeSessionWindows", 5],
    ["GlobalWindows"],
]
OF_TIME_WINDOWS = ("EventTimeTrigger", "ProcessingTimeTrigger")
"""In Java they take no global window."""
TRIGGERS: list[list[Any]] = [
    ["EventTimeTrigger"],
    ["ContinuousEventTimeTrigger", 3],
    ["ProcessingTimeTrigger"],
    ["ContinuousProcessingTimeTrigger", 4],
    ["CountTrigger", 2],
]
EVENTS = 40
LEADS = (0, 12, -12)
"""How far the clock is ahead of event time: as far, by more than a window, and behind by as much."""


def cases() -> list[dict[str, Any]]:
    """All of them; the same at each call."""
    triggers = [one for plain in TRIGGERS for one in (plain, ["PurgingTrigger", plain])]
    found = []
    for seed, (assigner, trigger, lead) in enumerate(itertools.product(ASSIGNERS, triggers, LEADS)):
        plain = trigger[1] if trigger[0] == "PurgingTrigger" else trigger
        if assigner == ["GlobalWindows"] and plain[0] in OF_TIME_WINDOWS:
            continue
        latenesses = (0, 7) if "Event" in assigner[0] else (0,)
        for lateness in latenesses:
            events = list(_events(random.Random(f"{seed} {lateness}"), lead))
            found.append({"assigner": assigner, "trigger": trigger, "lateness": lateness, "events": events})
    return found


def _events(random: random.Random, lead: int) -> Iterator[list[Any]]:
    """``["record", time, key, value]``, ``["watermark", time]`` and ``["clock", time]``; at the end all timers but those of ``GlobalWindows``
    are due."""
    at, watermark, clock = 20, 0, 0
    for value in range(EVENTS):
        at += random.randrange(3)
        match random.randrange(6):
            case 0 if at - 6 > watermark:
                watermark = at - random.randrange(6)
                yield ["watermark", watermark]
            case 1 | 2 if at + lead > clock:
                clock = at + lead
                yield ["clock", clock]
            case _:
                yield ["record", max(0, at - random.randrange(8)), random.choice("ab"), value]
    yield ["clock", 120 if lead > 0 else clock]
    yield ["watermark", 120]
    yield ["clock", 240]
