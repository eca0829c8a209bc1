"""The state of all sessions of a subtask that have not ended, as windows whose number is their end (``rows``). Snapshots contain the changed keys
(``files``).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

import pyarrow as pa

from tidegate.columnar.aggregates.names import HASH
from tidegate.columnar.runs.memory import LazyRun, Merge
from tidegate.model.checkpoint import CheckpointOptions, RestoredOperator, SegmentHandle
from tidegate.model.keygroups import KeyGroupRange
from tidegate.taskmanager.machines.incremental_snapshot import restored_chain
from tidegate.taskmanager.machines.state.spilling import decide_limits
from tidegate.taskmanager.state.ports import FrozenState, SegmentSource
from tidegate.taskmanager.windows.state.files import STATE_NAME, Since
from tidegate.taskmanager.windows.state.sessions.changes import SessionChanges
from tidegate.taskmanager.windows.state.sessions.files import FrozenSessions, read_sessions
from tidegate.taskmanager.windows.state.sessions.rows import SessionFormat
from tidegate.taskmanager.windows.state.windows import ColumnarWindowState, WindowMemory


class ColumnarSessionState(ColumnarWindowState):
    """The sessions of a subtask. ``take`` returns those that may have ended: the others have to be ``put_back``, and the ended ones passed to ``gone``."""

    def __init__(
        self,
        form: SessionFormat,
        merge: Merge,
        owned: KeyGroupRange,
        max_parallelism: int,
        memory: WindowMemory,
    ) -> None:
        super().__init__(form, merge, owned, max_parallelism, memory)
        self._sessions = form
        self._changes = SessionChanges(decide_limits(memory.budget_bytes)[1])

    @property
    def bytes_kept(self) -> int:
        return self._changes.kept_bytes

    def add(self, partials: pa.RecordBatch) -> None:
        super().add(partials)
        self._changes.add(partials.select([HASH]), self.rows, self.bytes_per_row)

    def put_back(self, rows: pa.RecordBatch) -> None:
        """Puts rows back that were taken. As they did not change, the next checkpoint need not contain them. Raises ``StorageError`` when what exceeds the
        memory limit cannot be written.
        """
        for piece in self._pieces(rows):
            self._hold(piece)

    def gone(self, rows: pa.RecordBatch) -> None:
        """Notes that session windows that were taken out of the state have fired, so that the next checkpoint removes them."""
        keys = rows.select([HASH, *self._sessions.keys])
        self._changes.add(keys, self.rows, self.bytes_per_row, are_gone=True)

    def freeze(
        self, checkpoint_id: int, options: CheckpointOptions | None, further: Sequence[LazyRun] = ()
    ) -> FrozenState:
        may_share = options is not None and bool(options.shared_location)
        is_savepoint = options is not None and options.snapshot_type.is_savepoint
        base = self._increments.begin(options) if may_share and options is not None else None
        if not may_share and not is_savepoint:
            self._changes.stop()
        rows = None if base is None else self._changes.since(base.epoch)
        gone = () if base is None or rows is None else self._changes.gone_since(base.epoch)
        builds = may_share and not is_savepoint
        epoch = self._changes.freeze(is_incremental=builds)
        since = Since(base, rows, None, bool(gone), self._example)
        whose = (self._form, self._owned, self._merge, self._groups_of, self._parts_of)
        increments = self._increments if builds else None
        buckets = self._buckets.freeze(further)
        return FrozenSessions(*whose, checkpoint_id, epoch, buckets, since, increments, gone, self._max_parallelism)

    def confirmed(self, checkpoint_id: int) -> None:
        self._increments.confirmed(checkpoint_id)
        if self._increments.base_epoch is not None:
            self._changes.forget_before(self._increments.base_epoch)

    def restore(
        self, restored: RestoredOperator, source: SegmentSource, restored_checkpoint_id: int | None = None
    ) -> None:
        """Restores the sessions. The next checkpoint may build upon them. Raises ``CorruptData``, and ``SchemaMismatch`` when the state has other keys."""
        mine = [s for s in restored.keyed if s.state_name == STATE_NAME and s.key_groups.intersect(self._owned).size]
        self._read(mine, source)
        chain = restored_chain(mine, self._owned)
        if mine and chain is not None and restored_checkpoint_id is not None:
            self._increments.restored(restored_checkpoint_id, chain)
            self._changes.begin()

    def _read(self, segments: Sequence[SegmentHandle], source: SegmentSource) -> None:
        with closing(read_sessions(self._sessions, self._owned, segments, source)) as read:
            for partials in read:
                for piece in self._pieces(partials):
                    self._hold(piece)
