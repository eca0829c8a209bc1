"""Slices of windows that overlap: spans of time that each window contains completely or not at all (Flink: ``SliceAssigners.HoppingSliceAssigner``).

    rows ─▶ one slice each          a window that fires = its slices, merged; those that no later window has are removed

Windows [0, 10), [2, 12), [4, 14), ... have slices [0, 2), [2, 4), [4, 6), ...
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from math import gcd

from tidegate.functions.sql.time_windows import Span, ms_of
from tidegate.plan.specs import HoppingWindow, SlidingGroupWindow, duration_ms


class Slices:
    """The slices of windows of ``size`` that begin every ``slide``, which is less. ``spans_of``: returns the windows of a time. Times are in ms."""

    def __init__(self, size: int, slide: int, spans_of: Callable[[int], Sequence[Span]]) -> None:
        self._slide = slide
        self._length = gcd(size, slide)
        self._spans_of = spans_of

    def of(self, local_ms: int) -> Span:
        """Returns the slice of a time."""
        start = max(self._spans_of(local_ms))[0]  # of the last window, in which a slice begins
        start += (local_ms - start) // self._length * self._length
        return start, start + self._length

    def windows(self, slice: Span) -> list[Span]:
        """Returns the windows that contain a slice, in their order."""
        return sorted(self._spans_of(slice[0]))

    def parts(self, window: Span) -> list[Span]:
        """Returns the slices of a window, in their order."""
        return [(start, start + self._length) for start in range(window[0], window[1], self._length)]

    @cached_property
    def left_behind(self) -> int:
        """The number of slices of a window that the next one does not have."""
        return self._slide // self._length

    def next(self, window: Span) -> Span:
        """Returns the window after a window."""
        return window[0] + self._slide, window[1] + self._slide


def slices_of(window: object, spans_of: Callable[[int], Sequence[Span]]) -> Slices | None:
    """Returns the slices of a window by time; ``None`` where windows do not overlap, or cumulate."""
    match window:
        case HoppingWindow():
            size, slide = duration_ms(window.size), duration_ms(window.slide)
        case SlidingGroupWindow() if window.is_time_window:
            size, slide = ms_of(window.size), ms_of(window.slide)
        case _:
            return None
    return Slices(size, slide, spans_of) if slide < size else None


__all__ = ["Slices", "slices_of"]
