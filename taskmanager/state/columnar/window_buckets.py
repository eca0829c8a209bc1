"""The partials of all windows of a subtask, in buckets by key group, so that neither merging nor firing stalls it.

    add ─▶ inbox ──64k rows──▶ sorted by window, cut by key group ─▶ bucket: base run + newer runs ──as large as the base──▶ merged
                                                                     bucket over 1M rows and more than one group ─▶ cut in two
    take(last) ◀── the head of every run: it is sorted by window, so that is a slice; what is taken is merged

Column 0 of a batch is the number of its window. Rows of many small windows lie together in one run: what costs is rows,
not windows. Newer runs hold a key as often as it came: the more rows are merged at a time, the more of them share a key, and the less
often what is there already is merged again. One ``add`` merges at most one bucket, some 2 million rows in 30 to 80 ms, however many keys
and windows there are. Batches are never changed, only replaced, so what is frozen is a tuple of references.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.model.keygroups import KeyGroupRange

INBOX_ROWS = 1 << 16
BUCKET_ROWS = 1 << 20
"""Larger ones are cut, which costs each row a copy."""
MIN_MERGE_ROWS = 1 << 18
"""With a base smaller than this, memory is no reason to merge."""
FEW_BATCHES = 8
"""So many batches of an inbox are large enough to stay as they are."""
FEW = 4
"""Buckets that together hold no more than this part of one become one again."""

Merge = Callable[[Sequence[pa.RecordBatch]], pa.RecordBatch]
"""Batches to one batch with each (window, key) once, sorted by window."""
GroupsOf = Callable[[pa.RecordBatch], npt.NDArray[np.int32]]
"""Key group of each row."""


@dataclass(slots=True)
class _Bucket:
    """Rows of the key groups ``groups``; no two buckets share one. Each run is sorted by window, and the first, the base, has each
    (window, key) once, unless it is all that there is."""

    groups: KeyGroupRange
    runs: list[pa.RecordBatch] = field(default_factory=list)
    newer_rows: int = 0
    """Rows of all runs but the first, which is the base."""

    def is_due(self, min_merge_rows: int) -> bool:
        return len(self.runs) > 1 and self.newer_rows >= max(self.runs[0].num_rows, min_merge_rows)

    def append(self, rows: pa.RecordBatch) -> None:
        if self.runs:
            self.newer_rows += rows.num_rows
        self.runs.append(rows)

    def take(self, last: int) -> list[pa.RecordBatch]:
        """The part of each run that has windows up to ``last``; the bucket keeps the others."""
        heads, rests = [], []
        for run in self.runs:
            head, rest = _split(run, last)
            if head is not None:
                heads.append(head)
            if rest is not None:
                rests.append(rest)
        self.runs = rests
        self.newer_rows = sum(run.num_rows for run in rests[1:])
        return heads


@dataclass(frozen=True, slots=True)
class FrozenBuckets:
    """``firsts[i]`` is the first key group of ``buckets[i]``."""

    inbox: tuple[pa.RecordBatch, ...]
    firsts: tuple[int, ...]
    buckets: tuple[tuple[pa.RecordBatch, ...], ...]

    @property
    def rows(self) -> int:
        """Returns how many rows are held; a (window, key) counts as often as it is there."""
        held: int = sum(rows.num_rows for rows in self._runs())
        return held

    @property
    def a_run(self) -> pa.RecordBatch:
        """Some rows; there must be any."""
        return next(self._runs())

    def _runs(self) -> Iterator[pa.RecordBatch]:
        yield from self.inbox
        for runs in self.buckets:
            yield from runs

    def merged(self, merge: Merge, groups_of: GroupsOf) -> Iterator[pa.RecordBatch]:
        """Each (window, key) once, bucket by bucket. Any thread."""
        if len(self.buckets) == 1:
            parts = [*self.buckets[0], *self.inbox]
            return iter([merge(parts)] if parts else [])
        inbox = _gathered(self.inbox) if self.inbox else None
        return _join(self.buckets, inbox, self.firsts, merge, groups_of)


class WindowBuckets:
    def __init__(
        self,
        owned: KeyGroupRange,
        merge: Merge,
        groups_of: GroupsOf,
        bucket_rows: int = BUCKET_ROWS,
        min_merge_rows: int = MIN_MERGE_ROWS,
    ) -> None:
        self._bucket_rows = bucket_rows
        self._min_merge_rows = min_merge_rows
        self._owned = owned
        self._merge = merge
        self._groups_of = groups_of
        self._inbox: list[pa.RecordBatch] = []
        self._inbox_rows = 0
        self._buckets = [_Bucket(owned)]
        self._first: int | None = None
        """No window before this one holds anything; ``None``: none does at all."""

    def add(self, partials: pa.RecordBatch) -> None:
        """In any order; a key may be there several times."""
        if not partials.num_rows:
            return
        first = int(_windows(partials).min())
        self._first = first if self._first is None else min(first, self._first)
        self._inbox.append(partials)
        self._inbox_rows += partials.num_rows
        if self._inbox_rows >= INBOX_ROWS:
            self._empty_inbox()
        self._merge_one()

    def holds_up_to(self, last: int) -> bool:
        """Returns whether any window up to number ``last`` has rows."""
        return self._first is not None and self._first <= last

    def take(self, last: int) -> Iterator[pa.RecordBatch]:
        """Everything of the windows up to number ``last``, which is forgotten: each (window, key) once, batch by batch, each
        sorted by window."""
        if not self.holds_up_to(last):
            return iter(())
        inbox = None
        if self._inbox and min(int(_windows(rows).min()) for rows in self._inbox) <= last:
            inbox, rest = _split(_gathered(self._inbox), last)
            self._inbox = [] if rest is None else [rest]
            self._inbox_rows = 0 if rest is None else rest.num_rows
        firsts = self._firsts()
        heads = [tuple(bucket.take(last)) for bucket in self._buckets]
        self._join_small_buckets()
        kept = [*self._inbox, *(run for bucket in self._buckets for run in bucket.runs)]
        self._first = min((int(_windows(run).min()) for run in kept), default=None)
        return _join(heads, inbox, firsts, self._merge, self._groups_of)

    @property
    def rows(self) -> int:
        """Returns how many rows are held; a (window, key) counts as often as it is there."""
        held: int = sum(run.num_rows for bucket in self._buckets for run in bucket.runs)
        return self._inbox_rows + held

    @property
    def bytes_held(self) -> int:
        """Returns the bytes of the columns of all rows that are held."""
        runs = [*self._inbox, *(run for bucket in self._buckets for run in bucket.runs)]
        held: int = sum(run.nbytes for run in runs)
        return held

    def freeze(self) -> FrozenBuckets:
        return FrozenBuckets(tuple(self._inbox), self._firsts(), tuple(tuple(bucket.runs) for bucket in self._buckets))

    def _firsts(self) -> tuple[int, ...]:
        return tuple(bucket.groups.start for bucket in self._buckets)

    def _empty_inbox(self) -> None:
        batches, self._inbox, self._inbox_rows = self._inbox, [], 0
        if len(self._buckets) == 1 and len(batches) <= FEW_BATCHES:
            for batch in batches:
                self._buckets[0].append(_gathered([batch]))
            return
        for index, part in _cut(_gathered(batches), self._firsts(), self._groups_of):
            self._buckets[index].append(part)

    def _join_small_buckets(self) -> None:
        """After a large window has gone: many almost empty buckets would cost more than one."""
        if len(self._buckets) == 1:
            return
        rows = sum(run.num_rows for bucket in self._buckets for run in bucket.runs)
        if rows <= self._bucket_rows // FEW:
            self._inbox += [run for bucket in self._buckets for run in bucket.runs]
            self._inbox_rows = sum(run.num_rows for run in self._inbox)
            self._buckets = [_Bucket(self._owned)]

    def _merge_one(self) -> None:
        """The bucket with the most to gain, if it is due."""
        index = max(range(len(self._buckets)), key=lambda i: self._buckets[i].newer_rows)
        bucket = self._buckets[index]
        if not bucket.is_due(self._min_merge_rows):
            return
        merged = self._merge(bucket.runs)
        if merged.num_rows <= self._bucket_rows or bucket.groups.size < 2:
            self._buckets[index] = _Bucket(bucket.groups, [merged])
            return
        first, last = bucket.groups
        middle = (first + last + 1) // 2
        halves = [_Bucket(KeyGroupRange(first, middle - 1)), _Bucket(KeyGroupRange(middle, last))]
        for half, part in _cut(merged, (first, middle), self._groups_of):
            halves[half].append(part)
        self._buckets[index : index + 1] = halves


def _windows(rows: pa.RecordBatch) -> npt.NDArray[np.int64]:
    found: npt.NDArray[np.int64] = rows.column(0).to_numpy()
    return found


def _gathered(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Their rows in one batch, sorted by window."""
    rows = pa.concat_batches(batches) if len(batches) > 1 else batches[0]
    order = order_of_windows(_windows(rows))
    return rows if order is None else rows.take(pa.array(order))


def order_of_windows(windows: npt.NDArray[np.int64]) -> npt.NDArray[np.intp] | None:
    """What sorts rows by window and leaves them in their order within one; ``None``: they are sorted."""
    if bool((windows[1:] >= windows[:-1]).all()):
        return None
    low, high = int(windows.min()), int(windows.max())
    if high - low < 1 << 16:
        return np.argsort((windows - low).astype(np.uint16), kind="stable")  # a radix sort
    return np.argsort(windows, kind="stable")


def _split(run: pa.RecordBatch, last: int) -> tuple[pa.RecordBatch | None, pa.RecordBatch | None]:
    """The windows up to ``last`` of a sorted run, and those after it; ``None`` where there are none."""
    at = int(np.searchsorted(_windows(run), last, side="right"))
    if at == 0 or at == run.num_rows:
        return (None, run) if at == 0 else (run, None)
    rest = run.slice(at)
    if 2 * rest.nbytes < rest.get_total_buffer_size():  # do not keep the whole for the sake of its end
        rest = rest.take(pa.array(np.arange(rest.num_rows)))
    return run.slice(0, at), rest


def _join(
    buckets: Sequence[Sequence[pa.RecordBatch]],
    inbox: pa.RecordBatch | None,
    firsts: Sequence[int],
    merge: Merge,
    groups_of: GroupsOf,
) -> Iterator[pa.RecordBatch]:
    """One batch for each bucket that has runs or a part of the (merged) inbox."""
    extra: list[list[pa.RecordBatch]] = [[] for _ in buckets]
    if inbox is not None:
        for index, part in _cut(inbox, firsts, groups_of):
            extra[index].append(part)
    for runs, more in zip(buckets, extra, strict=True):
        parts = [*runs, *more]
        if parts:
            yield merge(parts)


def _cut(rows: pa.RecordBatch, firsts: Sequence[int], groups_of: GroupsOf) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each bucket that has any, in their order."""
    if len(firsts) == 1:
        yield 0, rows
        return
    owners = np.searchsorted(np.asarray(firsts), groups_of(rows), side="right") - 1
    order = np.argsort(owners.astype(np.uint16), kind="stable")  # a radix sort
    sorted_rows = rows.take(pa.array(order))
    bounds = np.searchsorted(owners[order], np.arange(len(firsts) + 1))
    for index in range(len(firsts)):
        start, stop = int(bounds[index]), int(bounds[index + 1])
        if stop > start:
            yield index, sorted_rows.slice(start, stop - start)
