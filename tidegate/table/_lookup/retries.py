"""Retries of lookups that found no row (Flink: ``RetryableLookupFunctionDelegator.java``)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidegate.functions.base import RuntimeContext
from tidegate.plan.specs import RetryOptions
from tidegate.table._lookup.port import FoundRows, LookupTable, in_order


@dataclass(frozen=True)
class Retries:
    """A retry policy of lookups: at most ``attempts`` retries, ``delay_s`` after the last try."""

    delay_s: float
    attempts: int

    @staticmethod
    def of(options: RetryOptions | None) -> Retries | None:
        """Returns the retry policy of a plan; ``None``: there are no retries."""
        if options is None or options.fixed_delay is None or not options.max_attempts:
            return None
        return Retries(options.fixed_delay / 1000, options.max_attempts)


class RetriedTable:
    """A lookup table that retries keys without rows. The subtask waits meanwhile, as in Flink."""

    def __init__(self, table: LookupTable, retries: Retries, wait_s: Callable[[float], None] = time.sleep) -> None:
        self._table, self._retries, self._wait_s = table, retries, wait_s

    @property
    def schema(self) -> pa.Schema:
        """Returns the Arrow schema of the rows that the lookup table of a join gives."""
        return self._table.schema

    def open(self, context: RuntimeContext) -> None:
        self._table.open(context)

    def look_up(self, keys: pa.RecordBatch) -> FoundRows:
        """Returns the rows of some keys after all retries."""
        found = self._table.look_up(keys)
        for _ in range(self._retries.attempts):
            missing = np.setdiff1d(np.arange(keys.num_rows), found.keys, assume_unique=False)
            if not len(missing):
                break
            self._wait_s(self._retries.delay_s)
            more = self._table.look_up(keys.take(pa.array(missing)))
            if len(more.keys):
                places = np.concatenate([found.keys, missing[more.keys]])
                found = in_order(places, pa.concat_batches([found.rows, more.rows]))
        return found

    def close(self) -> None:
        self._table.close()


__all__ = ["RetriedTable", "Retries"]
