"""What a mini-batch adds to aggregates with distinct values, by arrays (Flink: ``MiniBatchIncrementalGroupAggFunction``).

    rows ─▶ distinct pairs of a partial key and a value, with the calls that count it ─▶ calls that have not counted it before
         ─▶ the calls without DISTINCT, over the rows whose value is new ─▶ one row of results for each final key

The values of a partial key are among those of its final key, and no value has two partial keys with one final key. So a distinct value is new for the final
key if it is new for the partial one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.functions.sql.aggregates.folding import fold
from tidegate.functions.sql.aggregates.running import Results, RunningAggregates, RunningCall
from tidegate.functions.sql.distinct_rows import number_rows

MOST_CALLS: Final = 62
"""Most distinct calls of one column: each is a bit of a 64-bit integer with a sign."""


@dataclass(frozen=True, slots=True)
class DistinctColumn:
    """A column of which calls take the distinct values. ``calls``: their numbers, in order, with the position of the condition of each."""

    position: int
    calls: Sequence[tuple[int, int | None]]


@dataclass(frozen=True, slots=True)
class Pairs:
    """The different pairs of a partial key and a value of a mini-batch. ``rows``: a row with each; ``bits``: the calls of the column that count it."""

    rows: npt.NDArray[np.intp]
    bits: npt.NDArray[np.int64]


class IncrementalAggregates:
    """The calls of an incremental aggregate. ``width``: the number of columns of its rows."""

    def __init__(self, running: RunningAggregates, width: int) -> None:
        columns: dict[int, list[tuple[int, int | None]]] = {}
        for number, call in enumerate(running.calls):
            if call.distinct:
                assert call.argument is not None
                columns.setdefault(call.argument, []).append((number, call.filter))
        self.columns: Final = [DistinctColumn(position, calls) for position, calls in columns.items()]
        # the conditions of distinct calls are columns behind those of the rows
        numbers = [number for column in self.columns for number, _ in column.calls]
        behind = dict(zip(numbers, count(width), strict=False))
        plain: list[RunningCall] = [
            replace(call, distinct=False, filter=behind[number]) if call.distinct else call
            for number, call in enumerate(running.calls)
        ]
        self._width = width
        self._running = RunningAggregates(plain)

    @staticmethod
    def can_compute(running: RunningAggregates) -> bool:
        """Tells whether no column has too many distinct calls."""
        positions = [call.argument for call in running.calls if call.distinct]
        return all(positions.count(position) <= MOST_CALLS for position in set(positions))

    def pairs(self, data: pa.RecordBatch, column: DistinctColumn, key: Sequence[int]) -> Pairs:
        """Returns the pairs of a column. ``key``: the positions of the partial key."""
        values = data.column(column.position)
        bits = np.zeros(data.num_rows, np.int64)
        for bit, (_, condition) in enumerate(column.calls):
            if condition is None:
                bits |= 1 << bit
            else:
                bits |= np.asarray(pc.fill_null(data.column(condition), False)).astype(np.int64) << bit
        if values.null_count:
            bits[~np.asarray(values.is_valid())] = 0
        rows = np.flatnonzero(bits)
        chosen = pa.array(rows)
        columns = [data.column(position).take(chosen) for position in (*key, column.position)]
        firsts, pair_of = number_rows(columns, len(rows))
        found = np.zeros(len(firsts), np.int64)
        np.bitwise_or.at(found, pair_of, bits[rows])
        return Pairs(rows[firsts], found)

    def results(
        self, data: pa.RecordBatch, new: Sequence[Pairs], final_keys: npt.NDArray[np.intp]
    ) -> tuple[npt.NDArray[np.intp], list[Results]]:
        """Returns for each final key a row with it, and the results of each call over the mini-batch. ``new``: for each column the pairs that are new, with the
        calls for which they are. ``final_keys``: the number of each row's final key, from 0 on without gaps.
        """
        arrays = data.columns[: self._width]
        for column, pairs in zip(self.columns, new, strict=True):
            for bit in range(len(column.calls)):
                counted = np.zeros(data.num_rows, np.bool_)
                counted[pairs.rows[(pairs.bits >> bit) & 1 == 1]] = True
                arrays.append(pa.array(counted))
        wide = pa.RecordBatch.from_arrays(arrays, names=[str(place) for place in range(len(arrays))])
        folded = fold(self._running, wide, final_keys, [None] * (int(final_keys.max()) + 1))
        return folded.lasts, self._running.results(folded.after)


__all__ = ["DistinctColumn", "IncrementalAggregates", "Pairs"]
