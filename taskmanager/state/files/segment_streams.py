"""Writes keyed segments batch by batch, for state that does not fit into memory.

    batches in the order of their key groups ─▶ files of about FILE_BYTES, cut between two key groups ─▶ SegmentHandles
    of each file: Arrow IPC, drained into the store after each batch

A restore reads only files with key groups that the subtask owns, and reads the next file while it loads the rows of the current one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.model.checkpoint import SegmentHandle
from tidegate.model.keygroups import KeyGroupRange
from tidegate.store.files import Part
from tidegate.taskmanager.machines.incremental_snapshot import restricted
from tidegate.taskmanager.state.files.ipc_parts import IpcParts
from tidegate.taskmanager.state.files.partial_segment import even
from tidegate.taskmanager.state.files.segments import KEY_GROUP, Groups, StateDescription, write_options
from tidegate.taskmanager.state.ports import SegmentStore

FILE_BYTES = 64 << 20
"""Bytes from which a file ends, with the key group that makes it so large. Small enough that a restore does not wait long for its first file (it holds some
more, ``read_ahead``), and so large that opening and syncing files takes no noticeable part of the time.
"""

Rows = tuple[Groups, pa.RecordBatch]
"""The key group of each row, ascending, and the other columns."""


def write_segments(
    store: SegmentStore,
    about: StateDescription,
    batches: Iterator[Rows],
    key_groups: KeyGroupRange,
    level: int = 0,
    *,
    is_shared: bool = False,
    batch_rows: int = 0,
    is_ordered: bool = False,
) -> Iterator[SegmentHandle]:
    """Writes batches as segments that together have these key groups; none if there are no batches. Raises ``StorageError``.

    All batches have one schema, and come in the order of their key groups. ``batch_rows``: rows of each batch in the files, so that some rows can be read
    without the others (``partial_segment``). ``is_ordered``: the rows of each group are in the order of their entries' bytes.
    """
    batch_rows = 0 if store.compresses else batch_rows
    about = even(about, batch_rows, is_ordered=is_ordered) if batch_rows else about
    cut = _Cut(batches)
    first = key_groups.start
    while cut.next_group is not None:
        rows = _evened(cut.file(), batch_rows) if batch_rows else cut.file()
        written = _File(about, KeyGroupRange(first, key_groups.end), level).write(store, rows, is_shared)
        end = key_groups.end if cut.next_group is None else cut.next_group - 1
        yield restricted(written, KeyGroupRange(first, end))
        first = end + 1


class _Cut:
    """Divides a stream of batches into files of about ``FILE_BYTES``, cut between two key groups. A batch may be divided for that."""

    def __init__(self, batches: Iterator[Rows]) -> None:
        self._batches = batches
        self._next = next(batches, None)

    @property
    def next_group(self) -> int | None:
        """The first key group of the next file; ``None`` at the end."""
        return None if self._next is None else int(self._next[0][0])

    def file(self) -> Iterator[Rows]:
        size, last = 0, -1
        while self._next is not None:
            groups, data = self._next
            if size >= FILE_BYTES:
                at = int(np.searchsorted(groups, last, side="right"))
                if at < len(groups):
                    self._next = (groups[at:], data.slice(at))
                    if at:
                        yield groups[:at], data.slice(0, at)
                    return
            size, last = size + data.nbytes, int(groups[-1])
            yield groups, data
            self._next = next(self._batches, None)


def _evened(batches: Iterator[Rows], batch_rows: int) -> Iterator[Rows]:
    """Yields the same rows in batches of ``batch_rows`` each, except for the last."""
    waiting: list[Rows] = []
    count = 0
    for rows in batches:
        waiting.append(rows)
        count += len(rows[0])
        if count >= batch_rows:
            groups, data = _joined(waiting)
            whole = count - count % batch_rows
            for at in range(0, whole, batch_rows):
                yield groups[at : at + batch_rows], data.slice(at, batch_rows)
            waiting = [(groups[whole:], data.slice(whole))] if whole < count else []
            count -= whole
    if count:
        yield _joined(waiting)


def _joined(rows: list[Rows]) -> Rows:
    if len(rows) == 1:
        return rows[0]
    (data,) = pa.Table.from_batches([data for _, data in rows]).combine_chunks().to_batches()
    return np.concatenate([groups for groups, _ in rows]), data


class _File:
    """Writes one segment."""

    def __init__(self, about: StateDescription, key_groups: KeyGroupRange, level: int = 0) -> None:
        self._about = about
        self._key_groups = key_groups
        self._level = level
        self._counts: npt.NDArray[np.int64] = np.zeros(key_groups.size, np.int64)

    def write(self, store: SegmentStore, batches: Iterator[Rows], is_shared: bool) -> SegmentHandle:
        """Writes the segment from at least one batch; returns its handle."""
        hint = f"{self._about.operator}-{self._about.state_name}"
        handle = store.write(hint, self._parts(batches, write_options(store)), is_shared=is_shared)
        offsets = (0, *(int(end) for end in np.cumsum(self._counts)))
        return SegmentHandle(self._about.state_name, self._key_groups, offsets, handle, self._level)

    def _parts(self, batches: Iterator[Rows], options: pa.ipc.IpcWriteOptions) -> Iterator[Part]:
        sink = IpcParts()
        writer = None
        for groups, data in batches:
            if writer is None:
                schema = data.schema.insert(0, pa.field(KEY_GROUP, pa.int32(), nullable=False))
                schema = schema.with_metadata(self._about.to_metadata())
                writer = pa.ipc.new_file(sink, schema, options=options)
            writer.write_batch(pa.RecordBatch.from_arrays([pa.array(groups), *data.columns], schema=schema))
            self._counts += np.bincount(groups - self._key_groups.start, minlength=self._key_groups.size)
            yield from sink.drain()
        assert writer is not None
        writer.close()
        yield from sink.drain()
