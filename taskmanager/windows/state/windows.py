"""The keyed state of columnar windows: Arrow batches of partial aggregates by (window, key), which are only ever replaced.

    add(batch) ─▶ buckets by key group (``buckets``) ─▶ take(last) when event time has passed window ``last``
             │                                   └─ memory over its limit ─▶ files of the attempt (``columnar.runs.disk``)
             └──▶ what was added since the last checkpoint (``appended``) ─▶ a delta (``files``)

Windows are numbered: window n begins at ``n * slide + offset`` (the slide of a tumbling window is its size). On disk they are times. Law 3 holds by
construction: a batch is never changed in place, so a freeze copies only references, and later merges make new batches. The rows are merged and sorted by key
group in the snapshot thread before they are written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidegate.columnar.keys.hashing import key_groups
from tidegate.columnar.runs.disk import SpillFiles
from tidegate.columnar.runs.memory import LazyRun, Merge
from tidegate.model.checkpoint import CheckpointOptions, RestoredOperator, SegmentHandle
from tidegate.model.errors import ConfigurationError, SchemaMismatch
from tidegate.model.keygroups import KeyGroupRange
from tidegate.taskmanager.machines.incremental_snapshot import Increments, restored_chain
from tidegate.taskmanager.machines.state.restoring import EAGER_BYTES, decide_restored_parts
from tidegate.taskmanager.machines.state.spilling import decide_limits
from tidegate.taskmanager.state.files.in_parts import InParts
from tidegate.taskmanager.state.files.segments import Groups
from tidegate.taskmanager.state.ports import FrozenState, SegmentSource
from tidegate.taskmanager.state.restoring.files import can_be_opened
from tidegate.taskmanager.windows.state.appended import Appended
from tidegate.taskmanager.windows.state.buckets import INBOX_ROWS, Spilling, WindowBuckets
from tidegate.taskmanager.windows.state.files import (
    STATE_NAME,
    FrozenWindows,
    PartialsFormat,
    Since,
    WindowFormat,
    read_windows,
)
from tidegate.taskmanager.windows.state.restored import RestoredWindows, rows_and_bytes
from tidegate.taskmanager.windows.state.stored import UnreadWindows

PART_BITS = 6
"""Bits by which key groups are divided where state may be spilled: each has 64 parts, so that a subtask with two key groups can be cut as finely as one with a
hundred.
"""
PIECES_OF_LIMIT = 4
"""Number of pieces of held rows that fit into memory besides what is there, so that none of them is refused."""
_FIBONACCI = np.uint32(0x9E3779B1)
"""2**32 divided by the golden ratio (Knuth): the first bits of a product depend on all bits of a hash, and differ from those that determine its key group."""


@dataclass(frozen=True, slots=True)
class WindowMemory:
    """The memory of windows. ``budget_bytes``: 0: not bounded. ``directory``: where what exceeds it is written; empty: the system's for temporary files.
    ``eager_bytes``: restored windows up to this size are read at once.
    """

    budget_bytes: int = 0
    directory: str = ""
    eager_bytes: int = EAGER_BYTES


class ColumnarWindowState:
    """The state of all windows of one subtask that have not ended. ``merge``: combines partials."""

    def __init__(
        self,
        form: PartialsFormat,
        merge: Merge,
        owned: KeyGroupRange,
        max_parallelism: int,
        memory: WindowMemory = WindowMemory(),
    ) -> None:
        self._form = form
        self._merge = merge
        self._owned = owned
        self._max_parallelism = max_parallelism
        self._eager_bytes = memory.eager_bytes
        self._directory = memory.directory
        self._limit_bytes, changes_bytes = decide_limits(memory.budget_bytes)
        self._parts_of = self._groups_of
        self._write = SpillFiles(form.operator, memory.directory).write
        if self._limit_bytes is None:
            self._buckets = WindowBuckets(owned, merge, self._groups_of)
        else:
            self._parts_of = self._fine_parts_of
            spilling = Spilling(self._limit_bytes, self._write)
            self._buckets = WindowBuckets(self._as_parts(owned), merge, self._parts_of, spilling=spilling)
        self._restoring: RestoredWindows | None = None
        self._appended = Appended(changes_bytes)
        self._increments = Increments()
        self._schema: pa.Schema | None = None
        self._example: pa.RecordBatch | None = None
        """A copied row of any window; ``None``: none has arrived."""

    @property
    def rows(self) -> int:
        """The number of partials. A (window, key) counts as often as it occurs."""
        return self._buckets.rows

    @property
    def schema(self) -> pa.Schema | None:
        """The columns of partials; ``None``: none has arrived or was restored."""
        return self._schema

    @property
    def bytes_held(self) -> int:
        """Bytes of the columns of all partials."""
        return self._buckets.bytes_held

    @property
    def bytes_on_disk(self) -> int:
        """Bytes of the columns of the partials on disk, which are there since memory is bounded."""
        return self._buckets.bytes_on_disk

    @property
    def bytes_per_row(self) -> float:
        """Average bytes of a partial; 0 if there are none. When all are merged, a partial is one key of a window."""
        rows = self.rows
        return self.bytes_held / rows if rows else 0.0

    @property
    def bytes_kept(self) -> int:
        """Bytes that are kept for the next incremental checkpoint. While they are not merged, they are part of ``bytes_held`` too."""
        return self._appended.kept_bytes

    def add(self, partials: pa.RecordBatch) -> None:
        """Adds partials of windows that have not ended; a key may occur in several batches.

        Raises ``SchemaMismatch`` when their columns differ from those of the state (a restored state of other aggregates, say), ``ConfigurationError`` when
        memory is too small for them, and ``StorageError`` when what exceeds the limit cannot be written.
        """
        self._hold(partials)
        if partials.num_rows and self._appended.is_keeping:
            self._appended.add(partials, self._buckets.rows)

    def check(self, schema: pa.Schema) -> None:
        """Raises ``SchemaMismatch`` when the state has other columns than the partials that are about to arrive."""
        if self._schema is None:
            self._schema = schema.remove_metadata()
        else:
            check_columns(self._form.operator, self._schema, schema)

    @property
    def restoring(self) -> RestoredWindows | None:
        """The restored windows that have to be read (``settle`` of these, in any thread, then ``settle`` here); ``None``: there are none."""
        return self._restoring

    def waits_for(self, last: int) -> bool:
        """Tells whether restored windows have to be read before windows up to number ``last`` can be taken. Raises what ``settle`` raises."""
        return self._buckets.waits_for(last)

    def settle(self) -> None:
        """Reads the windows that a restore left in files. Raises ``CorruptData``, ``StorageError``, and ``SchemaMismatch`` when their columns differ from
        those of partials that
        came since.
        """
        if self._restoring is None:
            return
        self._restoring.settle()
        self._check(self._restoring.schema)
        self._restoring = None
        self._buckets.settle()

    def holds_up_to(self, last: int) -> bool:
        """Tells whether any window up to number ``last`` has rows, or may have since restored windows are not read yet."""
        return self._restoring is not None or self._buckets.holds_up_to(last)

    def hold(self, partials: Iterable[pa.RecordBatch]) -> None:
        """Adds rows as ``add`` does, without keeping them for the next delta: ``keep_change`` keeps them already, or they leave before the next checkpoint."""
        for rows in partials:
            self._hold(rows)

    def keep_change(self, run: LazyRun, rows_elsewhere: int) -> None:
        """Keeps, for the next delta, what was added to a window that is held elsewhere, with ``rows_elsewhere`` rows in all."""
        self._appended.add_window(run, self._buckets.rows + rows_elsewhere)

    def note_fired(self, last: int) -> None:
        """Notes that windows up to number ``last`` that are held elsewhere have fired."""
        self._appended.take(last)

    def take(self, last: int, least_rows: int = 0) -> Iterator[pa.RecordBatch]:
        """Removes the windows up to number ``last``, and yields their rows: each (window, key) once.

        Restored windows are settled where ``waits_for`` says so. Batches with fewer than ``least_rows`` rows are combined with the following ones, so that a
        few rows of many buckets are processed together.
        """
        if self.waits_for(last):
            self.settle()
        if self._restoring is not None:
            self._check(self._restoring.schema)
        if self._buckets.holds_up_to(last):
            self._appended.take(last)
        return self._buckets.take(last, least_rows)

    def held_elsewhere(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yields everything in the buckets that these rows belong to, for immediate use. Raises ``StorageError``."""
        return self._buckets.held_elsewhere(rows)

    def freeze(
        self, checkpoint_id: int, options: CheckpointOptions | None, further: Sequence[LazyRun] = ()
    ) -> FrozenState:
        """Returns the frozen state. ``options``: what the checkpoint may refer to; ``None``: nothing. ``further``: partials of the same windows that are held
        elsewhere.
        """
        may_share = self._form.combine is not None and options is not None and bool(options.shared_location)
        is_savepoint = options is not None and options.snapshot_type.is_savepoint
        base = self._increments.begin(options) if may_share and options is not None else None
        builds = may_share and not is_savepoint
        if not may_share and not is_savepoint:
            self._appended.stop()
        rows = None if base is None else self._appended.since(base.epoch)
        has_fired = base is not None and self._appended.has_fired_since(base.epoch)
        since = Since(base, rows, self._appended.fired, has_fired, self._example)
        epoch = self._appended.freeze(is_incremental=builds)
        increments = self._increments if builds else None
        buckets = self._buckets.freeze(further)
        whose = (self._form, self._owned, self._merge, self._groups_of, self._parts_of)
        return FrozenWindows(*whose, checkpoint_id, epoch, buckets, since, increments)

    def confirmed(self, checkpoint_id: int) -> None:
        self._increments.confirmed(checkpoint_id)
        if self._increments.base_epoch is not None:
            self._appended.forget_before(self._increments.base_epoch)

    def aborted(self, checkpoint_id: int) -> None:
        self._increments.aborted(checkpoint_id)

    def restore(
        self, restored: RestoredOperator, source: SegmentSource, restored_checkpoint_id: int | None = None
    ) -> None:
        """Restores the windows; large state stays in its files (``restoring``). The next checkpoint may build upon them. Raises ``CorruptData``, and
        ``SchemaMismatch`` when the state has other keys or windows.
        """
        mine = [s for s in restored.keyed if s.state_name == STATE_NAME and s.key_groups.intersect(self._owned).size]
        rows, sizes = rows_and_bytes(mine, self._owned)
        parts = decide_restored_parts(sizes.tolist(), int(rows.sum()), self._limit_bytes, self._eager_bytes)
        if parts is not None and isinstance(self._form, WindowFormat):  # what others touch decides when they end
            groups = [KeyGroupRange(self._owned.start + part[0], self._owned.start + part[-1]) for part in parts]
            unread = None
            if can_be_opened(source, mine):
                unread = UnreadWindows(self._form, groups, mine, source, self._directory)
            whole = InParts(source, self._directory)
            self._restoring = RestoredWindows(self._form, groups, mine, whole, self._write, unread)
            named = groups if self._limit_bytes is None else [self._as_parts(part) for part in groups]
            self._buckets.hold_restored(list(zip(named, self._restoring.parts, strict=True)))
        else:
            self._read(mine, source)
        chain = restored_chain(mine, self._owned, keep_empty=True)
        if mine and chain is not None and restored_checkpoint_id is not None and self._form.combine is not None:
            self._increments.restored(restored_checkpoint_id, chain)
            self._appended.begin()

    def _read(self, segments: Sequence[SegmentHandle], source: SegmentSource) -> None:
        with closing(read_windows(self._form, self._owned, segments, source)) as read:
            for partials in read:
                for piece in self._pieces(partials):
                    self._hold(piece)

    def _pieces(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Divides rows of the state itself into pieces, so that no number of them is too large for its memory."""
        size = INBOX_ROWS
        if self._limit_bytes is not None and rows.nbytes > self._limit_bytes // PIECES_OF_LIMIT:
            size = min(size, max(1, rows.num_rows * self._limit_bytes // (PIECES_OF_LIMIT * rows.nbytes)))
        for at in range(0, rows.num_rows, size):
            yield rows.slice(at, size)

    def _check(self, schema: pa.Schema | None) -> None:
        """Compares the columns of restored windows with those of partials that arrived meanwhile."""
        if self._schema is None:
            self._schema = schema
        elif schema is not None:
            check_columns(self._form.operator, schema, self._schema)

    def _hold(self, partials: pa.RecordBatch) -> None:
        self.check(partials.schema)
        if self._example is None and partials.num_rows:
            self._example = partials.take(pa.array([0]))
        if self._limit_bytes is not None and partials.nbytes > self._limit_bytes:
            raise ConfigurationError(
                f"operator '{self._form.operator}': a batch of {partials.nbytes} bytes does not fit into the {self._limit_bytes} bytes that its "
                "windows may take in memory, three quarters of the managed memory of its slot: set taskmanager.memory.managed.size to more"
            )
        self._buckets.add(partials)

    @staticmethod
    def _as_parts(groups: KeyGroupRange) -> KeyGroupRange:
        return KeyGroupRange(groups.start << PART_BITS, ((groups.end + 1) << PART_BITS) - 1)

    def _groups_of(self, batch: pa.RecordBatch) -> Groups:
        if not self._form.keys:
            return np.full(batch.num_rows, self._owned.start, np.int32)
        return key_groups(self._form.hashes(batch), self._max_parallelism)

    def _fine_parts_of(self, batch: pa.RecordBatch) -> Groups:
        """Returns the part of a key group that each row belongs to: finer than ``_groups_of``, and in the same order."""
        if not self._form.keys:
            return np.full(batch.num_rows, self._owned.start << PART_BITS, np.int32)
        hashes = self._form.hashes(batch)
        finer = (hashes.view(np.uint32) * _FIBONACCI) >> np.uint32(32 - PART_BITS)
        found: Groups = (key_groups(hashes, self._max_parallelism) << PART_BITS) | finer.view(np.int32)
        return found


def check_columns(operator: str, held: pa.Schema, coming: pa.Schema) -> None:
    """Raises ``SchemaMismatch`` when partials have other columns than those in the state."""
    if held is not coming and not held.equals(coming):
        raise SchemaMismatch(
            f"operator '{operator}': its windows have the columns {_describe(held)}, now come "
            f"{_describe(coming)}: give the operator another uid, or restore with the job that wrote them"
        )


def _describe(schema: pa.Schema) -> str:
    return ", ".join(f"{f.name}: {f.type}" for f in schema)
