"""Reports of a sink to the operator behind it: where its files will be,
and up to which checkpoint it has committed.

    before barrier n     ─▶ places: what was written since the last ones is there when n is committed
    n is committed       ─▶ up to n; also behind the end of data, where the last commits are
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from tidegate.records.batch import ArrowBatch

REPORTS: Final = pa.schema(
    [("subtask", pa.int32()), ("subtasks", pa.int32()), ("checkpoint_id", pa.int64()), ("place", pa.string())]
)
"""The schema of reports; a row has a place or a checkpoint."""
EOI: Final = 2**62
"""The checkpoint id of reports that everything is committed at the end, without a checkpoint
(``tidegate.taskmanager.machines.subtask.EOI_CHECKPOINT_ID``)."""


def places_report(subtask: int, subtasks: int, places: Sequence[str]) -> ArrowBatch:
    """Makes a report of the places to which a subtask has written."""
    return _report(subtask, subtasks, [None] * len(places), places)


def commit_report(subtask: int, subtasks: int, checkpoint_id: int) -> ArrowBatch:
    """Makes a report that a subtask has committed everything up to a checkpoint."""
    return _report(subtask, subtasks, [checkpoint_id], [None])


def _report(subtask: int, subtasks: int, checkpoints: Sequence[int | None], places: Sequence[str | None]) -> ArrowBatch:
    count = len(places)
    columns = ([subtask] * count, [subtasks] * count, checkpoints, places)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, REPORTS.types, strict=True)]
    return ArrowBatch(pa.RecordBatch.from_arrays(arrays, schema=REPORTS))


@dataclass
class CommitTracker:
    """Tracks how far all subtasks of a sink have committed. ``restored``: reports of this checkpoint or earlier ones stem from a previous attempt and
    were in flight when the checkpoint was taken."""

    restored: int = 0
    _reached: dict[int, int] = field(default_factory=dict)

    def add(self, subtask: int, subtasks: int, checkpoint_id: int) -> int:
        """Adds a report; returns the checkpoint up to which all subtasks have committed, 0 while some have not reported."""
        if checkpoint_id > self.restored:
            self._reached[subtask] = checkpoint_id
        return min(self._reached.values()) if len(self._reached) == subtasks else 0


def rows_of(reports: ArrowBatch) -> Iterator[tuple[int, int, int | None, str | None]]:
    """Yields ``(subtask, subtasks, checkpoint or None, place or None)``."""
    return zip(*(column.to_pylist() for column in reports.data.columns), strict=True)
