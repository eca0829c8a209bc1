"""The interface of a keyed operator's timers, the same for all backends.

A timer is (timestamp, key, namespace); the same one added twice is one timer. Timers are keyed state: frozen, snapshotted, restored and
rescaled like any other, one state for event time and one for processing time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from tidegate.model.values import Key
from tidegate.taskmanager.keyed_state.entry import Namespace

EVENT_TIMERS = "_timers.event"
PROCESSING_TIMERS = "_timers.processing"


@dataclass(frozen=True, slots=True)
class Timer:
    """A timer of a key: when it fires (event time or processing time in ms), and for which key and namespace."""

    timestamp: int
    key: Key
    group: int
    namespace: Namespace


class DueTimers(NamedTuple):
    """Timers of one time that were removed together: their keys, and the key group of each."""

    timestamp: int
    keys: Sequence[Key]
    groups: Sequence[int]


class TimerSet(Protocol):
    """The timers of one time domain, of all keys of a subtask (Flink: ``KeyGroupedInternalPriorityQueue``)."""

    def add(self, timer: Timer) -> None:
        """Adds a timer, unless it exists."""

    def add_all(self, timestamp: int, keys: Sequence[Key], groups: Sequence[int]) -> None:
        """Adds a timer without a namespace for each key, as ``add`` does. ``groups``: the key group of each."""

    def remove(self, timer: Timer) -> None:
        """Removes a timer, if it exists."""

    def first_timestamp(self) -> int | None:
        """Returns when the earliest timer is due; ``None`` if there is none."""

    def last_timestamp(self) -> int:
        """Returns the time of the latest timer, ``MIN_TIMESTAMP`` when there is none. It is slow: it reads many of them."""

    def poll(self, time_ms: int) -> Timer | None:
        """Removes and returns the earliest timer if it is due at ``time_ms``; otherwise returns ``None``. The order of timers of the same time depends on the
        backend.
        """

    def poll_all(self, time_ms: int) -> DueTimers | None:
        """Removes and returns the earliest timers and all others of their time, in the order of ``poll``, if they are due at ``time_ms``; otherwise returns
        ``None``. For operators whose timers have no namespaces.
        """
