"""What was added to the windows of a subtask since its last freezes: the content of a delta. Batches are kept, not copied.

    freeze ─▶ epoch e │ add · add · take(last) │ freeze: since(e) ─▶ a delta, or None: the state has to be written whole
                        kept, while they are few   confirmed(e) ─▶ what came before e is forgotten

Rows of windows that fired are dropped here too, so that a delta holds only rows of windows that are still there; none comes later. When as many rows wait as a delta is
not worth, nothing is kept until the next freeze: the memory that this takes is bounded by that of the state.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidegate.taskmanager.machines.incremental_snapshot import APPENDED_SHARE


@dataclass(frozen=True, slots=True)
class _Added:
    """``epoch``: of the freeze before it. ``first`` and ``last``: numbers of windows."""

    epoch: int
    first: int
    last: int
    rows: pa.RecordBatch


class Appended:
    """Column 0 of a batch is the number of its window. Epochs count freezes; 0 is the restored state."""

    def __init__(self, limit_bytes: int | None = None) -> None:
        """``limit_bytes``: when more than these wait, nothing is kept either; ``None``: not bounded."""
        self._limit_bytes = limit_bytes
        self._epoch = 0
        self._since: int | None = None
        """Everything since this epoch is kept; ``None``: nothing is, since no checkpoint asks for it."""
        self._added: list[_Added] = []
        self._rows = 0
        self._bytes = 0
        self._fired: int | None = None
        self._fired_at: dict[int, int | None] = {0: None}

    @property
    def fired(self) -> int | None:
        """Returns the number of the last window that fired with rows in it, in this attempt."""
        return self._fired

    @property
    def kept_bytes(self) -> int:
        return self._bytes

    def begin(self) -> None:
        """The restored state may be built upon."""
        self._since = 0

    def add(self, rows: pa.RecordBatch, state_rows: int) -> None:
        """``state_rows``: of the whole state, with these."""
        if self._since is None or self._since > self._epoch:
            return
        windows = rows.column(0).to_numpy()
        self._added.append(_Added(self._epoch, int(windows.min()), int(windows.max()), rows))
        self._rows += rows.num_rows
        self._bytes += rows.nbytes
        is_too_large = self._limit_bytes is not None and self._bytes > self._limit_bytes
        if is_too_large or self._rows * APPENDED_SHARE > state_rows:
            self._keep([])
            self._since = self._epoch + 1

    def take(self, last: int) -> None:
        """Windows up to number ``last`` have fired, and some of them had rows."""
        self._fired = last if self._fired is None else max(self._fired, last)
        kept = (added if added.first > last else _after(added, last) for added in self._added if added.last > last)
        self._keep(list(kept))

    def freeze(self, *, is_incremental: bool) -> int:
        """Returns the new epoch. ``is_incremental``: later checkpoints may build upon this one."""
        self._epoch += 1
        self._fired_at[self._epoch] = self._fired
        if is_incremental and self._since is None:
            self._since = self._epoch
        return self._epoch

    def stop(self) -> None:
        """No checkpoint builds upon another."""
        self._since = None
        self._keep([])
        self._fired_at.clear()

    def since(self, epoch: int) -> tuple[pa.RecordBatch, ...] | None:
        """What was added since then, of windows that are still there; ``None``: not all of it is known."""
        if self._since is None or epoch < self._since:
            return None
        return tuple(added.rows for added in self._added if added.epoch >= epoch)

    def has_fired_since(self, epoch: int) -> bool:
        """Returns whether windows have, or ``True`` where that is not known."""
        return epoch not in self._fired_at or self._fired != self._fired_at[epoch]

    def forget_before(self, epoch: int) -> None:
        """No delta will start before this epoch."""
        self._keep([added for added in self._added if added.epoch >= epoch])
        for older in [known for known in self._fired_at if known < epoch]:
            del self._fired_at[older]

    def _keep(self, added: list[_Added]) -> None:
        self._added = added
        self._rows = sum(one.rows.num_rows for one in added)
        self._bytes = sum(one.rows.nbytes for one in added)


def _after(added: _Added, last: int) -> _Added:
    windows = added.rows.column(0).to_numpy()
    rows = added.rows.take(pa.array(np.flatnonzero(windows > last)))
    return _Added(added.epoch, last + 1, added.last, rows)
