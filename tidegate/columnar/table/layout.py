"""The layout of rows: the values of one row are adjacent in memory, as NumPy's opaque bytes, with columns as views.

    rows: one (values, nulls) for each column ─ pack ─▶ packed ─ unpack ─▶ rows          zero bytes: zeros, or null where that may be

Opaque, because numpy copies such items whole; of a type with fields it would copy every field by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidegate.columnar.numpy_column import NumpyColumn, NumpyType
from tidegate.columnar.table.fixed_width import Nulls, Numbers

Rows = list[tuple[Numbers, Nulls | None]]
"""Rows by column: for each value column its values and a mask of nulls (``None``: it never has any)."""
Packed = NumpyColumn
"""Packed rows, one opaque item each."""


class RowLayout:
    """Packs columns of numbers to rows of one fixed length. ``kinds[i]``: the type of column i, which has nulls only where ``nullable[i]``."""

    def __init__(self, kinds: Sequence[NumpyType], nullable: Sequence[bool]) -> None:
        values: list[tuple[str, NumpyType]] = [(f"v{i}", kind) for i, kind in enumerate(kinds)]
        there: list[tuple[str, NumpyType]] = [
            (f"t{i}", np.dtype(np.bool_)) for i, may_be_null in enumerate(nullable) if may_be_null
        ]
        values.sort(key=lambda field: -np.dtype(field[1]).itemsize)
        self._fields = np.dtype([*values, *there] or [("nothing", np.dtype(np.bool_))], align=True)
        self._nullable = list(nullable)
        self.packed_type: NumpyType = np.dtype(f"V{self._fields.itemsize}")

    @property
    def row_bytes(self) -> int:
        """Returns the bytes of one row, with padding."""
        return int(self._fields.itemsize)

    def pack(self, rows: Rows, count: int) -> Packed:
        """Returns the first ``count`` rows, one item each."""
        packed = np.zeros(count, self._fields).view(self.packed_type)
        self.pack_into(packed, rows, 0)
        return packed

    def pack_into(self, target: Packed, rows: Rows, first: int) -> None:
        """Packs rows from ``first`` on into an existing array."""
        fields, end = target.view(self._fields), first + len(target)
        for index, (values, nulls) in enumerate(rows):
            fields[f"v{index}"] = values[first:end]
            if self._nullable[index]:
                fields[f"t{index}"] = True if nulls is None else ~nulls[first:end]

    def unpack(self, packed: Packed) -> Rows:
        """Returns the columns as views."""
        fields = packed.view(self._fields)
        return [
            (fields[f"v{index}"], ~fields[f"t{index}"] if may_be_null else None)
            for index, may_be_null in enumerate(self._nullable)
        ]
