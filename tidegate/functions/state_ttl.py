"""The time-to-live of keyed state: `StateTtlConfig` (PyFlink: ``pyflink.datastream.state.StateTtlConfig``).

    config = StateTtlConfig.new_builder(Time.days(7)).update_ttl_on_read_and_write().cleanup_full_snapshot().build()
    descriptor.enable_time_to_live(config)

Each value, each element of a list and each entry of a map has a time of its own: when it was written last (or read, if so
configured), in processing time. What is older than the time-to-live is invisible, and is removed when it is found.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from tidegate.common.time import Duration, Time
from tidegate.model.errors import InvalidJob
from tidegate.model.whole_numbers import whole_number

__all__ = ["StateTtlConfig"]

_DEFAULT_CLEANUP_SIZE = 5
"""How many entries are checked at each access (Flink: ``DEFAULT_INCREMENTAL_CLEANUP_STRATEGY``)."""
_DEFAULT_QUERY_AFTER = 1000
"""Flink's default of the compaction filter."""
_DEFAULT_COMPACTION = Duration.of_days(30)
"""Flink's default of the compaction filter."""


class _UpdateType(Enum):
    """Which accesses renew the time-to-live."""

    Disabled = 0
    OnCreateAndWrite = 1
    OnReadAndWrite = 2


class _StateVisibility(Enum):
    """Whether expired values can be read until they are removed."""

    ReturnExpiredIfNotCleanedUp = 0
    NeverReturnExpired = 1


class _TtlTimeCharacteristic(Enum):
    """Which clock the time-to-live follows."""

    ProcessingTime = 0


class _EmptyCleanupStrategy:
    """A strategy without parameters."""


@dataclass(frozen=True, slots=True)
class _IncrementalCleanupStrategy:
    """Checks some entries for expiry at each access of the state."""

    _cleanup_size: int = _DEFAULT_CLEANUP_SIZE
    _for_every_record: bool = False

    def get_cleanup_size(self) -> int:
        """Returns how many entries are checked at a time."""
        return self._cleanup_size

    def run_cleanup_for_every_record(self) -> bool:
        """Returns whether entries are checked at every record, too."""
        return self._for_every_record


@dataclass(frozen=True, slots=True)
class _RocksdbCompactFilterCleanupStrategy:
    """Checks entries of RocksDB in the background, one step for this many accesses."""

    _query_time_after_num_entries: int = _DEFAULT_QUERY_AFTER
    _periodic_compaction_time: Duration = _DEFAULT_COMPACTION

    def get_query_time_after_num_entries(self) -> int:
        """Returns after how many accesses a step is taken."""
        return self._query_time_after_num_entries

    def get_periodic_compaction_time(self) -> Duration:
        """Returns within which time every entry is checked."""
        return self._periodic_compaction_time


@dataclass(frozen=True, slots=True)
class _CleanupStrategies:
    """How expired entries that are never read again are removed."""

    _full_snapshot: bool = False
    _incremental: _IncrementalCleanupStrategy | None = None
    _compact_filter: _RocksdbCompactFilterCleanupStrategy | None = None
    _in_background: bool = True

    EmptyCleanupStrategy = _EmptyCleanupStrategy
    IncrementalCleanupStrategy = _IncrementalCleanupStrategy
    RocksdbCompactFilterCleanupStrategy = _RocksdbCompactFilterCleanupStrategy

    def is_cleanup_in_background(self) -> bool:
        """Returns whether expired entries are removed in the background."""
        return self._in_background

    def in_full_snapshot(self) -> bool:
        """Returns whether full snapshots leave expired entries out."""
        return self._full_snapshot

    def get_incremental_cleanup_strategy(self) -> _IncrementalCleanupStrategy | None:
        """Returns the strategy that was configured, or the default while there is cleanup in the background."""
        return self._incremental or (_IncrementalCleanupStrategy() if self._in_background else None)

    def in_rocksdb_compact_filter(self) -> bool:
        """Returns whether expired entries of RocksDB are removed in the background."""
        return self.get_rocksdb_compact_filter_cleanup_strategy() is not None

    def get_rocksdb_compact_filter_cleanup_strategy(self) -> _RocksdbCompactFilterCleanupStrategy | None:
        """Returns the strategy that was configured, or the default while there is cleanup in the background."""
        return self._compact_filter or (_RocksdbCompactFilterCleanupStrategy() if self._in_background else None)


@dataclass(frozen=True, slots=True)
class StateTtlConfig:
    """How long keyed state lives after its last update (PyFlink: ``StateTtlConfig``). A
    descriptor takes it with ``enable_time_to_live``::

        StateTtlConfig.new_builder(Time.hours(1)).update_ttl_on_read_and_write().build()
    """

    _ttl: Time
    _update_type: _UpdateType = _UpdateType.OnCreateAndWrite
    _visibility: _StateVisibility = _StateVisibility.NeverReturnExpired
    _characteristic: _TtlTimeCharacteristic = _TtlTimeCharacteristic.ProcessingTime
    _cleanup: _CleanupStrategies = field(default_factory=_CleanupStrategies)

    UpdateType = _UpdateType
    StateVisibility = _StateVisibility
    TtlTimeCharacteristic = _TtlTimeCharacteristic
    CleanupStrategies = _CleanupStrategies

    @staticmethod
    def new_builder(ttl: Time | Duration) -> StateTtlConfig.Builder:
        """Returns a builder with this time-to-live. Raises ``InvalidJob`` unless it is positive."""
        return StateTtlConfig.Builder(ttl)

    def get_ttl(self) -> Time:
        """Returns the time to live."""
        return self._ttl

    def get_update_type(self) -> _UpdateType:
        """Returns which accesses renew the time to live."""
        return self._update_type

    def get_state_visibility(self) -> _StateVisibility:
        """Returns whether expired values may still be read until they are removed."""
        return self._visibility

    def get_ttl_time_characteristic(self) -> _TtlTimeCharacteristic:
        """Returns which clock counts: processing time is the only one."""
        return self._characteristic

    def get_cleanup_strategies(self) -> _CleanupStrategies:
        """Returns how expired entries are removed that are never read again."""
        return self._cleanup

    def is_enabled(self) -> bool:
        """Returns whether state expires at all."""
        return self._update_type is not _UpdateType.Disabled

    class Builder:
        """Builds a ``StateTtlConfig``; every method but ``build`` returns the builder."""

        def __init__(self, ttl: Time | Duration) -> None:
            self._fields: dict[str, Any] = {}
            self._cleanup: dict[str, Any] = {}
            self.set_ttl(ttl)

        def set_ttl(self, ttl: Time | Duration) -> StateTtlConfig.Builder:
            """Sets the time to live. Raises ``InvalidJob`` unless it is positive."""
            found = Time.milliseconds(ttl.to_millis()) if isinstance(ttl, Duration) else ttl
            if not isinstance(found, Time) or found.to_milliseconds() <= 0:
                raise InvalidJob(f"a time-to-live must be longer than 0 ms, such as Time.hours(1), not {ttl!r}")
            self._fields["_ttl"] = found
            return self

        def set_update_type(self, update_type: _UpdateType) -> StateTtlConfig.Builder:
            """Sets which accesses renew the time to live."""
            self._fields["_update_type"] = update_type
            return self

        def update_ttl_on_create_and_write(self) -> StateTtlConfig.Builder:
            """Renews the time to live at writes only, as by default."""
            return self.set_update_type(_UpdateType.OnCreateAndWrite)

        def update_ttl_on_read_and_write(self) -> StateTtlConfig.Builder:
            """Renews the time to live at reads, too."""
            return self.set_update_type(_UpdateType.OnReadAndWrite)

        def set_state_visibility(self, state_visibility: _StateVisibility) -> StateTtlConfig.Builder:
            """Sets whether expired values may still be read until they are removed."""
            self._fields["_visibility"] = state_visibility
            return self

        def return_expired_if_not_cleaned_up(self) -> StateTtlConfig.Builder:
            """Lets expired values be read until they are removed."""
            return self.set_state_visibility(_StateVisibility.ReturnExpiredIfNotCleanedUp)

        def never_return_expired(self) -> StateTtlConfig.Builder:
            """Hides expired values at once, as by default."""
            return self.set_state_visibility(_StateVisibility.NeverReturnExpired)

        def set_ttl_time_characteristic(
            self, ttl_time_characteristic: _TtlTimeCharacteristic
        ) -> StateTtlConfig.Builder:
            """Sets which clock counts; processing time is the only one."""
            self._fields["_characteristic"] = ttl_time_characteristic
            return self

        def use_processing_time(self) -> StateTtlConfig.Builder:
            """Counts by the clock of the subtask, as by default."""
            return self.set_ttl_time_characteristic(_TtlTimeCharacteristic.ProcessingTime)

        def cleanup_full_snapshot(self) -> StateTtlConfig.Builder:
            """Leaves expired entries out of full snapshots; they stay in the running job."""
            self._cleanup["_full_snapshot"] = True
            return self

        def cleanup_incrementally(
            self, cleanup_size: int, run_cleanup_for_every_record: bool = False
        ) -> StateTtlConfig.Builder:
            """Checks ``cleanup_size`` more entries at each access of the state, and at each record if that is
            requested. Raises ``InvalidJob`` below 1."""
            cleanup_size = whole_number(cleanup_size, "cleanup_incrementally")
            if cleanup_size <= 0:
                raise InvalidJob(f"cleanup_incrementally needs at least one entry, not {cleanup_size}")
            self._cleanup["_incremental"] = _IncrementalCleanupStrategy(cleanup_size, run_cleanup_for_every_record)
            return self

        def cleanup_in_rocksdb_compact_filter(
            self, query_time_after_num_entries: int, periodic_compaction_time: Duration | None = None
        ) -> StateTtlConfig.Builder:
            """Checks every entry within ``periodic_compaction_time`` (default: 30 days) at the latest."""
            self._cleanup["_compact_filter"] = _RocksdbCompactFilterCleanupStrategy(
                query_time_after_num_entries, periodic_compaction_time or _DEFAULT_COMPACTION
            )
            return self

        def disable_cleanup_in_background(self) -> StateTtlConfig.Builder:
            """Removes expired entries only when they are read, or by a strategy that was chosen."""
            self._cleanup["_in_background"] = False
            return self

        def build(self) -> StateTtlConfig:
            """Returns the configuration."""
            return StateTtlConfig(**self._fields, _cleanup=_CleanupStrategies(**self._cleanup))
