"""Running aggregates of columns by key, without windows: ``key_by("k").agg(count(), sum("x"))``.

    batch ─▶ one partial for each key in it ─▶ slots of the keys ─▶ combined with what is there ─▶ emitted: keys, aggregates

For each batch it emits the new aggregates of the keys in it, so the last row of a key is its result so far. State is as in
``tidegate.taskmanager.keyed_state.columns.state``, one value column for each partial (an average has two or three).

Large restored state is loaded key group by key group while the operator runs (``background_restore``): rows of unloaded groups wait, and so does the input
after them.

In BATCH execution mode (``ColumnarTotals``) one row for each key is emitted at the end of the input, and the last watermark after these rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tidegate.columnar.aggregates.plan import (
    AggregatePlan,
    Aggregates,
    Scatter,
    input_rows,
    plan_of_rows,
    result_of,
)
from tidegate.columnar.grouping import group
from tidegate.columnar.table.fixed_width import Nulls, Numbers, to_column, to_numbers
from tidegate.columnar.table.index import Slots
from tidegate.columnar.table.layout import Rows
from tidegate.columnar.table.reserved import RowMemory
from tidegate.model.channel_events import END_OF_TIME, UserEvent
from tidegate.model.errors import InvalidJob
from tidegate.model.keygroups import range_of
from tidegate.records.batch import ArrowBatch, Batch
from tidegate.taskmanager.keyed_state.columns.state import ColumnarKeyedState, Expiry, stored_schema
from tidegate.taskmanager.keyed_state.ttl import Ttl
from tidegate.taskmanager.operators.columns.background_restore import BackgroundRestore
from tidegate.taskmanager.operators.operator import Ending, Operator, OperatorContext
from tidegate.taskmanager.state.ports import FrozenState

STEP_ROWS = 1 << 14
"""Rows of a batch that are processed at a time, so that the state that they use stays in the processor's cache."""


class ColumnarAggregate(Operator):
    """Aggregates rows by key over columns, without windows, and emits the running result of each key that a batch changed."""

    works_on = "arrow"

    def __init__(
        self, name: str, keys: Sequence[str], aggregates: Aggregates, schema: pa.Schema, ttl: Ttl | None = None
    ) -> None:
        """Plans the aggregation. ``schema``: of the input. Raises ``SchemaMismatch`` when a column is missing or has an unfit type."""
        self._ttl = ttl
        self._plan = plan_of_rows(name, keys, aggregates, schema)

    def setup(self, context: OperatorContext) -> None:
        super().setup(context)
        owned = range_of(context.subtask_index, context.max_parallelism, context.parallelism)
        keys, values = _fields_of(self._plan)
        self.state = ColumnarKeyedState(
            self._plan.operator,
            keys,
            values,
            owned,
            context.max_parallelism,
            expiry=None if self._ttl is None else Expiry(self._ttl, context.clock.now_ms),
            memory=RowMemory(context.resources.managed_memory_bytes, context.resources.temp_dir),
        )
        context.metrics.watch("stateBytesOnDisk", lambda: self.state.rows.bytes_on_disk)
        if (restore := context.restore) and restore.operator:
            self.state.restore(restore.operator, restore.segments, restore.checkpoint_id)
        self._restore: BackgroundRestore | None = None
        if self.state.restoring is not None:
            self._restore = BackgroundRestore(self.state.restoring, owned.start, self._plan.keys, self._work, context)
            self._restore.start()

    def process(self, batch: Batch, input_index: int) -> None:
        assert isinstance(batch, ArrowBatch)
        loading = self._loading()
        if loading is None:
            self._work(batch.data)
        else:
            loading.take(batch.data)

    def on_watermark(self, timestamp_ms: int) -> None:
        self._drain()
        super().on_watermark(timestamp_ms)

    def on_idle(self, idle: bool) -> None:
        self._drain()
        super().on_idle(idle)

    def on_user_event(self, event: UserEvent, input_index: int) -> None:
        self._drain()
        super().on_user_event(event, input_index)

    def has_room(self) -> bool:
        loading = self._loading()
        return loading is None or not loading.has_waiting

    def ending(self) -> Ending:
        return Ending.DONE if self.has_room() else Ending.IN_FLIGHT

    def emit_some(self) -> bool:
        loading = self._loading()
        if loading is not None and loading.has_waiting:
            loading.load_some()
        return True

    def finish(self) -> None:
        self._drain()

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        self._drain()

    def close(self) -> None:
        self.state.close()
        if self._restore is not None:
            self._restore.close()

    def freeze(self, checkpoint_id: int) -> FrozenState | None:
        self.context.metrics.gauge("stateKeys", self.state.keys)
        return self.state.freeze(checkpoint_id, self.context.checkpoint_options)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.state.increments.confirmed(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self.state.increments.aborted(checkpoint_id)

    def _loading(self) -> BackgroundRestore | None:
        """Returns the loading of restored state in the background; ``None`` when everything is loaded."""
        if self._restore is not None and self._restore.is_done and not self._restore.has_waiting:
            self._restore = None
        return self._restore

    def _drain(self) -> None:
        """Processes all rows that wait for restored state, so that they stay before later rows."""
        loading = self._loading()
        if loading is not None:
            loading.drain()

    def _work(self, data: pa.RecordBatch) -> None:
        """Processes rows whose key groups are loaded, and emits the new aggregates of their keys."""
        for at in range(0, data.num_rows, STEP_ROWS):
            self.context.output.emit(ArrowBatch(self._add(data.slice(at, STEP_ROWS))))

    def _add(self, data: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the new aggregates of the keys in ``data``."""
        return _results(self._plan, *self._combine(data))

    def _combine(self, data: pa.RecordBatch) -> tuple[Sequence[pa.Array], Rows]:
        """Adds rows to the state. Returns the keys in ``data``, and their partial aggregates now."""
        plan, state = self._plan, self.state
        partials = group(plan, input_rows(plan, data))
        keys = partials.columns[: len(plan.keys)]
        located = state.rows.locate(keys)
        held = state.take(located)
        added = [to_numbers(column) for column in partials.columns[len(plan.keys) :]]
        totals = [_combined(part.scatter, old, new) for part, old, new in zip(plan.partials, held, added, strict=True)]
        state.put(located, totals)
        state.sweep(len(located.slots))
        return keys, totals


class ColumnarTotals(ColumnarAggregate):
    """Running aggregates in BATCH execution mode: one result for each key at the end of the input."""

    _waiting: Slots | None = None
    """Keys whose results are still to be emitted; ``None`` before the end of the input."""

    def _work(self, data: pa.RecordBatch) -> None:
        for at in range(0, data.num_rows, STEP_ROWS):
            self._combine(data.slice(at, STEP_ROWS))

    def on_watermark(self, timestamp_ms: int) -> None:
        """Ignores watermarks: event time ends after the last row."""

    def on_idle(self, idle: bool) -> None:
        """Ignores idleness, since there is only one watermark."""

    def ending(self) -> Ending:
        is_emitted = self._waiting is not None and len(self._waiting) == 0
        return Ending.DONE if is_emitted else Ending.IN_FLIGHT

    def emit_some(self) -> bool:
        """Emits the results of some keys."""
        loading = self._loading()
        if loading is not None:
            loading.load_all()
        rows = self.state.rows
        waiting = rows.table.slots() if self._waiting is None else self._waiting
        slots, self._waiting = waiting[:STEP_ROWS], waiting[STEP_ROWS:]
        if len(slots):
            keys, values = rows.table.keys_of(slots), rows.values.take(slots)
            self.context.output.emit(ArrowBatch(_results(self._plan, keys, values)))
        return True

    def finish(self) -> None:
        self.context.output.emit_watermark(END_OF_TIME)

    def freeze(self, checkpoint_id: int) -> FrozenState | None:
        raise InvalidJob(
            f"operator '{self._plan.operator}' gives its results at the end of the input in BATCH execution mode, which has no "
            "checkpoints or savepoints: run the job in STREAMING mode for them"
        )


def columns_in_state(
    name: str, keys: Sequence[str], aggregates: Aggregates, schema: pa.Schema, *, expires: bool = False
) -> pa.Schema:
    """Returns the schema of the state that such an operator writes. Raises ``SchemaMismatch``."""
    return stored_schema(*_fields_of(plan_of_rows(name, keys, aggregates, schema)), expires=expires)


def _fields_of(plan: AggregatePlan) -> tuple[list[pa.Field], list[pa.Field]]:
    """Returns the fields of the keys, and those of the values."""
    keys = [pa.field(name, kind) for name, kind in zip(plan.keys, plan.key_types, strict=True)]
    return keys, [pa.field(part.name, part.type, part.scatter != "count") for part in plan.partials]


def _combined(
    scatter: Scatter, old: tuple[Numbers, Nulls | None], new: tuple[Numbers, Nulls | None]
) -> tuple[Numbers, Nulls | None]:
    """Combines partial aggregates with new ones. A null counts as nothing and has the value 0. Integers wrap, as Arrow's do."""
    (before, was_null), (more, is_null) = old, new
    if scatter in ("count", "sum"):
        if was_null is None:
            return before + more, None
        return before + more, np.zeros(len(more), np.bool_) if is_null is None else was_null & is_null
    assert was_null is not None  # columns of minima and maxima may be null
    is_float = np.issubdtype(before.dtype, np.floating)  # these pass over NaN
    choose = (np.fmin if is_float else np.minimum) if scatter == "min" else (np.fmax if is_float else np.maximum)
    found = np.where(was_null, more, choose(before, more))
    if is_null is None:
        return found, np.zeros(len(more), np.bool_)
    return np.where(is_null, before, found), was_null & is_null


def _results(plan: AggregatePlan, keys: Sequence[pa.Array], totals: Rows) -> pa.RecordBatch:
    columns = {
        part.name: to_column(values, part.type, nulls)
        for part, (values, nulls) in zip(plan.partials, totals, strict=True)
    }
    arrays = [*keys, *(result_of(result, columns) for result in plan.results)]
    names = [*plan.key_names, *(result.name for result in plan.results)]
    return pa.RecordBatch.from_arrays(arrays, names=names)
