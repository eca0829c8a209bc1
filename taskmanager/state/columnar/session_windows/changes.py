"""Which keys of the sessions of a subtask changed since its last freezes: what a delta has to hold all sessions of.

    freeze ─▶ epoch e │ changed · gone │ freeze: since(e) ─▶ a delta, or None: the state has to be written whole
                         kept, while they are few   confirmed(e) ─▶ what came before e is forgotten

Hashes are kept, four bytes for a row that came, and the keys of sessions that ended. When so many rows wait that a delta is not worth it, or would be too large for the
memory, nothing is kept until the next freeze.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from tidegate.taskmanager.machines.incremental_snapshot import APPENDED_SHARE


@dataclass(frozen=True, slots=True)
class _Changed:
    """``epoch``: of the freeze before it. ``is_gone``: sessions of these keys have ended."""

    epoch: int
    rows: pa.RecordBatch
    is_gone: bool


class SessionChanges:
    """Column 0 of a batch is the hash of the key; of sessions that ended, the key's columns follow. Epochs count freezes; 0 is the restored state."""

    def __init__(self, limit_bytes: int | None = None) -> None:
        """``limit_bytes``: what a delta may take in memory; ``None``: not bounded."""
        self._limit_bytes = limit_bytes
        self._epoch = 0
        self._since: int | None = None
        """Everything since this epoch is kept; ``None``: nothing is, since no checkpoint asks for it."""
        self._changed: list[_Changed] = []
        self._rows = 0
        self._bytes = 0

    @property
    def kept_bytes(self) -> int:
        return self._bytes

    def begin(self) -> None:
        """The restored state may be built upon."""
        self._since = 0

    def add(self, rows: pa.RecordBatch, state_rows: int, row_bytes: float, *, are_gone: bool = False) -> None:
        """``state_rows``: of the whole state; ``row_bytes``: what one of them takes."""
        if self._since is None or self._since > self._epoch or not rows.num_rows:
            return
        self._changed.append(_Changed(self._epoch, rows, are_gone))
        self._rows += rows.num_rows
        self._bytes += rows.nbytes
        is_too_large = self._limit_bytes is not None and self._rows * row_bytes > self._limit_bytes
        if is_too_large or self._rows * APPENDED_SHARE > state_rows:
            self._keep([])
            self._since = self._epoch + 1

    def freeze(self, *, is_incremental: bool) -> int:
        """Returns the new epoch. ``is_incremental``: later checkpoints may build upon this one."""
        self._epoch += 1
        if is_incremental and self._since is None:
            self._since = self._epoch
        return self._epoch

    def stop(self) -> None:
        """No checkpoint builds upon another."""
        self._since = None
        self._keep([])

    def since(self, epoch: int) -> tuple[pa.RecordBatch, ...] | None:
        """All that changed since then; ``None``: not all of it is known."""
        if self._since is None or epoch < self._since:
            return None
        return tuple(one.rows for one in self._changed if one.epoch >= epoch)

    def gone_since(self, epoch: int) -> tuple[pa.RecordBatch, ...]:
        """The keys among them of which a session has ended."""
        return tuple(one.rows for one in self._changed if one.epoch >= epoch and one.is_gone)

    def forget_before(self, epoch: int) -> None:
        """No delta will start before this epoch."""
        self._keep([one for one in self._changed if one.epoch >= epoch])

    def _keep(self, changed: list[_Changed]) -> None:
        self._changed = changed
        self._rows = sum(one.rows.num_rows for one in changed)
        self._bytes = sum(one.rows.nbytes for one in changed)
