"""Restored rows of columnar keyed state by key group: in the files of their checkpoint, and while they are loaded into memory.

    files ─▶ pieces of a key group, the lowest level first ─▶ put: in their place, some thousand rows at a time

Rows of a group can be read when all of its levels are loaded, so a partly loaded group counts as unloaded: a snapshot refers to its files again, or reads them
if it writes the whole state. Rows that are put in place are not changes since the restore (``ColumnarRows.put_restored``).
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
"""Rows that are loaded at once, which takes some milliseconds."""
Piece = tuple[pa.RecordBatch, bool]
"""Rows of one key group, and whether their keys are new to the state because the rows are of level 0."""
Put = Callable[[int, pa.RecordBatch, bool], None]
"""Loads rows: (key group, counted from the first owned one; rows of it; whether their keys are new to the state)."""
Merge = Callable[[int, int, Iterator[Piece]], Iterator[pa.RecordBatch]]
"""Merges levels: (key group, most rows that it has, its rows level by level) -> each key once. Runs in the snapshot thread."""


class RestoredGroups:
    """Restored files as rows by key group. Key groups are counted from the first owned one. Immutable."""

    def __init__(self, parts: Sequence[PartialSegment], owned: KeyGroupRange) -> None:
        self._files = RestoredFiles(parts)
        self._start = owned.start
        no_rows = np.zeros(owned.size, np.int64)
        counts = [(part.segment.level, rows_by_group(part.segment, owned)) for part in parts]
        self.whole_rows = sum((rows for level, rows in counts if level == 0), no_rows)
        """Rows of level 0 for each key group."""
        self.rows = sum((rows for _, rows in counts), no_rows)
        """Rows of all levels for each key group."""

    def need(self, group: int) -> None:
        """Reads and verifies all rows of a key group. Raises as ``RestoredFiles.need`` does."""
        self._files.need(self._start + group)

    def pieces(self, group: int) -> Iterator[Piece]:
        """Yields the rows of a key group, lowest level first, at most ``STEP_ROWS`` at a time. Raises ``CorruptData`` naming the file, or ``StorageError``."""
        number = self._start + group
        self._files.need(number)
        for part in self._files.of(number):
            for found in slices(part, number, STEP_ROWS):
                yield _without_marks(part, read_slice(found, number)), part.segment.level == 0


class UnloadedGroups(RestoredPart[None, None]):
    """Restored key groups that are being loaded into ``rows``; the one for which most rows wait comes first. ``find`` loads a group. Used from the subtask's
    thread.
    """

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
        """The rows of level 0 in the files of groups that are not loaded."""
        return int(self._restored.whole_rows[self._is_left].sum())

    @property
    def is_left(self) -> npt.NDArray[np.bool_]:
        """Whether each key group is not loaded yet, as an array. Read-only."""
        return self._is_left

    @property
    def next_group(self) -> int | None:
        """The key group with which the next step begins, which may be read (``need``) in another thread before; ``None``: all are loaded."""
        return self._loader.next_group

    def waits(self, group: int, rows: int) -> None:
        """Notes that so many rows cannot be processed before the group is loaded."""
        self._loader.waits(group, rows)

    def find(self, group: int, wanted: None = None) -> None:
        """Loads a key group, so that its rows can be found. Also raises ``NoResourceAvailable``."""
        self._loader.load(group)

    def load_some(self) -> None:
        """Does one step of loading. Also raises ``NoResourceAvailable``."""
        self._loader.load_some()

    def settle(self) -> None:
        self._loader.settle()

    def close(self) -> None:
        self._loader.close()
        self._memory.close()

    def frozen(self) -> FrozenGroups | None:
        """Returns what a snapshot needs of the unloaded groups; ``None`` when all are loaded."""
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
    """The unloaded key groups at a freeze, with their files. Used from the snapshot thread."""

    restored: RestoredGroups
    is_left: npt.NDArray[np.bool_]
    merge: Merge

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        """The most rows of each unloaded group; 0 for the others."""
        return np.where(self.is_left, self.restored.rows, 0)

    def content(self, group: int) -> Iterator[pa.RecordBatch]:
        """Returns each key of a group once, as its newest level has it. Raises ``CorruptData``, ``StorageError``."""
        pieces = self.restored.pieces(group)
        if self.restored.rows[group] == self.restored.whole_rows[group]:
            return (data for data, _ in pieces)
        return self.merge(group, int(self.restored.rows[group]), pieces)


def rows_by_group(segment: SegmentHandle, owned: KeyGroupRange) -> npt.NDArray[np.int64]:
    """Returns the number of rows that a segment has of each owned key group."""
    found = np.zeros(owned.size, np.int64)
    both = segment.key_groups.intersect(owned)
    at = both.start - segment.key_groups.start
    found[both.start - owned.start : both.end + 1 - owned.start] = np.diff(segment.offsets[at : at + both.size + 1])
    return found


def has_columns(schema: pa.Schema, part: PartialSegment) -> bool:
    """Tells whether a file has exactly the columns that are written now."""
    fields = [column for column in part.schema if column.name not in (KEY_GROUP, DELETED)]
    return bool(pa.schema(fields).equals(schema, check_metadata=True))


def _without_marks(part: PartialSegment, data: pa.RecordBatch) -> pa.RecordBatch:
    if DELETED not in data.schema.names:
        return data
    if data.column(DELETED).true_count:
        raise CorruptData(
            f"{part.name}: rows of '{part.segment.state_name}' are marked as removed, which no checkpoint may hold; {ON_DAMAGE}"
        )
    return data.drop_columns([DELETED])
