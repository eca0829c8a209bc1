"""Tumbling and sliding event-time windows over columns: partials are merged after the exchange, and windows fire.

    columnar_window_local ──partials: window_start, keys, partial columns──▶ HASH ──▶ columnar_window ──▶ results

A sliding window consists of panes as long as its slide. A row is aggregated into its pane, once; after the exchange the partials of a pane are added to each of
its windows. Window number n begins with pane number n.

Late rows are detected after the exchange, where the watermark is the minimum over all senders; they are dropped and counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.columnar.aggregates.names import WINDOW, internal_name
from tidegate.columnar.aggregates.plan import (
    AggregatePlan,
    Aggregates,
    combined_by,
    input_rows,
    plan_of_partials,
    plan_of_rows,
    rows_of,
)
from tidegate.columnar.grouping import group_windows
from tidegate.columnar.keys.codes import as_numpy
from tidegate.columnar.panes.dense import DenseWindows
from tidegate.columnar.panes.merging import merge
from tidegate.columnar.panes.results import WINDOW_END, WINDOW_START, finish, last_ended, with_windows
from tidegate.model.channel_events import END_OF_TIME, NO_WATERMARK
from tidegate.model.keygroups import range_of
from tidegate.records.batch import ArrowBatch, Batch
from tidegate.taskmanager.operators.columns.emission import emit_rows
from tidegate.taskmanager.operators.operator import Operator, OperatorContext
from tidegate.taskmanager.state.ports import FrozenState
from tidegate.taskmanager.windows.columns.event_times import timestamps_of
from tidegate.taskmanager.windows.state.files import WindowFormat, WindowTimes
from tidegate.taskmanager.windows.state.windows import ColumnarWindowState, WindowMemory

Int64s = npt.NDArray[np.int64]


class ColumnarWindow(Operator):
    """Merges partials (or groups raw rows) by window and key, and emits the windows that the watermark has passed, all by one grouping, however
    many they are.
    """

    works_on = "arrow"

    def __init__(
        self,
        name: str,
        size_ms: int,
        offset_ms: int,
        keys: Sequence[str],
        aggregates: Aggregates,
        takes_partials: bool,
        slide_ms: int | None = None,
        columns: Sequence[str] = (),
    ) -> None:
        """Creates the operator. ``slide_ms``: the slide, which divides ``size_ms``; ``None`` for tumbling windows. ``columns``: the columns of partials, to
        which state of earlier versions is converted."""
        self._name = name
        self._size_ms = size_ms
        self._slide_ms = slide_ms or size_ms
        assert self._size_ms % self._slide_ms == 0, (size_ms, slide_ms)
        self._offset_ms = offset_ms
        self._keys = tuple(keys)
        self._aggregates = aggregates
        times = WindowTimes(size_ms, offset_ms, self._slide_ms)
        inside = tuple(map(internal_name, keys))
        values = tuple(column for column in columns if column not in (WINDOW_START, *inside))
        self.form = WindowFormat(name, WINDOW, inside, times, combined_by(aggregates), values)
        self._takes_partials = takes_partials
        self._plan: AggregatePlan | None = None
        self._grouping: AggregatePlan
        """The plan ``by_window``, set together with ``_plan``."""
        self._merging: AggregatePlan | None = None
        self._dense: DenseWindows | None = None
        self._ended = NO_WATERMARK
        """Number of the last window that the watermark has passed."""
        self._held: int | None = None
        """The watermark that waits until restored windows are read; ``None``: no watermark waits."""
        self._is_idle_after = False
        """Whether the input became idle after the held watermark."""

    def setup(self, context: OperatorContext) -> None:
        super().setup(context)
        owned = range_of(context.subtask_index, context.max_parallelism, context.parallelism)
        memory = WindowMemory(context.resources.managed_memory_bytes, context.resources.temp_dir)
        self._state = ColumnarWindowState(self.form, self._merge, owned, context.max_parallelism, memory)
        if (restore := context.restore) and restore.operator:
            self._state.restore(restore.operator, restore.segments, restore.checkpoint_id)
            if self._state.restoring is not None and context.background.run_async is not None:
                context.background.run_async(self._state.restoring.settle, self._settled)
        context.metrics.watch("stateRows", self._rows)
        context.metrics.watch("stateBytes", self._bytes)
        context.metrics.watch("stateBytesOnDisk", lambda: self._state.bytes_on_disk)
        context.metrics.watch("stateBytesPerRow", lambda: self._state.bytes_per_row)
        context.metrics.watch("stateBytesForNextCheckpoint", lambda: self._state.bytes_kept)

    def process(self, batch: Batch, input_index: int) -> None:
        assert isinstance(batch, ArrowBatch)
        data = batch.data
        if not data.num_rows:
            return
        times = as_numpy(data.column(WINDOW_START)) if self._takes_partials else timestamps_of(batch, self._name)
        windows = (times - self._offset_ms) // self._slide_ms
        if int(windows.min()) <= self._ended:
            kept = pa.array(windows > self._ended)
            times = as_numpy(pa.array(times).filter(kept))
            windows, data = self._drop_late(windows, data)
            if not len(windows):
                return
        if self._plan is None:
            self._plan = self._learn(data.schema)
            self._grouping = self._plan.by_window()
        if self._takes_partials:
            self._add(with_windows(pa.array(windows), data, self._plan.partial_schema.names))
        else:
            rows = input_rows(self._plan, data, times).add_column(0, WINDOW, pa.array(windows))
            self._add(group_windows(self._grouping, rows))

    def on_watermark(self, timestamp_ms: int) -> None:
        self._ended = last_ended(timestamp_ms, self._size_ms, self._slide_ms, self._offset_ms)
        if timestamp_ms == END_OF_TIME:  # everything fires
            self._state.settle()
        if self._state.waits_for(self._ended) and self.context.background.run_async is not None:
            self._held, self._is_idle_after = timestamp_ms, False
            return
        self._held = None
        for partials in self._take(self._ended):
            self._emit(partials)
        super().on_watermark(timestamp_ms)

    def on_idle(self, idle: bool) -> None:
        if self._held is None:
            super().on_idle(idle)
        else:
            self._is_idle_after = idle

    def _settled(self, error: BaseException | None) -> None:
        """Continues after restored windows were read: the held watermark fires windows."""
        if error is not None:
            raise error
        self._state.settle()
        held, idle = self._held, self._is_idle_after
        if held is not None and not self.context.has_ended:
            self.on_watermark(held)
            if idle:
                self.on_idle(True)

    def freeze(self, checkpoint_id: int) -> FrozenState | None:
        dense_runs = []
        if (dense := self._dense) is not None:
            closed = dense.close()
            dense_runs = dense.runs
            rows = sum(run.num_rows for run in dense_runs)
            for run in closed:
                self._state.keep_change(run, rows)
            if not dense.has_room():
                self._state.hold(dense.take())
                dense_runs = []
        return self._state.freeze(checkpoint_id, self.context.checkpoint_options, dense_runs)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._state.confirmed(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self._state.aborted(checkpoint_id)

    def close(self) -> None:
        if self._state.restoring is not None:
            self._state.restoring.close()

    def _add(self, partials: pa.RecordBatch) -> None:
        """Adds partials of panes to all windows that contain these."""
        panes = self._size_ms // self._slide_ms
        if panes == 1:
            self._hold(partials)
            return
        numbers = as_numpy(partials.column(0))
        for back in range(panes - 1, -1, -1):
            windows = numbers - back
            open_ones = windows > self._ended
            if open_ones.any():
                moved = partials.set_column(0, WINDOW, pa.array(windows))
                self._hold(moved if open_ones.all() else moved.filter(pa.array(open_ones)))

    def _hold(self, partials: pa.RecordBatch) -> None:
        if self._dense is None:
            budget_bytes = self.context.resources.managed_memory_bytes
            self._state.check(partials.schema)
            self._dense = DenseWindows(self._merging_plan(partials.schema), lambda: self._state.rows, budget_bytes)
        rest = self._dense.add(partials)
        if rest is not None:
            self._state.add(rest)

    def _take(self, last: int) -> Iterator[pa.RecordBatch]:
        """Removes the windows up to number ``last``, and yields their partials: each (window, key) once."""
        if self._dense is not None and self._dense.holds_up_to(last):
            if not self._state.holds_up_to(last):
                self._state.note_fired(last)
                return self._dense.take(last)
            self._state.hold(self._dense.take(last))
        return self._state.take(last)

    def _drop_late(self, windows: Int64s, data: pa.RecordBatch) -> tuple[Int64s, pa.RecordBatch]:
        late = windows <= self._ended
        rows = rows_of(data.filter(pa.array(late)), self._aggregates) if self._takes_partials else int(late.sum())
        self.context.metrics.add("numLateRecordsDropped", rows)
        return windows[~late], data.filter(pa.array(~late))

    def _learn(self, schema: pa.Schema) -> AggregatePlan:
        make = plan_of_partials if self._takes_partials else plan_of_rows
        return make(self._name, self._keys, self._aggregates, schema)

    def _merge(self, runs: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        """Merges partials. May also run in the snapshot thread, since it uses only its argument and fields that are set once."""
        return merge(self._merging_plan(runs[0].schema), runs)

    def _merging_plan(self, schema: pa.Schema) -> AggregatePlan:
        plan = self._merging
        if plan is None:
            plan = self._merging = plan_of_partials(self._name, self._keys, self._aggregates, schema).by_window()
        return plan

    def _rows(self) -> int:
        return self._state.rows + (0 if self._dense is None else self._dense.rows)

    def _bytes(self) -> int:
        return self._state.bytes_held + (0 if self._dense is None else self._dense.nbytes)

    def _emit(self, partials: pa.RecordBatch) -> None:
        assert self._merging is not None  # what comes out of the state was merged
        results = finish(self._merging, partials, self._size_ms, self._slide_ms, self._offset_ms)
        stamps = pc.subtract(results.column(WINDOW_END), 1)
        emit_rows(self.context.output, results, stamps)
