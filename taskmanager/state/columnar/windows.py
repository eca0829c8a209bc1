"""Keyed state of columnar windows: Arrow batches of partial aggregates by (window, key) that are only ever replaced.

    add(batch) ─▶ buckets by key group (``window_buckets``) ─▶ take(last) when event time has passed window ``last``

Windows have numbers: number n is the time from ``n * slide + offset`` on (tumbling ones slide by their size). On disk they are times. Law 3
holds by construction: a batch is never written in place, so freezing takes the tuples of references, and later merges
make new batches. What is written is merged and sorted by key group in the snapshot thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidegate.common.keys.hashing import hash_columns, key_groups
from tidegate.model.checkpoint import OperatorSnapshot, RestoredOperator
from tidegate.model.errors import SchemaMismatch
from tidegate.model.keygroups import KeyGroupRange
from tidegate.taskmanager.state.base import FrozenState, SegmentSource, SegmentStore
from tidegate.taskmanager.state.columnar.window_buckets import INBOX_ROWS, FrozenBuckets, GroupsOf, Merge, WindowBuckets
from tidegate.taskmanager.state.files.read_ahead import ReadAhead
from tidegate.taskmanager.state.files.segments import Groups, StateDescription, by_key_group, read_keyed, write_keyed

STATE_NAME = "windows"
KEY_PREFIX = "key."
VALUE_PREFIX = "value."
WINDOW_COLUMNS = ("window_start", "window_end")


@dataclass(frozen=True, slots=True)
class WindowTimes:
    """Windows of one length, one each ``slide_ms`` (0: they tumble): numbers to times and back."""

    size_ms: int
    offset_ms: int
    slide_ms: int = 0

    @property
    def step_ms(self) -> int:
        return self.slide_ms or self.size_ms


class ColumnarWindowState:
    """All windows of one subtask that have not ended. ``merge`` combines partials; ``window`` names their column 0, the
    number of the window; ``keys`` names the key columns."""

    def __init__(
        self,
        operator: str,
        window: str,
        keys: Sequence[str],
        merge: Merge,
        times: WindowTimes,
        owned: KeyGroupRange,
        max_parallelism: int,
    ) -> None:
        self._operator = operator
        self._window = window
        self._keys = tuple(keys)
        self._merge = merge
        self._times = times
        self._owned = owned
        self._max_parallelism = max_parallelism
        self._buckets = WindowBuckets(owned, merge, self._groups_of)
        self._schema: pa.Schema | None = None

    def add(self, partials: pa.RecordBatch) -> None:
        """Partials of any windows; a key may be in several batches. Raises ``SchemaMismatch`` when their columns are
        not those of what is there (a restored state of other aggregates, say)."""
        if self._schema is None:
            self._schema = partials.schema.remove_metadata()
        else:
            check_columns(self._operator, self._schema, partials.schema)
        self._buckets.add(partials)

    def take(self, last: int) -> Iterator[pa.RecordBatch]:
        """Everything of the windows up to number ``last``, each (window, key) once; they are forgotten."""
        return self._buckets.take(last)

    def freeze(self) -> FrozenState:
        return _FrozenWindows(
            self._operator, self._keys, self._merge, self._groups_of, self._times, self._owned, self._buckets.freeze()
        )

    def restore(self, restored: RestoredOperator, source: SegmentSource) -> None:
        """Raises ``CorruptData``; ``SchemaMismatch`` when the state has other keys or windows."""
        mine = [s for s in restored.keyed if s.state_name == STATE_NAME and s.key_groups.intersect(self._owned).size]
        with ReadAhead(source, [segment.handle for segment in mine]) as files:
            for segment in mine:
                self._restore(read_keyed(files, segment, self._owned)[1])

    def _restore(self, data: pa.RecordBatch) -> None:
        self._check_keys(data.schema)
        names = [n for n in data.schema.names if n not in WINDOW_COLUMNS]
        columns = [self._numbers(data), *(data.column(n) for n in names)]
        partials = pa.RecordBatch.from_arrays(columns, [self._window, *(n.split(".", 1)[1] for n in names)])
        for at in range(0, partials.num_rows, INBOX_ROWS):
            self.add(partials.slice(at, INBOX_ROWS))

    def _numbers(self, data: pa.RecordBatch) -> pa.Array:
        starts, ends = (data.column(name).to_numpy() for name in WINDOW_COLUMNS)
        numbers, beside = np.divmod(starts - self._times.offset_ms, self._times.step_ms)
        if beside.any() or (ends - starts != self._times.size_ms).any():
            raise SchemaMismatch(
                f"operator '{self._operator}': the restored windows are not those of the job, which are "
                f"{self._times.size_ms} ms long from {self._times.offset_ms} ms on: give the operator another uid, or "
                "restore with the job that wrote them"
            )
        return pa.array(numbers)

    def _check_keys(self, schema: pa.Schema) -> None:
        stored = [n[len(KEY_PREFIX) :] for n in schema.names if n.startswith(KEY_PREFIX)]
        if stored != list(self._keys) or not set(WINDOW_COLUMNS) <= set(schema.names):
            raise SchemaMismatch(
                f"operator '{self._operator}': the restored windows have the keys {stored}, the job's {list(self._keys)}: "
                "give the operator another uid, or restore with the job that wrote them"
            )

    def _groups_of(self, batch: pa.RecordBatch) -> Groups:
        if not self._keys:
            return np.full(batch.num_rows, self._owned.start, np.int32)
        return key_groups(hash_columns([batch.column(n) for n in self._keys]), self._max_parallelism)


def check_columns(operator: str, held: pa.Schema, coming: pa.Schema) -> None:
    """Raises ``SchemaMismatch`` when partials come of other columns than those that are held."""
    if held is not coming and not held.equals(coming):
        raise SchemaMismatch(
            f"operator '{operator}': its windows have the columns {_describe(held)}, now come "
            f"{_describe(coming)}: give the operator another uid, or restore with the job that wrote them"
        )


def _describe(schema: pa.Schema) -> str:
    return ", ".join(f"{f.name}: {f.type}" for f in schema)


@dataclass(slots=True)
class _FrozenWindows(FrozenState):
    operator: str
    keys: tuple[str, ...]
    merge: Merge
    groups_of: GroupsOf
    times: WindowTimes
    owned: KeyGroupRange
    buckets: FrozenBuckets | None

    def write(self, store: SegmentStore) -> OperatorSnapshot:
        assert self.buckets is not None
        parts = list(self.buckets.merged(self.merge, self.groups_of))
        if not parts:
            return OperatorSnapshot()
        merged = pa.concat_batches(parts) if len(parts) > 1 else parts[0]
        rows, groups = by_key_group(merged, self.groups_of(merged))
        starts = rows.column(0).to_numpy() * self.times.step_ms + self.times.offset_ms
        values = [name for name in rows.schema.names[1:] if name not in self.keys]
        names = [*(KEY_PREFIX + n for n in self.keys), *WINDOW_COLUMNS, *(VALUE_PREFIX + n for n in values)]
        columns = [rows.column(n) for n in self.keys] + [pa.array(starts), pa.array(starts + self.times.size_ms)]
        data = pa.RecordBatch.from_arrays(columns + [rows.column(n) for n in values], names=names)
        types = {field.name: str(field.type) for field in data.schema}
        about = StateDescription(self.operator, STATE_NAME, "columnar_windows", types)
        return OperatorSnapshot(keyed=(write_keyed(store, data, groups, self.owned, about),))

    def release(self) -> None:
        self.buckets = None
