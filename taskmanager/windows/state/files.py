"""Columnar windows in state files: segments of kind ``columnar_windows``, either whole or with what was added since an earlier checkpoint.

    key_group │ key.<column> ... │ window_start, window_end │ value.<column> ...      level 0: each (window, key) once
                                                                                     above: rows that are added to those below

Partials are additive, so a delta holds the merged added rows, and existing rows are not read for it. The metadata of a file tells how rows of several levels
are combined (``combine``), and that of a delta also which windows have fired (``fired_ms``, the end of the last one): their rows in lower levels are deleted,
for all key groups of the segment. A delta may therefore have no rows. After a rescale, the levels of a key group are those of the subtasks that owned it one
after the other, so each level applies to all levels below it.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.columnar.keys.hashing import hash_columns
from tidegate.columnar.runs.memory import GroupsOf, Merge, Run, rows_of_runs
from tidegate.model.checkpoint import OperatorSnapshot, SegmentHandle, StateHandle
from tidegate.model.errors import CorruptData, InternalError, SchemaMismatch
from tidegate.model.keygroups import KeyGroupRange
from tidegate.taskmanager.machines.incremental_snapshot import Increments, SegmentChain, decide_appended
from tidegate.taskmanager.state.files.earlier_columns import KEY_PREFIX, VALUE_PREFIX, are_keys, as_written_now
from tidegate.taskmanager.state.files.read_ahead import ReadAhead, in_reading_order
from tidegate.taskmanager.state.files.segment_streams import Rows, write_segments
from tidegate.taskmanager.state.files.segments import (
    Groups,
    StateDescription,
    by_key_group,
    metadata_of,
    read_keyed_batches,
    write_keyed,
)
from tidegate.taskmanager.state.ports import FrozenState, SegmentSource, SegmentStore
from tidegate.taskmanager.windows.state.buckets import FrozenBuckets

STATE_NAME = "windows"
KIND = "columnar_windows"
WINDOW_COLUMNS = ("window_start", "window_end")
LAST_MS = (1 << 63) - 1
"""The largest int64, used as the last time in ms."""


class PartialsFormat(Protocol):
    """The format in which an operator's partial aggregates are written and read."""

    @property
    def operator(self) -> str: ...

    @property
    def keys(self) -> tuple[str, ...]: ...

    @property
    def combine(self) -> Mapping[str, str] | None:
        """How partials of several levels are combined, by column (``sum``, ``min``, ``max``); ``None``: they cannot be combined, so there are no deltas."""

    def hashes(self, rows: pa.RecordBatch) -> Groups:
        """Returns the hash of each row's key, by which its key group is determined."""

    def stored(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Converts merged partials to the columns of state files."""

    def partials(self, data: pa.RecordBatch) -> pa.RecordBatch:
        """Converts stored columns to partials. Raises ``SchemaMismatch`` when they have other keys or windows."""

    def describe(self, data: pa.RecordBatch, fired: int | None = None) -> StateDescription:
        """Returns the description of a file. ``fired``: rows of lower levels whose column 0 is at most this are removed."""

    def first_ms(self, first: int) -> int | None:
        """Returns the time before which no row begins if column 0 of all rows is at least ``first``; ``None`` if it is not known."""

    def check(self, schema: pa.Schema) -> None:
        """Raises ``SchemaMismatch`` when a file is not of such windows, since its keys or the windows in its metadata differ. ``schema``: of the file, with its
        metadata.
        """


@dataclass(frozen=True, slots=True)
class WindowTimes:
    """Windows of one length, one each ``slide_ms`` (0: tumbling). Converts their numbers to times."""

    size_ms: int
    offset_ms: int
    slide_ms: int = 0

    @property
    def step_ms(self) -> int:
        return self.slide_ms or self.size_ms

    def end_of(self, number: int) -> int:
        """Returns the end of window ``number`` in ms, at most the largest int64."""
        return min(number * self.step_ms + self.offset_ms + self.size_ms, LAST_MS)


WINDOWS = "windows"
"""Key in the metadata of a file with length, step and offset of its windows in ms. Files of earlier versions do not have it."""
SESSIONS = "sessions"


@dataclass(frozen=True, slots=True)
class WindowFormat:
    """The format of windows of one length. ``window``: name of column 0 of their batches, the number of the window; ``keys``: names of the key columns;
    ``values``: names of the others that are written now, to which those of earlier versions are converted.
    """

    operator: str
    window: str
    keys: tuple[str, ...]
    times: WindowTimes
    combine: Mapping[str, str] | None = None
    values: tuple[str, ...] = ()

    def hashes(self, rows: pa.RecordBatch) -> Groups:
        return hash_columns([rows.column(name) for name in self.keys])

    def first_ms(self, first: int) -> int | None:
        return first * self.times.step_ms + self.times.offset_ms

    def stored(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        starts = rows.column(0).to_numpy() * self.times.step_ms + self.times.offset_ms
        values = [name for name in rows.schema.names[1:] if name not in self.keys]
        names = [*(KEY_PREFIX + n for n in self.keys), *WINDOW_COLUMNS, *(VALUE_PREFIX + n for n in values)]
        columns = [rows.column(n) for n in self.keys] + [pa.array(starts), pa.array(starts + self.times.size_ms)]
        return pa.RecordBatch.from_arrays(columns + [rows.column(n) for n in values], names=names)

    def check(self, schema: pa.Schema) -> None:
        about = metadata_of(schema)
        if about.get(SESSIONS):
            raise self._mismatch("are sessions")
        check_keys(self, schema)
        stored, times = about.get(WINDOWS), self.times
        if stored is None:
            return
        size, step, offset = stored
        if size != times.size_ms or step % times.step_ms or (offset - times.offset_ms) % times.step_ms:
            raise self._mismatch(f"are {size} ms long and begin every {step} ms from {offset} ms on")

    def partials(self, data: pa.RecordBatch) -> pa.RecordBatch:
        self.check(data.schema)
        data = as_written_now(data, self.keys, self.values, self.operator)
        names = [n for n in data.schema.names if n not in WINDOW_COLUMNS]
        columns = [self._numbers(data), *(data.column(n) for n in names)]
        return pa.RecordBatch.from_arrays(columns, [self.window, *(n.split(".", 1)[1] for n in names)])

    def describe(self, data: pa.RecordBatch, fired: int | None = None) -> StateDescription:
        types = {field.name: str(field.type) for field in data.schema}
        combine = {VALUE_PREFIX + name: how for name, how in (self.combine or {}).items()}
        more = {"fired_ms": self.times.end_of(fired)} if fired is not None else {}
        windows = [self.times.size_ms, self.times.step_ms, self.times.offset_ms]
        return StateDescription(self.operator, STATE_NAME, KIND, types, {"combine": combine, WINDOWS: windows, **more})

    def _mismatch(self, what: str) -> SchemaMismatch:
        times = self.times
        return SchemaMismatch(
            f"operator '{self.operator}': the restored windows {what}, those of the job are {times.size_ms} ms long and begin every {times.step_ms} ms from "
            f"{times.offset_ms} ms on: give the operator another uid, or restore with the job that wrote them"
        )

    def _numbers(self, data: pa.RecordBatch) -> pa.Array:
        starts, ends = (data.column(name).to_numpy() for name in WINDOW_COLUMNS)
        numbers, remainders = np.divmod(starts - self.times.offset_ms, self.times.step_ms)
        if remainders.any() or (ends - starts != self.times.size_ms).any():
            raise self._mismatch(f"have other bounds, such as {starts[0]} to {ends[0]} ms")
        return pa.array(numbers)


def check_keys(form: PartialsFormat, schema: pa.Schema) -> None:
    """Raises ``SchemaMismatch`` when a file does not have the key and window columns of these windows."""
    stored = [n[len(KEY_PREFIX) :] for n in schema.names if n.startswith(KEY_PREFIX)]
    if not are_keys(stored, form.keys) or not set(WINDOW_COLUMNS) <= set(schema.names):
        raise SchemaMismatch(
            f"operator '{form.operator}': the restored windows have the keys {stored}, the job's {list(form.keys)}: "
            "give the operator another uid, or restore with the job that wrote them"
        )


@dataclass(frozen=True, slots=True)
class Since:
    """The chain on which a snapshot may build, and the changes since then.

    ``rows``: the added rows; ``None``: not all of them are known. ``fired``: number of the last window that has fired. ``has_fired``: whether windows have
    fired since. ``example``: a row of any window, from which a delta without rows gets its columns; ``None``: no row has arrived.
    """

    base: SegmentChain | None
    rows: tuple[Run, ...] | None
    fired: int | None
    has_fired: bool
    example: pa.RecordBatch | None = None


@dataclass(slots=True)
class FrozenWindows(FrozenState):
    """The frozen state of columnar windows. ``increments``: set if later checkpoints may build upon this one."""

    form: PartialsFormat
    owned: KeyGroupRange
    merge: Merge
    groups_of: GroupsOf
    parts_of: GroupsOf
    """Returns the parts by which buckets are cut: finer than key groups, in the same order."""
    checkpoint_id: int
    epoch: int
    buckets: FrozenBuckets | None
    since: Since
    increments: Increments | None

    def write(self, store: SegmentStore) -> OperatorSnapshot:
        assert self.buckets is not None
        since = self.since
        added = None if since.rows is None else sum(rows.num_rows for rows in since.rows)
        plan = decide_appended(since.base, self.buckets.rows, added, has_fired=since.has_fired)
        written: list[SegmentHandle] = []
        if plan.is_whole:
            written += self._whole(store, self.buckets)
        elif plan.delta is not None:
            assert since.rows is not None
            written += self._delta(store, self.buckets, rows_of_runs(since.rows), plan.delta.level)
        first = self.buckets.first
        first_ms = None if first is None else self.form.first_ms(first)
        written = [replace(segment, first_ms=first_ms) for segment in written]
        if self.increments is not None:
            self.increments.written(self.checkpoint_id, plan.chain(self.epoch, written))
        return OperatorSnapshot(keyed=(*plan.kept, *written))

    def release(self) -> None:
        self.buckets = None
        self.since = Since(None, None, None, has_fired=False)

    def _whole(self, store: SegmentStore, buckets: FrozenBuckets) -> Iterator[SegmentHandle]:
        """Writes the whole state, bucket by bucket, so that it is never copied as a whole."""
        pieces = map(self._piece, buckets.merged(self.merge, self.parts_of))
        first = next(pieces, None)
        if first is None:  # of what was restored, all had fired
            return iter(())
        about = self.form.describe(first[1])
        return write_segments(store, about, itertools.chain([first], pieces), self.owned, is_shared=self._is_shared)

    def _delta(
        self, store: SegmentStore, buckets: FrozenBuckets, added: Sequence[pa.RecordBatch], level: int
    ) -> Iterator[SegmentHandle]:
        form = self.form
        some = self.since.example
        rows = self.merge(list(added) or [buckets.a_run.slice(0, 1) if some is None else some])
        rows = rows if added else rows.slice(0, 0)
        groups, data = self._piece(rows)
        about = form.describe(data, self.since.fired)
        if data.num_rows:
            return write_segments(store, about, iter([(groups, data)]), self.owned, level, is_shared=self._is_shared)
        return iter([write_keyed(store, data, groups, self.owned, about, level, is_shared=self._is_shared)])

    @property
    def _is_shared(self) -> bool:
        return self.increments is not None

    def _piece(self, merged: pa.RecordBatch) -> Rows:
        form, owned = self.form, self.owned
        rows, groups = by_key_group(merged, self.groups_of(merged))
        if len(groups) and not (owned.start <= int(groups[0]) and int(groups[-1]) <= owned.end):
            raise InternalError(
                f"operator '{form.operator}': a key of groups {groups[0]} to {groups[-1]} is in the windows of a subtask that owns "
                f"{owned.start} to {owned.end}: rows and state do not agree on the key (is the key selector deterministic?)"
            )
        return groups, form.stored(rows)


@dataclass(frozen=True, slots=True)
class LevelRows:
    """A batch of a file as it is stored, ascending by key group. ``fired``: for each row, the end (in ms) of the last window of its key group that a higher
    level says has fired. ``content``: the file.
    """

    groups: Groups
    data: pa.RecordBatch
    fired: npt.NDArray[np.int64]
    content: memoryview


def read_levels(
    owned: KeyGroupRange, segments: Sequence[SegmentHandle], source: SegmentSource
) -> Generator[LevelRows, None, None]:
    """Yields the rows of the owned key groups from the highest level down, since each level says what is removed from those below.

    The generator reads ahead, so it has to be closed. Raises ``CorruptData``, ``StorageError``.
    """
    fired: npt.NDArray[np.int64] = np.full(owned.size, -LAST_MS - 1, np.int64)
    ordered = in_reading_order(segments)[::-1]
    with ReadAhead(source, [segment.handle for segment in ordered]) as files:
        for segment in ordered:
            content = files.read(segment.handle)
            for groups, data in read_keyed_batches(_Verified(content), segment, owned):
                yield LevelRows(groups, data, fired[groups - owned.start], content)
            fired_ms = metadata_of(pa.ipc.open_file(pa.py_buffer(content)).schema).get("fired_ms")
            if fired_ms is not None:
                note_fired(fired, segment, owned, fired_ms)


def read_windows(
    form: PartialsFormat, owned: KeyGroupRange, segments: Sequence[SegmentHandle], source: SegmentSource
) -> Generator[pa.RecordBatch, None, None]:
    """Yields the partials of the owned key groups, without those of windows that have fired. The generator has to be closed.

    Raises ``CorruptData``, ``StorageError``, and ``SchemaMismatch`` when the state has other keys or windows.
    """
    with closing(read_levels(owned, segments, source)) as levels:
        for read in levels:
            form.check(read.data.schema)
            gone = read.data.column("window_end").to_numpy() <= read.fired
            rows = read.data.filter(pa.array(~gone)) if gone.any() else read.data
            if rows.num_rows:
                yield form.partials(rows)


@dataclass(frozen=True, slots=True)
class _Verified:
    """A ``SegmentSource`` of one file that was read already."""

    content: memoryview

    def read(self, handle: StateHandle) -> memoryview:
        return self.content


def note_fired(fired: npt.NDArray[np.int64], segment: SegmentHandle, owned: KeyGroupRange, fired_ms: object) -> None:
    """Raises the times up to which windows have fired by those of a segment. ``fired``: for each owned key group; ``fired_ms``: from the segment's metadata.
    Raises ``CorruptData``.
    """
    if not isinstance(fired_ms, int) or not -LAST_MS <= fired_ms <= LAST_MS:
        raise CorruptData(
            f"state file {segment.handle.path or 'inline'}: 'fired_ms' is {fired_ms!r}, which is not a time; restore another checkpoint"
        )
    both = segment.key_groups.intersect(owned)
    here = fired[both.start - owned.start : both.end + 1 - owned.start]
    np.maximum(here, fired_ms, out=here)
