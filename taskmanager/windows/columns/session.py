"""Session windows over columns: the rows of a batch become partial sessions before the exchange, and are merged after it.

    columnar_session_local ──window_start, window_end, keys, partial columns──▶ HASH ──▶ columnar_session ──▶ results

A session of a key ends when the gap has passed since its last row; sessions that overlap or touch are one (Flink: ``EventTimeSessionWindows``,
``TimeWindow.mergeWindows``). The local operator keeps no state. The operator after the exchange keeps partials in buckets by the hash of the key, sorted by
their ends (``state.sessions.rows``):

    watermark ─▶ rows that have ended by then, merged ─▶ nothing that is held touches them: emitted
                                                         else ─▶ held again, as long as what they touch

A row is late only if the watermark has passed its whole session after merging; it is dropped and counted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.columnar.aggregates.names import WINDOW, internal_name
from tidegate.columnar.aggregates.plan import (
    AggregatePlan,
    Aggregates,
    input_rows,
    plan_of_partials,
    plan_of_rows,
    rows_of,
)
from tidegate.columnar.keys.codes import as_numpy
from tidegate.columnar.panes.results import WINDOW_END, WINDOW_START, finish
from tidegate.model.channel_events import END_OF_TIME, NO_WATERMARK
from tidegate.model.keygroups import range_of
from tidegate.records.batch import ArrowBatch, Batch
from tidegate.taskmanager.operators.columns.emission import emit_rows
from tidegate.taskmanager.operators.operator import Operator, OperatorContext
from tidegate.taskmanager.state.ports import FrozenState
from tidegate.taskmanager.windows.columns.event_times import timestamps_of
from tidegate.taskmanager.windows.columns.session_merging import (
    Int64s,
    Mask,
    first_sessions,
    merge_sessions,
    reached,
    rows_like,
)
from tidegate.taskmanager.windows.state.sessions.rows import SessionFormat
from tidegate.taskmanager.windows.state.sessions.state import ColumnarSessionState
from tidegate.taskmanager.windows.state.windows import WindowMemory

LEAST_ROWS = 1 << 13
"""Least rows of possibly ended sessions that are processed together. With fewer, the calls take longer than their work."""


class ColumnarSessionLocal(Operator):
    """Combines the rows of a batch to partial sessions."""

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
        data = input_rows(self._plan, batch.data, stamps)
        ends = np.where(stamps > END_OF_TIME - self._gap_ms, END_OF_TIME, stamps + self._gap_ms)
        self.context.output.emit(ArrowBatch(first_sessions(self._plan, data, stamps, ends)))


class ColumnarSession(Operator):
    """Merges partial sessions, and emits those that the watermark has passed."""

    works_on = "arrow"

    def __init__(
        self,
        name: str,
        keys: Sequence[str],
        aggregates: Aggregates,
        gap_ms: int | None = None,
        columns: Sequence[str] = (),
    ) -> None:
        """Plans the merging of partial sessions. ``gap_ms``: the gap of the sessions that arrive; ``None``: not known. ``columns``: the columns of partials, to
        which state of earlier versions is converted.
        """
        self._name = name
        self._keys = tuple(keys)
        self._aggregates = aggregates
        inside = tuple(map(internal_name, keys))
        values = tuple(column for column in columns if column not in (WINDOW_START, WINDOW_END, *inside))
        self.form = SessionFormat(name, inside, gap_ms, values)
        self._plan: AggregatePlan | None = None
        self._watermark = NO_WATERMARK

    def setup(self, context: OperatorContext) -> None:
        super().setup(context)
        owned = range_of(context.subtask_index, context.max_parallelism, context.parallelism)
        memory = WindowMemory(context.resources.managed_memory_bytes, context.resources.temp_dir)
        self._state = ColumnarSessionState(self.form, self._merge, owned, context.max_parallelism, memory)
        if (restore := context.restore) and restore.operator:
            self._state.restore(restore.operator, restore.segments, restore.checkpoint_id)
            if self._state.schema is not None:
                self._plan_of(self._state.schema)
        context.metrics.watch("stateRows", lambda: self._state.rows)
        context.metrics.watch("stateBytes", lambda: self._state.bytes_held)
        context.metrics.watch("stateBytesOnDisk", lambda: self._state.bytes_on_disk)
        context.metrics.watch("stateBytesPerRow", lambda: self._state.bytes_per_row)
        context.metrics.watch("stateBytesForNextCheckpoint", lambda: self._state.bytes_kept)

    def process(self, batch: Batch, input_index: int) -> None:
        assert isinstance(batch, ArrowBatch)
        if not len(batch):
            return
        plan = self._plan_of(batch.data.schema)
        rows = self.form.rows(batch.data, plan.partial_schema.names[len(self._keys) :])
        if int(as_numpy(rows.column(WINDOW_END)).min()) - 1 <= self._watermark:
            rows = self._without_late(plan, rows, batch.data)
        self._state.add(rows)

    def on_watermark(self, timestamp_ms: int) -> None:
        self._watermark = timestamp_ms
        for rows in self._state.take(min(timestamp_ms, END_OF_TIME - 1) + 1, LEAST_ROWS):
            plan = self._plan_of(rows.schema)
            others = rows_like(plan, rows, self._state.held_elsewhere(rows))
            if others:
                is_open, ends = reached(plan, rows, others)
                self._state.put_back(_lasting(rows, ends, is_open))
                rows = rows.filter(pa.array(~is_open))
            if rows.num_rows:
                self._state.gone(rows)
                self._emit(plan, rows)
        super().on_watermark(timestamp_ms)

    def freeze(self, checkpoint_id: int) -> FrozenState | None:
        return self._state.freeze(checkpoint_id, self.context.checkpoint_options)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._state.confirmed(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self._state.aborted(checkpoint_id)

    def _without_late(self, plan: AggregatePlan, rows: pa.RecordBatch, data: pa.RecordBatch) -> pa.RecordBatch:
        """Drops late rows. A row before the watermark is not late if it belongs to a session that has not ended; the sessions in the state have not.
        ``data``: the input of ``rows``.
        """
        is_open, ends = reached(plan, rows, rows_like(plan, rows, self._state.held_elsewhere(rows)))
        is_open |= ends - 1 > self._watermark
        if not is_open.all():
            dropped = rows_of(data.filter(pa.array(~is_open)), self._aggregates)
            self.context.metrics.add("numLateRecordsDropped", dropped)
        return _lasting(rows, ends, is_open)

    def _plan_of(self, schema: pa.Schema) -> AggregatePlan:
        if self._plan is None:
            self._plan = plan_of_partials(self._name, self._keys, self._aggregates, schema)
        return self._plan

    def _merge(self, parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        """Merges partial sessions. May also run in the snapshot thread, since it uses only its argument and fields that are set once."""
        return merge_sessions(self._plan_of(parts[0].schema), parts)

    def _emit(self, plan: AggregatePlan, sessions: pa.RecordBatch) -> None:
        numbers = pa.array(np.zeros(sessions.num_rows, np.int64))
        results = finish(plan.by_window(), sessions.append_column(WINDOW, numbers), 0, 0, 0)
        for place, name in enumerate((WINDOW_START, WINDOW_END)):
            results = results.set_column(place, name, sessions.column(name))
        stamps = pc.subtract(results.column(WINDOW_END), 1)
        emit_rows(self.context.output, results, stamps)


def _lasting(rows: pa.RecordBatch, ends: Int64s, are_open: Mask) -> pa.RecordBatch:
    """Returns the rows of sessions that have not ended, with their ends raised to the known ends of their sessions. This changes no session, since each row
    overlaps its own anyway.
    """
    return rows.set_column(0, WINDOW_END, pa.array(ends)).filter(pa.array(are_open))
