"""Time series over the last quarter of an hour: rings of equal steps, all of a job written at once.

record(now, {scope: {name: value}})    a step; what is missing in it is a gap
show(scope)                            oldest first, with the time of the last step
values(scope, name, steps)             those of the last steps, without the gaps
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping
from typing import TypeAlias

STEP_MS = 5_000
"""The length of a step in ms. Chosen, not measured: rates cover the last five seconds, so a shorter step would show the same twice."""
SAMPLES = 180
"""How many steps are kept: a quarter of an hour."""
MAX_SERIES = 20_000
"""How many series a job may have. Chosen, not measured: 15 MB with 180 values of 4 bytes each. Those of the job and of vertices come first."""

Scope: TypeAlias = tuple[str, int]
"""The owner of a series: the job (``JOB``), a vertex (its id and -1) or a subtask (its vertex's id and its index)."""
JOB: Scope = ("", -1)


class Series:
    """The time series of one job."""

    def __init__(self) -> None:
        self._rings: dict[Scope, dict[str, array[float]]] = {}
        self._count = 0
        self._at = -1
        self.steps = 0
        """How many steps were recorded so far."""
        self.last_ms = 0

    def record(self, now_ms: int, samples: Iterable[tuple[Scope, Mapping[str, float]]]) -> None:
        """Records one step of all scopes; ``samples`` is ordered by importance, since later series may be left out."""
        self._at = (self._at + 1) % SAMPLES
        self.steps, self.last_ms = self.steps + 1, now_ms
        for rings in self._rings.values():
            for ring in rings.values():
                ring[self._at] = math.nan
        for scope, values in samples:
            rings = self._rings.setdefault(scope, {})
            for name, value in values.items():
                if name not in rings:
                    if self._count >= MAX_SERIES:
                        continue
                    self._count += 1
                    rings[name] = array("f", [math.nan] * SAMPLES)
                rings[name][self._at] = value

    def show(self, scope: Scope) -> dict[str, list[float | None]]:
        """Returns the series of a scope by name, oldest first; a gap is ``None``. At most ``SAMPLES`` values."""
        kept = min(self.steps, SAMPLES)
        order = [(self._at + 1 + step) % SAMPLES for step in range(SAMPLES - kept, SAMPLES)]
        return {
            name: [None if math.isnan(ring[at]) or math.isinf(ring[at]) else round(ring[at], 4) for at in order]
            for name, ring in self._rings.get(scope, {}).items()
        }

    def values(self, scope: Scope, name: str, steps: int = SAMPLES) -> list[float]:
        """Returns one series over the last steps, oldest first, without its gaps."""
        ring = self._rings.get(scope, {}).get(name)
        if ring is None:
            return []
        kept = min(self.steps, steps, SAMPLES)
        found = (ring[(self._at + 1 + step) % SAMPLES] for step in range(SAMPLES - kept, SAMPLES))
        return [value for value in found if math.isfinite(value)]
