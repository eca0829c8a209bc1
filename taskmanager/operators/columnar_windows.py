"""Tumbling event-time windows over columns: pre-aggregation in the sender, merging and firing behind the exchange.

    columnar_window_local ──partials: window_start, keys, partial columns──▶ HASH ──▶ columnar_window ──▶ results

The sender keeps no state: what it holds leaves before every barrier (``prepare_snapshot``), and what belongs to a window
leaves before the watermark that ends it, so that nothing becomes late by waiting here. A row that is late is known only
behind the exchange, where the watermark is the minimum over all senders; there it is dropped and counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from taskmanager.operators.base import Operator, OperatorContext
from taskmanager.operators.key_codes import KeyCodes, as_numpy, integer_view, range_decoder
from taskmanager.operators.window_aggregates import (
    ROWS,
    WINDOW,
    WINDOW_END,
    WINDOW_START,
    Accumulators,
    AggregatePlan,
    Aggregates,
    collect,
    finish,
    group_windows,
    merge,
    plan_of_partials,
    plan_of_rows,
    ungrouped,
)
from taskmanager.state.base import FrozenState
from taskmanager.state.columnar_windows import ColumnarWindowState, WindowTimes
from tidegate.common.batch import MAX_TIMESTAMP, MIN_TIMESTAMP, ArrowBatch, Batch
from tidegate.model.errors import SchemaMismatch
from tidegate.model.keygroups import range_of

MAX_DENSE = 1 << 18
"""Keys of half this range go straight into arrays, which grow up to it; keys of a wider range are hashed."""
MAX_HELD_ROWS = 1 << 18
"""So many partials (or places for them) are held at most: they delay a barrier by a few milliseconds."""
MAX_WINDOWS_OF_BATCH = 8
"""A batch that spreads over more windows is grouped by window and key in one go."""
EMIT_ROWS = 1 << 16
MIN_ROWS_TO_JUDGE = 1024
PASS_BATCHES = 32
"""After a batch whose rows hardly ever share a key, so many go on as they are before grouping is tried again."""

Int64s = npt.NDArray[np.int64]


def timestamps_of(batch: ArrowBatch, operator: str) -> Int64s:
    """Raises ``SchemaMismatch`` when a row has no timestamp."""
    if batch.timestamps is None or batch.timestamps.null_count:
        raise SchemaMismatch(
            f"operator '{operator}': a row without a timestamp came to an event-time window: give the stream a "
            "WatermarkStrategy with a timestamp column or assigner before the window"
        )
    return as_numpy(batch.timestamps)


@dataclass(slots=True)
class _DenseWindow:
    """Accumulators for the keys ``low`` to ``low + cardinality - 1`` of one window."""

    low: int
    coded: KeyCodes
    accumulators: Accumulators


class ColumnarWindowLocal(Operator):
    """Pre-aggregates rows by window and key before they are exchanged."""

    works_on = "arrow"

    def __init__(self, name: str, size_ms: int, offset_ms: int, keys: Sequence[str], aggregates: Aggregates) -> None:
        self._name = name
        self._size_ms = size_ms
        self._offset_ms = offset_ms
        self._keys = tuple(keys)
        self._aggregates = aggregates
        self._plan: AggregatePlan | None = None
        self._schema: pa.Schema | None = None
        self._dense: dict[int, _DenseWindow] = {}
        self._held: list[pa.RecordBatch] = []
        """Partials of other windows and keys, each batch sorted by its column 0: the number of the window."""
        self._held_rows = 0
        self._first_held = MAX_TIMESTAMP
        """Number of the earliest window among ``_held``."""
        self._pass = 0

    def process(self, batch: Batch, input_index: int) -> None:
        assert isinstance(batch, ArrowBatch)
        if not len(batch):
            return
        plan = self._plan_for(batch.data.schema)
        stamps = timestamps_of(batch, self._name)
        first = (int(stamps.min()) - self._offset_ms) // self._size_ms
        last = (int(stamps.max()) - self._offset_ms) // self._size_ms
        if last - first >= MAX_WINDOWS_OF_BATCH or not self._add_dense(plan, batch.data, stamps, first, last):
            self._add_grouped(plan, batch.data, stamps, first, last)
        if self._held_rows > MAX_HELD_ROWS:
            self._shrink()

    def on_watermark(self, timestamp_ms: int) -> None:
        self._flush(timestamp_ms)
        super().on_watermark(timestamp_ms)

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        self._flush(None)

    def finish(self) -> None:
        self._flush(None)

    def _plan_for(self, schema: pa.Schema) -> AggregatePlan:
        if self._plan is None or (self._schema is not schema and self._schema != schema):
            if self._plan is not None:
                self._flush(None)
            self._plan = plan_of_rows(self._name, self._keys, self._aggregates, schema, count_rows=True)
            self._schema = schema
        return self._plan

    # --- one integer key in a narrow range: straight into arrays, across batches

    def _add_dense(self, plan: AggregatePlan, data: pa.RecordBatch, stamps: Int64s, first: int, last: int) -> bool:
        if len(self._keys) != 1:
            return False
        column = data.column(self._keys[0])
        integers = integer_view(column) if column.null_count == 0 and not pa.types.is_dictionary(column.type) else None
        if integers is None:
            return False
        values = as_numpy(integers)
        low, high = int(values.min()), int(values.max())
        if high - low >= MAX_DENSE // 2 or low < -(2**62) or high >= 2**62:
            return False
        if first == last:
            self._add_to_window(plan, first, low, high, values, data, integers.type)
            return True
        windows = (stamps - self._offset_ms) // self._size_ms
        wanted = data.select(sorted({p.source for p in plan.partials if p.source}))
        is_sorted = bool((windows[1:] >= windows[:-1]).all())
        for window in range(first, last + 1):
            if is_sorted:
                start, stop = np.searchsorted(windows, [window, window + 1])
                part, rows = values[start:stop], wanted.slice(start, stop - start)
            else:
                chosen = np.flatnonzero(windows == window)
                part, rows = values[chosen], wanted.take(pa.array(chosen))
            if len(part):
                self._add_to_window(plan, window, low, high, part, rows, integers.type)
        return True

    def _add_to_window(
        self,
        plan: AggregatePlan,
        window: int,
        low: int,
        high: int,
        values: npt.NDArray[Any],
        data: pa.RecordBatch,
        integers: pa.DataType,
    ) -> None:
        dense = self._dense.get(window)
        if dense is not None and not (dense.low <= low and high < dense.low + dense.coded.cardinality):
            low = min(low, dense.low)
            high = max(high, dense.low + dense.coded.cardinality - 1)
            self._hold_dense(window)
            dense = None
            if high - low >= MAX_DENSE:
                low, high = int(values.min()), int(values.max())
        if dense is None:
            dense = self._dense[window] = _new_dense(plan, low, high, integers)
            self._held_rows += dense.coded.cardinality
        codes = values.astype(np.int64, copy=False)
        dense.accumulators.add(codes - dense.low if dense.low else codes, data)

    def _hold_dense(self, window: int) -> None:
        assert self._plan is not None
        dense = self._dense.pop(window)
        self._held_rows -= dense.coded.cardinality
        found = collect(self._plan, dense.accumulators, dense.coded, np.flatnonzero(dense.accumulators.rows))
        windows = pa.repeat(pa.scalar(window, pa.int64()), found.num_rows)
        self._hold(_with_windows(windows, found, found.schema.names), window)

    # --- any other keys: one grouped batch for each batch, merged when they get many

    def _add_grouped(self, plan: AggregatePlan, data: pa.RecordBatch, stamps: Int64s, first: int, last: int) -> None:
        if first == last:
            windows = pa.repeat(pa.scalar(first, pa.int64()), data.num_rows)
        else:
            windows = pa.array((stamps - self._offset_ms) // self._size_ms)
        rows = _with_windows(windows, data, plan.inputs)
        if self._pass:
            self._pass -= 1
            self._emit(ungrouped(plan.by_window(), rows))
            return
        grouped = group_windows(plan.by_window(), rows)
        if grouped.num_rows > data.num_rows // 2 and data.num_rows >= MIN_ROWS_TO_JUDGE:
            self._pass = PASS_BATCHES
        self._hold(grouped, first)

    def _hold(self, partials: pa.RecordBatch, first: int) -> None:
        self._held.append(partials)
        self._held_rows += partials.num_rows
        self._first_held = min(self._first_held, first)

    def _shrink(self) -> None:
        """Merge what is held; when that does not help, the keys are too many to wait for more of each."""
        if len(self._held) > 1:
            self._merge_held()
        if self._held_rows > MAX_HELD_ROWS // 2:
            self._flush(None)

    def _merge_held(self) -> None:
        assert self._plan is not None
        before = sum(b.num_rows for b in self._held)
        self._held = [merge(self._plan.merging().by_window(), self._held)]
        self._held_rows += self._held[0].num_rows - before

    # --- what leaves

    def _flush(self, watermark: int | None) -> None:
        """Emit the partials of the windows that ``watermark`` ends; of all windows when it is ``None``."""
        last = None if watermark is None else last_ended(watermark, self._size_ms, self._offset_ms)
        for window in sorted(self._dense):
            if last is None or window <= last:
                self._hold_dense(window)
        if not self._held or (last is not None and last < self._first_held):
            return
        if len(self._held) > 1:
            self._merge_held()
        (held,) = self._held
        self._held, self._held_rows, self._first_held = [], self._held_rows - held.num_rows, MAX_TIMESTAMP
        if last is not None:
            windows = as_numpy(held.column(0))
            at = int(np.searchsorted(windows, last, side="right"))
            if at < held.num_rows:
                self._hold(held.slice(at), int(windows[at]))
                held = held.slice(0, at)
        self._emit(held)

    def _emit(self, held: pa.RecordBatch) -> None:
        starts = pc.add(pc.multiply(held.column(0), self._size_ms), self._offset_ms)
        wire = pa.RecordBatch.from_arrays([starts, *held.columns[1:]], names=[WINDOW_START, *held.schema.names[1:]])
        for at in range(0, wire.num_rows, EMIT_ROWS):
            self.context.output.emit(ArrowBatch(wire.slice(at, EMIT_ROWS)))


def _new_dense(plan: AggregatePlan, low: int, high: int, integers: pa.DataType) -> _DenseWindow:
    spread = high - low + 1
    margin = spread // 8  # so that the next batch, with keys a little outside, still fits
    low = low - margin if low < 0 or low >= margin else 0
    cardinality = high + margin - low + 1
    codes = np.zeros(0, np.intp)
    decode = range_decoder(low, integers, plan.key_types[0])
    return _DenseWindow(
        low, KeyCodes(codes, cardinality, lambda wanted: [decode(wanted)]), Accumulators(plan, cardinality)
    )


def last_ended(watermark: int, size_ms: int, offset_ms: int) -> int:
    """Number of the last window that ``watermark`` ends, as an int64."""
    number = (watermark + 1 - offset_ms) // size_ms - 1
    return max(MIN_TIMESTAMP, min(number, MAX_TIMESTAMP))


def _with_windows(windows: pa.Array, data: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([windows, *(data.column(name) for name in names)], names=[WINDOW, *names])


class ColumnarWindow(Operator):
    """Merges partials (or groups raw rows) by window and key, and emits the windows that the watermark has passed: all of
    them by one group by, however many they are."""

    works_on = "arrow"

    def __init__(
        self, name: str, size_ms: int, offset_ms: int, keys: Sequence[str], aggregates: Aggregates, takes_partials: bool
    ) -> None:
        self._name = name
        self._size_ms = size_ms
        self._offset_ms = offset_ms
        self._keys = tuple(keys)
        self._aggregates = aggregates
        self._takes_partials = takes_partials
        self._plan: AggregatePlan | None = None
        self._merging: AggregatePlan | None = None
        self._ended = MIN_TIMESTAMP
        """Number of the last window that the watermark has passed."""

    def setup(self, context: OperatorContext) -> None:
        super().setup(context)
        owned = range_of(context.subtask_index, context.max_parallelism, context.parallelism)
        times = WindowTimes(self._size_ms, self._offset_ms)
        self._state = ColumnarWindowState(
            self._name, WINDOW, self._keys, self._merge, times, owned, context.max_parallelism
        )
        if context.restored is not None:
            assert context.segments is not None
            self._state.restore(context.restored, context.segments)

    def process(self, batch: Batch, input_index: int) -> None:
        assert isinstance(batch, ArrowBatch)
        if not len(batch):
            return
        data = batch.data
        times = as_numpy(data.column(WINDOW_START)) if self._takes_partials else timestamps_of(batch, self._name)
        windows = (times - self._offset_ms) // self._size_ms
        if int(windows.min()) <= self._ended:
            windows, data = self._drop_late(windows, data)
            if not len(windows):
                return
        if self._plan is None:
            self._plan = self._learn(data.schema)
        if self._takes_partials:
            self._state.add(_with_windows(pa.array(windows), data, self._plan.partial_schema.names))
        else:
            rows = _with_windows(pa.array(windows), data, self._plan.inputs)
            self._state.add(group_windows(self._plan.by_window(), rows))

    def on_watermark(self, timestamp_ms: int) -> None:
        self._ended = last_ended(timestamp_ms, self._size_ms, self._offset_ms)
        for partials in self._state.take(self._ended):
            self._emit(partials)
        super().on_watermark(timestamp_ms)

    def freeze(self, checkpoint_id: int) -> FrozenState | None:
        return self._state.freeze()

    def _drop_late(self, windows: Int64s, data: pa.RecordBatch) -> tuple[Int64s, pa.RecordBatch]:
        late = windows <= self._ended
        rows = pc.sum(data.column(ROWS).filter(pa.array(late))).as_py() if self._takes_partials else int(late.sum())
        self.context.metrics.add("numLateRecordsDropped", rows)
        return windows[~late], data.filter(pa.array(~late))

    def _learn(self, schema: pa.Schema) -> AggregatePlan:
        make = plan_of_partials if self._takes_partials else plan_of_rows
        return make(self._name, self._keys, self._aggregates, schema)

    def _merge(self, runs: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        """Also runs in the snapshot thread: it touches only its argument and what is set once."""
        plan = self._merging
        if plan is None:
            learned = plan_of_partials(self._name, self._keys, self._aggregates, runs[0].schema)
            plan = self._merging = learned.by_window()
        return merge(plan, runs)

    def _emit(self, partials: pa.RecordBatch) -> None:
        assert self._merging is not None  # what comes out of the state was merged
        results = finish(self._merging, partials, self._size_ms, self._offset_ms)
        stamps = pc.subtract(results.column(WINDOW_END), 1)
        for at in range(0, results.num_rows, EMIT_ROWS):
            self.context.output.emit(ArrowBatch(results.slice(at, EMIT_ROWS), stamps.slice(at, EMIT_ROWS)))
