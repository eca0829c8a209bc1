"""Group aggregates of changelogs (Flink: ``GroupAggFunction.java``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.functions.sql.aggregates import CompiledAggregates
from tidegate.functions.sql.aggregates.folding import fold
from tidegate.functions.sql.aggregates.running import Results, RunningAggregates, RunningTotals, Segments
from tidegate.functions.sql.changelog import (
    DELETE,
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    adds,
    as_inserts,
    has_kinds,
    is_insert_only,
)
from tidegate.functions.sql.rows import Change, Row
from tidegate.records.batch import ArrowBatch
from tidegate.taskmanager.operators.relational.kept_counts import KeptCounts
from tidegate.taskmanager.operators.relational.relational_operator import DistinctKeys, RelationalOperator, differs

ROWS_FOR_ARRAYS = 120
"""The least rows of a batch that is computed by arrays. Fewer cost less one by one: 10 rows a quarter to a third."""


class GroupAggregate(RelationalOperator):
    """Computes the aggregates of each key, and emits their changes. State: an accumulator for each key (``CompiledAggregates``). ``folds``: emits one change of
    a key for each batch (mini-batches).
    """

    def __init__(
        self,
        name: str,
        grouping: Sequence[int],
        aggregates: CompiledAggregates,
        schema: pa.Schema,
        *,
        generates_update_before: bool,
        retracts: bool,
        folds: bool,
        ttl_ms: int,
    ) -> None:
        super().__init__(name, [grouping], schema, ttl_ms)
        self._grouping = grouping
        self._aggregates = aggregates
        self._generates_update_before = generates_update_before
        self._retracts = retracts
        self._folds = folds
        self._touched: dict[Any, tuple[Row, Any]] = {}
        """The grouping values and accumulators of the keys in a batch; used with ``folds`` only."""
        self._shown: dict[Any, tuple[Any, ...]] = {}
        """The values that were emitted last, by key of the current batch."""

    def open_states(self) -> None:
        super().open_states()
        self._counts = KeptCounts(self._aggregates, self, self._ttl_ms) if self._aggregates.counts_at else None

    def read(self, group: int, key: Any, now_ms: int) -> Any:
        acc = self._state.read(group, key, now_ms)
        if acc is not None and self._counts is not None:
            self._counts.attach(acc, group, key, now_ms)
        return acc

    def write(self, group: int, key: Any, state: Any, now_ms: int) -> None:
        if state is not None and self._counts is not None:
            self._counts.detach(state, group, key, now_ms)
        self._state.write(group, key, state, now_ms)

    def begin_batch(self) -> None:
        self._shown.clear()
        self._touched.clear()

    def _process(self, data: pa.RecordBatch, input_index: int) -> None:
        """Computes a batch by arrays, if it is large enough, all its aggregates can be computed so and no row is retracted that was not added; otherwise row
        by row."""
        running = self._aggregates.running
        if running is None or data.num_rows < ROWS_FOR_ARRAYS or not self._ran(data, running):
            super()._process(data, input_index)

    def _ran(self, data: pa.RecordBatch, running: RunningAggregates) -> bool:
        """Computes a batch by arrays. Returns ``False`` when its rows have to be processed one by one."""
        only_adds = is_insert_only(data)
        if not (only_adds or (self._retracts and running.can_retract)):
            return False
        self._backend.merge_some()
        now_ms = self.context.clock.now_ms()
        distinct = self._distinct_keys(data, self._grouping)
        accumulators = self._read_all(distinct, now_ms)
        if only_adds and self._folds:
            folded = fold(running, data, distinct.key_of, accumulators)
            last = folded.after
            self._emit_folded(data, running, folded.lasts, folded.before, last)
        else:
            added = np.isin(np.asarray(as_inserts(data).columns[-1]), (INSERT, UPDATE_AFTER))
            held = running.held(accumulators, data)
            segments = Segments(distinct.key_of, added, held.rows)
            if not segments.are_consistent:
                return False
            totals = running.run(data, segments, added, held)
            last = totals.at(segments.lasts)
            if self._folds:
                self._emit_folded(data, running, segments.order[segments.lasts], held, last)
            else:
                self._emit_running(data, running, segments, held, totals)
        self._write_all(distinct, running.accumulators(last), bool((last.rows != 0).all()), now_ms)
        self.clean(data.num_rows, now_ms)
        return True

    def _read_all(self, distinct: DistinctKeys, now_ms: int) -> list[Any]:
        """Returns the accumulator of each key. Only counts of distinct values in them may be changed in place."""
        if self._counts is None:
            return self._state.peek_all([(key, None) for key in distinct.keys], distinct.groups, now_ms)
        return [self.read(group, key, now_ms) for key, group in zip(distinct.keys, distinct.groups, strict=True)]

    def _write_all(self, distinct: DistinctKeys, accumulators: Sequence[Any], all_stay: bool, now_ms: int) -> None:
        """Writes the accumulator of each key, and removes those without rows. ``all_stay``: there are none."""
        if self._counts is None and all_stay:
            self._state.write_all([(key, None) for key in distinct.keys], distinct.groups, accumulators, now_ms)
            return
        for key, group, acc in zip(distinct.keys, distinct.groups, accumulators, strict=True):
            self.write(group, key, acc if acc[0] else None, now_ms)

    def _emit_running(
        self,
        data: pa.RecordBatch,
        running: RunningAggregates,
        segments: Segments,
        held: RunningTotals,
        totals: RunningTotals,
    ) -> None:
        """Emits for each row the change from the results before it to those after it."""
        after, first = running.results(totals), segments.is_first
        before = [
            Results(
                _one_before(now.values, first, old.values[segments.keys]),
                _one_before(now.nulls, first, old.nulls[segments.keys]),
                old.of,
            )
            for now, old in zip(after, running.results(held), strict=True)
        ]
        place_of = np.empty(data.num_rows, np.intp)
        place_of[segments.order] = np.arange(data.num_rows)
        self._emit_changes(data, segments.order, place_of, before, after, ~segments.is_new, totals.rows != 0)

    def _emit_folded(
        self,
        data: pa.RecordBatch,
        running: RunningAggregates,
        rows: npt.NDArray[np.intp],
        held: RunningTotals,
        last: RunningTotals,
    ) -> None:
        """Emits for each key the change from the results before the batch to those after it. ``rows``: one of each key."""
        before, after = running.results(held), running.results(last)
        self._emit_changes(data, rows, np.arange(len(rows)), before, after, held.rows != 0, last.rows != 0)

    def _emit_changes(
        self,
        data: pa.RecordBatch,
        rows: npt.NDArray[np.intp],
        places: npt.NDArray[np.intp],
        before: Sequence[Results],
        after: Sequence[Results],
        was_there: npt.NDArray[np.bool_],
        is_there: npt.NDArray[np.bool_],
    ) -> None:
        """Emits the changes of many results, each as ``_emit_change`` does.

        ``rows``: for each change a row with its grouping. ``places``: the changes in the order in which they are emitted. ``was_there``, ``is_there``: whether
        there is a result before and after.
        """
        updates = np.full(len(rows), self._ttl_ms > 0)
        for now, old in zip(after, before, strict=True):
            updates |= now.differs(old)
        both = was_there & is_there
        emitted = np.stack(
            (
                was_there & ~is_there | both & updates & self._generates_update_before,
                is_there & (~was_there | updates),
            ),
            axis=1,
        )
        emitted_places, sides = np.nonzero(emitted[places])
        if not len(emitted_places):
            return
        at, is_after = places[emitted_places], sides == 1
        fields = list(self._schema)
        groups = [data.column(position).take(pa.array(rows[at])) for position in self._grouping]
        arrays = [group.cast(field.type) for group, field in zip(groups, fields, strict=False)]
        for now, old, field in zip(after, before, fields[len(arrays) :], strict=False):
            values, nulls = (
                np.where(is_after, a[at], b[at]) for a, b in ((now.values, old.values), (now.nulls, old.nulls))
            )
            arrays.append(Results(values, nulls, now.of).column(field.type))
        if has_kinds(self._schema):
            of_after, of_before = np.where(was_there, UPDATE_AFTER, INSERT), np.where(is_there, UPDATE_BEFORE, DELETE)
            arrays.append(pa.array(np.where(is_after, of_after[at], of_before[at]).astype(np.int8)))
        self.context.output.emit(ArrowBatch(pa.RecordBatch.from_arrays(arrays, schema=self._schema)))

    def change(self, state: Any, kind: int, row: Row, input_index: int, out: list[Change]) -> Any:
        added, aggregates = adds(kind), self._aggregates
        is_first = state is None
        if is_first:
            if not added:
                return None
            state = aggregates.create()
        key = self._backend.key
        group = tuple([row[position] for position in self._grouping])
        if self._folds:
            return self._gathered(state, row, group, added, is_first)
        before = None if is_first else self._shown.get(key) or aggregates.values(state)
        aggregates.change(state, row, added)
        if self._retracts and state[0] == 0:
            self._remove_counts(state)
            self._shown.pop(key, None)
            self._emit_change(group, before, None, out)
            return None
        now = self._shown[key] = aggregates.values(state)
        self._emit_change(group, before, now, out)
        return state

    def end_batch(self, out: list[Change]) -> None:
        for key, (group, state) in self._touched.items():
            now = None if state is None else self._aggregates.values(state)
            self._emit_change(group, self._shown.get(key), now, out)

    def _gathered(self, state: Any, row: Row, group: Row, added: bool, is_first: bool) -> Any:
        """Adds a row to its accumulator. The results are emitted at the end of the batch."""
        key = self._backend.key
        if key not in self._touched and not is_first:
            self._shown[key] = self._aggregates.values(state)
        self._aggregates.change(state, row, added)
        if self._retracts and state[0] == 0:
            self._remove_counts(state)
            state = None
        self._touched[key] = group, state
        return state

    def _remove_counts(self, state: Any) -> None:
        """Removes the counts that are stored outside of an accumulator whose last row was retracted."""
        if self._counts is not None:
            self._counts.remove(state)

    def _emit_change(self, group: Row, before: Row | None, now: Row | None, out: list[Change]) -> None:
        if self._aggregates.emits_rows:
            if before is not None and self._generates_update_before:
                out += [(DELETE, group + row) for row in before[0]]
            if now is not None:
                out += [(INSERT, group + row) for row in now[0]]
        elif now is None:
            if before is not None:
                out.append((DELETE, group + before))
        elif before is None:
            out.append((INSERT, group + now))
        elif self._ttl_ms or differs(before, now):
            if self._generates_update_before:
                out.append((UPDATE_BEFORE, group + before))
            out.append((UPDATE_AFTER, group + now))


def _one_before(values: npt.NDArray[Any], is_first: npt.NDArray[np.bool_], held: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Returns for each row the value of the row before it, and for the first row of a key the value in ``held``."""
    before = np.roll(values, 1)
    return np.where(is_first, held, before)
