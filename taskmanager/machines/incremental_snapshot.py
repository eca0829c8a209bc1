"""Decides which key groups of a state a snapshot writes whole, which as a delta, and which segments of earlier checkpoints it names again. Pure.

    begin(options) ─▶ SegmentChain or None ─▶ decide(chain, rows, changed) ─▶ Plan ─▶ segments are written ─▶ written(id, plan.chain(...))
                                                                                confirmed(id) · aborted(id)

An *epoch* is the number of a backend's freeze: an entry that was changed after freeze ``e`` has a later epoch, so the changes since ``e`` are found by
comparison. Laws:

- Only a confirmed checkpoint is built upon, and only while the JobManager keeps its files (``oldest_base_id``).
- Level 0 holds the whole state; a delta holds the changes since the level below was frozen. A state that did not change writes nothing.
- Rows are dead that a checkpoint names and a restore does not keep: earlier values of entries, removed entries, and the marks of their removal. State that only
  grows has none, so that each of its rows is written once.
- When a third of the entries changed, and as many rows would be dead, everything is written whole: a delta would save little.
- While a fifth as many rows are dead as are live, with each delta of n rows the next ``REWRITE`` x n rows of key groups are written whole, group by group,
  cyclically. Files therefore hold at most about twice the live rows, and a snapshot writes at most three times the changed rows.
- Restored segments may be built upon like segments of this attempt, but the changes between their levels are unknown: their levels are never merged, only
  rewritten.
- At ``MAX_LEVELS`` the newest levels of like size become one delta, so that a restore reads few files.

Append-only state, from which only whole windows are dropped, has another policy (``decide_appended``): its deltas hold the added rows, and every delta tells
which windows have fired.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tidegate.model.checkpoint import CheckpointOptions, SegmentHandle
from tidegate.model.keygroups import KeyGroupRange

REWRITE: Final = 2
RESTORED: Final = -1
"""``Delta.since`` of a level that was restored, of which it is unknown what changed since the level below."""
MAX_LEVELS: Final = 64
"""Most deltas above level 0."""
WHOLE_SHARE: Final = 3
"""A delta is not written if it would hold this share (a third) of all rows or more, and at least as many rows would be dead: everything is written whole."""
DEAD_SHARE: Final = 5
"""Key groups are rewritten from this share (a fifth) of dead rows to live ones on. Until all groups are rewritten, half as many rows are added as are live.
In the tests of this module files become 6 % larger by that than if groups were always rewritten, and a fifth larger with a half.
"""
APPENDED_SHARE: Final = 2
"""A delta of append-only state is not written if it would hold more than this share (a half) of all rows. Added rows are kept in memory
until they are written, so this bounds memory too.
"""
MOST_DEAD: Final = 2
"""The files of a checkpoint hold at most so many times the live rows of the state."""


@dataclass(frozen=True, slots=True)
class Delta:
    """A delta level: the changes after epoch ``since``."""

    level: int
    since: int


@dataclass(frozen=True, slots=True)
class SegmentChain:
    """The segments of one state in a checkpoint, upon which a later one may build. ``deltas``: lowest level first. ``cursor``: the key group that is rewritten
    next; ``credit``: how many rows are to be rewritten.
    """

    epoch: int
    segments: tuple[SegmentHandle, ...]
    deltas: tuple[Delta, ...] = ()
    cursor: int = 0
    credit: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """The content of a state's snapshot. ``kept``: segments of earlier checkpoints to refer to. ``whole``: key groups to write whole, as level 0, or
    ``None``. ``delta``, if set: of all other key groups, what changed since ``delta.since`` is written.
    """

    kept: tuple[SegmentHandle, ...]
    whole: KeyGroupRange | None
    delta: Delta | None
    deltas: tuple[Delta, ...]
    cursor: int
    credit: int

    def chain(self, epoch: int, written: Iterable[SegmentHandle]) -> SegmentChain:
        """Returns the chain of the checkpoint, with the segments that were written as planned."""
        return SegmentChain(epoch, (*self.kept, *written), self.deltas, self.cursor, self.credit)


@dataclass(frozen=True, slots=True)
class AppendPlan:
    """The content of a snapshot of append-only state. ``kept``: segments of earlier checkpoints to refer to. ``is_whole``: everything is written, as level 0.
    ``delta``, if set: what was added since ``delta.since`` is written. With neither nothing is written.
    """

    kept: tuple[SegmentHandle, ...] = ()
    is_whole: bool = False
    delta: Delta | None = None
    deltas: tuple[Delta, ...] = ()

    def chain(self, epoch: int, written: Iterable[SegmentHandle]) -> SegmentChain:
        """Returns the chain of the checkpoint, with the segments that were written as planned."""
        return SegmentChain(epoch, (*self.kept, *written), self.deltas)


class Increments:
    """The chains of one state of one subtask that the next snapshot may build upon. ``begin``, ``confirmed`` and ``aborted`` are called in the subtask's
    thread, ``written`` in the snapshot thread before the acknowledgement.
    """

    def __init__(self) -> None:
        self._written: dict[int, SegmentChain] = {}
        self._confirmed: tuple[int, SegmentChain] | None = None

    def begin(self, options: CheckpointOptions) -> SegmentChain | None:
        """Returns the chain that a snapshot with these options may build upon; ``None``: the snapshot writes everything."""
        if self._confirmed is None or options.is_full or not options.shared_location:
            return None
        checkpoint_id, chain = self._confirmed
        return chain if checkpoint_id >= options.oldest_base_id else None

    def written(self, checkpoint_id: int, chain: SegmentChain) -> None:
        """Remembers the files of a checkpoint that was written, so that later ones may refer to them. Not for savepoints, to which no checkpoint refers."""
        self._written[checkpoint_id] = chain

    def confirmed(self, checkpoint_id: int) -> None:
        chain = self._written.get(checkpoint_id)
        if chain is not None and (self._confirmed is None or self._confirmed[0] < checkpoint_id):
            self._confirmed = (checkpoint_id, chain)
        for older in [written for written in self._written if written <= checkpoint_id]:
            del self._written[older]

    def aborted(self, checkpoint_id: int) -> None:
        self._written.pop(checkpoint_id, None)

    def restored(self, checkpoint_id: int, chain: SegmentChain) -> None:
        """Takes the chain that the attempt was restored from (``restored_chain``) as confirmed. Called before any freeze."""
        self._confirmed = (checkpoint_id, chain)

    @property
    def base_epoch(self) -> int | None:
        """Returns the epoch of the last confirmed checkpoint: no delta of the next one starts before it. ``None``: there is none."""
        return None if self._confirmed is None else self._confirmed[1].epoch

    @property
    def oldest_epoch(self) -> int | None:
        """Returns the epoch up to which removed entries may be forgotten: no later delta starts before it. ``None``:
        all of them may."""
        chains = [*self._written.values(), *([self._confirmed[1]] if self._confirmed else [])]
        return min((_oldest(chain) for chain in chains), default=None)

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when the levels of a chain contradict each other."""
        confirmed = [self._confirmed] if self._confirmed is not None else []
        for checkpoint_id, chain in (*self._written.items(), *confirmed):
            levels = [delta.level for delta in chain.deltas]
            sinces = [delta.since for delta in chain.deltas]
            unknown = {segment.level for segment in chain.segments} - {0, *levels}
            assert levels == sorted(set(levels)), f"levels of checkpoint {checkpoint_id} are out of order: {levels}"
            assert sinces == sorted(sinces), f"deltas of checkpoint {checkpoint_id} begin out of order: {sinces}"
            assert not unknown, f"checkpoint {checkpoint_id} has segments of levels {sorted(unknown)} and no such delta"
            assert max(sinces, default=RESTORED) <= chain.epoch, f"a delta begins at {sinces}, after {chain.epoch}"


def decide(base: SegmentChain | None, owned: KeyGroupRange, rows: Sequence[int], changed: Sequence[int]) -> Plan:
    """Decides what a snapshot writes of a state whose entries change.

    ``rows[i]`` entries are in key group ``owned.start + i``; ``changed[i]`` of them were written or removed since ``base.epoch`` (ignored without a base).
    """
    total = sum(changed)
    if base is not None and not total:
        return Plan(base.segments, None, None, base.deltas, base.cursor, base.credit)
    live = sum(rows)
    dead = 0 if base is None else sum(_rows_of(segment) for segment in base.segments) + total - live
    if base is None or (total * WHOLE_SHARE >= live and dead * WHOLE_SHARE >= live):
        return Plan((), owned, None, (), owned.start, 0)
    whole, cursor, credit = None, base.cursor, base.credit
    if dead * DEAD_SHARE >= live:
        whole, cursor, credit = _next_whole(base, owned, rows, total)
    segments = tuple(_without(base.segments, whole)) if whole else base.segments
    deltas = _left(segments, base.deltas)
    written = total - (sum(changed[g - owned.start] for g in range(whole.start, whole.end + 1)) if whole else 0)
    if not written:
        return Plan(segments, whole, None, deltas, cursor, credit)
    since = base.epoch
    if len(deltas) >= MAX_LEVELS:
        if deltas[-1].since == RESTORED:
            return Plan((), owned, None, (), owned.start, 0)
        segments, deltas, since = _merged(segments, deltas, written)
    delta = Delta(deltas[-1].level + 1 if deltas else 1, since)
    return Plan(segments, whole, delta, (*deltas, delta), cursor, credit)


def decide_appended(
    base: SegmentChain | None, live_rows: int, added_rows: int | None, *, has_fired: bool
) -> AppendPlan:
    """Decides what a snapshot writes of a state that is only added to.

    ``live_rows``: rows that are written if everything is; ``added_rows``: rows that came since ``base.epoch`` (``None``: unknown); ``has_fired``: whether
    windows that existed then are gone.
    """
    if not live_rows:
        return AppendPlan()
    whole = AppendPlan(is_whole=True)
    if base is None or not base.segments or added_rows is None:
        return whole
    if not added_rows and not has_fired:
        return AppendPlan(base.segments, deltas=base.deltas)
    rows = dict.fromkeys((0, *(delta.level for delta in base.deltas)), 0)
    for segment in base.segments:
        rows[segment.level] += _rows_of(segment)
    whole_rows, named_rows = rows[0], sum(rows.values()) + added_rows
    if added_rows * APPENDED_SHARE > live_rows or named_rows > MOST_DEAD * min(whole_rows, live_rows):
        return whole
    if len(base.deltas) >= MAX_LEVELS:
        return whole
    delta = Delta(base.deltas[-1].level + 1 if base.deltas else 1, base.epoch)
    return AppendPlan(base.segments, delta=delta, deltas=(*base.deltas, delta))


def restored_chain(
    segments: Iterable[SegmentHandle], owned: KeyGroupRange, *, keep_empty: bool = False
) -> SegmentChain | None:
    """Returns the restored segments as a chain to build upon, at epoch 0; ``None`` when a file of them belongs to its checkpoint alone. ``keep_empty``: keeps
    segments without rows of these key groups, as they may say which windows have fired.
    """
    mine = [segment for segment in segments if segment.key_groups.intersect(owned).size]
    if any(not segment.handle.is_shared and segment.handle.data is None for segment in mine):
        return None
    parts = (restricted(segment, owned) for segment in mine)
    kept = [part for part in parts if keep_empty or part.offsets[-1] > part.offsets[0]]
    levels = sorted({segment.level for segment in kept} - {0})
    return SegmentChain(0, tuple(kept), tuple(Delta(level, RESTORED) for level in levels), owned.start, 0)


def restricted(segment: SegmentHandle, groups: KeyGroupRange) -> SegmentHandle:
    """Returns the part of a segment that holds some of its key groups. It refers to the same file."""
    both = segment.key_groups.intersect(groups)
    first = both.start - segment.key_groups.start
    return replace(segment, key_groups=both, offsets=segment.offsets[first : first + both.size + 1])


def _rows_of(segment: SegmentHandle) -> int:
    return segment.offsets[-1] - segment.offsets[0]


def _oldest(chain: SegmentChain) -> int:
    return min((delta.since for delta in chain.deltas if delta.since != RESTORED), default=chain.epoch)


def _next_whole(
    base: SegmentChain, owned: KeyGroupRange, rows: Sequence[int], total: int
) -> tuple[KeyGroupRange | None, int, int]:
    """Returns the key groups from the cursor on that the credit pays for, up to the last one, with the next cursor and credit."""
    first = base.cursor if owned.start <= base.cursor <= owned.end else owned.start
    credit, at = base.credit + REWRITE * total, first
    while at <= owned.end and credit >= rows[at - owned.start]:
        credit -= rows[at - owned.start]
        at += 1
    if at == first:
        return None, first, credit
    if at > owned.end:
        return KeyGroupRange(first, owned.end), owned.start, 0
    return KeyGroupRange(first, at - 1), at, credit


def _without(segments: Iterable[SegmentHandle], groups: KeyGroupRange) -> Iterable[SegmentHandle]:
    for segment in segments:
        start, end = segment.key_groups
        for part in (KeyGroupRange(start, min(end, groups.start - 1)), KeyGroupRange(max(start, groups.end + 1), end)):
            if part.size:
                kept = restricted(segment, part)
                if kept.offsets[-1] > kept.offsets[0]:
                    yield kept


def _left(segments: Iterable[SegmentHandle], deltas: tuple[Delta, ...]) -> tuple[Delta, ...]:
    """Returns the deltas of which segments are left."""
    there = {segment.level for segment in segments}
    return tuple(delta for delta in deltas if delta.level in there)


def _merged(
    segments: tuple[SegmentHandle, ...], deltas: tuple[Delta, ...], written: int
) -> tuple[tuple[SegmentHandle, ...], tuple[Delta, ...], int]:
    """Removes the newest delta levels whose rows the next delta is to hold too: at least one, and further ones that are not larger than twice what is above
    them. Restored levels stay.
    """
    rows = {delta.level: 0 for delta in deltas}
    for segment in segments:
        if segment.level in rows:
            rows[segment.level] += _rows_of(segment)
    keep = len(deltas)
    while (
        keep
        and deltas[keep - 1].since != RESTORED
        and (keep == len(deltas) or rows[deltas[keep - 1].level] <= 2 * written)
    ):
        keep -= 1
        written += rows[deltas[keep].level]
    since, left = deltas[keep].since, {0, *(delta.level for delta in deltas[:keep])}
    return tuple(segment for segment in segments if segment.level in left), deltas[:keep], since
