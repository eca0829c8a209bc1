"""Restored windows that stay in the files of their checkpoint until they fire: the job runs while they are read and verified.

    restore ─▶ parts of the key groups ─▶ buckets hold a ``RestoredPart`` each      settle: file by file, the highest level first
                                            │                                          read, verified, of which windows are its rows?
                                            └── windows fire ─▶ settled? ─▶ pieces of the files, mapped: they are pieces on disk like others

Laws. No byte is decoded before the checksum of its file was verified, and a damaged file is reported by the call that settles. Each file is read once. What the windows of the files
are is known only then, so nothing fires before; a delta does not need it, and what is written whole settles by itself.

A file that is mapped may go away with its checkpoint, and is readable until it is let go. What cannot be mapped as it lies there (compressed), or is not
sorted, becomes files of the attempt.
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.model.checkpoint import SegmentHandle
from tidegate.model.errors import StorageError
from tidegate.model.keygroups import KeyGroupRange
from tidegate.taskmanager.state.base import SegmentSource
from tidegate.taskmanager.state.columnar.spill_files import WriteRun
from tidegate.taskmanager.state.columnar.window_files import LAST_MS, LevelRows, WindowFormat, read_levels
from tidegate.taskmanager.state.columnar.window_runs import PendingRuns, SpilledRun, gathered

HELD_BYTES = 1 << 18
"""Less than this of a part is held in memory rather than in a file of its own, where it cannot be mapped."""
FEWEST_ROWS = 64
"""An average stretch has so many; with shorter ones rows are sorted instead."""
Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Rows ``start`` to ``stop - 1`` of a batch as it is stored; their windows do not descend."""

    data: pa.RecordBatch
    start: int
    stop: int

    def starts(self) -> Int64s:
        """Returns where the windows of its rows begin, in ms."""
        found: Int64s = self.data.column(self.data.schema.get_field_index("window_start")).to_numpy()
        return found[self.start : self.stop]

    def cut(self, last_start_ms: int) -> int:
        """Returns the row of ``data`` behind those of windows that begin at this time or before."""
        at = min(max(last_start_ms, -LAST_MS), LAST_MS)
        return self.start + int(np.searchsorted(self.starts(), at, side="right"))


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run in the files of a checkpoint, which are mapped. ``stretches`` has at least one."""

    form: WindowFormat
    stretches: tuple[Stretch, ...]
    row_bytes: float

    @property
    def num_rows(self) -> int:
        return sum(stretch.stop - stretch.start for stretch in self.stretches)

    @property
    def nbytes(self) -> int:
        return int(self.num_rows * self.row_bytes)

    @property
    def first(self) -> int:
        times = self.form.times
        return (min(int(s.starts()[0]) for s in self.stretches) - times.offset_ms) // times.step_ms

    def read(self) -> pa.RecordBatch:
        return gathered([self.form.partials(s.data.slice(s.start, s.stop - s.start)) for s in self.stretches])

    def split(self, last: int) -> tuple[StoredRun | None, StoredRun | None]:
        times = self.form.times
        bounds = [stretch.cut(last * times.step_ms + times.offset_ms) for stretch in self.stretches]
        pairs = list(zip(self.stretches, bounds, strict=True))
        head = tuple(Stretch(s.data, s.start, at) for s, at in pairs if at > s.start)
        rest = tuple(Stretch(s.data, at, s.stop) for s, at in pairs if at < s.stop)
        return self._of(head), self._of(rest)

    def _of(self, stretches: tuple[Stretch, ...]) -> StoredRun | None:
        return StoredRun(self.form, stretches, self.row_bytes) if stretches else None


class RestoredWindows:
    """All that a subtask was restored from, cut into ``parts``, which are the owned key groups in order. ``settle`` may be called from any thread."""

    def __init__(
        self,
        form: WindowFormat,
        parts: Sequence[KeyGroupRange],
        segments: Sequence[SegmentHandle],
        source: SegmentSource,
        write: WriteRun,
    ) -> None:
        """``write``: what cannot stay as it is becomes a file of the attempt."""
        self._form = form
        self._owned = KeyGroupRange(parts[0].start, parts[-1].end)
        self._starts = [part.start for part in parts]
        self._segments = segments
        self._source = source
        self._write = write
        self._lock = threading.Lock()
        self._is_closed = False
        self._runs: list[list[SpilledRun]] | None = None
        self.schema: pa.Schema | None = None
        """Columns of the partials, known once they are settled; ``None``: there are none."""
        rows, sizes = rows_and_bytes(segments, self._owned)
        first = first_window(form, segments, self._owned)
        self.parts = [
            RestoredPart(self, index, first, int(rows[at].sum()), int(sizes[at].sum()))
            for index, part in enumerate(parts)
            for at in [slice(part.start - self._owned.start, part.end + 1 - self._owned.start)]
        ]

    def settle(self) -> None:
        """Reads and verifies every file, unless that is done. Raises ``CorruptData``, ``StorageError``; ``SchemaMismatch`` when the state has other keys
        or windows."""
        with self._lock:
            if self._runs is None:
                self._runs = self._read()

    def runs_of(self, index: int) -> list[SpilledRun]:
        """Settles, and returns what there is of a part: nothing, when all of it has fired."""
        self.settle()
        assert self._runs is not None
        return self._runs[index]

    def close(self) -> None:
        """The subtask ends: what is not read yet need not be."""
        self._is_closed = True

    def _read(self) -> list[list[SpilledRun]]:
        stretches: list[list[Stretch]] = [[] for _ in self._starts]
        runs: list[list[SpilledRun]] = [[] for _ in self._starts]
        row_bytes = 0.0
        with closing(read_levels(self._owned, self._segments, self._source)) as levels:
            for rows in levels:
                if self._is_closed:
                    raise StorageError(f"operator '{self._form.operator}': its task ended before its windows were read")
                partials = self._form.partials(rows.data)
                self.schema = partials.schema.remove_metadata()
                row_bytes = max(row_bytes, partials.nbytes / partials.num_rows)
                for index, start, stop in _slices(self._starts, rows.groups):
                    found = list(_stretches(rows, start, stop, self._form))
                    if _is_mapped(rows) and FEWEST_ROWS * len(found) <= max(stop - start, FEWEST_ROWS * 64):
                        stretches[index] += found
                    elif found:
                        self._keep(found, stretches[index], runs[index])
        for index, there in enumerate(stretches):
            if there:
                runs[index].insert(0, StoredRun(self._form, tuple(there), row_bytes))
        return runs

    def _keep(self, found: Sequence[Stretch], stretches: list[Stretch], runs: list[SpilledRun]) -> None:
        """Rows that cannot stay where they are."""
        rows = pa.concat_batches([s.data.slice(s.start, s.stop - s.start) for s in found])
        if rows.nbytes > HELD_BYTES:
            runs.append(self._write(gathered([self._form.partials(rows)])))
            return
        order = np.argsort(rows.column("window_start").to_numpy(), kind="stable")
        stretches.append(Stretch(rows.take(pa.array(order)), 0, rows.num_rows))


@dataclass(frozen=True, eq=False)
class RestoredPart(PendingRuns):
    """The restored windows of a bucket, before it is known which windows they are. ``num_rows`` counts what has fired too."""

    restored: RestoredWindows
    index: int
    first: int | None
    num_rows: int
    nbytes: int

    def runs(self) -> list[SpilledRun]:
        """As ``RestoredWindows.runs_of``."""
        return self.restored.runs_of(self.index)


def rows_and_bytes(
    segments: Sequence[SegmentHandle], owned: KeyGroupRange
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Rows and bytes of each owned key group, as far as the handles tell."""
    rows, sizes = np.zeros(owned.size, np.int64), np.zeros(owned.size, np.int64)
    for segment in segments:
        both = segment.key_groups.intersect(owned)
        first = both.start - segment.key_groups.start
        counts: npt.NDArray[np.int64] = np.array(segment.offsets[first : first + both.size + 1], np.int64)
        if len(counts) != both.size + 1:
            continue  # reading it fails with the reason
        counts = counts[1:] - counts[:-1]
        here = slice(both.start - owned.start, both.end + 1 - owned.start)
        rows[here] += counts
        sizes[here] += (counts * (segment.handle.size_bytes / max(segment.offsets[-1], 1))).astype(np.int64)
    return rows, sizes


def first_window(form: WindowFormat, segments: Sequence[SegmentHandle], owned: KeyGroupRange) -> int | None:
    """Returns a number that no window with rows lies before, as far as the handles tell; ``None``: they do not. The highest level of a key group speaks for those
    below it."""
    firsts: npt.NDArray[np.int64] = np.full(owned.size, LAST_MS, np.int64)
    for segment in sorted(segments, key=lambda one: one.level):
        both = segment.key_groups.intersect(owned)
        firsts[both.start - owned.start : both.end + 1 - owned.start] = (
            -LAST_MS if segment.first_ms is None else segment.first_ms
        )
    first_ms = int(firsts.min())
    return None if first_ms == -LAST_MS else (first_ms - form.times.offset_ms) // form.times.step_ms


def _slices(starts: Sequence[int], groups: npt.NDArray[np.int32]) -> Iterator[tuple[int, int, int]]:
    """The rows of each part that has any: its index, and where they begin and end."""
    bounds = [*np.searchsorted(groups, starts).tolist(), len(groups)]
    for index in range(len(starts)):
        if bounds[index] < bounds[index + 1]:
            yield index, bounds[index], bounds[index + 1]


def _stretches(rows: LevelRows, start: int, stop: int, form: WindowFormat) -> Iterator[Stretch]:
    """Without the windows that have fired."""
    whole = Stretch(rows.data, start, stop)
    windows, fired = whole.starts(), rows.fired[start:stop]
    breaks = np.flatnonzero((windows[1:] < windows[:-1]) | (fired[1:] != fired[:-1])) + 1
    for first, end in zip([0, *breaks.tolist()], [*breaks.tolist(), stop - start], strict=True):
        stretch = Stretch(rows.data, start + first, start + end)
        begin = stretch.cut(int(fired[first]) - form.times.size_ms)
        if begin < stretch.stop:
            yield Stretch(rows.data, begin, stretch.stop)


def _is_mapped(rows: LevelRows) -> bool:
    """The columns lie in a mapped file as they are."""
    if not isinstance(rows.content.obj, mmap.mmap):
        return False
    base = pa.py_buffer(rows.content).address
    address = rows.data.column(rows.data.schema.get_field_index("window_start")).buffers()[1].address
    return bool(base <= address < base + len(rows.content))
