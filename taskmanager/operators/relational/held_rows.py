"""Rows whose windows are open, in memory: what came since the last snapshot is columns, and is divided when its windows fire or state is written.

batches of an input ─▶ rows with the time at which their window fires ─▶ ``take``: those that are due, or all of them
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Times: TypeAlias = npt.NDArray[np.int64]
MOST_PARTS: Final = 64
"""Number of batches that become one. Chosen: a join of so many costs little, and a batch of a few rows takes kilobytes in memory."""


class TimedRows(NamedTuple):
    """At least one row, and when the window of each fires, in ms."""

    data: pa.RecordBatch
    dues: Times


class HeldRows:
    """Rows of an input, in the order in which they came."""

    def __init__(self) -> None:
        self._parts: list[TimedRows] = []
        self.rows = 0
        self.size = 0
        """Bytes that the rows keep in memory."""
        self.first_due: int | None = None
        """When the earliest window fires; ``None``: there are no rows."""

    def add(self, rows: TimedRows) -> None:
        self._append(rows)
        if len(self._parts) == MOST_PARTS:
            self._replace([joined(self._parts)])

    def take(self, time_ms: int) -> list[TimedRows]:
        """Removes and returns the rows whose windows fire until then."""
        if self.first_due is None or self.first_due > time_ms:
            return []
        taken: list[TimedRows] = []
        left: list[TimedRows] = []
        for rows in self._parts:
            is_due = rows.dues <= time_ms
            if is_due.all():
                taken.append(rows)
            elif is_due.any():
                taken.append(filtered(rows, is_due))
                left.append(filtered(rows, ~is_due))
            else:
                left.append(rows)
        self._replace(left)
        return taken

    def take_all(self) -> list[TimedRows]:
        """Removes and returns all rows."""
        taken = self._parts
        self._replace([])
        return taken

    def _replace(self, parts: list[TimedRows]) -> None:
        self._parts, self.rows, self.size, self.first_due = [], 0, 0, None
        for rows in parts:
            self._append(rows)

    def _append(self, rows: TimedRows) -> None:
        self._parts.append(rows)
        self.rows += rows.data.num_rows
        self.size += rows.data.get_total_buffer_size()
        first = int(rows.dues.min())
        self.first_due = first if self.first_due is None else min(self.first_due, first)


def joined(parts: list[TimedRows]) -> TimedRows:
    """Returns the rows of one batch or several as one batch."""
    if len(parts) == 1:
        return parts[0]
    return TimedRows(pa.concat_batches([rows.data for rows in parts]), np.concatenate([rows.dues for rows in parts]))


def filtered(rows: TimedRows, chosen: npt.NDArray[np.bool_]) -> TimedRows:
    return TimedRows(rows.data.filter(pa.array(chosen)), rows.dues[chosen])


__all__ = ["HeldRows", "TimedRows", "filtered", "joined"]
