"""Rows of fixed-width values by key, for whole batches of keys at once: keyed state of columnar functions.

    keys ─▶ index ─▶ slots ─▶ take ─▶ rows ─▶ put            slot = page x page size + place; a page is of one key group

Law 3 without a copy: ``freeze`` remembers how far each group went. Until a group is written, a change of one of its frozen
slots goes to an overlay (``overlay``); as soon as it is, the overlay's rows of that group are merged, at most
``FOLD_ROWS`` with each batch. What is new since the freeze lies in slots that the snapshot does not know, so it needs no
overlay. Columns are reserved for all rows that fit into this machine's memory: only what is touched becomes memory, and
growing moves nothing.

Every row has the epoch of its last change: how many freezes came before it. What was restored counts as a freeze too, also what is put in place later.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.columnar.keys.hashing import hash_columns, key_groups
from tidegate.columnar.table.fixed_width import numpy_type
from tidegate.columnar.table.free_slots import FreeSlots
from tidegate.columnar.table.index import EMPTY, Places, RowIndex, Slots
from tidegate.columnar.table.keys import RowKeys
from tidegate.columnar.table.layout import Packed, RowLayout, Rows
from tidegate.columnar.table.overlay import Overlay
from tidegate.columnar.table.prefault import populated
from tidegate.columnar.table.reserved import UNBOUNDED, RowMemory
from tidegate.model.errors import NoResourceAvailable
from tidegate.model.keygroups import KeyGroupRange

FOLD_ROWS = 1 << 13
"""Rows merged per step: 6.4 ms of processor time with 3 M keys (docs/adr/0025)."""
_FILL_ROWS = 1 << 12
"""Few enough rows that their part of memory is still in the processor's cache when their next column is written."""
_MIN_RUN_ROWS = 64
_INDEX_AND_EPOCH_BYTES = 12
_MIN_ROW_BYTES = 64
"""Bounds arrays so that no single one is larger than the memory: Linux would not reserve it."""
_MAX_CAPACITY = (1 << 31) - (1 << 16)
"""Slots are numbers of 32 bits, less a margin for the last page."""
_MIN_PAGE, MAX_PAGE = 16, 1024
"""Rows that a key group takes at a time: few where a subtask owns many groups, since each leaves a part of its last page unused."""

_RESTORED = 0
"""The epoch of what was restored, whenever it is put in place."""

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Located:
    """Where keys are. ``groups`` count from the first owned one. ``is_new``: which of them were not there; their values are
    zeros, or null where the column may be, unless rows expire: then a slot may still have the values of another key."""

    slots: Slots
    groups: Places
    is_new: npt.NDArray[np.bool_]


class ColumnarRows:
    """``keys`` and ``values`` are the fields; a value field that is nullable may hold nulls. Used from the subtask's thread."""

    def __init__(
        self,
        operator: str,
        keys: Sequence[pa.Field],
        values: Sequence[pa.Field],
        owned: KeyGroupRange,
        max_parallelism: int,
        memory: RowMemory = UNBOUNDED,
    ) -> None:
        self._layout = RowLayout([numpy_type(field.type) for field in values], [field.nullable for field in values])
        width = self._layout.row_bytes + 8 * len(keys) + _INDEX_AND_EPOCH_BYTES
        self._operator = operator
        self._owned = owned
        self._max_parallelism = max_parallelism
        self._page_shift = _page_shift(owned.size)
        self._capacity = (
            min(memory.capacity or _rows_in_memory(width), _MAX_CAPACITY) >> self._page_shift << self._page_shift
        )
        self._reserved = memory.reserved(operator, width)
        self._keys = RowKeys(keys, self._capacity, operator, self._reserved)
        self._rows: Packed = self._reserved.zeros(self._capacity, self._layout.packed_type)
        self._epochs = self._reserved.zeros(self._capacity, np.dtype(np.uint32))
        self._index = RowIndex(owned.size, self._capacity, self._keys.hashes_of, self._reserved)
        self._count: Counts = np.zeros(owned.size, np.int64)
        self._last_page: Counts = np.full(owned.size, -1, np.int64)
        self._group_of_page = np.empty(self._capacity >> self._page_shift, np.int32)
        self._pages = 0
        self._free = FreeSlots(owned.size, self._capacity)
        self._epoch = 0
        self._overlays: list[Overlay] = []
        self._snapshots: list[FrozenRows] = []

    def __len__(self) -> int:
        """How many keys there are, without those that are known to have expired."""
        return int(self._count.sum()) - len(self._free)

    @property
    def used_slots(self) -> int:
        """How many rows have ever been needed at the same time: what the state takes of memory."""
        return int(self._count.sum())

    @property
    def bytes_on_disk(self) -> int:
        """Returns the bytes of the files that hold what is over the budget."""
        return self._reserved.bytes_on_disk

    @property
    def overlay_rows(self) -> int:
        """Returns how many rows changed since they were frozen and are kept apart while their snapshots last."""
        return sum(overlay.live for overlay in self._overlays)

    def make_room(self, rows: Counts) -> None:
        """For so many rows of each group: spares the index from growing step by step."""
        self._index.make_room(rows)

    def expecting(self, rows: Counts) -> AbstractContextManager[None]:
        """Announces how many rows of each group, all new, are added while the block runs: their memory is prepared
        beside it."""
        pages = -(-rows >> self._page_shift)
        return populated(self._rows, (self._pages + int(pages.sum())) << self._page_shift)

    def begin_epoch(self) -> None:
        """What is there was restored; what is written from now on has changed since."""
        self._epoch += 1

    def locate(self, keys: Sequence[pa.Array]) -> Located:
        """The slots of distinct keys; those that are not there yet get one. Raises ``NoResourceAvailable``."""
        groups = key_groups(hash_columns(keys), self._max_parallelism).astype(np.intp) - self._owned.start
        prepared = self._keys.prepare(keys)
        hashes = self._keys.hashes(prepared)
        slots = self._index.find(groups, hashes, lambda rows, there: self._keys.same(prepared, rows, there))
        is_new = slots == EMPTY
        new = np.flatnonzero(is_new)
        if len(self._free):
            there = np.flatnonzero(~is_new)
            were_free = self._free.remove(slots[there])
            is_new[there] = False if were_free is None else were_free
        if len(new):
            made = self._slots_for(groups[new])
            slots[new] = made
            self._keys.put(prepared, new, made)
            self._index.insert(groups[new], hashes[new], made)
            self._epochs[made] = self._epoch
        return Located(slots, groups, is_new)

    def _slots_for(self, groups: Places) -> Slots:
        """Slots of expired rows first, then others."""
        if not len(self._free):
            return self._allocate(groups)
        made = self._free.take(groups, self._locked())
        left = np.flatnonzero(made == EMPTY)
        if len(left) < len(made):
            self._index.note_other_keys()
        made[left] = self._allocate(groups[left])
        return made

    def add(self, keys: Sequence[pa.Array], groups: Places) -> Slots:
        """Slots for distinct restored keys of known groups (counted from the first owned one), none of which is there, after
        ``make_room`` for them. Raises ``NoResourceAvailable``."""
        prepared = self._keys.prepare(keys)
        slots = self._allocate(groups)
        self._keys.put(prepared, np.arange(len(slots)), slots)
        self._index.insert(groups, self._keys.hashes(prepared), slots, has_room=True)
        self._epochs[slots] = _RESTORED
        return slots

    def put_restored(self, keys: Sequence[pa.Array], rows: Rows) -> None:
        """Newer rows of distinct restored keys, in groups that nothing else has reached yet: no snapshot has to read what was there. Raises
        ``NoResourceAvailable``."""
        slots = self.locate(keys).slots
        self._write(slots, self._layout.pack(rows, len(slots)), _RESTORED)

    def take(self, slots: Slots) -> Rows:
        """Copies."""
        packed = self._rows.take(slots)
        for overlay in self._overlays:
            overlay.patch(slots, packed)
        return self._layout.unpack(packed)

    def put(self, located: Located, rows: Rows) -> None:
        """New rows for slots, each once."""
        packed = self._layout.pack(rows, len(located.slots))
        locked = self._fold() if self._overlays else None
        if locked is None:
            self._write_below(located.slots, packed)
            return
        is_frozen = locked.take(located.groups)
        is_frozen &= self._epochs.take(located.slots) < self._epoch
        aside, below = np.flatnonzero(is_frozen), np.flatnonzero(~is_frozen)
        if len(below):
            self._write_below(located.slots.take(below), packed.take(below))
        if len(aside):
            self._overlays[-1].put(located.slots.take(aside), located.groups.take(aside), packed.take(aside))

    def fill(self, slots: Slots, rows: Rows) -> None:
        """Rows of slots that are new, which no snapshot knows. Slots of one group lie one behind the other, so
        rows are written straight to where they stay."""
        ends = np.append(np.flatnonzero(np.diff(slots) != 1) + 1, len(slots))
        if len(slots) < _MIN_RUN_ROWS * len(ends):
            self._rows[slots] = self._layout.pack(rows, len(slots))
            return
        first = 0
        for end in ends.tolist():
            for at in range(first, end, _FILL_ROWS):
                to = int(slots[at])
                self._layout.pack_into(self._rows[to : to + min(_FILL_ROWS, end - at)], rows, at)
            first = end

    def keys_of(self, slots: Slots) -> list[pa.Array]:
        """Returns the key columns, one row for each slot."""
        return self._keys.take(slots)

    def slots(self) -> Slots:
        """The slots of all keys, page by page. A page is full but for the last one of its group."""
        groups, size = self._group_of_page[: self._pages], 1 << self._page_shift
        filled = np.full(self._pages, size, np.int64)
        last = self._last_page[self._last_page >= 0]
        filled[last] = self._count[groups[last]] - (np.bincount(groups)[groups[last]] - 1) * size
        starts = np.arange(self._pages, dtype=np.int64) << self._page_shift
        offsets = np.arange(filled.sum()) - np.repeat(np.cumsum(filled) - filled, filled)
        found: Slots = (np.repeat(starts, filled) + offsets).astype(np.int32)
        return found

    def some_slots(self, begin: int, count: int) -> tuple[Slots, Places, int]:
        """Slots that lie behind each other, those of no key left out; the groups that they are of, and where to go on."""
        end = min(begin + count, self._pages << self._page_shift)
        slots: Slots = np.arange(begin, end, dtype=np.int32)
        pages = slots >> self._page_shift
        groups = self._group_of_page.take(pages).astype(np.intp)
        is_last = self._last_page.take(groups) == pages
        size = 1 << self._page_shift
        filled = ((self._count.take(groups) - 1) & (size - 1)) + 1
        used = ~is_last | ((slots & (size - 1)) < filled)
        return slots[used], groups[used], end if end < self._pages << self._page_shift else 0

    def expire(self, slots: Slots, groups: Places) -> None:
        """Their values will not be read again: new keys may have the slots."""
        self._free.add(slots, groups)

    def freeze(self, without: npt.NDArray[np.bool_] | None = None) -> FrozenRows:
        """References, and a copy of the numbers of rows by group. ``without``: groups that are not to be in it."""
        pages, counts = self._group_of_page[: self._pages].copy(), self._count.copy()
        frozen = FrozenRows(self, self._epoch, counts, pages, self._page_shift, tuple(self._overlays))
        if without is not None:
            frozen.counts[without] = 0
            frozen.written[without] = True
        self._snapshots.append(frozen)
        self._epoch += 1
        self._overlays.append(Overlay(self._epoch, self._layout.packed_type, self._capacity))
        return frozen

    def _frozen_rows(self, frozen: FrozenRows, slots: Slots) -> tuple[Rows, npt.NDArray[np.uint32]]:
        """Rows and epochs as they were; snapshot thread."""
        packed, epochs = self._rows.take(slots), self._epochs.take(slots)
        for overlay in frozen.overlays:
            overlay.patch(slots, packed, epochs)
        return self._layout.unpack(packed), epochs

    def _release(self, frozen: FrozenRows) -> None:
        self._snapshots.remove(frozen)

    def _locked(self) -> npt.NDArray[np.bool_] | None:
        """Groups that a snapshot still has to write; ``None``: none."""
        locked: npt.NDArray[np.bool_] | None = None
        for snapshot in self._snapshots:
            waiting = ~snapshot.written
            locked = waiting if locked is None else locked | waiting
        return locked if locked is not None and locked.any() else None

    def _fold(self) -> npt.NDArray[np.bool_] | None:
        """Merge some rows of the oldest overlay. Returns the groups that are locked."""
        locked = self._locked()
        oldest = self._overlays[0]
        if oldest.live:
            slots, rows = oldest.fold(locked, FOLD_ROWS)
            self._write(slots, rows, oldest.epoch)
        if not oldest.live and (len(self._overlays) > 1 or locked is None):
            del self._overlays[0]
        return locked

    def _write_below(self, slots: Slots, rows: Packed) -> None:
        for overlay in self._overlays:
            overlay.forget(slots)
        self._write(slots, rows, self._epoch)

    def _write(self, slots: Slots, rows: Packed, epoch: int) -> None:
        self._epochs[slots] = epoch
        self._rows[slots] = rows

    def _allocate(self, groups: Places) -> Slots:
        """A slot for each: in the last page of its group, then in new ones."""
        shift = self._page_shift
        order: Places | slice = slice(None)
        if bool((groups[1:] < groups[:-1]).any()):
            order = np.argsort(groups.astype(np.uint16), kind="stable")
        ordered = groups[order]
        firsts = np.flatnonzero(np.diff(ordered, prepend=-1))
        there, counts = ordered[firsts], np.diff(firsts, append=len(ordered))
        held, last_page = self._count[there], self._last_page[there]
        last = (held - 1) >> shift  # -1: no page yet
        needed = ((held + counts - 1) >> shift) - last
        made = self._pages + np.cumsum(needed) - needed
        end = self._pages + int(needed.sum())
        if end > len(self._group_of_page):
            raise NoResourceAvailable(
                f"operator '{self._operator}': its keyed state of {len(self):,} keys has no room in this machine's memory; "
                "raise the parallelism over more TaskManagers"
            )
        self._keys.ensure(end << shift)
        self._reserved.ensure(self._rows, end << shift)
        self._reserved.ensure(self._epochs, end << shift)
        self._group_of_page[self._pages : end] = np.repeat(there, needed)
        self._pages = end
        mask = (1 << shift) - 1
        old = np.minimum(counts, -held & mask)
        # What is left of its last page, then its new ones, which lie side by side.
        runs = np.stack([old, counts - old], axis=1).ravel()
        starts = np.stack([(last_page << shift) + (held & mask), made << shift], axis=1).ravel()
        slots = np.empty(len(groups), np.int32)
        slots[order] = np.repeat(starts - np.cumsum(runs) + runs, runs) + np.arange(len(groups))
        self._count[there] += counts
        self._last_page[there] = np.where(needed > 0, made + needed - 1, last_page)
        return slots


class FrozenRows:
    """What the rows were when they were frozen. Read in the snapshot thread, released in the subtask's. ``written[i]``: the
    snapshot has no more need of group i; the subtask's thread looks at it with every batch."""

    def __init__(
        self,
        rows: ColumnarRows,
        epoch: int,
        counts: Counts,
        group_of_page: npt.NDArray[np.int32],
        page_shift: int,
        overlays: tuple[Overlay, ...],
    ) -> None:
        self.epoch = epoch
        self.counts = counts
        self.overlays = overlays
        self.written = np.zeros(len(counts), np.bool_)
        self._rows: ColumnarRows | None = rows
        self._group_of_page = group_of_page
        self._page_shift = page_shift
        self._pages: npt.NDArray[np.intp] | None = None
        self._bounds: Counts | None = None

    def slots_of(self, group: int) -> Slots:
        """Returns the slots of one group, oldest first."""
        if self._pages is None or self._bounds is None:
            self._pages = np.argsort(self._group_of_page, kind="stable")
            self._bounds = np.searchsorted(self._group_of_page[self._pages], np.arange(len(self.counts) + 1))
        pages = self._pages[self._bounds[group] : self._bounds[group + 1]]
        places = np.arange(1 << self._page_shift)
        slots: Slots = ((pages[:, None] << self._page_shift) | places).ravel()[: self.counts[group]].astype(np.int32)
        return slots

    def read(self, slots: Slots) -> tuple[Rows, npt.NDArray[np.uint32]]:
        """Rows and the epochs of their last change, as they were."""
        assert self._rows is not None
        return self._rows._frozen_rows(self, slots)

    def keys_of(self, slots: Slots) -> list[pa.Array]:
        """Returns the key columns, one row for each slot."""
        assert self._rows is not None
        return self._rows.keys_of(slots)

    def epochs_of(self, slots: Slots) -> npt.NDArray[np.uint32]:
        """Returns the epoch of each slot's last change, as it was."""
        assert self._rows is not None
        epochs = self._rows._epochs.take(slots)
        for overlay in self.overlays:
            overlay.patch(slots, None, epochs)
        return epochs

    def release(self) -> None:
        """A second call changes nothing."""
        if self._rows is not None:
            self.written[:] = True
            self._rows._release(self)
            self._rows, self.overlays = None, ()


def _page_shift(groups: int) -> int:
    """Pages so large that few of a group are partly empty, and so small that many groups do not waste memory."""
    return max(_MIN_PAGE, min(MAX_PAGE, (1 << 16) // max(1, groups))).bit_length() - 1


def _rows_in_memory(row_bytes: int) -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // max(row_bytes, _MIN_ROW_BYTES)
