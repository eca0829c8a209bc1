"""Dense windows: partials by a single integer key from a mostly used range are added up in arrays until their window ends.

    add ─▶ an array for each column and window, by key ─▶ take: rows, each (window, key) once
      └▶ anything else is given back: the state holds it as rows
    close ─▶ the arrays are read-only from then on, a run that a snapshot makes rows of in its own thread; what comes later goes into new ones

Rows that the state holds are sorted, and merged about twice, before their window fires; here a row is one scatter for each column. Partials
are additive, so that a key may have some here and some in the state, and some in closed arrays and some in open ones: the closed ones of a checkpoint are
its delta.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.columnar.aggregates.plan import AggregatePlan
from tidegate.columnar.grouping import combine, identity, scatter, typed
from tidegate.columnar.keys.codes import integer_view, numbers_of, range_decoder
from tidegate.columnar.numpy_column import NumpyColumn
from tidegate.columnar.runs.memory import windows_of

MAX_PLACES = 1 << 22
"""The most places of a window's array, each of 8 bytes for each column: with more, a scatter misses every cache."""
PLACES_OF_ROW = 4
"""The most places for each known row, so that most of an array's memory is in use at a parallelism of up to four."""
MAX_BYTES = 128 << 20
"""The most bytes of all windows' arrays where memory is not bounded."""
BUDGET_SHARE = 4
"""The part of a memory budget that arrays may take: one in so many."""
MIN_ROWS = 1 << 10
"""The fewest rows of a batch for each window in it: with fewer, the work per window costs more than the rows."""

Int64s = npt.NDArray[np.int64]


@dataclass(slots=True)
class Arrays:
    """The partials of a window in arrays: ``values[i][code]`` is partial i of the key ``low + code``, where ``is_present[code]``."""

    low: int
    is_present: npt.NDArray[np.bool_]
    values: list[NumpyColumn]

    @property
    def stop(self) -> int:
        return self.low + len(self.is_present)

    @property
    def nbytes(self) -> int:
        return self.is_present.nbytes + sum(values.nbytes for values in self.values)

    def covers(self, low: int, high: int) -> bool:
        return self.low <= low and high < self.stop


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of arrays. ``plan``: of partials ``by_window`` with one key, stored as ``integers``."""

    plan: AggregatePlan
    integers: pa.Array

    def bytes_of(self, places: int) -> int:
        return places * (1 + 8 * len(self.plan.partials))

    def empty(self, low: int, places: int) -> Arrays:
        return Arrays(low, np.zeros(places, np.bool_), [identity(partial, places) for partial in self.plan.partials])

    def combined(self, parts: Sequence[Arrays]) -> Arrays:
        """Merges arrays to new ones; a single part is returned as it is."""
        if len(parts) == 1:
            return parts[0]
        low = min(part.low for part in parts)
        found = self.empty(low, max(part.stop for part in parts) - low)
        for part in parts:
            place = slice(part.low - low, part.stop - low)
            found.is_present[place] |= part.is_present
            for partial, into, values in zip(self.plan.partials, found.values, part.values, strict=True):
                combine(partial, into[place], values)
        return found

    def run(self, number: int, arrays: Arrays) -> DenseRun:
        """Returns ``arrays``, read-only from now on, as a run."""
        return DenseRun(number, int(np.count_nonzero(arrays.is_present)), arrays, self)

    def rows(self, number: int, arrays: Arrays) -> pa.RecordBatch:
        present = np.flatnonzero(arrays.is_present)
        decode = range_decoder(arrays.low, self.integers.type, self.plan.key_types[1])
        values = (
            typed(held[present], partial.type) for held, partial in zip(arrays.values, self.plan.partials, strict=True)
        )
        columns = [pa.array(np.full(len(present), number, np.int64)), decode(present), *values]
        return pa.RecordBatch.from_arrays(columns, schema=self.plan.partial_schema)


@dataclass(frozen=True, slots=True, eq=False)
class DenseRun:
    """The partials of window ``number`` in read-only arrays, as a ``LazyRun``."""

    number: int
    num_rows: int
    arrays: Arrays
    layout: Layout

    @property
    def nbytes(self) -> int:
        """Returns the bytes of the arrays."""
        return self.arrays.nbytes

    @property
    def first(self) -> int:
        """Returns ``number``, since a run of arrays belongs to one window."""
        return self.number

    def read(self) -> pa.RecordBatch:
        """Converts the arrays to rows, each key once. Thread-safe."""
        return self.layout.rows(self.number, self.arrays)


class DenseWindows:
    """Partials of windows in dense arrays. ``plan``: of partials ``by_window``; ``budget_bytes``: of the state's memory, 0: unlimited. ``state_rows``:
    returns how many rows the state holds."""

    def __init__(self, plan: AggregatePlan, state_rows: Callable[[], int], budget_bytes: int = 0) -> None:
        self._state_rows = state_rows
        self._limit_bytes = budget_bytes // BUDGET_SHARE or MAX_BYTES
        self._open: dict[int, Arrays] = {}
        self._closed: dict[int, list[DenseRun]] = {}
        """The oldest first."""
        self._last_rows = 0
        """Rows of the fullest window when windows were last taken or closed."""
        key = pa.array([], plan.key_types[1]) if len(plan.keys) == 2 else None
        integers = None if key is None or plan.is_joint else integer_view(key)
        self._layout = None if integers is None else Layout(plan, integers)

    @property
    def rows(self) -> int:
        """Returns how many partials there are; a (window, key) counts as often as it is there."""
        return sum(int(np.count_nonzero(arrays.is_present)) for arrays in self._open.values()) + sum(
            run.num_rows for run in self.runs
        )

    @property
    def nbytes(self) -> int:
        """Returns the bytes of all arrays."""
        return sum(arrays.nbytes for arrays in self._open.values()) + sum(run.nbytes for run in self.runs)

    @property
    def runs(self) -> list[DenseRun]:
        """Returns all closed runs."""
        return [run for runs in self._closed.values() for run in runs]

    def add(self, partials: pa.RecordBatch) -> pa.RecordBatch | None:
        """Adds partials, or returns them all for the state to hold: where they are few, their keys lie too far apart, or memory is short."""
        if self._layout is None or partials.num_rows < MIN_ROWS:
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
        opened = [number for number in range(first, last + 1) if number not in self._open]
        if opened and not self._may_open(self._layout, opened, low, high):
            return partials
        if any(not found.covers(low, high) for number, found in self._open.items() if first <= number <= last):
            return partials
        codes = keys.astype(np.int64, copy=False)
        columns = [numbers_of(column) for column in partials.columns[2:]]
        if first == last:
            self._add(self._layout, first, low, high, codes, columns)
            return None
        for number in range(first, last + 1):
            rows = np.flatnonzero(numbers == number)
            if len(rows):
                self._add(self._layout, number, low, high, codes[rows], [column[rows] for column in columns])
        return None

    def holds_up_to(self, last: int) -> bool:
        """Returns whether any window up to number ``last`` has rows."""
        return any(number <= last for number in (*self._open, *self._closed))

    def close(self) -> list[DenseRun]:
        """Closes the arrays that were filled since the last call and returns them as read-only runs."""
        if self._layout is None:
            return []
        found = []
        for number, arrays in sorted(self._open.items()):
            run = self._layout.run(number, arrays)
            self._last_rows = max(self._last_rows, run.num_rows)
            self._closed.setdefault(number, []).append(run)
            found.append(run)
        self._open.clear()
        return found

    def has_room(self) -> bool:
        """Returns whether closed runs leave memory for as many arrays again."""
        return 2 * sum(max(run.nbytes for run in runs) for runs in self._closed.values()) <= self._limit_bytes

    def take(self, last: int | None = None) -> Iterator[pa.RecordBatch]:
        """Removes the windows up to number ``last`` and yields their rows, in order, each key once. ``None``: all windows."""
        numbers = sorted(number for number in {*self._open, *self._closed} if last is None or number <= last)
        if numbers:
            self._last_rows = 0
        for number in numbers:
            assert self._layout is not None
            parts = [run.arrays for run in self._closed.pop(number, [])]
            if number in self._open:
                parts.append(self._open.pop(number))
            rows = self._layout.rows(number, self._layout.combined(parts))
            self._last_rows = max(self._last_rows, rows.num_rows)
            yield rows

    def _is_narrow(self, low: int, high: int, rows: int) -> bool:
        places = high - low + 1
        return places <= min(MAX_PLACES, PLACES_OF_ROW * rows) and low >= -(2**62) and high < 2**62

    def _may_open(self, layout: Layout, numbers: Sequence[int], low: int, high: int) -> bool:
        """Returns whether these windows may have arrays for these keys. A window has at most one closed run besides its open arrays."""
        for number in numbers:
            runs = self._closed.get(number, [])
            if len(runs) > 1:
                arrays = layout.combined([run.arrays for run in runs])
                self._closed[number] = runs = [layout.run(number, arrays)]
            for run in runs:
                least, most = min(low, run.arrays.low), max(high, run.arrays.stop - 1)
                if not self._is_narrow(least, most, max(self._state_rows(), self._last_rows)):
                    return False
        return self.nbytes + len(numbers) * layout.bytes_of(high - low + 1) <= self._limit_bytes

    def _add(self, layout: Layout, number: int, low: int, high: int, codes: Int64s, columns: list[NumpyColumn]) -> None:
        arrays = self._open.get(number)
        if arrays is None:
            margin = (high - low + 1) // 8  # so that the next batch, with keys a little outside, still fits
            begin = low - margin if low < 0 or low >= margin else 0
            arrays = self._open[number] = layout.empty(begin, high + margin - begin + 1)
        places = codes - arrays.low if arrays.low else codes
        arrays.is_present[places] = True
        for partial, values, column in zip(layout.plan.partials, arrays.values, columns, strict=True):
            scatter(partial, values, places, column)
