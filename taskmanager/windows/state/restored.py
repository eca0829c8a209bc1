"""Restored windows that stay in the files of their checkpoint until they fire: the job runs while they are read and verified.

    restore ─▶ parts of the key groups ─▶ buckets hold a ``RestoredBucket`` each      settle: file by file, the highest level first
                                            │                                          read, verified, of which windows are its rows?
                                            ├── windows fire ─▶ settled? ─▶ pieces of the files, mapped: they are pieces on disk like others
                                            └── a few fire before ─▶ their rows are looked for in each part when its turn comes (``stored``)

Laws. No byte is decoded before the checksum of its block or its file was verified, and a damaged file is reported by the call that settles. Settling reads each
file once. The windows in the files are known only then, so few windows may fire before; writing a delta needs no settling, and writing the whole state settles.

A mapped file may be deleted with its checkpoint, and stays readable until it is unmapped. Files that cannot be mapped (compressed) or are not sorted are
rewritten as files of the attempt.
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.columnar.runs.disk import WriteRun
from tidegate.columnar.runs.memory import PendingRuns, SpilledRun, UnreadRuns, gathered
from tidegate.model.checkpoint import SegmentHandle
from tidegate.model.errors import StorageError
from tidegate.model.keygroups import KeyGroupRange
from tidegate.taskmanager.state.ports import SegmentSource
from tidegate.taskmanager.state.restoring.port import RestoredPart
from tidegate.taskmanager.windows.state.files import LAST_MS, LevelRows, WindowFormat, read_levels
from tidegate.taskmanager.windows.state.stored import (
    FEWEST_ROWS,
    NotInParts,
    StoredRun,
    Stretch,
    UnreadWindows,
    stretches_of,
)

HELD_BYTES = 1 << 18
"""Bytes below which a part that cannot be mapped is held in memory instead of a file of its own."""


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows after number ``after`` (``None``: from the first on) up to number ``last``."""

    after: int | None
    last: int


class RestoredWindows(RestoredPart[Windows, list[SpilledRun]]):
    """All restored windows of a subtask, cut into ``parts``, which are the owned key groups in order. ``find`` takes the index of a part. ``settle`` may be
    called from any thread.
    """

    def __init__(
        self,
        form: WindowFormat,
        parts: Sequence[KeyGroupRange],
        segments: Sequence[SegmentHandle],
        source: SegmentSource,
        write: WriteRun,
        unread: UnreadWindows | None = None,
    ) -> None:
        """Takes the files of a checkpoint, none of which is read yet. ``write``: writes what cannot stay as it is to a file of the attempt. ``unread``: finds
        windows that fire before everything is read; ``None``: no window does.
        """
        self._form = form
        self._owned = KeyGroupRange(parts[0].start, parts[-1].end)
        self._starts = [part.start for part in parts]
        self._segments = segments
        self._source = source
        self._write = write
        self._unread = unread
        self._checked: tuple[int, bool] | None = None
        """The last answer of ``may_fire``, since the same watermark comes repeatedly."""
        self._lock = threading.Lock()
        self._is_closed = False
        self._runs: list[list[SpilledRun]] | None = None
        self.schema: pa.Schema | None = None
        """Columns of the partials, known once they are settled or some have fired; ``None``: there are none, or they are not known yet."""
        rows, sizes = rows_and_bytes(segments, self._owned)
        first = first_window(form, segments, self._owned)
        self.parts = [
            RestoredBucket(self, index, first, int(rows[at].sum()), int(sizes[at].sum()))
            for index, part in enumerate(parts)
            for at in [slice(part.start - self._owned.start, part.end + 1 - self._owned.start)]
        ]

    @property
    def is_done(self) -> bool:
        return self._runs is not None

    @property
    def rows_left(self) -> int:
        return 0 if self.is_done else sum(part.num_rows for part in self.parts)

    def load_some(self) -> None:
        """Reads everything, since the highest level of a file says what is removed from those below."""
        self.settle()

    def settle(self) -> None:
        """Reads and verifies every file, unless that is done. Also raises ``SchemaMismatch`` when the state has other keys or windows."""
        with self._lock:
            if self._runs is None:
                self._runs = self._read()

    def runs_of(self, index: int) -> list[SpilledRun]:
        """Settles; returns the runs of a part, none if all its windows have fired."""
        self.settle()
        assert self._runs is not None
        return self._runs[index]

    def may_fire(self, last: int) -> bool:
        """Tells whether windows up to number ``last`` can be taken before all is settled, since they are few. Used from the subtask's thread. Raises what
        ``settle`` raises.
        """
        first = next((part.index for part in self.parts if part.num_rows), None)
        if self._runs is not None or self._unread is None or first is None:
            return self._runs is not None
        if self._checked is None or self._checked[0] != last:
            self._checked = (last, self._unread.are_few(first, last))
            if self._checked[1] and self.schema is None:
                self.schema = self._unread.schema(first)
        return self._checked[1]

    def find(self, group: int, wanted: Windows) -> list[SpilledRun]:
        """Returns the rows of some windows in a part. Raises what ``settle`` raises."""
        if self._runs is None and self._unread is not None:
            try:
                head = self._unread.head(group, wanted.after, wanted.last)
                return [] if head is None else [head]
            except NotInParts:
                pass  # another file than those that were looked at before: all are read
        heads = [run.split(wanted.last)[0] for run in after_window(self.runs_of(group), wanted.after)]
        return [head for head in heads if head is not None]

    def close(self) -> None:
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
                    found = list(stretches_of(rows.data, start, stop, rows.fired[start:stop], self._form))
                    if _is_mapped(rows) and FEWEST_ROWS * len(found) <= max(stop - start, FEWEST_ROWS * 64):
                        stretches[index] += found
                    elif found:
                        self._keep(found, stretches[index], runs[index])
        for index, there in enumerate(stretches):
            if there:
                runs[index].insert(0, StoredRun(self._form, tuple(there), row_bytes))
        return runs

    def _keep(self, found: Sequence[Stretch], stretches: list[Stretch], runs: list[SpilledRun]) -> None:
        """Keeps rows that cannot stay in their file, in memory or in a file of the attempt."""
        rows = pa.concat_batches([s.data.slice(s.start, s.stop - s.start) for s in found])
        if rows.nbytes > HELD_BYTES:
            runs.append(self._write(gathered([self._form.partials(rows)])))
            return
        order = np.argsort(rows.column("window_start").to_numpy(), kind="stable")
        stretches.append(Stretch(rows.take(pa.array(order)), 0, rows.num_rows))


@dataclass(frozen=True, eq=False)
class RestoredBucket(UnreadRuns):
    """The restored windows of a bucket before they are read. ``num_rows``: includes rows of windows that have fired. ``after``: windows up to this number were
    taken; ``None``: none was.
    """

    restored: RestoredWindows
    index: int
    first: int | None
    num_rows: int
    nbytes: int
    after: int | None = None

    def runs(self) -> list[SpilledRun]:
        """Settles; returns the runs of the bucket that were not taken."""
        return after_window(self.restored.runs_of(self.index), self.after)

    def may_split(self, last: int) -> bool:
        return self.restored.may_fire(last)

    def split(self, last: int) -> tuple[PendingRuns, UnreadRuns]:
        return _Head(self, last, self.first, self.num_rows, self.nbytes), replace(self, first=last + 1, after=last)


@dataclass(frozen=True, eq=False)
class _Head(PendingRuns):
    """The windows of a part up to number ``last``, which are read when they are needed."""

    part: RestoredBucket
    last: int
    first: int | None
    num_rows: int
    nbytes: int

    def runs(self) -> list[SpilledRun]:
        """Returns the rows of these windows, as ``RestoredWindows.find`` does."""
        return self.part.restored.find(self.part.index, Windows(self.part.after, self.last))


def after_window(runs: Sequence[SpilledRun], after: int | None) -> list[SpilledRun]:
    """Returns the parts of runs with windows after number ``after``; ``None``: all windows."""
    if after is None:
        return list(runs)
    return [rest for rest in (run.split(after)[1] for run in runs) if rest is not None]


def rows_and_bytes(
    segments: Sequence[SegmentHandle], owned: KeyGroupRange
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Returns the rows and bytes of each owned key group, as far as the handles say."""
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
    """Returns a number before which no window has rows, as far as the handles say; ``None`` if they do not. For each key group, its highest level counts."""
    firsts: npt.NDArray[np.int64] = np.full(owned.size, LAST_MS, np.int64)
    for segment in sorted(segments, key=lambda one: one.level):
        both = segment.key_groups.intersect(owned)
        firsts[both.start - owned.start : both.end + 1 - owned.start] = (
            -LAST_MS if segment.first_ms is None else segment.first_ms
        )
    first_ms = int(firsts.min())
    return None if first_ms == -LAST_MS else (first_ms - form.times.offset_ms) // form.times.step_ms


def _slices(starts: Sequence[int], groups: npt.NDArray[np.int32]) -> Iterator[tuple[int, int, int]]:
    """Yields the rows of each part that has any: its index, and where they begin and end."""
    bounds = [*np.searchsorted(groups, starts).tolist(), len(groups)]
    for index in range(len(starts)):
        if bounds[index] < bounds[index + 1]:
            yield index, bounds[index], bounds[index + 1]


def _is_mapped(rows: LevelRows) -> bool:
    """Tells whether the columns of rows are read directly from a mapped file."""
    if not isinstance(rows.content.obj, mmap.mmap):
        return False
    base = pa.py_buffer(rows.content).address
    address = rows.data.column(rows.data.schema.get_field_index("window_start")).buffers()[1].address
    return bool(base <= address < base + len(rows.content))
