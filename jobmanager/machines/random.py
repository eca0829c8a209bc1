"""SplitMix64 random numbers as a pure machine. The seed (``GenerationStarted.seed``) is the only source of randomness, so that a run can be
repeated.
"""

from __future__ import annotations

_MASK = (1 << 64) - 1
"""The lowest 64 bits: SplitMix64 counts modulo 2**64."""


class SplitMix64:
    """A generator of random numbers that depend on the seed alone."""

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def bits(self) -> int:
        """Returns 64 random bits."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        mixed = self._state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return mixed ^ (mixed >> 31)

    def integer(self, first: int, last: int) -> int:
        """Returns a uniformly distributed integer from ``first`` to ``last``, both inclusive."""
        return first + self.bits() % (last - first + 1)

    def fraction(self) -> float:
        """Returns a uniformly distributed number in [0, 1)."""
        return (self.bits() >> 11) / (1 << 53)
