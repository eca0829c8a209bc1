"""Tables of fixed-width rows by key, for whole batches of keys at once: the keyed state of columnar functions.

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
"""The bytes of a row besides key and value: two places in the index, which is about half full, and its epoch, 4 each."""
_MIN_ROW_BYTES = 64
"""The smallest row size assumed, so that no single array exceeds the memory: Linux would not reserve it."""
_MAX_CAPACITY = (1 << 31) - (1 << 16)
"""The most slots, which are 32-bit numbers, less a margin for the last page."""


class ColumnarRows:
    """A table of rows by key. ``keys`` and ``values``: the fields; nullable value fields may hold nulls. For the subtask's thread."""

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
        """Returns how many keys there are, except those known to have expired."""
        return len(self.table)

    @property
    def bytes_on_disk(self) -> int:
        """Returns the bytes of the files that hold what exceeds the budget."""
        return self._reserved.bytes_on_disk

    def expecting(self, rows: Counts) -> AbstractContextManager[None]:
        """Prepares memory for so many new rows of each group, in the background, while the block runs."""
        return self.values.expecting(self.table.end_with(rows))

    def locate(self, keys: Sequence[pa.Array]) -> Located:
        """Returns the slots of distinct keys; new ones are assigned slots. Raises ``NoResourceAvailable``, ``StorageError``."""
        located, made = self.table.locate(keys, self.snapshots.locked)
        if len(made):
            self.values.begin(made)
        return located

    def put(self, located: Located, rows: Rows) -> None:
        """Stores rows of located keys, each once."""
        self.values.put(located.slots, located.groups, rows, self.snapshots.locked)

    def add_restored(self, keys: Sequence[pa.Array], groups: Places, rows: Rows) -> None:
        """Adds restored rows of distinct new keys of known groups (counted from the first owned one), after ``table.make_room`` for them. Raises
        ``NoResourceAvailable``, ``StorageError``."""
        self.values.fill_restored(self.table.add(keys, groups), rows)

    def put_restored(self, keys: Sequence[pa.Array], rows: Rows) -> None:
        """Replaces restored rows by newer restored ones of distinct keys, in groups that were not accessed yet, so that no snapshot has to read the old
        ones. Raises ``NoResourceAvailable``, ``StorageError``."""
        self.values.put_restored(self.locate(keys).slots, rows)


def _rows_in_memory(row_bytes: int) -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // max(row_bytes, _MIN_ROW_BYTES)
