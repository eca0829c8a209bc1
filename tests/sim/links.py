"""A connection that breaks while both of its ends live, at any step of a schedule in which nothing else fails."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.sim.laws import Law, LawBroken
from tests.sim.schedule import RECONNECT_MS, Mix, Outcome, Schedule
from tests.sim.world import NO_FAULTS

CALM = Mix(stops=0, cancels=0, rescales=1, adaptive=0.0)
CALM_MS = 900
STEPS = 12
"""So many of its steps are tried for each seed, each in a run of its own: other seeds try others."""


class CalmSchedule(Schedule):
    """``at_step``: then it breaks, and comes back in time. ``None``: it does not break."""

    def __init__(self, seed: int, at_step: int | None) -> None:
        super().__init__(seed, CALM)
        self.world.plan = replace(NO_FAULTS, chaos_ms=CALM_MS)
        self.latest_return_ms = RECONNECT_MS // 2
        self.steps = 0
        self._at_step = at_step
        self.links = random.Random(f"links of {seed} at {at_step}")

    def _run_until(self, is_over: Callable[[], bool]) -> None:
        def is_over_now() -> bool:
            self.steps += 1
            if self.steps == self._at_step:
                self.break_link()
            return is_over()

        super()._run_until(is_over_now)


def outcomes(seed: int) -> Iterator[Outcome]:
    """Raises ``LawBroken``, also where a connection that came back in time was a loss."""
    calm = CalmSchedule(seed, None)
    expected = calm.run()
    first = 20 + seed % 7  # TaskManagers have registered by then
    for step in range(first, calm.steps, max(1, calm.steps // STEPS)):
        outcome = CalmSchedule(seed, step).run()
        if outcome.restarts > expected.restarts:
            raise LawBroken(Law.LINK, f"seed {seed}: its connection broke at step {step}, and something restarted")
        yield outcome
