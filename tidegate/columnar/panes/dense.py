"""Partials whose key is one integer in a range that is mostly in use, added up in arrays by key until a checkpoint or
the end of their window makes rows of them.

    add ─▶ an array for each column and window, by key ─▶ take: rows, each (window, key) once
      └▶ anything else is given back: the state holds it as rows

Rows that the state holds are sorted, and merged about twice, before their window fires; here a row is one scatter for each column. Partials
are additive, so that a key may have some here and some in the state. Nothing here survives anything: before the state is frozen it is given what
is here, which makes it the delta of an incremental checkpoint as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.columnar.aggregates.plan import AggregatePlan
from tidegate.columnar.grouping import identity, scatter, typed
from tidegate.columnar.keys.codes import integer_view, numbers_of, range_decoder
from tidegate.columnar.numpy_column import NumpyColumn
from tidegate.columnar.runs.memory import windows_of

MAX_PLACES = 1 << 22
"""A window has at most so many, each of 8 bytes for each column: with more, a scatter misses every cache."""
PLACES_OF_ROW = 4
"""Arrays have at most so many places for each row that is known, so that most of their memory is in use at a parallelism of up to four."""
MAX_BYTES = 128 << 20
"""The arrays of all windows take at most so much where memory is not bounded."""
BUDGET_SHARE = 4
"""The part of a budget that arrays may take."""
MIN_ROWS = 1 << 10
"""A batch has at least so many for each window that it spreads over: with fewer, what is done once for each window costs more than its rows do."""

Int64s = npt.NDArray[np.int64]


@dataclass(slots=True)
class _Window:
    """``values[i][code]``: partial i of the key ``low + code``, where ``is_present[code]``."""

    low: int
    is_present: npt.NDArray[np.bool_]
    values: list[NumpyColumn]

    @property
    def nbytes(self) -> int:
        return self.is_present.nbytes + sum(values.nbytes for values in self.values)

    def covers(self, low: int, high: int) -> bool:
        return self.low <= low and high < self.low + len(self.is_present)


class DenseWindows:
    """``plan`` is one of partials ``by_window``; ``budget_bytes``: of the state's memory, 0: not bounded. ``state_rows`` tells how many rows the
    state holds."""

    def __init__(self, plan: AggregatePlan, state_rows: Callable[[], int], budget_bytes: int = 0) -> None:
        self._plan = plan
        self._state_rows = state_rows
        self._limit_bytes = budget_bytes // BUDGET_SHARE or MAX_BYTES
        self._windows: dict[int, _Window] = {}
        self._last_rows = 0
        """Rows of the fullest window when windows were last taken."""
        key = pa.array([], plan.key_types[1]) if len(plan.keys) == 2 else None
        self._integers = None if key is None or plan.is_joint else integer_view(key)

    @property
    def rows(self) -> int:
        """Returns how many (window, key) there are."""
        return sum(int(np.count_nonzero(window.is_present)) for window in self._windows.values())

    @property
    def nbytes(self) -> int:
        """Returns the bytes of all arrays."""
        return sum(window.nbytes for window in self._windows.values())

    def add(self, partials: pa.RecordBatch) -> pa.RecordBatch | None:
        """Adds the partials up, or returns them all, for the state to hold: where they are few, their keys lie too far apart, or memory is
        short."""
        if self._integers is None or partials.num_rows < MIN_ROWS:
            return partials
        if any(column.null_count for column in partials.columns[1:]):
            return partials
        keys, numbers = numbers_of(partials.column(1)), windows_of(partials)
        low, high = int(keys.min()), int(keys.max())
        first, last = int(numbers.min()), int(numbers.max())
        if len(keys) < MIN_ROWS * (last - first + 1) or not self._is_narrow(
            low, high, max(self._state_rows(), self._last_rows)
        ):
            return partials
        opened = [number for number in range(first, last + 1) if number not in self._windows]
        if opened and self.nbytes + len(opened) * self._bytes_of(low, high) > self._limit_bytes:
            return partials
        if any(not found.covers(low, high) for number, found in self._windows.items() if first <= number <= last):
            return partials
        codes = keys.astype(np.int64, copy=False)
        columns = [numbers_of(column) for column in partials.columns[2:]]
        if first == last:
            self._add(first, low, high, codes, columns)
            return None
        for number in range(first, last + 1):
            rows = np.flatnonzero(numbers == number)
            if len(rows):
                self._add(number, low, high, codes[rows], [column[rows] for column in columns])
        return None

    def holds_up_to(self, last: int) -> bool:
        """Returns whether any window up to number ``last`` has rows."""
        return any(number <= last for number in self._windows)

    def take(self, last: int | None = None) -> Iterator[pa.RecordBatch]:
        """Gives the windows up to number ``last`` as rows, in order, and forgets them. ``None``: all windows."""
        numbers = sorted(number for number in self._windows if last is None or number <= last)
        if numbers:
            self._last_rows = 0
        for number in numbers:
            yield self._rows_of(number, self._windows.pop(number))

    def _is_narrow(self, low: int, high: int, rows: int) -> bool:
        places = high - low + 1
        return places <= min(MAX_PLACES, PLACES_OF_ROW * rows) and low >= -(2**62) and high < 2**62

    def _bytes_of(self, low: int, high: int) -> int:
        return (high - low + 1) * (1 + 8 * len(self._plan.partials))

    def _add(self, number: int, low: int, high: int, codes: Int64s, columns: list[NumpyColumn]) -> None:
        window = self._windows.get(number)
        if window is None:
            margin = (high - low + 1) // 8  # so that the next batch, with keys a little outside, still fits
            begin = low - margin if low < 0 or low >= margin else 0
            window = self._windows[number] = _Window(begin, *self._arrays(high + margin - begin + 1))
        places = codes - window.low if window.low else codes
        window.is_present[places] = True
        for partial, values, column in zip(self._plan.partials, window.values, columns, strict=True):
            scatter(partial, values, places, column)

    def _arrays(self, places: int) -> tuple[npt.NDArray[np.bool_], list[NumpyColumn]]:
        return np.zeros(places, np.bool_), [identity(partial, places) for partial in self._plan.partials]

    def _rows_of(self, number: int, window: _Window) -> pa.RecordBatch:
        assert self._integers is not None
        present = np.flatnonzero(window.is_present)
        self._last_rows = max(self._last_rows, len(present))
        decode = range_decoder(window.low, self._integers.type, self._plan.key_types[1])
        values = (
            typed(held[present], partial.type) for held, partial in zip(window.values, self._plan.partials, strict=True)
        )
        arrays = [pa.array(np.full(len(present), number, np.int64)), decode(present), *values]
        return pa.RecordBatch.from_arrays(arrays, schema=self._plan.partial_schema)
