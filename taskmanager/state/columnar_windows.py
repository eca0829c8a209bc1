"""Keyed state of columnar windows: for each window, Arrow batches of partial aggregates that are only ever replaced.

    add(start, batch) ─▶ runs of window ─▶ merged into fewer when they get many (bounded work) ─▶ take(start) at its end

Law 3 holds by construction: a batch is never written in place, so freezing takes the lists of references, and later
merges make new batches. Key groups are computed on whole columns when the state is written, in the snapshot thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from taskmanager.state.base import FrozenState, SegmentSource, SegmentStore
from taskmanager.state.segments import StateDescription, read_keyed, write_keyed
from tidegate.common.key_hashing import hash_columns, key_groups
from tidegate.model.checkpoint import OperatorSnapshot, RestoredOperator
from tidegate.model.errors import SchemaMismatch
from tidegate.model.keygroups import KeyGroupRange

STATE_NAME = "windows"
KEY_PREFIX = "key."
VALUE_PREFIX = "value."
WINDOW_COLUMNS = ("window_start", "window_end")

MERGE_ROWS = 1 << 17
"""Runs of one window are merged once they hold this many rows not yet merged: a few milliseconds of work."""

Merge = Callable[[Sequence[pa.RecordBatch]], pa.RecordBatch]
"""Batches of one window to one batch with each key once."""


@dataclass(slots=True)
class _Window:
    runs: list[pa.RecordBatch]
    unmerged_rows: int = 0


class ColumnarWindowState:
    """All windows of one subtask that have not ended. ``merge`` combines partials; ``keys`` names the key columns."""

    def __init__(
        self, operator: str, keys: Sequence[str], merge: Merge, size_ms: int, owned: KeyGroupRange, max_parallelism: int
    ) -> None:
        self._operator = operator
        self._keys = tuple(keys)
        self._merge = merge
        self._size_ms = size_ms
        self._owned = owned
        self._max_parallelism = max_parallelism
        self._windows: dict[int, _Window] = {}
        self._schema: pa.Schema | None = None

    def add(self, start_ms: int, partials: pa.RecordBatch) -> None:
        """Partials of one window; a key may be in several batches. Raises ``SchemaMismatch`` when their columns are
        not those of what is there (a restored state of other aggregates, say)."""
        if self._schema is None:
            self._schema = partials.schema.remove_metadata()
        elif not self._schema.equals(partials.schema):
            raise SchemaMismatch(
                f"operator '{self._operator}': its windows have the columns {_describe(self._schema)}, now come "
                f"{_describe(partials.schema)}: give the operator another uid, or restore with the job that wrote them"
            )
        window = self._windows.setdefault(start_ms, _Window([]))
        window.runs.append(partials)
        window.unmerged_rows += partials.num_rows
        if window.unmerged_rows >= MERGE_ROWS and len(window.runs) > 1:
            self._compact(window)

    def starts(self) -> list[int]:
        """Windows that hold something, in the order of time."""
        return sorted(self._windows)

    def take(self, start_ms: int) -> pa.RecordBatch:
        """Everything of one window, each key once; the window is forgotten."""
        return self._merge(self._windows.pop(start_ms).runs)

    def freeze(self) -> FrozenState:
        runs = {start: tuple(window.runs) for start, window in self._windows.items()}
        return _FrozenWindows(
            self._operator, self._keys, self._merge, self._size_ms, self._owned, self._max_parallelism, runs
        )

    def restore(self, restored: RestoredOperator, source: SegmentSource) -> None:
        """Raises ``CorruptData``; ``SchemaMismatch`` when the state has other keys."""
        for segment in restored.keyed:
            if segment.state_name != STATE_NAME or segment.key_groups.intersect(self._owned).size == 0:
                continue
            _, data = read_keyed(source, segment, self._owned)
            self._check_keys(data.schema)
            starts = data.column(WINDOW_COLUMNS[0]).to_numpy()
            names = [n for n in data.schema.names if n not in WINDOW_COLUMNS]
            plain = data.select(names).rename_columns([n.split(".", 1)[1] for n in names])
            for start in np.unique(starts):
                self.add(int(start), plain.take(pa.array(np.flatnonzero(starts == start))))

    def _check_keys(self, schema: pa.Schema) -> None:
        stored = [n[len(KEY_PREFIX) :] for n in schema.names if n.startswith(KEY_PREFIX)]
        if stored != list(self._keys) or not set(WINDOW_COLUMNS) <= set(schema.names):
            raise SchemaMismatch(
                f"operator '{self._operator}': the restored windows have the keys {stored}, the job's {list(self._keys)}: "
                "give the operator another uid, or restore with the job that wrote them"
            )

    def _compact(self, window: _Window) -> None:
        """Merge the newest runs, and older ones only while they are no larger, so that the work stays in proportion."""
        keep = len(window.runs) - 1
        rows = window.runs[keep].num_rows
        while keep > 0 and window.runs[keep - 1].num_rows <= max(2 * rows, MERGE_ROWS // 4):
            keep -= 1
            rows += window.runs[keep].num_rows
        window.runs[keep:] = [self._merge(window.runs[keep:])]
        window.unmerged_rows = 0


def _describe(schema: pa.Schema) -> str:
    return ", ".join(f"{f.name}: {f.type}" for f in schema)


@dataclass(slots=True)
class _FrozenWindows(FrozenState):
    operator: str
    keys: tuple[str, ...]
    merge: Merge
    size_ms: int
    owned: KeyGroupRange
    max_parallelism: int
    runs: dict[int, tuple[pa.RecordBatch, ...]]

    def write(self, store: SegmentStore) -> OperatorSnapshot:
        if not self.runs:
            return OperatorSnapshot()
        merged = {start: self.merge(runs) for start, runs in sorted(self.runs.items())}
        batch = pa.concat_batches(list(merged.values()))
        starts = np.repeat(np.fromiter(merged, np.int64), [b.num_rows for b in merged.values()])
        names = [(KEY_PREFIX if n in self.keys else VALUE_PREFIX) + n for n in batch.schema.names]
        columns = dict(zip(names, batch.columns, strict=True))
        columns[WINDOW_COLUMNS[0]] = pa.array(starts)
        columns[WINDOW_COLUMNS[1]] = pa.array(starts + self.size_ms)
        order = [n for n in columns if n.startswith(KEY_PREFIX)] + list(WINDOW_COLUMNS)
        order += [n for n in columns if n.startswith(VALUE_PREFIX)]
        data = pa.RecordBatch.from_arrays([columns[n] for n in order], names=order)
        about = StateDescription(
            self.operator, STATE_NAME, "columnar_windows", {n: str(data.schema.field(n).type) for n in order}
        )
        return OperatorSnapshot(keyed=(write_keyed(store, data, self._groups(batch), self.owned, about),))

    def release(self) -> None:
        self.runs = {}

    def _groups(self, batch: pa.RecordBatch) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        if not self.keys:
            return np.full(batch.num_rows, self.owned.start, np.int32)
        return key_groups(hash_columns([batch.column(n) for n in self.keys]), self.max_parallelism)
