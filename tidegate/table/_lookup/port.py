"""The interface of lookup tables: returns the rows of many keys at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.functions.base import RuntimeContext

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FoundRows:
    """Rows found by a lookup. ``keys``: for each row the position of its key, in ascending order."""

    keys: Positions
    rows: pa.RecordBatch

    def chosen(self, mask: pa.BooleanArray) -> FoundRows:
        """Filters the rows by a mask; null drops a row."""
        return FoundRows(self.keys[mask.fill_null(False).to_numpy(zero_copy_only=False)], self.rows.filter(mask))


class LookupTable(Protocol):
    """A table that lookup joins can read. It is pickled into the subtask, and opened there."""

    @property
    def schema(self) -> pa.Schema:
        """Returns the schema of the rows that are found."""

    def open(self, context: RuntimeContext) -> None:
        """Is called before the first lookup."""

    def look_up(self, keys: pa.RecordBatch) -> FoundRows:
        """Returns the rows of some keys, which are distinct and not null; their columns have the names of the table's."""

    def close(self) -> None:
        """Is called after the last lookup, also when the subtask failed."""


def in_order(keys: Positions, rows: pa.RecordBatch) -> FoundRows:
    """Sorts rows found by a lookup by the positions of their keys."""
    if (keys[1:] >= keys[:-1]).all():
        return FoundRows(keys, rows)
    order = np.argsort(keys, kind="stable")
    return FoundRows(keys[order], rows.take(pa.array(order)))


__all__ = ["FoundRows", "LookupTable", "Positions", "in_order"]
