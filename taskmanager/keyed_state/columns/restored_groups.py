"""Restored rows of columnar keyed state in the files of their checkpoint, by key group, and those groups on their way into memory.

    files ─▶ pieces of a key group, the lowest level first ─▶ read: verified, by any thread ─▶ put: in their place, by the subtask's thread
                                                                 a step: some thousand rows

Rows of a group are reached when all of its levels are in place, so a group that is half loaded counts as one in the files: a snapshot names the files again,
or reads them itself where it writes everything. What is put in place has not changed since the restore, whenever that is (``ColumnarRows.put_restored``).

Files are held open and mapped: the checkpoint that they belong to may be subsumed or deleted meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.columnar.table.rows import ColumnarRows
from tidegate.model.checkpoint import SegmentHandle
from tidegate.model.errors import ON_DAMAGE, CorruptData
from tidegate.model.keygroups import KeyGroupRange
from tidegate.taskmanager.machines.state.loading import KeyGroupLoading
from tidegate.taskmanager.state.base import PartialSource, SegmentSource
from tidegate.taskmanager.state.files.partial_segment import PartialSegment, most_open_files, opened_parts
from tidegate.taskmanager.state.files.segments import DELETED, KEY_GROUP

STEP_ROWS = 1 << 15
"""Rows that are put in place at once: some milliseconds."""
Put = Callable[[int, pa.RecordBatch, bool], None]
"""(key group, counted from the first owned one; rows of it; whether none of their keys is there yet)."""
Merge = Callable[[int, int, Iterator[tuple[pa.RecordBatch, bool]]], Iterator[pa.RecordBatch]]
"""(key group, how many rows it has at most, its rows level by level, each with whether it is of level 0) -> each key once. Snapshot thread."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows ``first`` to ``end - 1`` of a batch, all of one key group (counted from the first owned one)."""

    group: int
    part: PartialSegment
    batch: int
    first: int
    end: int
    is_first: bool
    """It is the first one of its group in its file."""

    @property
    def is_whole(self) -> bool:
        """It is of level 0."""
        return self.part.segment.level == 0


class RestoredGroups:
    """The files, ``parts``. Immutable."""

    def __init__(self, parts: Sequence[PartialSegment], owned: KeyGroupRange) -> None:
        self._parts = sorted(parts, key=lambda part: part.segment.level)
        self._owned = owned
        self.whole_rows = self._count(0, 0)
        """How many rows of level 0 each key group has."""
        self.rows = self.whole_rows + self._count(1, max((part.segment.level for part in parts), default=0))
        """How many rows of all levels each key group has."""

    def pieces(self, group: int) -> Iterator[Piece]:
        """Yields those of a key group, the lowest level first, each of at most ``STEP_ROWS`` rows."""
        for part in self._parts:
            if not part.segment.key_groups.start <= group + self._owned.start <= part.segment.key_groups.end:
                continue
            first, end = part.rows_of(group + self._owned.start)
            row = first
            while row < end:
                batch, at = divmod(row, part.batch_rows)
                stop = min(at + STEP_ROWS, part.batch_rows, at + end - row)
                yield Piece(group, part, batch, at, stop, is_first=row == first)
                row += stop - at

    def read(self, piece: Piece) -> pa.RecordBatch:
        """Without its key group. Raises ``CorruptData`` that names the file, ``StorageError``."""
        part = piece.part
        if piece.is_first:
            part.need_rows(*part.rows_of(piece.group + self._owned.start))
        data = part.slice(piece.batch, piece.first, piece.end)
        if not (data.column(KEY_GROUP).to_numpy() == piece.group + self._owned.start).all():
            raise CorruptData(
                f"{part.name}: its rows {piece.first} to {piece.end} of batch {piece.batch} are not of key group "
                f"{piece.group + self._owned.start}; {ON_DAMAGE}"
            )
        if DELETED in data.schema.names:
            if data.column(DELETED).true_count:
                raise CorruptData(
                    f"{part.name}: rows of '{part.segment.state_name}' are marked as removed; {ON_DAMAGE}"
                )
            data = data.drop_columns([DELETED])
        return data.drop_columns([KEY_GROUP])

    def _count(self, lowest: int, highest: int) -> npt.NDArray[np.int64]:
        found = np.zeros(self._owned.size, np.int64)
        for part in self._parts:
            if lowest <= part.segment.level <= highest:
                found += rows_by_group(part.segment, self._owned)
        return found


def left_in_files(
    segments: Sequence[SegmentHandle], owned: KeyGroupRange, schema: pa.Schema, source: SegmentSource, directory: str
) -> RestoredGroups | None:
    """Opens the files; ``None`` where they must be read at once: of other columns than are written now, compressed, of an older version, or too many.
    ``directory``: what comes from an object store is kept there. Raises ``CorruptData``, ``StorageError``."""
    files = sum(segment.handle.data is None for segment in segments)
    if not isinstance(source, PartialSource) or not 0 < files <= most_open_files():
        return None
    found = opened_parts(source, segments, directory)
    parts = [part for part in found if part is not None and part.is_even and _has_columns(part, schema)]
    return RestoredGroups(parts, owned) if len(parts) == len(segments) else None


@dataclass(eq=False, slots=True)
class Step:
    """What is loaded at once. ``pieces``: each with whether it is the last one of its group. ``read`` by any thread."""

    restored: RestoredGroups
    pieces: list[tuple[Piece, bool]] = field(default_factory=list)
    found: list[pa.RecordBatch] = field(default_factory=list)

    def read(self) -> None:
        """A second call reads nothing. Raises ``CorruptData``, ``StorageError``."""
        if not self.found:
            self.found = [self.restored.read(piece) for piece, _ in self.pieces]


class GroupLoader:
    """Key groups on their way into ``rows``. Subtask's thread."""

    def __init__(self, restored: RestoredGroups, rows: ColumnarRows, put: Put, merge: Merge) -> None:
        self._restored = restored
        self._rows = rows
        self._put = put
        self._merge = merge
        self._loading = KeyGroupLoading(restored.rows.tolist())
        self._is_left = restored.rows > 0
        self._pieces: deque[Piece] = deque()
        """What is left to read of the group that was begun."""
        self._steps: deque[Step] = deque()
        """Those that are read, in their order."""
        self._memory = ExitStack()
        self._memory.enter_context(rows.expecting(restored.whole_rows))

    @property
    def is_done(self) -> bool:
        return self._loading.is_done

    @property
    def rows_left(self) -> int:
        """Rows in the files of groups that are not loaded, those of all levels."""
        return self._loading.rows_left

    @property
    def whole_rows_left(self) -> int:
        """As ``rows_left``, those of level 0."""
        return int(self._restored.whole_rows[self._is_left].sum())

    @property
    def is_left(self) -> npt.NDArray[np.bool_]:
        """Returns which groups are not loaded. It is not to be changed."""
        return self._is_left

    def waits(self, group: int, rows: int) -> None:
        """So many rows cannot be processed before the group is loaded."""
        self._loading.waits(group, rows)

    def begin(self) -> Step | None:
        """What to ``read`` and ``put`` next; ``None``: all of it has begun."""
        step, rows = Step(self._restored), 0
        while rows < STEP_ROWS and (group := self._loading.next()) is not None:
            if not self._pieces:
                self._loading.begin(group)
                self._pieces.extend(self._restored.pieces(group))
                groups = np.arange(len(self._is_left))
                self._rows.make_room(np.where(groups == group, self._restored.whole_rows, 0))
            piece = self._pieces.popleft()
            step.pieces.append((piece, not self._pieces))
            rows += piece.end - piece.first
            if not self._pieces:
                self._loading.end_reading(group)
        if not step.pieces:
            return None
        self._steps.append(step)
        return step

    @property
    def begun(self) -> int:
        """Returns how many steps began and are not put yet."""
        return len(self._steps)

    def oldest(self) -> Step | None:
        """The step that was begun and is to be put next; ``None``: there is none."""
        return self._steps[0] if self._steps else None

    def put(self, step: Step) -> list[int]:
        """In the order in which they began. Returns the groups that are loaded now. Raises ``NoResourceAvailable``, ``StorageError``."""
        assert step is self._steps[0], "steps are put in their order"
        loaded = []
        for (piece, is_last), data in zip(step.pieces, step.found, strict=True):
            self._put(piece.group, data, piece.is_whole)
            if is_last:
                self._loading.loaded(piece.group)
                self._is_left[piece.group] = False
                loaded.append(piece.group)
        self._steps.popleft()
        if self._loading.is_done:
            self.close()
        return loaded

    def frozen(self) -> FrozenGroups | None:
        """What a snapshot needs of it; ``None``: nothing."""
        if self._loading.is_done:
            return None
        return FrozenGroups(self._restored, self._is_left.copy(), self._merge)

    def close(self) -> None:
        """A second call changes nothing."""
        self._memory.close()


@dataclass(frozen=True, slots=True)
class FrozenGroups:
    """At a freeze: the files, and which groups were not loaded. Snapshot thread."""

    restored: RestoredGroups
    is_left: npt.NDArray[np.bool_]
    merge: Merge

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        """Returns how many rows each of these groups has, at most; 0 for the others."""
        return np.where(self.is_left, self.restored.rows, 0)

    def content(self, group: int) -> Iterator[pa.RecordBatch]:
        """Each key of a group once, as its newest level has it. Raises ``CorruptData``, ``StorageError``."""
        pieces = list(self.restored.pieces(group))
        read = ((self.restored.read(piece), piece.is_whole) for piece in pieces)
        if all(piece.is_whole for piece in pieces):
            return (data for data, _ in read)
        return self.merge(group, int(self.restored.rows[group]), read)


def rows_by_group(segment: SegmentHandle, owned: KeyGroupRange) -> npt.NDArray[np.int64]:
    """How many rows a segment has of each owned key group."""
    found = np.zeros(owned.size, np.int64)
    both = segment.key_groups.intersect(owned)
    at = both.start - segment.key_groups.start
    found[both.start - owned.start : both.end + 1 - owned.start] = np.diff(segment.offsets[at : at + both.size + 1])
    return found


def _has_columns(part: PartialSegment, schema: pa.Schema) -> bool:
    """The file has the very columns that are written now."""
    fields = [column for column in part.schema if column.name not in (KEY_GROUP, DELETED)]
    return bool(pa.schema(fields).equals(schema, check_metadata=True))
