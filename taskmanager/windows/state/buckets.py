"""The partial aggregates of all windows of a subtask, in buckets by key group, so that neither merging nor firing stalls it.

    add ─▶ inbox ──64k rows──▶ sorted by window, cut by key group ─▶ bucket: base run + newer runs ──as large as the base──▶ merged
                                                                     bucket over 128k rows and more than one group ─▶ cut in two
                                                  memory over its limit ─▶ the largest bucket, merged ─▶ one more run on disk
    take(last) ◀── the head of every run: it is sorted by window, so that is a slice; what is taken is merged

Column 0 of a batch is the number of its window. A run holds rows of many small windows, so that the cost depends on rows, not on windows. Newer runs hold a key
once for each time that it was added: the more rows are merged at a time, the more of them share a key, and the less often existing rows are merged again. One
``add`` merges at most one bucket, some 300,000 rows in 20 to 40 ms, for any number of keys and windows; with a memory limit it also writes buckets to disk
until the memory is within the limit (``machines.state.spilling`` decides). Batches are never changed, only replaced, so frozen state is a tuple of references.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tidegate.columnar.runs.disk import WriteRun
from tidegate.columnar.runs.memory import (
    FrozenRun,
    GroupsOf,
    Merge,
    Run,
    SpilledRun,
    UnreadRuns,
    cut,
    gathered,
    rows_of_runs,
    settled_runs,
    split_run,
    windows_of,
)
from tidegate.model.keygroups import KeyGroupRange
from tidegate.taskmanager.machines.state.spilling import decide_combine, decide_parts, decide_spill, is_worth_keeping

INBOX_ROWS = 1 << 16
BUCKET_ROWS = 1 << 17
"""Rows from which a bucket is cut, which costs each row a copy.

A barrier waits for a merge, and what is merged fits into a processor's cache: with a million rows steps took ten times as long, and all of them together 1.2 to
1.7 times; with half of this, cutting takes what merging saves (docs/benchmarks.md).
"""
MIN_MERGE_ROWS = 1 << 17
"""Rows of the newer runs below which they are not merged with the base, however small that is."""
FEW_BATCHES = 8
"""Most batches of an inbox that are large enough to stay as they are."""
FEW = 4
"""Buckets that together have at most this part (a quarter) of the rows of one are joined."""


@dataclass(slots=True)
class _Bucket:
    """The rows of the key groups ``groups``, which no other bucket has. Each run is sorted by window. The first run, the base, has each (window, key) once,
    unless it is the only one.
    """

    groups: KeyGroupRange
    runs: list[pa.RecordBatch] = field(default_factory=list)
    newer_rows: int = 0
    """Rows of all runs but the base."""
    nbytes: int = 0
    """Bytes of ``runs``, which are in memory."""
    spilled: list[SpilledRun] = field(default_factory=list)
    """Runs on disk, oldest first."""
    restored: UnreadRuns | None = None
    """Restored runs below those on disk; ``None``: there are none, or they are settled."""

    @staticmethod
    def of(groups: KeyGroupRange, rows: pa.RecordBatch, below: _Bucket) -> _Bucket:
        """Makes a bucket with one run in memory, and the runs of ``below`` on disk."""
        return _Bucket(groups, [rows], 0, rows.nbytes, below.spilled, below.restored)

    @property
    def is_on_disk(self) -> bool:
        """Whether part of the bucket is on disk, so that it cannot be cut."""
        return bool(self.spilled) or self.restored is not None

    @property
    def rows(self) -> int:
        there: int = sum(run.num_rows for run in self.frozen())
        return there

    @property
    def bytes_on_disk(self) -> int:
        there: int = sum(run.nbytes for run in self.spilled)
        return there + (0 if self.restored is None else self.restored.nbytes)

    def frozen(self) -> tuple[FrozenRun, ...]:
        """Returns references to all runs, oldest first."""
        restored = () if self.restored is None else (self.restored,)
        return (*restored, *self.spilled, *self.runs)

    def settle(self) -> None:
        """Turns restored runs into runs on disk. Raises what ``PendingRuns.runs`` raises."""
        if self.restored is not None:
            self.spilled = [*self.restored.runs(), *self.spilled]
            self.restored = None

    @property
    def first(self) -> int | None:
        """Number of the first window; ``None``: there is none."""
        return min(
            (*(run.first for run in self.spilled), *(int(windows_of(run)[0]) for run in self.runs)), default=None
        )

    def is_due(self, min_merge_rows: int) -> bool:
        return len(self.runs) > 1 and self.newer_rows >= max(self.runs[0].num_rows, min_merge_rows)

    def append(self, rows: pa.RecordBatch) -> None:
        if self.runs:
            self.newer_rows += rows.num_rows
        self.runs.append(rows)
        self.nbytes += rows.nbytes

    def may_hold(self, last: int) -> bool:
        """Tells whether restored runs that are not settled may have windows up to ``last``."""
        return self.restored is not None and (self.restored.first is None or self.restored.first <= last)

    def take(self, last: int) -> list[FrozenRun]:
        """Removes the windows up to ``last``; returns their part of each run. Raises ``StorageError``, and removes nothing then."""
        on_disk = [run.split(last) for run in self.spilled]
        in_memory = [split_run(run, last) for run in self.runs]
        self.spilled = [rest for _, rest in on_disk if rest is not None]
        self.runs = [rest for _, rest in in_memory if rest is not None]
        self.newer_rows = sum(run.num_rows for run in self.runs[1:])
        self.nbytes = sum(run.nbytes for run in self.runs)
        heads: list[FrozenRun] = [head for head, _ in (*on_disk, *in_memory) if head is not None]
        if self.restored is not None and self.may_hold(last):
            head, self.restored = self.restored.split(last)
            heads.insert(0, head)
        return heads


@dataclass(frozen=True, slots=True)
class FrozenBuckets:
    """The rows of all windows when state was frozen for a checkpoint, as references. A bucket has the rows of a range of key groups; ``firsts[i]``: the
    first key group of ``buckets[i]``.
    """

    inbox: tuple[Run, ...]
    """Rows of any key group."""
    firsts: tuple[int, ...]
    buckets: tuple[tuple[FrozenRun, ...], ...]

    @property
    def rows(self) -> int:
        """The number of held rows. A (window, key) counts as often as it occurs, and restored rows count even if their window has fired."""
        held: int = sum(rows.num_rows for rows in self._runs())
        return held

    @property
    def first(self) -> int | None:
        """A number before which no window has rows; ``None``: not known, or there are no rows."""
        firsts = [
            run.first if not isinstance(run, pa.RecordBatch) else int(windows_of(run).min()) for run in self._runs()
        ]
        return None if None in firsts else min((first for first in firsts if first is not None), default=None)

    @property
    def a_run(self) -> pa.RecordBatch:
        """Some rows of the state, which must have any."""
        return next(rows for run in self._runs() for rows in rows_of_runs(settled_runs([run])))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields all rows as they are held. May be called in any thread."""
        for run in self._runs():
            yield from rows_of_runs(settled_runs([run]))

    def _runs(self) -> Iterator[FrozenRun]:
        yield from self.inbox
        for runs in self.buckets:
            yield from runs

    def merged(self, merge: Merge, groups_of: GroupsOf) -> Iterator[pa.RecordBatch]:
        """Yields each (window, key) once, bucket by bucket. May be called in any thread."""
        if len(self.buckets) == 1:
            parts = [*settled_runs(self.buckets[0]), *self.inbox]
            return iter([merge(rows_of_runs(parts))] if parts else [])
        inbox = gathered(rows_of_runs(self.inbox)) if self.inbox else None
        return _join(self.buckets, inbox, self.firsts, merge, groups_of)


@dataclass(frozen=True, slots=True)
class Spilling:
    """The memory limit of windows. What exceeds ``limit_bytes`` is written by ``write``."""

    limit_bytes: int
    write: WriteRun


class WindowBuckets:
    """The partial aggregates of all windows of a subtask, in buckets by key group, in memory or on disk."""

    def __init__(
        self,
        owned: KeyGroupRange,
        merge: Merge,
        groups_of: GroupsOf,
        bucket_rows: int = BUCKET_ROWS,
        min_merge_rows: int = MIN_MERGE_ROWS,
        spilling: Spilling | None = None,
    ) -> None:
        """Creates empty buckets. ``spilling`` is ``None``: everything stays in memory."""
        self._spilling = spilling
        self._bucket_rows = bucket_rows
        self._min_merge_rows = min_merge_rows
        self._owned = owned
        self._merge = merge
        self._groups_of = groups_of
        self._inbox: list[pa.RecordBatch] = []
        self._inbox_rows = 0
        self._inbox_bytes = 0
        self._buckets = [_Bucket(owned)]
        self._first: int | None = None
        """A window number before which no window has rows; ``None``: there are no rows."""

    def add(self, partials: pa.RecordBatch) -> None:
        """Adds partials in any order; a key may occur several times. Raises ``StorageError`` when what exceeds the limit cannot be written; nothing is lost
        then.
        """
        if not partials.num_rows:
            return
        first = int(windows_of(partials).min())
        self._first = first if self._first is None else min(first, self._first)
        self._inbox.append(partials)
        self._inbox_rows += partials.num_rows
        self._inbox_bytes += partials.nbytes
        if self._inbox_rows >= INBOX_ROWS:
            self._empty_inbox()
        self._merge_one()
        if self._spilling is not None:
            self._spill(self._spilling)

    def holds_up_to(self, last: int) -> bool:
        """Tells whether any window up to number ``last`` has rows, or may have. Restored rows are settled where that is needed."""
        if self.waits_for(last):
            self.settle()
        is_there = self._first is not None and self._first <= last
        return is_there or any(bucket.may_hold(last) for bucket in self._buckets)

    def take(self, last: int, least_rows: int = 0) -> Iterator[pa.RecordBatch]:
        """Removes the windows up to number ``last``, and yields their rows: each (window, key) once, in batches sorted by window.

        Buckets with fewer than ``least_rows`` rows are combined with the next one.
        """
        if not self.holds_up_to(last):
            return iter(())
        inbox = None
        if self._inbox and min(int(windows_of(rows).min()) for rows in self._inbox) <= last:
            inbox, rest = split_run(gathered(self._inbox), last)
            self._hold_in_inbox([] if rest is None else [rest])
        firsts = self._firsts()
        heads = [tuple(bucket.take(last)) for bucket in self._buckets]
        self._join_small_buckets()
        self._find_first()
        return _join(heads, inbox, firsts, self._merge, self._groups_of, least_rows)

    def held_elsewhere(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yields everything in the inbox, and in the buckets from the first to the last that these rows belong to. Restored rows must be settled. Raises
        ``StorageError``.
        """
        if not rows.num_rows:
            return
        if len(self._inbox) > FEW_BATCHES:
            self._hold_in_inbox([gathered(self._inbox)])
        yield from self._inbox
        groups = self._groups_of(rows)
        first, last = np.searchsorted(self._firsts(), [groups.min(), groups.max()], side="right") - 1
        for bucket in self._buckets[first : last + 1]:
            yield from bucket.runs
            for run in bucket.spilled:
                yield run.read()

    def _find_first(self) -> None:
        kept = [int(windows_of(rows).min()) for rows in self._inbox]
        self._first = min((*kept, *(b.first for b in self._buckets if b.first is not None)), default=None)

    @property
    def rows(self) -> int:
        """The number of held rows. A (window, key) counts as often as it occurs."""
        return self._inbox_rows + sum(bucket.rows for bucket in self._buckets)

    @property
    def bytes_held(self) -> int:
        """Bytes of the columns of all rows, in memory and on disk."""
        return self._inbox_bytes + sum(bucket.nbytes for bucket in self._buckets) + self.bytes_on_disk

    @property
    def bytes_on_disk(self) -> int:
        """Bytes of the columns of the rows on disk."""
        return sum(bucket.bytes_on_disk for bucket in self._buckets)

    def freeze(self, further: Sequence[Run] = ()) -> FrozenBuckets:
        """Returns references to all rows. ``further``: further rows of the state, of any key group."""
        return FrozenBuckets(
            (*self._inbox, *further), self._firsts(), tuple(bucket.frozen() for bucket in self._buckets)
        )

    def hold_restored(self, parts: Sequence[tuple[KeyGroupRange, UnreadRuns]]) -> None:
        """Creates buckets of restored rows for these ranges, which are all owned key groups in order. To be called before anything is added. Their windows are
        known once they are settled.
        """
        self._buckets = [_Bucket(groups, restored=part) for groups, part in parts]

    def waits_for(self, last: int) -> bool:
        """Tells whether restored rows have to be settled before windows up to number ``last`` can be taken. Raises what ``PendingRuns.runs`` raises."""
        parts = [bucket.restored for bucket in self._buckets if bucket.restored is not None and bucket.may_hold(last)]
        return not all(part.may_split(last) for part in parts)

    def settle(self) -> None:
        """Turns restored rows into runs on disk. Raises what ``PendingRuns.runs`` raises."""
        pending = [bucket for bucket in self._buckets if bucket.restored is not None]
        for bucket in pending:
            bucket.settle()
        if pending:
            self._find_first()

    def _firsts(self) -> tuple[int, ...]:
        return tuple(bucket.groups.start for bucket in self._buckets)

    def _hold_in_inbox(self, batches: list[pa.RecordBatch]) -> None:
        self._inbox = batches
        self._inbox_rows = sum(rows.num_rows for rows in batches)
        self._inbox_bytes = sum(rows.nbytes for rows in batches)

    def _empty_inbox(self) -> None:
        batches = self._inbox
        self._hold_in_inbox([])
        if len(self._buckets) == 1 and len(batches) <= FEW_BATCHES:
            for batch in batches:
                self._buckets[0].append(gathered([batch]))
            return
        apart = self._spilling is not None
        for index, part in cut(gathered(batches), self._firsts(), self._groups_of, apart=apart):
            self._buckets[index].append(part)

    def _join_small_buckets(self) -> None:
        """Joins almost empty buckets, such as after a large window has fired."""
        if len(self._buckets) == 1 or any(bucket.is_on_disk for bucket in self._buckets):
            return
        rows = sum(run.num_rows for bucket in self._buckets for run in bucket.runs)
        if rows <= self._bucket_rows // FEW:
            self._hold_in_inbox([*self._inbox, *(run for bucket in self._buckets for run in bucket.runs)])
            self._buckets = [_Bucket(self._owned)]

    def _merge_one(self) -> None:
        """Merges the runs of the bucket that gains most, if it is due."""
        index = max(range(len(self._buckets)), key=lambda i: self._buckets[i].newer_rows)
        bucket = self._buckets[index]
        if not bucket.is_due(self._min_merge_rows):
            return
        merged = self._merge(bucket.runs)
        if merged.num_rows <= self._bucket_rows or bucket.groups.size < 2 or bucket.is_on_disk:
            self._buckets[index] = _Bucket.of(bucket.groups, merged, bucket)
            return
        first, last = bucket.groups
        middle = (first + last + 1) // 2
        halves = [_Bucket(KeyGroupRange(first, middle - 1)), _Bucket(KeyGroupRange(middle, last))]
        for half, part in cut(merged, (first, middle), self._groups_of, apart=self._spilling is not None):
            halves[half].append(part)
        self._buckets[index : index + 1] = halves

    def _spill(self, spilling: Spilling) -> None:
        """Writes buckets to disk until memory is within its limit."""
        while True:
            held = [bucket.nbytes for bucket in self._buckets]
            index = decide_spill(held, self._inbox_bytes, spilling.limit_bytes)
            if index is None:
                return
            if index < 0:
                self._empty_inbox()
            else:
                self._spill_one(index, spilling.write)

    def _spill_one(self, index: int, write: WriteRun) -> None:
        """Writes to disk what a bucket has in memory. It stays in memory if merging frees enough."""
        bucket = self._buckets[index]
        merged = self._merge(bucket.runs) if len(bucket.runs) > 1 else bucket.runs[0]
        if is_worth_keeping(bucket.nbytes, merged.nbytes):
            self._buckets[index] = _Bucket.of(bucket.groups, merged, bucket)
            return
        if bucket.is_on_disk:
            spilled = [*bucket.spilled, write(merged)]
            if decide_combine([run.num_rows for run in spilled]):
                spilled = [write(self._merge(rows_of_runs(spilled)))]
            self._buckets[index] = _Bucket(bucket.groups, spilled=spilled, restored=bucket.restored)
            return
        parts = [_Bucket(groups) for groups in decide_parts(bucket.groups, self._owned)]
        for number, rows in cut(merged, [part.groups.start for part in parts], self._groups_of):
            parts[number].spilled.append(write(rows))
        self._buckets[index : index + 1] = parts


def _join(
    buckets: Sequence[Sequence[FrozenRun]],
    inbox: pa.RecordBatch | None,
    firsts: Sequence[int],
    merge: Merge,
    groups_of: GroupsOf,
    least_rows: int = 0,
) -> Iterator[pa.RecordBatch]:
    """Yields one merged batch for each bucket that has runs or a part of the inbox, or for several of them with fewer than ``least_rows`` rows."""
    extra: list[list[pa.RecordBatch]] = [[] for _ in buckets]
    if inbox is not None:
        for index, part in cut(inbox, firsts, groups_of):
            extra[index].append(part)
    waiting: list[Run] = []
    for runs, more in zip(buckets, extra, strict=True):
        waiting += [*settled_runs(runs), *more]
        if waiting and sum(run.num_rows for run in waiting) >= least_rows:
            yield merge(rows_of_runs(waiting))
            waiting = []
    if waiting:
        yield merge(rows_of_runs(waiting))
