"""State with a time to live (TTL): each value, list element or map entry is stored with the time of its last write (or read).

    kind                        in memory                    on disk, besides ``value``
    value, reducing, ...        (value, ms)                  ttl_ms: int64
    list                        [(element, ms), ...]         ttl_ms: list<int64>, one for each element
    map                         {key: (value, ms)}           ttl_ms: list<int64>, one for each entry, in their order

Processing time; expired when ``ms + ttl <= now`` (Flink: ``TtlUtils.java``). A null ``ttl_ms`` is state that was written
before it had a time-to-live: its time begins at the restore (as since Flink 2.2).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from tidegate.functions.state_ttl import StateTtlConfig
from tidegate.model.values import StateValue
from tidegate.taskmanager.keyed_state.entry import Entry

Kept = Mapping[Entry, StateValue]
"""The stored values by entry."""
Now = Callable[[], int]


@dataclass(frozen=True, slots=True)
class Ttl:
    """The TTL settings of a state, from a ``StateTtlConfig``. ``sweep_size``: entries checked for expiry at each access, 0 for none."""

    ms: int
    is_renewed_by_reads: bool = False
    shows_expired: bool = False
    in_full_snapshot: bool = False
    sweep_size: int = 0
    sweeps_every_record: bool = False

    @staticmethod
    def of(config: StateTtlConfig | None) -> Ttl | None:
        if config is None:
            return None
        cleanup = config.get_cleanup_strategies()
        incremental = cleanup.get_incremental_cleanup_strategy()
        return Ttl(
            ms=config.get_ttl().to_milliseconds(),
            is_renewed_by_reads=config.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite,
            shows_expired=config.get_state_visibility() is StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp,
            in_full_snapshot=cleanup.in_full_snapshot(),
            sweep_size=incremental.get_cleanup_size() if incremental else 0,
            sweeps_every_record=incremental is not None and incremental.run_cleanup_for_every_record(),
        )

    def is_expired(self, stamp: int, now_ms: int) -> bool:
        return stamp + self.ms <= now_ms

    def living(self, kind: str, stored: StateValue, now_ms: int) -> StateValue:
        """Returns what is left of an entry: the stored value itself when nothing in it has expired, ``None`` when everything has."""
        last = now_ms - self.ms
        if kind == "list":
            kept = [pair for pair in stored if pair[1] > last]
            return stored if len(kept) == len(stored) else kept or None
        if kind == "map":
            left = {key: pair for key, pair in stored.items() if pair[1] > last}
            return stored if len(left) == len(stored) else left or None
        return stored if stored[1] > last else None

    def without_expired(self, kind: str, entries: Kept, now_ms: int) -> Kept:
        left = {entry: self.living(kind, stored, now_ms) for entry, stored in entries.items()}
        return {entry: stored for entry, stored in left.items() if stored is not None}


class Sweep(Protocol):
    """Cleans up expired entries in small steps, each bounded by ``count`` entries. After the last entry it begins again."""

    def __call__(self, count: int, now_ms: int) -> None: ...


def stamps_of(kind: str, stored: StateValue) -> StateValue:
    """Returns the content of the column ``ttl_ms`` for one entry."""
    if kind == "list":
        return [stamp for _, stamp in stored]
    if kind == "map":
        return [stamp for _, stamp in stored.values()]
    return stored[1]


def plain(kind: str, stored: StateValue) -> StateValue:
    """Returns the content of the column ``value`` for one entry."""
    if kind == "list":
        return [element for element, _ in stored]
    if kind == "map":
        return {key: value for key, (value, _) in stored.items()}
    return stored[0]


def stamped(kind: str, value: StateValue, stamps: StateValue, now_ms: int) -> StateValue:
    """Combines a value with its times: the inverse of ``plain`` and ``stamps_of``. ``stamps``: ``None`` for state that was written without a TTL."""
    if kind == "list":
        times = stamps if stamps is not None else [now_ms] * len(value)
        return list(zip(value, times, strict=True))
    if kind == "map":
        times = stamps if stamps is not None else [now_ms] * len(value)
        return {key: (part, ms) for (key, part), ms in zip(value.items(), times, strict=True)}
    return (value, now_ms if stamps is None else stamps)
