"""The partials of one window, in buckets by key group, so that merging never stalls the subtask.

    add ─▶ inbox ──64k rows──▶ merged, cut by key group ─▶ bucket: base run + newer runs ──as large as the base──▶ merged
                                                            bucket over 64k rows and more than one group ─▶ cut in two

One ``add`` merges at most one inbox and one bucket: some 200,000 rows, however many keys the window has. Batches are never
changed, only replaced, so a frozen window is a tuple of references.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.model.keygroups import KeyGroupRange

INBOX_ROWS = 1 << 16
BUCKET_ROWS = 1 << 16
MIN_MERGE_ROWS = 1 << 14

Merge = Callable[[Sequence[pa.RecordBatch]], pa.RecordBatch]
"""Batches of one window to one batch with each key once."""
GroupsOf = Callable[[pa.RecordBatch], npt.NDArray[np.int32]]
"""Key group of each row."""


@dataclass(slots=True)
class _Bucket:
    """Rows of the key groups ``groups``; no two buckets share one."""

    groups: KeyGroupRange
    runs: list[pa.RecordBatch] = field(default_factory=list)
    newer_rows: int = 0
    """Rows of all runs but the first, which is the base."""

    @property
    def is_due(self) -> bool:
        return len(self.runs) > 1 and self.newer_rows >= max(self.runs[0].num_rows, MIN_MERGE_ROWS)

    def append(self, rows: pa.RecordBatch) -> None:
        if self.runs:
            self.newer_rows += rows.num_rows
        self.runs.append(rows)


@dataclass(frozen=True, slots=True)
class FrozenWindow:
    """``firsts[i]`` is the first key group of ``buckets[i]``."""

    inbox: tuple[pa.RecordBatch, ...]
    firsts: tuple[int, ...]
    buckets: tuple[tuple[pa.RecordBatch, ...], ...]

    def merged(self, merge: Merge, groups_of: GroupsOf) -> Iterator[pa.RecordBatch]:
        """Each key once, bucket by bucket. Any thread."""
        extra: list[list[pa.RecordBatch]] = [[] for _ in self.buckets]
        if self.inbox:
            for index, part in _cut(merge(self.inbox), self.firsts, groups_of):
                extra[index].append(part)
        for runs, more in zip(self.buckets, extra, strict=True):
            if runs or more:
                yield merge([*runs, *more])


class WindowBuckets:
    def __init__(self, owned: KeyGroupRange, merge: Merge, groups_of: GroupsOf) -> None:
        self._merge = merge
        self._groups_of = groups_of
        self._inbox: list[pa.RecordBatch] = []
        self._inbox_rows = 0
        self._buckets = [_Bucket(owned)]

    def add(self, partials: pa.RecordBatch) -> None:
        self._inbox.append(partials)
        self._inbox_rows += partials.num_rows
        if self._inbox_rows >= INBOX_ROWS:
            self._empty_inbox()
        self._merge_one()

    def freeze(self) -> FrozenWindow:
        firsts = tuple(bucket.groups.start for bucket in self._buckets)
        return FrozenWindow(tuple(self._inbox), firsts, tuple(tuple(bucket.runs) for bucket in self._buckets))

    def _empty_inbox(self) -> None:
        merged = self._merge(self._inbox)
        self._inbox, self._inbox_rows = [], 0
        firsts = [bucket.groups.start for bucket in self._buckets]
        for index, part in _cut(merged, firsts, self._groups_of):
            self._buckets[index].append(part)

    def _merge_one(self) -> None:
        """The bucket with the most to gain, if it is due."""
        index = max(range(len(self._buckets)), key=lambda i: self._buckets[i].newer_rows)
        bucket = self._buckets[index]
        if not bucket.is_due:
            return
        merged = self._merge(bucket.runs)
        if merged.num_rows <= BUCKET_ROWS or bucket.groups.size < 2:
            self._buckets[index] = _Bucket(bucket.groups, [merged])
            return
        first, last = bucket.groups
        middle = (first + last + 1) // 2
        halves = [_Bucket(KeyGroupRange(first, middle - 1)), _Bucket(KeyGroupRange(middle, last))]
        for half, part in _cut(merged, (first, middle), self._groups_of):
            halves[half].append(part)
        self._buckets[index : index + 1] = halves


def _cut(rows: pa.RecordBatch, firsts: Sequence[int], groups_of: GroupsOf) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each bucket that has any."""
    if len(firsts) == 1:
        yield 0, rows
        return
    owners = np.searchsorted(np.asarray(firsts), groups_of(rows), side="right") - 1
    order = np.argsort(owners, kind="stable")
    sorted_rows = rows.take(pa.array(order))
    bounds = np.searchsorted(owners[order], np.arange(len(firsts) + 1))
    for index in range(len(firsts)):
        start, stop = int(bounds[index]), int(bounds[index + 1])
        if stop > start:
            yield index, sorted_rows.slice(start, stop - start)
