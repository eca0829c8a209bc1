"""The table of keys and their slots, for whole batches of keys at once.

keys ─▶ index ─┬─▶ found: the key's slot
               └─▶ not there: a slot of an expired key of the group (``free_slots``), else a new one (``pages``)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.columnar.keys.hashing import hash_columns, key_groups
from tidegate.columnar.table.free_slots import FreeSlots, Locked
from tidegate.columnar.table.index import EMPTY, Places, RowIndex, Slots
from tidegate.columnar.table.keys import RowKeys
from tidegate.columnar.table.pages import Counts, FrozenPages, GroupPages
from tidegate.columnar.table.reserved import Reserved
from tidegate.model.keygroups import KeyGroupRange


@dataclass(frozen=True, slots=True)
class Located:
    """The slots of keys. ``groups`` count from the first owned one. ``is_new``: which keys were not in the table; their values are zeros, or null where
    the column may be, unless rows expire: then a slot may still have the values of another key."""

    slots: Slots
    groups: Places
    is_new: npt.NDArray[np.bool_]


class KeyTable:
    """A table of keys. ``keys``: the fields; ``capacity``: the most slots. ``ensure(slots)`` is called before the first ``slots`` are used, and may raise."""

    def __init__(
        self,
        operator: str,
        keys: Sequence[pa.Field],
        owned: KeyGroupRange,
        max_parallelism: int,
        capacity: int,
        reserved: Reserved,
        ensure: Callable[[int], None],
    ) -> None:
        self._owned = owned
        self._max_parallelism = max_parallelism
        self._ensure = ensure
        self._keys = RowKeys(keys, capacity, operator, reserved)
        self._index = RowIndex(owned.size, capacity, self._keys.hashes_of, reserved)
        self._pages = GroupPages(operator, owned.size, capacity, self._ensure_slots)
        self._free = FreeSlots(owned.size, capacity)

    def __len__(self) -> int:
        """Returns how many keys there are, except those known to have expired."""
        return self.used_slots - len(self._free)

    @property
    def used_slots(self) -> int:
        """Returns how many slots were ever used at the same time, which is what the state takes of memory."""
        return self._pages.used_slots

    def make_room(self, rows: Counts) -> None:
        """Makes space for so many rows of each group, so that the index need not grow step by step."""
        self._index.make_room(rows)

    def end_with(self, rows: Counts) -> int:
        """Returns the end of the slots that are used at most once so many more rows of each group are added."""
        return self._pages.end_with(rows)

    def locate(self, keys: Sequence[pa.Array], locked: Locked) -> tuple[Located, Slots]:
        """Returns the slots of distinct keys, and those that were assigned just now. ``locked``: slots of these groups are not reused. Raises
        ``NoResourceAvailable``, ``StorageError``."""
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
        made = slots[:0]
        if len(new):
            made = self._slots_for(groups[new], locked)
            slots[new] = made
            self._keys.put(prepared, new, made)
            self._index.insert(groups[new], hashes[new], made)
        return Located(slots, groups, is_new), made

    def add(self, keys: Sequence[pa.Array], groups: Places) -> Slots:
        """Assigns slots to distinct new keys of known groups (counted from the first owned one), after ``make_room`` for them. Raises
        ``NoResourceAvailable``, ``StorageError``."""
        prepared = self._keys.prepare(keys)
        slots = self._pages.allocate(groups)
        self._keys.put(prepared, np.arange(len(slots)), slots)
        self._index.insert(groups, self._keys.hashes(prepared), slots, has_room=True)
        return slots

    def keys_of(self, slots: Slots) -> list[pa.Array]:
        """Returns the key columns, one row for each slot. Thread-safe for slots that existed when the thread got them."""
        return self._keys.take(slots)

    def slots(self) -> Slots:
        """Returns the slots of all keys, page by page."""
        return self._pages.slots()

    def some_slots(self, begin: int, count: int) -> tuple[Slots, Places, int]:
        """Returns up to ``count`` used slots from ``begin`` on, their groups, and where to continue."""
        return self._pages.some_slots(begin, count)

    def expire(self, slots: Slots, groups: Places) -> None:
        """Frees slots, whose values will not be read again, for new keys."""
        self._free.add(slots, groups)

    def frozen_pages(self) -> FrozenPages:
        """Returns a copy of the assignment of slots to groups."""
        return self._pages.frozen()

    def _slots_for(self, groups: Places, locked: Locked) -> Slots:
        """Returns slots for new keys: of expired rows first, then unused ones."""
        if not len(self._free):
            return self._pages.allocate(groups)
        made = self._free.take(groups, locked())
        left = np.flatnonzero(made == EMPTY)
        if len(left) < len(made):
            self._index.note_other_keys()
        made[left] = self._pages.allocate(groups[left])
        return made

    def _ensure_slots(self, slots: int) -> None:
        self._keys.ensure(slots)
        self._ensure(slots)
