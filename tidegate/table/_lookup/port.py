"""What a lookup join asks of a table: the rows of many keys at once."""

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
    """Rows of a table. ``keys``: for each of them the position of the key that has found it; they do not decrease."""

    keys: Positions
    rows: pa.RecordBatch

    def chosen(self, mask: pa.BooleanArray) -> FoundRows:
        """Those rows for which ``mask`` is true."""
        return FoundRows(self.keys[mask.fill_null(False).to_numpy(zero_copy_only=False)], self.rows.filter(mask))


class LookupTable(Protocol):
    """A table that is asked. It is pickled into the subtask, and opened there."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows that are found."""

    def open(self, context: RuntimeContext) -> None:
        """Before the first question."""

    def look_up(self, keys: pa.RecordBatch) -> FoundRows:
        """The rows of some keys, which are different, and none of which is null; their columns have the names of the table's."""

    def close(self) -> None:
        """After the last question, also when the subtask failed."""


def in_order(keys: Positions, rows: pa.RecordBatch) -> FoundRows:
    """What was found in any order."""
    if (keys[1:] >= keys[:-1]).all():
        return FoundRows(keys, rows)
    order = np.argsort(keys, kind="stable")
    return FoundRows(keys[order], rows.take(pa.array(order)))


__all__ = ["FoundRows", "LookupTable", "Positions", "in_order"]
