"""A lookup cache with limits: keeps answers by key (Flink: ``DefaultLookupCache.java``)."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from tidegate.functions.base import RuntimeContext
from tidegate.functions.sql.changelog import INSERT
from tidegate.functions.sql.rows import Row, batch_of, changes_of
from tidegate.model.errors import InvalidJob
from tidegate.model.units import parse_duration_ms
from tidegate.table._lookup.port import FoundRows, LookupTable, in_order

MAX_ROWS: Final = "lookup.partial-cache.max-rows"
AFTER_WRITE: Final = "lookup.partial-cache.expire-after-write"
AFTER_ACCESS: Final = "lookup.partial-cache.expire-after-access"
MISSING_KEYS: Final = "lookup.partial-cache.cache-missing-key"
OPTIONS: Final = frozenset({MAX_ROWS, AFTER_WRITE, AFTER_ACCESS, MISSING_KEYS})


@dataclass(frozen=True)
class CacheLimits:
    """Limits of a partial lookup cache; ``None``: no limit. ``max_keys``: Flink's option calls it rows, and counts keys."""

    max_keys: int | None = None
    after_write_ms: int | None = None
    after_access_ms: int | None = None
    keeps_missing_keys: bool = True

    @staticmethod
    def of(options: Mapping[str, str]) -> CacheLimits:
        """Reads the limits from the options of a table. Raises ``InvalidJob`` that names the option."""
        most = options.get(MAX_ROWS)
        if most is not None and (not most.isdecimal() or int(most) < 1):
            raise InvalidJob(f"Invalid value for option '{MAX_ROWS}': '{most}' is not a whole number from 1")
        missing = options.get(MISSING_KEYS, "true").lower()
        if missing not in ("true", "false"):
            raise InvalidJob(f"Invalid value for option '{MISSING_KEYS}': '{missing}' is not true or false")
        limits = CacheLimits(
            None if most is None else int(most),
            _duration_ms(options, AFTER_WRITE),
            _duration_ms(options, AFTER_ACCESS),
            missing == "true",
        )
        if limits.max_keys is None and limits.after_write_ms is None and limits.after_access_ms is None:
            raise InvalidJob(
                f"Missing option: a cache that is PARTIAL needs a bound, '{MAX_ROWS}', '{AFTER_WRITE}' or '{AFTER_ACCESS}'"
            )
        return limits


def _duration_ms(options: Mapping[str, str], key: str) -> int | None:
    if key not in options:
        return None
    try:
        return parse_duration_ms(options[key])
    except ValueError:
        raise InvalidJob(
            f"Invalid value for option '{key}': '{options[key]}' is not a duration, such as 10 min"
        ) from None


class PartialCache:
    """Caches the rows of keys; evicts the least recently used key first."""

    def __init__(self, limits: CacheLimits) -> None:
        self._limits = limits
        self._held: OrderedDict[Row, tuple[Sequence[Row], int, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    def get(self, key: Row, now_ms: int) -> Sequence[Row] | None:
        """Returns the cached rows of a key; ``None``: it is not cached, or has expired."""
        found = self._held.get(key)
        if found is None:
            return None
        rows, written_ms, read_ms = found
        limits = self._limits
        is_old = limits.after_write_ms is not None and now_ms - written_ms >= limits.after_write_ms
        if is_old or (limits.after_access_ms is not None and now_ms - read_ms >= limits.after_access_ms):
            del self._held[key]
            return None
        if limits.after_access_ms is not None:
            self._held[key] = rows, written_ms, now_ms
        self._held.move_to_end(key)
        return rows

    def put(self, key: Row, rows: Sequence[Row], now_ms: int) -> None:
        """Caches the rows found for a key; an empty result only if that is configured."""
        if not rows and not self._limits.keeps_missing_keys:
            return
        self._held[key] = rows, now_ms, now_ms
        self._held.move_to_end(key)
        if self._limits.max_keys is not None and len(self._held) > self._limits.max_keys:
            self._held.popitem(last=False)


def clock_ms() -> int:
    """Returns the time in ms by which answers expire: that since the machine started."""
    return time.monotonic_ns() // 1_000_000


class CachedTable:
    """A lookup table whose answers are cached in the subtask."""

    def __init__(self, table: LookupTable, limits: CacheLimits, now_ms: Callable[[], int] = clock_ms) -> None:
        self._table, self._limits, self._now_ms = table, limits, now_ms
        self._cache = PartialCache(limits)

    @property
    def schema(self) -> pa.Schema:
        """Returns the schema of the rows that are found."""
        return self._table.schema

    def open(self, context: RuntimeContext) -> None:
        """Opens the table, with an empty cache."""
        self._cache = PartialCache(self._limits)
        self._table.open(context)

    def look_up(self, keys: pa.RecordBatch) -> FoundRows:
        """Returns the rows of keys, from the cache or else from the table."""
        now_ms, get = self._now_ms(), self._cache.get
        wanted = [key for _, key in changes_of(keys)]
        kept = [get(key, now_ms) for key in wanted]
        places = np.array([place for place, rows in enumerate(kept) if rows for _ in rows], np.int64)
        found = FoundRows(places, batch_of([(INSERT, row) for rows in kept if rows for row in rows], self.schema))
        unknown = np.array([place for place, rows in enumerate(kept) if rows is None], np.int64)
        if not len(unknown):
            return found
        fresh = self._table.look_up(keys.take(pa.array(unknown)))
        rows_of: list[list[Row]] = [[] for _ in unknown]
        for place, (_, row) in zip(fresh.keys.tolist(), changes_of(fresh.rows), strict=True):
            rows_of[place].append(row)
        now_ms = self._now_ms()
        for place, rows in zip(unknown.tolist(), rows_of, strict=True):
            self._cache.put(wanted[place], rows, now_ms)
        both = pa.concat_batches([found.rows, fresh.rows])
        return in_order(np.concatenate([found.keys, unknown[fresh.keys]]), both)

    def close(self) -> None:
        self._table.close()


__all__ = ["OPTIONS", "CacheLimits", "CachedTable", "PartialCache", "clock_ms"]
