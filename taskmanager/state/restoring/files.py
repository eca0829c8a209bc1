"""The files of a restored state by key group: held open and mapped, and verified before they are used.

group ─▶ its segments, the lowest level first ─▶ slices: some rows at a time, checked to be of that group
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeGuard

import pyarrow as pa

from tidegate.model.checkpoint import SegmentHandle
from tidegate.model.errors import ON_DAMAGE, CorruptData
from tidegate.model.keygroups import KeyGroupRange
from tidegate.taskmanager.state.files.partial_segment import PartialSegment, most_open_files, opened_parts
from tidegate.taskmanager.state.files.segments import KEY_GROUP
from tidegate.taskmanager.state.ports import PartialSource, SegmentSource


@dataclass(frozen=True, slots=True)
class Slice:
    """The rows ``first`` to ``end - 1`` of a batch, all of one key group."""

    part: PartialSegment
    batch: int
    first: int
    end: int


class RestoredFiles:
    """The files of one restored state. ``parts``: segments whose batches are even. Immutable and thread-safe."""

    def __init__(self, parts: Sequence[PartialSegment]) -> None:
        self._parts = sorted(parts, key=lambda part: part.segment.level)

    def of(self, group: int) -> list[PartialSegment]:
        """Returns the segments that may have rows of a key group, lowest level first."""
        return [part for part in self._parts if part.segment.key_groups.start <= group <= part.segment.key_groups.end]

    def rows_of(self, owned: KeyGroupRange) -> dict[int, int]:
        """Returns the number of rows of each owned key group, in all levels."""
        found = {}
        for group in range(owned.start, owned.end + 1):
            found[group] = sum(end - first for first, end in (part.rows_of(group) for part in self.of(group)))
        return found

    def need(self, group: int) -> None:
        """Reads and verifies all rows of a key group. Raises ``CorruptData``, ``StorageError``."""
        for part in self.of(group):
            part.need_rows(*part.rows_of(group))


def slices(part: PartialSegment, group: int, most_rows: int) -> Iterator[Slice]:
    """Yields the rows of a key group in their order, at most ``most_rows`` of one batch at a time."""
    row, end = part.rows_of(group)
    while row < end:
        batch, at = divmod(row, part.batch_rows)
        stop = min(at + most_rows, part.batch_rows, at + end - row)
        yield Slice(part, batch, at, stop)
        row += stop - at


def read_slice(found: Slice, group: int) -> pa.RecordBatch:
    """Returns the rows of a slice without the key group column. Raises ``CorruptData`` naming the file, or ``StorageError``."""
    data = found.part.slice(found.batch, found.first, found.end)
    if not (data.column(KEY_GROUP).to_numpy() == group).all():
        raise CorruptData(
            f"{found.part.name}: its rows {found.first} to {found.end} of batch {found.batch} are not of key group {group}; {ON_DAMAGE}"
        )
    return data.drop_columns([KEY_GROUP])


def can_be_opened(source: SegmentSource, segments: Sequence[SegmentHandle]) -> TypeGuard[PartialSource]:
    """Tells whether parts of the files can be read, and all files can be open at once."""
    return isinstance(source, PartialSource) and sum(s.handle.data is None for s in segments) <= most_open_files()


def opened_for_parts(
    segments: Sequence[SegmentHandle], source: SegmentSource, directory: str, fits: Callable[[PartialSegment], bool]
) -> list[PartialSegment] | None:
    """Opens the files of a restored state to read parts of them; ``None`` where the state must be read at once. Raises ``CorruptData``, ``StorageError``.

    It must be read at once when the source gives whole files only, or when files are compressed, of an older version, not as ``fits`` says, all inline, or too
    many. ``directory``: where parts that come from an object store are kept.
    """
    if not can_be_opened(source, segments) or all(segment.handle.data is not None for segment in segments):
        return None
    opened = opened_parts(source, segments, directory)
    parts = [part for part in opened if part is not None and part.is_even and fits(part)]
    return parts if len(parts) == len(segments) else None
