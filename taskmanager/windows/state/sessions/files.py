"""Sessions over columns in state files: segments of kind ``columnar_windows``, either whole or with all sessions of the keys that changed since an earlier
checkpoint.

    key_group │ key.<column> ... │ window_start, window_end │ value.<column> ...               level 0: each session once
                                                                        ... │ deleted          above: the sessions of some keys

Sessions grow and are merged, so a level cannot be added to lower ones: it holds all sessions of each key that it contains, and rows of that key in lower levels
are deleted. A row with ``deleted`` contains a key of which a session has ended, and is not a session. All keys with the same hash count as changed together, so
that a restore only compares hashes.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.columnar.keys.hashing import key_groups
from tidegate.model.checkpoint import SegmentHandle
from tidegate.model.keygroups import KeyGroupRange
from tidegate.taskmanager.state.files.read_ahead import ReadAhead, in_reading_order
from tidegate.taskmanager.state.files.segment_streams import write_segments
from tidegate.taskmanager.state.files.segments import DELETED, Groups, by_key_group, read_keyed_batches
from tidegate.taskmanager.state.ports import SegmentSource, SegmentStore
from tidegate.taskmanager.windows.state.buckets import FrozenBuckets
from tidegate.taskmanager.windows.state.files import FrozenWindows
from tidegate.taskmanager.windows.state.sessions.rows import END, START, HashFilter, SessionFormat, hashes_of


@dataclass(slots=True)
class FrozenSessions(FrozenWindows):
    """The frozen state of sessions. ``since.rows``: hashes of the changed keys, in column 0; ``gone``: hash and columns of the keys of which a session has
    ended.
    """

    gone: Sequence[pa.RecordBatch]
    max_parallelism: int

    def release(self) -> None:
        FrozenWindows.release(self)
        self.gone = ()

    def _delta(
        self, store: SegmentStore, buckets: FrozenBuckets, added: Sequence[pa.RecordBatch], level: int
    ) -> Iterator[SegmentHandle]:
        changed = np.unique(np.concatenate([batch.column(0).to_numpy() for batch in added]))
        found = list(_of_hashes(buckets, changed))
        some = self.since.example
        rows = self.merge(found or [buckets.a_run.slice(0, 1) if some is None else some])
        rows = rows if found else rows.slice(0, 0)
        kept = self.form.stored(rows)
        kept = kept.append_column(DELETED, pa.array(np.zeros(rows.num_rows, np.bool_)))
        gone = [_as_deleted(batch, kept.schema) for batch in self.gone]
        hashes = np.concatenate([hashes_of(batch) for batch in (rows, *self.gone)])
        data, groups = by_key_group(pa.concat_batches([kept, *gone]), key_groups(hashes, self.max_parallelism))
        about = self.form.describe(data)
        return write_segments(store, about, iter([(groups, data)]), self.owned, level, is_shared=self._is_shared)


def read_sessions(
    form: SessionFormat, owned: KeyGroupRange, segments: Sequence[SegmentHandle], source: SegmentSource
) -> Generator[pa.RecordBatch, None, None]:
    """Reads the state of session windows: yields the partial aggregates of the owned key groups from segments.

    The generator reads ahead, so it has to be closed. Raises ``CorruptData``, ``StorageError``, and ``SchemaMismatch`` when the key columns of the state
    are not those of the job.
    """
    ordered = in_reading_order(segments)[::-1]
    above: Groups = np.zeros(0, np.int32)
    named: list[Groups] = []
    level = None
    with ReadAhead(source, [segment.handle for segment in ordered]) as files:
        for segment in ordered:
            if segment.level != level:
                above, named, level = np.unique(np.concatenate([above, *named])), [], segment.level
            for _, data in read_keyed_batches(files, segment, owned):
                form.check(data.schema)
                rows = form.partials(data)
                kept = ~_are_among(hashes_of(rows), above)
                if segment.level:
                    named.append(hashes_of(rows))
                    kept &= ~data.column(DELETED).to_numpy(zero_copy_only=False)
                rows = rows if kept.all() else rows.filter(pa.array(kept))
                if rows.num_rows:
                    yield rows


def _of_hashes(buckets: FrozenBuckets, hashes: Groups) -> Iterator[pa.RecordBatch]:
    """Yields the rows of the keys with these hashes, which ascend."""
    filtered = HashFilter(hashes)
    for batch in buckets.batches():
        found = filtered.find(hashes_of(batch))
        found = found[_are_among(hashes_of(batch)[found], hashes)]
        if len(found):
            yield batch.take(pa.array(found))


def _are_among(hashes: Groups, ascending: Groups) -> npt.NDArray[np.bool_]:
    if not len(ascending):
        return np.zeros(len(hashes), np.bool_)
    places = np.minimum(np.searchsorted(ascending, hashes), len(ascending) - 1)
    found: npt.NDArray[np.bool_] = ascending[places] == hashes
    return found


def _as_deleted(keys: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Returns rows that mark these keys as removed from lower levels."""
    named = dict(zip(schema.names, keys.columns[1:], strict=False))
    zeros, deleted = pa.array(np.zeros(keys.num_rows, np.int64)), pa.array(np.ones(keys.num_rows, np.bool_))
    named |= {START: zeros, END: zeros, DELETED: deleted}
    columns = [named[f.name] if f.name in named else pa.nulls(keys.num_rows, f.type) for f in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
