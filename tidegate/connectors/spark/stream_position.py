"""The position in a Spark stream, and which of the received rows were emitted before. Without I/O.

    between batches: starts      in a batch: starts, ends, and of every partition the blocks and rows that were emitted
    on RowBlock ─▶ how many rows of the block to drop (all, some, none)        on PartitionEnded ─▶ the partition was whole

A batch is read again from its offsets. Blocks that were emitted are compared with their running digest and dropped, so a source that
gives other rows for the same offsets fails by name instead of giving a wrong result.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.connectors.spark.stream_link import BatchPlanned, Offsets, PartitionEnded, RowBlock, Written
from tidegate.model.errors import CorruptData
from tidegate.model.values import ReaderPosition

_COMPACT = re.compile(r"(?:(.*)/)?(\d+)\.compact")
_PLAIN = re.compile(r"(?:(.*)/)?(\d+)(?:\.compact)?")


@dataclass(frozen=True, slots=True)
class PartitionEmitted:
    """What was emitted of a partition: whole blocks, then rows of the next. ``digest``: of all blocks of which rows were emitted."""

    blocks: int = 0
    rows: int = 0
    digest: str = ""

    @property
    def checked_block(self) -> int:
        """Returns the last block of which rows were emitted; -1: none."""
        return self.blocks if self.rows else self.blocks - 1


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """The position in a stream. ``starts`` is ``None`` before the sources were asked, ``ends`` between batches."""

    starts: Offsets | None = None
    ends: Offsets | None = None
    batch: int = 0
    done: Mapping[int, PartitionEmitted] = field(default_factory=dict)
    written: Written = field(default_factory=dict)

    def to_state(self) -> ReaderPosition:
        """Returns the position as plain values for a checkpoint."""
        done = [[partition, one.blocks, one.rows, one.digest] for partition, one in sorted(self.done.items())]
        ends = None if self.ends is None else list(self.ends)
        return [None if self.starts is None else list(self.starts), ends, self.batch, done, dict(self.written)]

    @staticmethod
    def from_state(state: ReaderPosition) -> StreamPosition:
        """Restores a position from ``to_state``; ``None`` is the beginning."""
        if state is None:
            return StreamPosition()
        starts, ends, batch, done, written = state
        return StreamPosition(
            None if starts is None else tuple(starts),
            None if ends is None else tuple(ends),
            batch,
            {partition: PartitionEmitted(blocks, rows, digest) for partition, blocks, rows, digest in done},
            dict(written),
        )


class StreamProgress:
    """Tracks which rows of one Spark stream were emitted. ``position``: the position of the emitted rows in the stream, for a checkpoint."""

    def __init__(self, position: StreamPosition) -> None:
        self._starts, self._ends, self._batch = position.starts, position.ends, position.batch
        self._done = dict(position.done)
        self._written = dict(position.written)
        self._restored = dict(position.done)
        """What a replay of the batch must give again."""

    @property
    def batch(self) -> int:
        """Returns the number of the batch, counted from the job's beginning."""
        return self._batch

    @property
    def position(self) -> StreamPosition:
        """Returns the position for a checkpoint."""
        return StreamPosition(self._starts, self._ends, self._batch, dict(self._done), self._written)

    def on_planned(self, planned: BatchPlanned) -> None:
        """Notes a planned batch, new or repeated, or the sources' position."""
        self._starts = planned.starts
        if planned.written:
            self._written = merged(self._written, planned.written)
        if planned.ends != planned.starts:
            self._ends = planned.ends

    def on_rows(self, rows: RowBlock, count: int) -> int:
        """Notes a received block of ``count`` rows; returns how many of them were emitted before. Raises ``CorruptData``."""
        before = self._restored.get(rows.partition, PartitionEmitted())
        if rows.block == before.checked_block and rows.digest != before.digest:
            self._differs(rows.partition)
        if rows.block < before.blocks:
            return count
        return before.rows if rows.block == before.blocks else 0

    def on_emitted(self, rows: RowBlock, emitted: int, count: int) -> None:
        """Notes that ``emitted`` rows of a block of ``count`` have been emitted."""
        whole = emitted == count
        self._done[rows.partition] = PartitionEmitted(rows.block + whole, 0 if whole else emitted, rows.digest)

    def on_ended(self, ended: PartitionEnded) -> None:
        """Notes the end of a partition. Raises ``CorruptData`` when a replay has fewer rows than were emitted."""
        if ended.blocks <= self._restored.get(ended.partition, PartitionEmitted()).checked_block:
            self._differs(ended.partition)

    def on_batch_ended(self, ended: frozenset[int]) -> None:
        """Notes that all rows of the batch were emitted. ``ended``: its partitions. Raises ``CorruptData`` when a replay lacks one of them."""
        lost = self._restored.keys() - ended
        if lost:
            self._differs(min(lost))
        self._starts, self._ends = self._ends, None
        self._done, self._restored = {}, {}
        self._batch += 1

    def _differs(self, partition: int) -> None:
        raise CorruptData(
            f"partition {partition} of the batch of the Spark stream from {self._starts} to {self._ends} gave other rows than before: its source or "
            "its query is not deterministic, or what it reads was changed. Give the source a fixed number of partitions, compute what differs "
            "behind it, or restore from a checkpoint between two batches"
        )


def merged(written: Written, new: Written) -> Written:
    """Merges files of the sources; a compacted log replaces all before it."""
    found = {**written, **new}
    for name in new:
        compact = _COMPACT.fullmatch(name)
        if compact is None:
            continue
        for other in list(found):
            plain = _PLAIN.fullmatch(other)
            if plain is not None and plain[1] == compact[1] and other != name and int(plain[2]) <= int(compact[2]):
                del found[other]
    return found
