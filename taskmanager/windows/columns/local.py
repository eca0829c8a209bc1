"""The local aggregation of a columnar window: rows are combined to partial aggregates by window and key before they are exchanged.

``strategies`` chooses how a batch is aggregated. The operator keeps no state: partials are emitted before every barrier (``prepare_snapshot``), and those of a
window before the watermark that ends it, so that no row becomes late by waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.columnar.aggregates.plan import AggregatePlan, Aggregates, input_rows, plan_of_rows
from tidegate.columnar.grouping import Accumulators, collect, group_windows, ungrouped
from tidegate.columnar.keys.codes import (
    Codes,
    KeyCodes,
    as_numpy,
    integer_view,
    range_decoder,
    share_of_keys,
)
from tidegate.columnar.keys.dictionary import KeyDictionary
from tidegate.columnar.numpy_column import NumpyColumn
from tidegate.columnar.panes.merging import merge
from tidegate.columnar.panes.results import WINDOW_START, last_ended, with_windows
from tidegate.model.channel_events import END_OF_TIME
from tidegate.records.batch import ArrowBatch, Batch
from tidegate.taskmanager.operators.columns.emission import emit_rows
from tidegate.taskmanager.operators.operator import Operator
from tidegate.taskmanager.windows.columns.event_times import timestamps_of
from tidegate.taskmanager.windows.columns.strategies import (
    MAX_WINDOWS_OF_BATCH,
    MIN_ROWS_TO_JUDGE,
    Strategy,
    StrategyChooser,
)

MAX_DENSE = 1 << 18
"""Most keys of an array of accumulators. Keys in a range of half this size are used as indices; keys of a wider range are hashed."""
MAX_HELD_ROWS = 1 << 18
"""The most partials, or array slots for partials, that are held. Emitting them delays a barrier by a few milliseconds."""

Int64s = npt.NDArray[np.int64]


@dataclass(slots=True)
class _DenseWindow:
    """The accumulators of one window in arrays, by key code, for codes below ``cardinality``. Without a dictionary the keys are integers, and the code of a
    key is its distance from ``low``.
    """

    low: int
    cardinality: int
    decode: Callable[[Codes], list[pa.Array]]
    accumulators: Accumulators
    dictionary: KeyDictionary | None = None


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
        self._grouping: AggregatePlan
        """The plan ``by_window``, set together with ``_plan``."""
        self._schema: pa.Schema | None = None
        self._dense: dict[int, _DenseWindow] = {}
        self._held: list[pa.RecordBatch] = []
        """Partials of other windows and keys. Each batch is sorted by its column 0, the number of the window."""
        self._held_rows = 0
        self._first_held = END_OF_TIME
        """Number of the earliest window among ``_held``."""
        self._chooser = StrategyChooser()
        self._dictionary: KeyDictionary | None = None

    def process(self, batch: Batch, input_index: int) -> None:
        assert isinstance(batch, ArrowBatch)
        if not len(batch):
            return
        plan = self._plan_for(batch.data.schema)
        stamps = timestamps_of(batch, self._name)
        data = input_rows(plan, batch.data, stamps)
        first = (int(stamps.min()) - self._offset_ms) // self._size_ms
        last = (int(stamps.max()) - self._offset_ms) // self._size_ms
        columns = [data.column(name) for name in plan.keys]
        windows = last - first + 1
        codes = _narrow(columns[0]) if len(columns) == 1 and windows <= MAX_WINDOWS_OF_BATCH else None
        strategy = self._chooser.choose(
            windows, is_narrow=codes is not None, share_of_keys=lambda: self._share_of_keys(columns, data.num_rows)
        )
        if strategy is Strategy.DICTIONARY:
            codes = self._codes_by_dictionary(columns, data.num_rows)
            strategy = strategy if codes is not None else self._chooser.without_dictionary()
        match strategy:
            case Strategy.RANGE:
                assert codes is not None
                low, high = int(codes.min()), int(codes.max())
                for window, part, rows in self._by_window(plan, codes, data, stamps, first, last):
                    self._add_range(plan, window, low, high, part, rows)
            case Strategy.DICTIONARY:
                assert codes is not None
                for window, part, rows in self._by_window(plan, codes, data, stamps, first, last):
                    self._add_codes(plan, window, part, rows)
            case Strategy.GROUPED:
                grouped = group_windows(self._grouping, self._with_windows(plan, data, stamps, first, last))
                if not plan.is_joint:
                    self._chooser.on_grouped(data.num_rows, grouped.num_rows)
                self._hold(grouped, first)
            case Strategy.UNGROUPED:
                self._emit(ungrouped(self._grouping, self._with_windows(plan, data, stamps, first, last)))
            case _:
                assert_never(strategy)
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
            self._grouping = self._plan.by_window()
            self._schema = schema
        return self._plan

    # --- keys as codes: straight into arrays, across batches

    def _by_window(
        self, plan: AggregatePlan, values: NumpyColumn, data: pa.RecordBatch, stamps: Int64s, first: int, last: int
    ) -> Iterator[tuple[int, NumpyColumn, pa.RecordBatch]]:
        """Yields each window that has rows, with their values and the rows."""
        if first == last:
            yield first, values, data
            return
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
                yield window, part, rows

    def _add_range(
        self, plan: AggregatePlan, window: int, low: int, high: int, values: NumpyColumn, data: pa.RecordBatch
    ) -> None:
        dense = self._dense.get(window)
        if dense is not None and (
            dense.dictionary is not None or low < dense.low or high >= dense.low + dense.cardinality
        ):
            if dense.dictionary is None:
                low, high = min(low, dense.low), max(high, dense.low + dense.cardinality - 1)
            self._hold_dense(window)
            dense = None
            if high - low >= MAX_DENSE:
                low, high = int(values.min()), int(values.max())
        if dense is None:
            dense = self._dense[window] = _dense_range(plan, low, high)
            self._held_rows += dense.cardinality
        codes = values.astype(np.int64, copy=False)
        dense.accumulators.add(codes - dense.low if dense.low else codes, data)

    def _share_of_keys(self, columns: list[pa.Array], rows: int) -> float | None:
        """Returns the share of distinct keys in a sample; ``None``: not known, or every row must be aggregated anyway."""
        assert self._plan is not None
        return None if rows < MIN_ROWS_TO_JUDGE or self._plan.is_joint else share_of_keys(columns, rows)

    def _codes_by_dictionary(self, columns: list[pa.Array], rows: int) -> Codes | None:
        """Returns the codes of keys by the dictionary; ``None``: there are too many keys for a dictionary, or so many that it costs more than it saves."""
        if self._dictionary is None:
            self._dictionary = KeyDictionary.of(columns)
        codes = None if self._dictionary is None else self._dictionary.encode(columns)
        if codes is None and self._dictionary is not None:
            for window in [window for window, dense in self._dense.items() if dense.dictionary is not None]:
                self._hold_dense(window)
            self._dictionary = self._dictionary.grown(columns)
            codes = None if self._dictionary is None else self._dictionary.encode(columns)
        known = 0 if self._dictionary is None else self._dictionary.cardinality
        if codes is None or (rows >= MIN_ROWS_TO_JUDGE and known > 2 * rows):
            self._dictionary = None
            return None
        return codes

    def _add_codes(self, plan: AggregatePlan, window: int, codes: Codes, data: pa.RecordBatch) -> None:
        dense, dictionary = self._dense.get(window), self._dictionary
        assert dictionary is not None
        if dense is not None and dense.dictionary is not dictionary:
            self._hold_dense(window)
            dense = None
        if dense is None:
            dense = self._dense[window] = _DenseWindow(
                0, dictionary.cardinality, dictionary.decode, Accumulators(plan, dictionary.cardinality), dictionary
            )
            self._held_rows += dense.cardinality
        dense.accumulators.add(codes, data)

    def _hold_dense(self, window: int) -> None:
        self._hold(self._take_dense(window), window)

    def _take_dense(self, window: int) -> pa.RecordBatch:
        assert self._plan is not None
        dense = self._dense.pop(window)
        self._held_rows -= dense.cardinality
        coded = KeyCodes(np.zeros(0, np.intp), dense.cardinality, dense.decode)
        found = collect(self._plan, dense.accumulators, coded, np.flatnonzero(dense.accumulators.rows))
        windows = pa.array(np.full(found.num_rows, window, np.int64))
        return with_windows(windows, found, found.schema.names)

    # --- any other keys: one grouped batch for each batch, merged when they get many

    def _with_windows(
        self, plan: AggregatePlan, data: pa.RecordBatch, stamps: Int64s, first: int, last: int
    ) -> pa.RecordBatch:
        if first == last:
            windows = pa.array(np.full(data.num_rows, first, np.int64))
        else:
            windows = pa.array((stamps - self._offset_ms) // self._size_ms)
        return with_windows(windows, data, plan.inputs)

    def _hold(self, partials: pa.RecordBatch, first: int) -> None:
        self._held.append(partials)
        self._held_rows += partials.num_rows
        self._first_held = min(self._first_held, first)

    def _shrink(self) -> None:
        """Merges the held partials. If too many remain, all are emitted."""
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
        """Emits the partials of the windows that ``watermark`` ends; of all windows when it is ``None``."""
        last = None if watermark is None else last_ended(watermark, self._size_ms, self._size_ms, self._offset_ms)
        ended = [window for window in sorted(self._dense) if last is None or window <= last]
        if ended and not self._held:  # each key of a window once: there is nothing to merge
            parts = [self._take_dense(window) for window in ended]
            self._emit(parts[0] if len(parts) == 1 else pa.concat_batches(parts))
            return
        for window in ended:
            self._hold_dense(window)
        if not self._held or (last is not None and last < self._first_held):
            return
        if len(self._held) > 1:
            self._merge_held()
        (held,) = self._held
        self._held, self._held_rows, self._first_held = [], self._held_rows - held.num_rows, END_OF_TIME
        if last is not None:
            windows = as_numpy(held.column(0))
            at = int(np.searchsorted(windows, last, side="right"))
            if at < held.num_rows:
                self._hold(held.slice(at), int(windows[at]))
                held = held.slice(0, at)
        self._emit(held)

    def _emit(self, held: pa.RecordBatch) -> None:
        starts = pa.array(as_numpy(held.column(0)) * self._size_ms + self._offset_ms)
        wire = pa.RecordBatch.from_arrays([starts, *held.columns[1:]], names=[WINDOW_START, *held.schema.names[1:]])
        emit_rows(self.context.output, wire)


def _narrow(column: pa.Array) -> NumpyColumn | None:
    """Returns the values of a column of integers in a narrow range; ``None`` for any other column."""
    if column.null_count or pa.types.is_dictionary(column.type):
        return None
    integers = integer_view(column)
    if integers is None:
        return None
    values = as_numpy(integers)
    low, high = int(values.min()), int(values.max())
    return None if high - low >= MAX_DENSE // 2 or low < -(2**62) or high >= 2**62 else values


def _dense_range(plan: AggregatePlan, low: int, high: int) -> _DenseWindow:
    kind = plan.key_types[0]
    integers = integer_view(pa.array([], kind))
    assert integers is not None
    spread = high - low + 1
    margin = spread // 8  # so that the next batch, with keys a little outside, still fits
    low = low - margin if low < 0 or low >= margin else 0
    cardinality = high + margin - low + 1
    decode = range_decoder(low, integers.type, kind)
    return _DenseWindow(low, cardinality, lambda wanted: [decode(wanted)], Accumulators(plan, cardinality))
