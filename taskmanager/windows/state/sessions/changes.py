"""Tracks which keys of a subtask's sessions changed since its last freezes: a delta has to contain all sessions of these keys.

    freeze ─▶ epoch e │ changed · gone │ freeze: since(e) ─▶ a delta, or None: the state has to be written whole
                         kept, while they are few   confirmed(e) ─▶ what came before e is forgotten

Hashes of keys are kept, four bytes for each added row, and the keys of sessions that ended. When there are so many that a delta would not be worth it, or would
be too large for the memory, all are dropped until the next freeze.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from tidegate.columnar.runs.memory import Run
from tidegate.taskmanager.windows.state.appended import KeptChange, KeptChanges


@dataclass(frozen=True, slots=True)
class _Changed(KeptChange):
    """Keys that changed. ``is_gone``: sessions of these keys have ended."""

    is_gone: bool


class SessionChanges(KeptChanges[_Changed]):
    """The changed keys of sessions, kept for deltas. Column 0 of a batch is the hash of the key; for sessions that ended, the key's columns follow."""

    def __init__(self, limit_bytes: int | None = None) -> None:
        """Begins without changes. ``limit_bytes``: how much memory the changes for a delta may take; ``None``: there is no limit."""
        super().__init__()
        self._limit_bytes = limit_bytes

    def add(self, rows: pa.RecordBatch, state_rows: int, row_bytes: float, *, are_gone: bool = False) -> None:
        """Keeps changed keys. ``state_rows``: of the whole state; ``row_bytes``: what one of them takes."""
        if not self.is_keeping or not rows.num_rows:
            return
        is_worth_it = self._add(_Changed(self._epoch, rows, are_gone), state_rows)
        if not is_worth_it or (self._limit_bytes is not None and self._rows * row_bytes > self._limit_bytes):
            self._give_up()

    def gone_since(self, epoch: int) -> tuple[Run, ...]:
        """Returns the changed keys of which a session has ended."""
        return tuple(one.rows for one in self._kept if one.epoch >= epoch and one.is_gone)
