"""Windows: an interval of time, a group of records by number, or everything.

A window is a value: it is part of the name of state (the namespace) and of timers, so that two windows that are equal are
one. Times are ms since the epoch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from tidegate.model.channel_events import END_OF_TIME
from tidegate.model.values import AssignedWindow


class Window(ABC):
    """A group of records of one key."""

    __slots__ = ()

    @abstractmethod
    def max_timestamp(self) -> int:
        """Returns the largest timestamp that belongs to the window."""


class MergeReport(Protocol):
    """Receives the windows that are merged."""

    def merge(self, to_be_merged: Iterable[AssignedWindow], merge_result: AssignedWindow) -> None:
        """Reports that the windows ``to_be_merged`` are merged to ``merge_result``."""


class TimeWindow(tuple[int, int], Window):
    """A time window, ``start <= t < end``. A tuple, so that hashing and comparing are fast: each record does both several times."""

    __slots__ = ()

    def __new__(cls, start: int, end: int) -> TimeWindow:
        return tuple.__new__(cls, (start, end))

    def __getnewargs__(self) -> tuple[int, int]:
        return self[0], self[1]

    @property
    def start(self) -> int:
        """Returns the first millisecond in the window."""
        return self[0]

    @property
    def end(self) -> int:
        """Returns the first millisecond after the window."""
        return self[1]

    def max_timestamp(self) -> int:
        return self[1] - 1

    def intersects(self, other: TimeWindow) -> bool:
        """Returns whether the windows overlap or touch."""
        return self.start <= other.end and self.end >= other.start

    def cover(self, other: TimeWindow) -> TimeWindow:
        """Returns the smallest window that contains both."""
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))

    def __repr__(self) -> str:
        return f"TimeWindow(start={self[0]}, end={self[1]})"

    @staticmethod
    def get_window_start_with_offset(timestamp: int, offset: int, window_size: int) -> int:
        """Returns the start of the tumbling window that contains ``timestamp``, also before the epoch."""
        return timestamp - (timestamp - offset) % window_size

    @staticmethod
    def merge_windows(windows: Iterable[TimeWindow], callback: MergeReport) -> None:
        """Reports to ``callback`` each set of windows that overlap or touch, with the window that covers them."""
        covered: TimeWindow | None = None
        together: set[TimeWindow] = set()
        for window in sorted(windows):
            if covered is not None and covered.intersects(window):
                covered = covered.cover(window)
            else:
                if covered is not None and len(together) > 1:
                    callback.merge(together, covered)
                covered, together = window, set()
            together.add(window)
        if covered is not None and len(together) > 1:
            callback.merge(together, covered)


@dataclass(frozen=True, slots=True)
class CountWindow(Window):
    """The group of records of a key with the number ``id``, from 0."""

    id: int

    def max_timestamp(self) -> int:
        return END_OF_TIME


@dataclass(frozen=True, slots=True, repr=False)
class GlobalWindow(Window):
    """The single window that contains everything."""

    @staticmethod
    def get() -> GlobalWindow:
        """Returns the single instance."""
        return _EVERYTHING

    def max_timestamp(self) -> int:
        return END_OF_TIME

    def __repr__(self) -> str:
        return "GlobalWindow"


_EVERYTHING = GlobalWindow()
