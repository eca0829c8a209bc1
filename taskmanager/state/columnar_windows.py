"""Keyed state of columnar windows: for each window, Arrow batches of partial aggregates that are only ever replaced.

    add(start, batch) ─▶ buckets of the window (``window_buckets``) ─▶ take(start) at its end

Law 3 holds by construction: a batch is never written in place, so freezing takes the lists of references, and later
merges make new batches. What is written is merged and sorted by key group in the snapshot thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from taskmanager.state.base import FrozenState, SegmentSource, SegmentStore
from taskmanager.state.segments import Groups, StateDescription, read_keyed, write_keyed
from taskmanager.state.window_buckets import FrozenWindow, GroupsOf, Merge, WindowBuckets
from tidegate.common.key_hashing import hash_columns, key_groups
from tidegate.model.checkpoint import OperatorSnapshot, RestoredOperator
from tidegate.model.errors import SchemaMismatch
from tidegate.model.keygroups import KeyGroupRange

STATE_NAME = "windows"
KEY_PREFIX = "key."
VALUE_PREFIX = "value."
WINDOW_COLUMNS = ("window_start", "window_end")


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
        self._windows: dict[int, WindowBuckets] = {}
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
        window = self._windows.get(start_ms)
        if window is None:
            window = self._windows[start_ms] = WindowBuckets(self._owned, self._merge, self._groups_of)
        window.add(partials)

    def starts(self) -> list[int]:
        """Windows that hold something, in the order of time."""
        return sorted(self._windows)

    def take(self, start_ms: int) -> Iterator[pa.RecordBatch]:
        """Everything of one window, each key once; the window is forgotten."""
        return self._windows.pop(start_ms).freeze().merged(self._merge, self._groups_of)

    def freeze(self) -> FrozenState:
        windows = {start: window.freeze() for start, window in self._windows.items()}
        return _FrozenWindows(
            self._operator, self._keys, self._merge, self._groups_of, self._size_ms, self._owned, windows
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

    def _groups_of(self, batch: pa.RecordBatch) -> Groups:
        if not self._keys:
            return np.full(batch.num_rows, self._owned.start, np.int32)
        return key_groups(hash_columns([batch.column(n) for n in self._keys]), self._max_parallelism)


def _describe(schema: pa.Schema) -> str:
    return ", ".join(f"{f.name}: {f.type}" for f in schema)


@dataclass(slots=True)
class _FrozenWindows(FrozenState):
    operator: str
    keys: tuple[str, ...]
    merge: Merge
    groups_of: GroupsOf
    size_ms: int
    owned: KeyGroupRange
    windows: dict[int, FrozenWindow]

    def write(self, store: SegmentStore) -> OperatorSnapshot:
        parts = [
            (start, part)
            for start, window in sorted(self.windows.items())
            for part in window.merged(self.merge, self.groups_of)
        ]
        if not parts:
            return OperatorSnapshot()
        batch = pa.concat_batches([part for _, part in parts])
        starts = np.repeat(np.array([start for start, _ in parts], np.int64), [part.num_rows for _, part in parts])
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
        return OperatorSnapshot(keyed=(write_keyed(store, data, self.groups_of(batch), self.owned, about),))

    def release(self) -> None:
        self.windows = {}
