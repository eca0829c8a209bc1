"""Session windows over columns: the rows of a batch become partial sessions before the exchange, and are merged behind it.

    columnar_session_local ──window_start, window_end, keys, partial columns──▶ HASH ──▶ columnar_session ──▶ results

A session of a key ends when the gap has passed since its last row; sessions that overlap or touch are one (Flink:
``EventTimeSessionWindows``, ``TimeWindow.mergeWindows``). Sessions are found by sorting, for all keys at once:

    rows by (key, start) ─▶ where the key changes, or the start lies behind the end of what came before, one begins

The sender keeps nothing. A row is late only if, after merging, the watermark has passed its whole session; it is dropped and counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.common.records.batch import ArrowBatch, Batch
from tidegate.connectors.operator_options import Aggregates
from tidegate.model.channel_events import END_OF_TIME, NO_WATERMARK
from tidegate.model.keygroups import range_of
from tidegate.taskmanager.operators.base import Operator, OperatorContext
from tidegate.taskmanager.operators.columnar.aggregate_plan import (
    WINDOW,
    AggregatePlan,
    plan_of_partials,
    plan_of_rows,
    rows_of,
    with_times,
)
from tidegate.taskmanager.operators.columnar.emission import emit_rows
from tidegate.taskmanager.operators.columnar.grouping import Accumulators
from tidegate.taskmanager.operators.columnar.window_aggregates import WINDOW_END, WINDOW_START, finish, timestamps_of
from tidegate.taskmanager.operators.keys.key_codes import Codes, as_numpy, encode_keys
from tidegate.taskmanager.state.base import FrozenState
from tidegate.taskmanager.state.columnar.sessions import FrozenSessions, SessionPlace, restored_sessions
from tidegate.taskmanager.state.columnar.windows import check_columns

NEWER_ROWS = 1 << 16
"""How many partials, or as many as there are sessions, wait to be merged."""

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Sessions:
    """``of_row[i]``: the session of row i. By session: a row of its, and its times."""

    of_row: Codes
    a_row: Codes
    starts: Int64s
    ends: Int64s


def find_sessions(keys: Codes, starts: Int64s, ends: Int64s) -> Sessions:
    """``keys`` are codes; each row is a session from its start to its end, until they are merged."""
    order = np.lexsort((starts, keys))
    keys, starts, ends = keys[order], starts[order], ends[order]
    numbers = np.arange(len(order))
    while True:  # a session within another hides the other's end from what follows: once more, until nothing merges
        begins = np.ones(len(keys), np.bool_)
        begins[1:] = (keys[1:] != keys[:-1]) | (starts[1:] > ends[:-1])
        at = np.flatnonzero(begins)
        if len(at) == len(keys):
            break
        numbers = (np.cumsum(begins) - 1)[numbers]
        keys, starts, ends = keys[at], starts[at], np.maximum.reduceat(ends, at)
    of_row = np.empty(len(order), np.intp)
    of_row[order] = numbers
    return Sessions(of_row, order[np.searchsorted(numbers, np.arange(len(keys)))], starts, ends)


class ColumnarSessionLocal(Operator):
    """Rows of a batch to partial sessions."""

    works_on = "arrow"

    def __init__(self, name: str, gap_ms: int, keys: Sequence[str], aggregates: Aggregates) -> None:
        self._name = name
        self._gap_ms = gap_ms
        self._keys = tuple(keys)
        self._aggregates = aggregates
        self._plan: AggregatePlan | None = None
        self._schema: pa.Schema | None = None

    def process(self, batch: Batch, input_index: int) -> None:
        assert isinstance(batch, ArrowBatch)
        if not len(batch):
            return
        if self._plan is None or (self._schema is not batch.data.schema and self._schema != batch.data.schema):
            self._schema = batch.data.schema
            self._plan = plan_of_rows(self._name, self._keys, self._aggregates, self._schema, count_rows=True)
        stamps = timestamps_of(batch, self._name)
        data = with_times(self._plan, batch.data, stamps)
        ends = np.where(stamps > END_OF_TIME - self._gap_ms, END_OF_TIME, stamps + self._gap_ms)
        self.context.output.emit(ArrowBatch(_merged(self._plan, data, stamps, ends)[0]))


class ColumnarSession(Operator):
    """Merges partial sessions, and emits those that the watermark has passed."""

    works_on = "arrow"

    def __init__(self, name: str, keys: Sequence[str], aggregates: Aggregates) -> None:
        self._name = name
        self._keys = tuple(keys)
        self._aggregates = aggregates
        self._plan: AggregatePlan | None = None
        self._sessions: list[pa.RecordBatch] = []
        """Partials; the first batch has each session once if it was merged."""
        self._newer_rows = 0
        self._first_end = END_OF_TIME
        """No session that is held ends earlier."""
        self._watermark = NO_WATERMARK

    def setup(self, context: OperatorContext) -> None:
        super().setup(context)
        owned = range_of(context.subtask_index, context.max_parallelism, context.parallelism)
        self._place = SessionPlace(self._name, self._keys, owned, context.max_parallelism)
        if context.restored is not None:
            assert context.segments is not None
            with closing(restored_sessions(self._place, context.restored, context.segments)) as restored:
                for partials in restored:
                    self._hold(partials)

    def process(self, batch: Batch, input_index: int) -> None:
        assert isinstance(batch, ArrowBatch)
        if not len(batch):
            return
        data = batch.data
        late = as_numpy(data.column(WINDOW_END)) - 1 <= self._watermark
        if late.any():
            data = self._without_late(data, late)
        self._hold(data)
        if self._newer_rows > NEWER_ROWS and self._newer_rows > self._sessions[0].num_rows:
            self._merge_all()

    def on_watermark(self, timestamp_ms: int) -> None:
        self._watermark = timestamp_ms
        if self._sessions and self._first_end - 1 <= timestamp_ms:
            merged = self._merge_all()
            over = as_numpy(merged.column(WINDOW_END)) - 1 <= timestamp_ms
            if over.any():
                self._forget()
                if not over.all():
                    self._hold(merged.filter(pa.array(~over)))
                self._emit(merged.filter(pa.array(over)))
        super().on_watermark(timestamp_ms)

    def freeze(self, checkpoint_id: int) -> FrozenState | None:
        return FrozenSessions(self._place, self._merge, tuple(self._sessions))

    def _hold(self, partials: pa.RecordBatch) -> None:
        if not partials.num_rows:
            return
        if self._plan is None:
            self._plan = plan_of_partials(self._name, self._keys, self._aggregates, partials.schema)
        partials = partials.select([WINDOW_START, WINDOW_END, *self._plan.partial_schema.names])
        if self._sessions:
            check_columns(self._name, self._sessions[0].schema, partials.schema)
            self._newer_rows += partials.num_rows
        self._sessions.append(partials)
        self._first_end = min(self._first_end, int(as_numpy(partials.column(WINDOW_END)).min()))

    def _forget(self) -> None:
        self._sessions, self._newer_rows, self._first_end = [], 0, END_OF_TIME

    def _without_late(self, data: pa.RecordBatch, late: npt.NDArray[np.bool_]) -> pa.RecordBatch:
        """What is late by itself is not if it belongs to a session that has not ended."""
        columns = [WINDOW_START, WINDOW_END, *self._keys]
        parts = [data.select(columns), *(held.select(columns) for held in self._sessions)]
        found = _sessions_of(pa.concat_batches(parts), self._keys, self._name)
        dropped = late & (found.ends[found.of_row[: len(late)]] - 1 <= self._watermark)
        if not dropped.any():
            return data
        rows = rows_of(data.filter(pa.array(dropped)), self._aggregates)
        self.context.metrics.add("numLateRecordsDropped", rows)
        return data.filter(pa.array(~dropped))

    def _merge_all(self) -> pa.RecordBatch:
        merged = self._merge(self._sessions)
        self._forget()
        self._hold(merged)
        return merged

    def _merge(self, parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        """Also runs in the snapshot thread: it touches only its argument and what is set once."""
        assert self._plan is not None
        data = pa.concat_batches(parts) if len(parts) > 1 else parts[0]
        starts, ends = (as_numpy(data.column(name)) for name in (WINDOW_START, WINDOW_END))
        merged, found = _merged(self._plan, data, starts, ends)
        return data if len(found.starts) == data.num_rows else merged

    def _emit(self, sessions: pa.RecordBatch) -> None:
        assert self._plan is not None
        plan = self._plan.by_window()
        numbers = pa.array(np.zeros(sessions.num_rows, np.int64))
        results = finish(plan, sessions.append_column(WINDOW, numbers), 0, 0, 0)
        for place, name in enumerate((WINDOW_START, WINDOW_END)):
            results = results.set_column(place, name, sessions.column(name))
        stamps = pc.subtract(results.column(WINDOW_END), 1)
        emit_rows(self.context.output, results, stamps)


def _sessions_of(data: pa.RecordBatch, keys: Sequence[str], operator: str) -> Sessions:
    coded = encode_keys([data.column(name) for name in keys], data.num_rows, operator)
    return find_sessions(coded.codes, as_numpy(data.column(WINDOW_START)), as_numpy(data.column(WINDOW_END)))


def _merged(plan: AggregatePlan, data: pa.RecordBatch, starts: Int64s, ends: Int64s) -> tuple[pa.RecordBatch, Sessions]:
    """One row for each session: its times, keys and partials."""
    coded = encode_keys([data.column(name) for name in plan.keys], data.num_rows, plan.operator)
    found = find_sessions(coded.codes, starts, ends)
    accumulators = Accumulators(plan, len(found.starts))
    accumulators.add(found.of_row, data)
    keys = coded.decode(coded.codes[found.a_row])
    columns = [pa.array(found.starts), pa.array(found.ends), *keys, *accumulators.take(np.arange(len(found.starts)))]
    names = [WINDOW_START, WINDOW_END, *plan.partial_schema.names]
    return pa.RecordBatch.from_arrays(columns, names=names), found
