"""Rows of fixed-width values by key, for whole batches of keys at once: keyed state of columnar functions.

    keys ─▶ table ─▶ slots ─▶ values: take ─▶ rows ─▶ put          snapshots: what was frozen of both, until it is written

Columns are reserved for all rows that fit into this machine's memory: only what is touched becomes memory, and growing moves nothing.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager

import pyarrow as pa

from tidegate.columnar.table.fixed_width import numpy_type
from tidegate.columnar.table.index import Places
from tidegate.columnar.table.key_table import KeyTable, Located
from tidegate.columnar.table.layout import RowLayout, Rows
from tidegate.columnar.table.pages import Counts, page_shift
from tidegate.columnar.table.reserved import UNBOUNDED, RowMemory
from tidegate.columnar.table.snapshots import RowSnapshots
from tidegate.columnar.table.values import RowValues
from tidegate.model.keygroups import KeyGroupRange

_INDEX_AND_EPOCH_BYTES = 12
"""Bytes of a row that are no key and no value: two places in the index, which is about half full, and its epoch, each of 4."""
_MIN_ROW_BYTES = 64
"""Bounds arrays so that no single one is larger than the memory: Linux would not reserve it."""
_MAX_CAPACITY = (1 << 31) - (1 << 16)
"""Slots are numbers of 32 bits, less a margin for the last page."""


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
        layout = RowLayout([numpy_type(field.type) for field in values], [field.nullable for field in values])
        width = layout.row_bytes + 8 * len(keys) + _INDEX_AND_EPOCH_BYTES
        shift = page_shift(owned.size)
        capacity = min(memory.capacity or _rows_in_memory(width), _MAX_CAPACITY) >> shift << shift
        self._reserved = memory.reserved(operator, width)
        self.values = RowValues(layout, capacity, self._reserved)
        self.table = KeyTable(operator, keys, owned, max_parallelism, capacity, self._reserved, self.values.ensure)
        self.snapshots = RowSnapshots(self.table, self.values)

    def __len__(self) -> int:
        """How many keys there are, without those that are known to have expired."""
        return len(self.table)

    @property
    def bytes_on_disk(self) -> int:
        """Returns the bytes of the files that hold what is over the budget."""
        return self._reserved.bytes_on_disk

    def expecting(self, rows: Counts) -> AbstractContextManager[None]:
        """Announces how many rows of each group, all new, are added while the block runs: their memory is prepared
        beside it."""
        return self.values.expecting(self.table.end_with(rows))

    def locate(self, keys: Sequence[pa.Array]) -> Located:
        """The slots of distinct keys; those that are not there yet get one. Raises ``NoResourceAvailable``, ``StorageError``."""
        located, made = self.table.locate(keys, self.snapshots.locked)
        if len(made):
            self.values.begin(made)
        return located

    def put(self, located: Located, rows: Rows) -> None:
        """New rows of located keys, each once."""
        self.values.put(located.slots, located.groups, rows, self.snapshots.locked)

    def add_restored(self, keys: Sequence[pa.Array], groups: Places, rows: Rows) -> None:
        """Restored rows of distinct keys of known groups (counted from the first owned one), none of which is there, after
        ``table.make_room`` for them. Raises ``NoResourceAvailable``, ``StorageError``."""
        self.values.fill_restored(self.table.add(keys, groups), rows)

    def put_restored(self, keys: Sequence[pa.Array], rows: Rows) -> None:
        """Newer rows of distinct restored keys, in groups that nothing else has reached yet: no snapshot has to read what was there. Raises
        ``NoResourceAvailable``, ``StorageError``."""
        self.values.put_restored(self.locate(keys).slots, rows)


def _rows_in_memory(row_bytes: int) -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // max(row_bytes, _MIN_ROW_BYTES)
