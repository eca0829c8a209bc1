"""Restored rows of columnar keyed state in the files of their checkpoint, by key group, and those groups on their way into memory.

    files ─▶ pieces of a key group, the lowest level first ─▶ put: in their place, some thousand rows at a time

Rows of a group are reached when all of its levels are in place, so a group that is half loaded counts as one in the files: a snapshot names the files again,
or reads them itself where it writes everything. What is put in place has not changed since the restore, whenever that is (``ColumnarRows.put_restored``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.columnar.table.rows import ColumnarRows
from tidegate.model.checkpoint import SegmentHandle
from tidegate.model.errors import ON_DAMAGE, CorruptData
from tidegate.model.keygroups import KeyGroupRange
from tidegate.taskmanager.state.files.partial_segment import PartialSegment
from tidegate.taskmanager.state.files.segments import DELETED, KEY_GROUP
from tidegate.taskmanager.state.restoring.files import RestoredFiles, read_slice, slices
from tidegate.taskmanager.state.restoring.loader import GroupLoader
from tidegate.taskmanager.state.restoring.port import RestoredPart

STEP_ROWS = 1 << 15
"""Rows that are put in place at once: some milliseconds."""
Piece = tuple[pa.RecordBatch, bool]
"""Rows of one key group, and whether none of their keys is there yet: they are of level 0."""
Put = Callable[[int, pa.RecordBatch, bool], None]
"""(key group, counted from the first owned one; rows of it; whether none of their keys is there yet)."""
Merge = Callable[[int, int, Iterator[Piece]], Iterator[pa.RecordBatch]]
"""(key group, how many rows it has at most, its rows level by level) -> each key once. Snapshot thread."""


class RestoredGroups:
    """The files, ``parts``, as rows. Key groups are counted from the first owned one. Immutable."""

    def __init__(self, parts: Sequence[PartialSegment], owned: KeyGroupRange) -> None:
        self._files = RestoredFiles(parts)
        self._start = owned.start
        no_rows = np.zeros(owned.size, np.int64)
        counts = [(part.segment.level, rows_by_group(part.segment, owned)) for part in parts]
        self.whole_rows = sum((rows for level, rows in counts if level == 0), no_rows)
        """How many rows of level 0 each key group has."""
        self.rows = sum((rows for _, rows in counts), no_rows)
        """How many rows of all levels each key group has."""

    def need(self, group: int) -> None:
        """As ``RestoredFiles.need``."""
        self._files.need(self._start + group)

    def pieces(self, group: int) -> Iterator[Piece]:
        """Yields those of a key group, the lowest level first, each of at most ``STEP_ROWS`` rows. Raises ``CorruptData`` that names the file,
        ``StorageError``."""
        number = self._start + group
        self._files.need(number)
        for part in self._files.of(number):
            for found in slices(part, number, STEP_ROWS):
                yield _without_marks(part, read_slice(found, number)), part.segment.level == 0


class UnloadedGroups(RestoredPart[None, None]):
    """Those on their way into ``rows``; the one that most rows wait for comes first. ``find`` loads a group. Subtask's thread."""

    def __init__(self, restored: RestoredGroups, rows: ColumnarRows, put: Put, merge: Merge) -> None:
        self._restored = restored
        self._rows = rows
        self._put = put
        self._merge = merge
        self._loader = GroupLoader(self, dict(enumerate(restored.rows.tolist())), step_rows=STEP_ROWS)
        self._is_left = restored.rows > 0
        self._memory = ExitStack()
        self._memory.enter_context(rows.expecting(restored.whole_rows))

    @property
    def is_done(self) -> bool:
        return not self._loader.left

    @property
    def rows_left(self) -> int:
        return self._loader.rows_left

    @property
    def whole_rows_left(self) -> int:
        """Returns the rows of level 0 in the files of groups that are not loaded."""
        return int(self._restored.whole_rows[self._is_left].sum())

    @property
    def is_left(self) -> npt.NDArray[np.bool_]:
        """Returns which groups are not loaded. It is not to be changed."""
        return self._is_left

    @property
    def next_group(self) -> int | None:
        """The one that the next step begins with, to be read (``need``) in another thread before; ``None``: all are loaded."""
        return self._loader.next_group

    def waits(self, group: int, rows: int) -> None:
        """So many rows cannot be processed before the group is loaded."""
        self._loader.waits(group, rows)

    def find(self, group: int, wanted: None = None) -> None:
        """Rows of the group are reached afterwards. Raises ``NoResourceAvailable``, too."""
        self._loader.load(group)

    def load_some(self) -> None:
        """Raises ``NoResourceAvailable``, too."""
        self._loader.load_some()

    def settle(self) -> None:
        self._loader.settle()

    def close(self) -> None:
        self._loader.close()
        self._memory.close()

    def frozen(self) -> FrozenGroups | None:
        """What a snapshot needs of it; ``None``: nothing."""
        return None if self.is_done else FrozenGroups(self._restored, self._is_left.copy(), self._merge)

    def need(self, group: int) -> None:
        self._restored.need(group)

    def chunks(self, group: int) -> Iterator[Piece]:
        groups = np.arange(len(self._is_left))
        self._rows.table.make_room(np.where(groups == group, self._restored.whole_rows, 0))
        return self._restored.pieces(group)

    def put(self, group: int, chunk: Piece) -> int:
        data, are_new = chunk
        self._put(group, data, are_new)
        rows: int = data.num_rows
        return rows

    def loaded(self, group: int) -> None:
        self._is_left[group] = False
        if self.is_done:
            self.close()


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
        pieces = self.restored.pieces(group)
        if self.restored.rows[group] == self.restored.whole_rows[group]:
            return (data for data, _ in pieces)
        return self.merge(group, int(self.restored.rows[group]), pieces)


def rows_by_group(segment: SegmentHandle, owned: KeyGroupRange) -> npt.NDArray[np.int64]:
    """How many rows a segment has of each owned key group."""
    found = np.zeros(owned.size, np.int64)
    both = segment.key_groups.intersect(owned)
    at = both.start - segment.key_groups.start
    found[both.start - owned.start : both.end + 1 - owned.start] = np.diff(segment.offsets[at : at + both.size + 1])
    return found


def has_columns(schema: pa.Schema, part: PartialSegment) -> bool:
    """The file has the very columns that are written now."""
    fields = [column for column in part.schema if column.name not in (KEY_GROUP, DELETED)]
    return bool(pa.schema(fields).equals(schema, check_metadata=True))


def _without_marks(part: PartialSegment, data: pa.RecordBatch) -> pa.RecordBatch:
    if DELETED not in data.schema.names:
        return data
    if data.column(DELETED).true_count:
        raise CorruptData(f"{part.name}: rows of '{part.segment.state_name}' are marked as removed; {ON_DAMAGE}")
    return data.drop_columns([DELETED])
