"""Figures over the last quarter of an hour: rings of equal steps, all of a job written at once.

record(now, {scope: {name: value}})    a step; what is missing in it is a gap
show(scope)                            oldest first, with the time of the last step
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping
from typing import TypeAlias

STEP_MS = 5_000
"""Chosen, not measured: rates are over the last five seconds, so a shorter step would show the same twice."""
SAMPLES = 180
"""A quarter of an hour of steps."""
MAX_SERIES = 20_000
"""Chosen, not measured: of a job, 15 MB with 180 values of 4 bytes each. Later ones are left out; those of the job and of vertices come first."""

Scope: TypeAlias = tuple[str, int]
"""What figures belong to: the job (``JOB``), a vertex (its id and -1) or a subtask (its vertex's id and its index)."""
JOB: Scope = ("", -1)


class Series:
    """The rings of one job."""

    def __init__(self) -> None:
        self._rings: dict[Scope, dict[str, array[float]]] = {}
        self._count = 0
        self._at = -1
        self.steps = 0
        """How many were recorded so far."""
        self.last_ms = 0

    def record(self, now_ms: int, told: Iterable[tuple[Scope, Mapping[str, float]]]) -> None:
        """A step of all scopes. ``told`` begins with what matters most."""
        self._at = (self._at + 1) % SAMPLES
        self.steps, self.last_ms = self.steps + 1, now_ms
        for rings in self._rings.values():
            for ring in rings.values():
                ring[self._at] = math.nan
        for scope, values in told:
            rings = self._rings.setdefault(scope, {})
            for name, value in values.items():
                if name not in rings:
                    if self._count >= MAX_SERIES:
                        continue
                    self._count += 1
                    rings[name] = array("f", [math.nan] * SAMPLES)
                rings[name][self._at] = value

    def show(self, scope: Scope) -> dict[str, list[float | None]]:
        """By name, oldest first; a gap is ``None``. As many values as there were steps, at most ``SAMPLES``."""
        kept = min(self.steps, SAMPLES)
        order = [(self._at + 1 + step) % SAMPLES for step in range(SAMPLES - kept, SAMPLES)]
        return {
            name: [None if math.isnan(ring[at]) or math.isinf(ring[at]) else round(ring[at], 4) for at in order]
            for name, ring in self._rings.get(scope, {}).items()
        }
