"""The rows that every contender of the window benchmark reads: a function of the row's number, so that nobody has an
easier input. 24 bytes a row: key (int64), value (int64), timestamp (int64, ms).

The numbers are dealt to ``parallelism`` sources in contiguous ranges; event time runs from 0 within each of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

KEYS = 10_000
WINDOW_MS = 5_000
ROWS_PER_MS = 500
"""Of one source."""

SCHEMA = pa.schema([("key", pa.int64()), ("value", pa.int64()), ("ts", pa.int64())])


@dataclass(frozen=True)
class Rows:
    """``generate(first, count)`` for ``rows`` rows dealt to ``parallelism`` sources; ``keys``: how many keys there are."""

    rows: int
    parallelism: int
    keys: int = KEYS

    def __call__(self, first: int, count: int) -> pa.RecordBatch:
        number = np.arange(first, first + count, dtype=np.int64)
        key = number * 7919 % self.keys
        value = number & 1023
        ts = (number % (self.rows // self.parallelism)) // ROWS_PER_MS
        return pa.RecordBatch.from_arrays([pa.array(key), pa.array(value), pa.array(ts)], schema=SCHEMA)
