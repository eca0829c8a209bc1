"""Windows in checkpoint files: runs of mapped rows, and the rows of the next windows before the files are read as a whole.

    a part ─▶ its files, the highest level first ─▶ where the windows of its rows begin, verified ─▶ stretches, sorted by window
    head(part, after, last) ─▶ of each stretch the rows of those windows, verified ─▶ a run

A file that is read as a whole is verified as a whole; here only the blocks that are read are verified.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.columnar.runs.memory import gathered
from tidegate.model.checkpoint import SegmentHandle
from tidegate.model.errors import ON_DAMAGE, CorruptData
from tidegate.model.keygroups import KeyGroupRange
from tidegate.taskmanager.state.files.partial_segment import PartialSegment, opened_parts
from tidegate.taskmanager.state.files.read_ahead import in_reading_order
from tidegate.taskmanager.state.files.segments import KEY_GROUP, Groups
from tidegate.taskmanager.state.ports import PartialSource
from tidegate.taskmanager.windows.state.files import LAST_MS, WindowFormat, note_fired

FEWEST_ROWS = 64
"""Least average rows of a stretch. With shorter ones, rows are sorted instead."""
FEW = 4
"""Windows with at most this part (a quarter) of the rows fire before the files are read as a whole. Chosen, not measured."""
Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Stretch:
    """The rows ``start`` to ``stop - 1`` of a stored batch, whose windows do not descend."""

    data: pa.RecordBatch
    start: int
    stop: int

    def starts(self) -> Int64s:
        """Returns where the windows of its rows begin, in ms."""
        found: Int64s = self.data.column(self.data.schema.get_field_index("window_start")).to_numpy()
        return found[self.start : self.stop]

    def cut(self, last_start_ms: int) -> int:
        """Returns the index in ``data`` of the first row whose window begins after this time."""
        at = min(max(last_start_ms, -LAST_MS), LAST_MS)
        return self.start + int(np.searchsorted(self.starts(), at, side="right"))


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run in the mapped files of a checkpoint. ``stretches``: at least one."""

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


def stretches_of(data: pa.RecordBatch, start: int, stop: int, fired: Int64s, form: WindowFormat) -> Iterator[Stretch]:
    """Yields the rows ``start`` to ``stop - 1`` as stretches, without windows that have fired. ``fired``: for each row, the end of the last fired window."""
    whole = Stretch(data, start, stop)
    windows = whole.starts()
    breaks = np.flatnonzero((windows[1:] < windows[:-1]) | (fired[1:] != fired[:-1])) + 1
    for first, end in zip([0, *breaks.tolist()], [*breaks.tolist(), stop - start], strict=True):
        stretch = Stretch(data, start + first, start + end)
        begin = stretch.cut(int(fired[first]) - form.times.size_ms)
        if begin < stretch.stop:
            yield Stretch(data, begin, stretch.stop)


class NotInParts(Exception):
    """A file can only be read as a whole: it is compressed, or an earlier version wrote it."""


@dataclass(frozen=True, slots=True)
class _Unread:
    """A stretch of batch ``index`` of a file, of which only the column of the windows' starts is verified."""

    file: PartialSegment
    index: int
    stretch: Stretch


class UnreadWindows:
    """Finds windows in restored files before these are read as a whole. ``parts``: the owned key groups in order. Used from the subtask's thread."""

    def __init__(
        self,
        form: WindowFormat,
        parts: Sequence[KeyGroupRange],
        segments: Sequence[SegmentHandle],
        source: PartialSource,
        directory: str,
    ) -> None:
        """Takes the files of a checkpoint. ``parts``: the ranges of key groups that are read one after another. ``directory``: where parts that come from an
        object store are kept.
        """
        self._form = form
        self._parts = parts
        self._segments = in_reading_order(segments)[::-1]
        self._source = source
        self._directory = directory
        self._files: dict[int, PartialSegment] = {}
        """Opened files by their place in ``_segments``."""
        self._found: dict[int, list[_Unread]] = {}
        """Stretches by part."""

    def are_few(self, index: int, last: int) -> bool:
        """Tells whether windows can fire from the restored files before these are read as a whole, since they have few of the rows.

        The windows are those up to number ``last`` in the range ``index`` of key groups (``parts``), with at most a quarter (``FEW``)
        of its rows. False also where these are in many short stretches (``FEWEST_ROWS``), or where a file can only be read as a whole.
        Raises ``CorruptData``, ``StorageError``.
        """
        try:
            found = [unread.stretch for unread in self._stretches(index)]
        except NotInParts:
            return False
        rows = sum(stretch.stop - stretch.start for stretch in found)
        taken = sum(stretch.cut(self._start_ms(last)) - stretch.start for stretch in found)
        return FEW * taken <= rows and FEWEST_ROWS * len(found) <= max(rows, FEWEST_ROWS * 64)

    def schema(self, index: int) -> pa.Schema | None:
        """Returns the columns of a part's partials; ``None`` if it has no rows."""
        found = self._stretches(index)
        return self._form.partials(_without_groups(found[0].stretch.data.slice(0, 0))).schema if found else None

    def head(self, index: int, after: int | None, last: int) -> StoredRun | None:
        """Returns the windows of a part after number ``after`` up to number ``last``; ``None`` if there are none. Raises ``NotInParts``, ``CorruptData``,
        ``StorageError``.
        """
        heads = []
        for unread in self._stretches(index):
            whole = unread.stretch
            start = whole.start if after is None else whole.cut(self._start_ms(after))
            stop = whole.cut(self._start_ms(last))
            if start < stop:
                rows = unread.file.slice(unread.index, start, stop)
                _check_groups(unread.file, unread.index, start, rows)
                heads.append(Stretch(_without_groups(rows), 0, stop - start))
        if not heads:
            return None
        rows = sum(head.stop for head in heads)
        return StoredRun(self._form, tuple(heads), sum(head.data.nbytes for head in heads) / rows)

    def _start_ms(self, number: int) -> int:
        return number * self._form.times.step_ms + self._form.times.offset_ms

    def _stretches(self, index: int) -> list[_Unread]:
        if index not in self._found:
            self._found[index] = list(self._look(self._parts[index]))
        return self._found[index]

    def _look(self, part: KeyGroupRange) -> Iterator[_Unread]:
        fired: Int64s = np.full(part.size, -LAST_MS - 1, np.int64)
        for file in self._opened(part):
            segment, bounds = file.segment, file.bounds()
            if bounds is None:
                raise NotInParts
            self._form.check(file.schema)
            both = segment.key_groups.intersect(part)
            first, end = file.rows_of(both.start)[0], file.rows_of(both.end)[1]
            for index, (begin, after) in enumerate(pairwise(bounds)):
                start, stop = max(first, begin), min(end, after)
                if start < stop:
                    here = fired[_groups_of(segment, start, stop) - part.start]
                    file.column(index, "window_start", start - begin, stop - begin)
                    for found in stretches_of(file.batch(index), start - begin, stop - begin, here, self._form):
                        yield _Unread(file, index, found)
            fired_ms = file.about.get("fired_ms")
            if fired_ms is not None:
                note_fired(fired, segment, part, fired_ms)

    def _opened(self, part: KeyGroupRange) -> list[PartialSegment]:
        places = [at for at, segment in enumerate(self._segments) if segment.key_groups.intersect(part).size]
        missing = [at for at in places if at not in self._files]
        opened = opened_parts(self._source, [self._segments[at] for at in missing], self._directory)
        for at, file in zip(missing, opened, strict=True):
            if file is None:
                raise NotInParts
            self._files[at] = file
        return [self._files[at] for at in places]


def _groups_of(segment: SegmentHandle, start: int, stop: int) -> Groups:
    """Returns the key groups of the rows ``start`` to ``stop - 1`` of a segment, by its handle."""
    rows = np.arange(start, stop)
    found: Groups = (np.searchsorted(segment.offsets, rows, side="right") - 1 + segment.key_groups.start).astype(
        np.int32
    )
    return found


def _check_groups(file: PartialSegment, index: int, start: int, rows: pa.RecordBatch) -> None:
    bounds = file.bounds()
    assert bounds is not None
    first = bounds[index] + start
    expected = _groups_of(file.segment, first, first + rows.num_rows)
    if not np.array_equal(rows.column(rows.schema.get_field_index(KEY_GROUP)).to_numpy(), expected):
        raise CorruptData(f"{file.name}: rows from {first} on are of other key groups than its index says; {ON_DAMAGE}")


def _without_groups(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.drop_columns([KEY_GROUP])
