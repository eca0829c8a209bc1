"""Tracks what changed since the last freezes of a subtask, and what was added to its windows: the content of a delta. Batches are kept, not copied.

    freeze ─▶ epoch e │ add · add · take(last) │ freeze: since(e) ─▶ a delta, or None: the state has to be written whole
                        kept, while they are few   confirmed(e) ─▶ what came before e is forgotten

Rows of windows that fired are dropped here too, so that a delta holds rows of unfired windows only. When so many rows are kept that a delta would not be worth
it, all are dropped until the next freeze; so their memory is bounded by that of the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa

from tidegate.columnar.runs.memory import LazyRun, Run, rows_of_runs, windows_of
from tidegate.taskmanager.machines.incremental_snapshot import APPENDED_SHARE


@dataclass(frozen=True, slots=True)
class KeptChange:
    """A change that is kept for deltas. ``epoch``: of the freeze before it."""

    epoch: int
    rows: Run


AChange = TypeVar("AChange", bound=KeptChange)


class KeptChanges(Generic[AChange]):
    """Changes since a freeze, kept while a delta of them is worth it. Epochs count freezes; 0 is the restored state."""

    def __init__(self) -> None:
        self._epoch = 0
        self._since: int | None = None
        """The epoch since which everything is kept; ``None``: nothing is, since no checkpoint needs it."""
        self._kept: list[AChange] = []
        self._rows = 0
        self._bytes = 0

    @property
    def kept_bytes(self) -> int:
        return self._bytes

    def begin(self) -> None:
        """Begins to keep changes since the restore, so that checkpoints may build upon the restored state."""
        self._since = 0

    def freeze(self, *, is_incremental: bool) -> int:
        """Begins an epoch; returns it. ``is_incremental``: later checkpoints may build upon this one."""
        self._epoch += 1
        if is_incremental and self._since is None:
            self._since = self._epoch
        return self._epoch

    def stop(self) -> None:
        """Stops keeping changes, since no checkpoint builds upon another."""
        self._since = None
        self._keep([])

    def since(self, epoch: int) -> tuple[Run, ...] | None:
        """Returns everything that changed since an epoch and still exists; ``None`` if not all of it is known."""
        if self._since is None or epoch < self._since:
            return None
        return tuple(one.rows for one in self._kept if one.epoch >= epoch)

    def forget_before(self, epoch: int) -> None:
        """Forgets changes before an epoch, as no later delta starts before it."""
        self._keep([one for one in self._kept if one.epoch >= epoch])

    @property
    def is_keeping(self) -> bool:
        """Whether changes are kept now."""
        return self._since is not None and self._since <= self._epoch

    def _add(self, change: AChange, state_rows: int) -> bool:
        """Keeps a change. Returns whether a delta of all changes is worth it, compared with ``state_rows``."""
        self._kept.append(change)
        self._rows += change.rows.num_rows
        self._bytes += change.rows.nbytes
        return self._rows * APPENDED_SHARE <= state_rows

    def _give_up(self) -> None:
        """Drops all changes, and keeps none until the next freeze."""
        self._keep([])
        self._since = self._epoch + 1

    def _keep(self, changes: Sequence[AChange]) -> None:
        self._kept = list(changes)
        self._rows = sum(one.rows.num_rows for one in changes)
        self._bytes = sum(one.rows.nbytes for one in changes)


@dataclass(frozen=True, slots=True)
class _Added(KeptChange):
    """Rows that were added to windows. ``first`` and ``last``: numbers of windows."""

    first: int
    last: int


class Appended(KeptChanges[_Added]):
    """Rows that were added to windows since the last checkpoint, which an incremental checkpoint writes. Column 0 of a batch is the number of its window."""

    def __init__(self, limit_bytes: int | None = None) -> None:
        """Begins without partials. ``limit_bytes``: when more bytes wait for the next snapshot, none are kept; ``None``: there is no limit."""
        super().__init__()
        self._limit_bytes = limit_bytes
        self._fired: int | None = None
        self._fired_at: dict[int, int | None] = {0: None}

    @property
    def fired(self) -> int | None:
        """Number of the last window that fired with rows in it, in this attempt; ``None``: none did."""
        return self._fired

    def add(self, rows: pa.RecordBatch, state_rows: int) -> None:
        """Keeps added rows. ``state_rows``: of the whole state, with these."""
        if self.is_keeping:
            windows = windows_of(rows)
            self._append(_Added(self._epoch, rows, int(windows.min()), int(windows.max())), state_rows)

    def add_window(self, run: LazyRun, state_rows: int) -> None:
        """Keeps an added run of one window, as ``add`` does."""
        if self.is_keeping:
            self._append(_Added(self._epoch, run, run.first, run.first), state_rows)

    def _append(self, added: _Added, state_rows: int) -> None:
        is_worth_it = self._add(added, state_rows)
        if not is_worth_it or (self._limit_bytes is not None and self._bytes > self._limit_bytes):
            self._give_up()

    def take(self, last: int) -> None:
        """Drops the rows of windows up to number ``last``, which have fired."""
        self._fired = last if self._fired is None else max(self._fired, last)
        kept = (added if added.first > last else _after(added, last) for added in self._kept if added.last > last)
        self._keep(list(kept))

    def freeze(self, *, is_incremental: bool) -> int:
        epoch = super().freeze(is_incremental=is_incremental)
        self._fired_at[epoch] = self._fired
        return epoch

    def stop(self) -> None:
        super().stop()
        self._fired_at.clear()

    def has_fired_since(self, epoch: int) -> bool:
        """Tells whether windows have fired since an epoch; ``True`` if that is not known."""
        return epoch not in self._fired_at or self._fired != self._fired_at[epoch]

    def forget_before(self, epoch: int) -> None:
        super().forget_before(epoch)
        for older in [known for known in self._fired_at if known < epoch]:
            del self._fired_at[older]


def _after(added: _Added, last: int) -> _Added:
    (rows,) = rows_of_runs([added.rows])
    rows = rows.take(pa.array(np.flatnonzero(windows_of(rows) > last)))
    return _Added(added.epoch, rows, last + 1, added.last)
