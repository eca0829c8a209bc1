"""The middle of an aggregate whose distinct values are split into buckets (Flink: ``MiniBatchIncrementalGroupAggFunction``)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.functions.sql.aggregates import CompiledAggregates
from tidegate.functions.sql.aggregates.incremental import DistinctColumn, IncrementalAggregates, Pairs
from tidegate.functions.sql.changelog import has_kinds
from tidegate.functions.sql.distinct_rows import number_rows
from tidegate.functions.sql.rows import values_of
from tidegate.records.batch import ArrowBatch
from tidegate.taskmanager.keyed_state.entry import Entry
from tidegate.taskmanager.operators.relational.kept_counts import KeptCounts
from tidegate.taskmanager.operators.relational.relational_operator import TableOperator, names_of


class IncrementalGroupAggregate(TableOperator):
    """Emits for each final key of a mini-batch what its rows add to the aggregates, for an operator that sums it up. State: for each partial key, the distinct
    values that it has had, with the calls that have counted them. Rows must be inserts.

    ``partial``, ``final``: the positions of the two keys; each column of the final key is one of the partial key. ``rows``: the schema of the input.
    """

    def __init__(
        self,
        name: str,
        partial: Sequence[int],
        final: Sequence[int],
        aggregates: CompiledAggregates,
        schema: pa.Schema,
        *,
        rows: pa.Schema,
    ) -> None:
        super().__init__(name, [partial], schema)
        assert aggregates.running is not None
        self._partial, self._final = partial, final
        self._aggregates = aggregates
        self._rows = rows
        self._incremental = IncrementalAggregates(aggregates.running, len(rows))

    def open_states(self) -> None:
        self._distinct = self.state_of_key("distinct", 0)
        self._take_over()

    def _process(self, data: pa.RecordBatch, input_index: int) -> None:
        self._backend.merge_some()
        if has_kinds(data.schema):
            data = data.select(range(data.num_columns - 1))
        incremental = self._incremental
        new = [
            self._new(data, place, column, incremental.pairs(data, column, self._partial))
            for place, column in enumerate(incremental.columns)
        ]
        keys = number_rows([data.column(position) for position in self._final], data.num_rows)[1]
        rows, results = incremental.results(data, new, keys)
        chosen, fields = pa.array(rows), list(self._schema)
        arrays = [data.column(position).take(chosen) for position in self._final]
        arrays = [column.cast(field.type) for column, field in zip(arrays, fields, strict=False)]
        arrays += [found.column(field.type) for found, field in zip(results, fields[len(arrays) :], strict=True)]
        self.context.output.emit(ArrowBatch(pa.RecordBatch.from_arrays(arrays, schema=self._schema)))

    def _new(self, data: pa.RecordBatch, place: int, column: DistinctColumn, pairs: Pairs) -> Pairs:
        """Returns pairs with the calls that had not counted them before, and stores that they have now. ``place``: of the column among those with calls."""
        found = data.take(pa.array(pairs.rows))
        keys, groups = self._places(found, self._partial)
        values = found.column(column.position)
        names = names_of(list(zip(repeat(place), values_of(values))), [values])
        entries: list[Entry] = list(zip(keys, names, strict=True))
        before = np.array([bits or 0 for bits in self._distinct.peek_all(entries, groups, 0)], np.int64)
        changed = np.flatnonzero(pairs.bits & ~before).tolist()
        self._distinct.write_all(
            [entries[at] for at in changed],
            [groups[at] for at in changed],
            (pairs.bits | before)[changed].tolist(),
            0,
        )
        return Pairs(pairs.rows, pairs.bits & ~before)

    def _take_over(self) -> None:
        """Takes over the accumulators of a version that had a plain aggregate here, whose counts say which values there were."""
        accumulators = self.state_of_key("state", 0)
        counts = KeptCounts(self._aggregates, self, 0)
        for group, key, acc in list(accumulators.entries()):
            counts.attach(acc, group, key, 0)
            for place, column in enumerate(self._incremental.columns):
                bits: dict[Any, int] = {}
                for bit, (number, _) in enumerate(column.calls):
                    for item in acc[1][number][0].items():
                        bits[item[0]] = bits.get(item[0], 0) | 1 << bit
                names = names_of(
                    [(place, value) for (value,) in bits], [pa.nulls(0, self._rows.types[column.position])]
                )
                self._distinct.write_all([(key, name) for name in names], [group] * len(bits), list(bits.values()), 0)
            counts.remove(acc)
            accumulators.write(group, key, None, 0)
