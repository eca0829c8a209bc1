"""The world of a simulation: virtual time, one source of chance, one queue of what happens next, and the faults.

Everything that is random is drawn from ``rng``, so a schedule is its seed. Faults are data (``FaultPlan``); after ``heal`` the
world is perfect, and then liveness is demanded.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

Action = Callable[[], None]


class Outage(Enum):
    """What the checkpoint storage does for a while. A full disk refuses writes, and deletes all the same."""

    FULL = "No space left on device"
    DENIED = "Permission denied"
    SLOW = "slow"


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """Probabilities per message or write, and the number of big faults during the time of chaos."""

    chaos_ms: int
    lose: float
    duplicate: float
    slow: float
    storage_fails: float
    storage_unknown: float
    storage_torn: float
    storage_rots: float
    """What was written once cannot be read when it is needed; somebody brings it back later."""
    aimed: float
    """A task is killed at a delicate moment: between acknowledgements, before ``_metadata``, before or during the commit."""
    task_crashes: int
    task_manager_crashes: int
    partitions: int
    jobmanager_crashes: int
    outages: tuple[tuple[int, int, Outage], ...]
    """From, until (both in ms of virtual time), and what."""


def draw_fault_plan(rng: random.Random) -> FaultPlan:
    chaos_ms = rng.randint(1_200, 2_600)
    return FaultPlan(
        chaos_ms=chaos_ms,
        lose=rng.choice((0.0, 0.02, 0.08)),
        duplicate=rng.choice((0.0, 0.03, 0.1)),
        slow=rng.choice((0.0, 0.05, 0.15)),
        storage_fails=rng.choice((0.0, 0.05, 0.15)),
        storage_unknown=rng.choice((0.0, 0.1, 0.3)),
        storage_torn=rng.choice((0.0, 0.0, 0.1)),
        storage_rots=rng.choice((0.0, 0.0, 0.05)),
        aimed=rng.choice((0.0, 0.05, 0.2)),
        task_crashes=rng.randint(1, 2),
        task_manager_crashes=rng.randint(1, 2),
        partitions=rng.randint(1, 2),
        jobmanager_crashes=rng.choice((0, 0, 1, 1, 2)),
        outages=tuple(_draw_outage(rng, chaos_ms) for _ in range(rng.choice((0, 1, 1, 2)))),
    )


def _draw_outage(rng: random.Random, chaos_ms: int) -> tuple[int, int, Outage]:
    start_ms = rng.randint(50, chaos_ms)
    return start_ms, start_ms + rng.randint(50, 500), rng.choice(tuple(Outage))


NO_FAULTS = FaultPlan(0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0, 0, 0, 0, ())


class World:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.plan = draw_fault_plan(self.rng)
        self.is_healed = False
        self.now_ms = 0
        self.events = 0
        self.faults = 0
        self._queue: list[tuple[int, int, Action]] = []
        self._order = 0

    def later(self, delay_ms: int, action: Action) -> None:
        self._order += 1
        heapq.heappush(self._queue, (self.now_ms + delay_ms, self._order, action))

    def step(self) -> bool:
        """Let the next thing happen; ``False`` when nothing is left."""
        if not self._queue:
            return False
        self.now_ms, _, action = heapq.heappop(self._queue)
        self.events += 1
        action()
        return True

    def heal(self) -> None:
        self.plan, self.is_healed = NO_FAULTS, True

    def chance(self, probability: float) -> bool:
        """A fault that is drawn; counted when it strikes."""
        if probability > 0 and self.rng.random() < probability:
            self.faults += 1
            return True
        return False

    def between(self, least: int, most: int) -> int:
        """A random whole number, ends included. (``randint`` takes three times as long, and this is asked all the time.)"""
        return least + int(self.rng.random() * (most - least + 1))

    def message_delay_ms(self) -> int:
        if self.chance(self.plan.slow):
            return self.between(20, 150)
        return self.between(1, 5)

    def outage(self, *kinds: Outage) -> Outage | None:
        """Which of these troubles the storage has now; counted, since somebody met it."""
        for start_ms, end_ms, kind in self.plan.outages:
            if kind in kinds and start_ms <= self.now_ms < end_ms:
                self.faults += 1
                return kind
        return None
