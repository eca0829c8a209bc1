"""Keys without a row are asked for again (Flink: ``RetryableLookupFunctionDelegator.java``)."""

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
    """``attempts``: so often again, ``delay_s`` behind the last time."""

    delay_s: float
    attempts: int

    @staticmethod
    def of(options: RetryOptions | None) -> Retries | None:
        """``None``: nothing is asked for again."""
        if options is None or options.fixed_delay is None or not options.max_attempts:
            return None
        return Retries(options.fixed_delay / 1000, options.max_attempts)


class RetriedTable:
    """A table that is asked again for the keys that it has no row of. The subtask waits meanwhile, as in Flink."""

    def __init__(self, table: LookupTable, retries: Retries, wait_s: Callable[[float], None] = time.sleep) -> None:
        self._table, self._retries, self._wait_s = table, retries, wait_s

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows that are found."""
        return self._table.schema

    def open(self, context: RuntimeContext) -> None:
        """Opens the table."""
        self._table.open(context)

    def look_up(self, keys: pa.RecordBatch) -> FoundRows:
        """The rows of some keys, as they were found in the end."""
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
        """Closes the table."""
        self._table.close()


__all__ = ["RetriedTable", "Retries"]
