"""Keyed state of fixed-width columns (``tidegate.columnar.table``), with its snapshot and restore as segments of kind ``columnar_keyed``.

    key_group │ key.<column> ... │ value.<column> ... │ ttl_ms (state that expires) │ deleted (levels above 0)

State that expires has the time of the last write in a column of every row (Flink: ``TtlReducingState.java``). Expired rows count as missing; a cleanup looks
for them, a few rows at a time, and gives their slots to other keys of the group. Full snapshots and restores leave them out.

Restored state is read before the first record if it is small or has to be (``restoring.files.opened_for_parts``); otherwise key group by key group
(``restoring``), and keys of unloaded groups must not be located.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.columnar.table.fixed_width import to_numbers
from tidegate.columnar.table.key_table import Located
from tidegate.columnar.table.layout import Rows
from tidegate.columnar.table.pages import MAX_PAGE
from tidegate.columnar.table.reserved import UNBOUNDED, RowMemory
from tidegate.columnar.table.rows import ColumnarRows
from tidegate.model.checkpoint import CheckpointOptions, RestoredOperator, SegmentHandle
from tidegate.model.errors import ON_DAMAGE, CorruptData, SchemaMismatch
from tidegate.model.keygroups import KeyGroupRange
from tidegate.records.schema_evolution import TTL_COLUMN, Refusal, evolve
from tidegate.taskmanager.keyed_state.columns.restored_groups import (
    RestoredGroups,
    UnloadedGroups,
    has_columns,
    rows_by_group,
)
from tidegate.taskmanager.keyed_state.columns.snapshot import (
    PIECE_ROWS,
    FrozenColumnarState,
    FrozenContent,
    columns_of,
)
from tidegate.taskmanager.keyed_state.ttl import Ttl
from tidegate.taskmanager.machines.incremental_snapshot import Increments, restored_chain
from tidegate.taskmanager.machines.state.restoring import EAGER_BYTES
from tidegate.taskmanager.state.files.earlier_columns import KEY_PREFIX, VALUE_PREFIX, as_written_now
from tidegate.taskmanager.state.files.read_ahead import ReadAhead, in_reading_order
from tidegate.taskmanager.state.files.segments import DELETED, StateDescription, read_keyed_batches
from tidegate.taskmanager.state.ports import SegmentSource
from tidegate.taskmanager.state.restoring.files import opened_for_parts

STATE_NAME = "aggregates"
RESTORE_ROWS = 1 << 16
"""Rows that are restored at once: as many as a batch has, for which the index is made."""

SWEEP_ROWS = 1 << 14
"""Most rows that are checked for expiry at once: as many as a step of an aggregation has."""


@dataclass(frozen=True, slots=True)
class Expiry:
    """The time to live of a state, and the clock of processing time."""

    ttl: Ttl
    now_ms: Callable[[], int]

    def last_ms(self) -> int:
        """Returns the time up to which written entries are expired now."""
        return self.now_ms() - self.ttl.ms


class ColumnarKeyedState:
    """One columnar keyed state of one operator in one subtask."""

    def __init__(
        self,
        operator: str,
        keys: Sequence[pa.Field],
        values: Sequence[pa.Field],
        owned: KeyGroupRange,
        max_parallelism: int,
        expiry: Expiry | None = None,
        memory: RowMemory = UNBOUNDED,
        eager_bytes: int = EAGER_BYTES,
    ) -> None:
        """Creates empty state. ``keys``, ``values``: the columns. ``owned``: the key groups of this subtask. ``eager_bytes``: restored state up to this size is
        read at once, larger state while the operator runs.
        """
        held = values if expiry is None else [*values, pa.field(TTL_COLUMN, pa.int64(), nullable=False)]
        self.rows = ColumnarRows(operator, keys, held, owned, max_parallelism, memory)
        self.increments = Increments()
        self._operator = operator
        self._owned = owned
        self._schema = stored_schema(keys, values, expires=expiry is not None)
        self._key_columns = len(keys)
        self._names = [field.name for field in keys], [field.name for field in values]
        self._expiry = expiry
        self._swept_to = 0
        self._eager_bytes, self._directory = eager_bytes, memory.directory
        self._rows_of: Callable[[KeyGroupRange, RowMemory], ColumnarRows] = lambda groups, room: ColumnarRows(
            operator, keys, held, groups, max_parallelism, room
        )
        self.restoring: UnloadedGroups | None = None
        """Loads restored state that was left in its files; ``None``: there is none."""

    @property
    def keys(self) -> int:
        """The number of keys. While groups are being loaded, the loaded rows of the current one count twice."""
        return len(self.rows) + (0 if self.restoring is None else self.restoring.whole_rows_left)

    def take(self, located: Located) -> Rows:
        """Returns the values of keys. Missing and expired ones are zero, or null where a column may be null."""
        held = self.rows.values.take(located.slots)
        if self._expiry is None:
            return held
        stamps, _ = held.pop()
        gone = located.is_new.copy()
        if not self._expiry.ttl.shows_expired:
            gone |= stamps <= self._expiry.last_ms()
        if not gone.any():
            return held
        return [
            (np.where(gone, values.dtype.type(0), values), None if nulls is None else nulls | gone)
            for values, nulls in held
        ]

    def put(self, located: Located, rows: Rows) -> None:
        """Writes the values of keys, each key once. Their time to live starts again."""
        if self._expiry is not None:
            rows = [*rows, (np.full(len(located.slots), self._expiry.now_ms(), np.int64), None)]
        self.rows.put(located, rows)

    def sweep(self, accesses: int) -> None:
        """Checks some entries for expiry, in proportion to ``accesses``, the number of keys that were read."""
        if self._expiry is None or not self._expiry.ttl.sweep_size:
            return
        count = min(accesses * self._expiry.ttl.sweep_size, SWEEP_ROWS)
        slots, groups, self._swept_to = self.rows.table.some_slots(self._swept_to, count)
        stamps, _ = self.rows.values.take(slots)[-1]
        expired = np.flatnonzero(stamps <= self._expiry.last_ms())
        if len(expired):
            self.rows.table.expire(slots[expired], groups[expired])

    def freeze(self, checkpoint_id: int, options: CheckpointOptions | None) -> FrozenColumnarState:
        may_share = options is not None and bool(options.shared_location) and not options.snapshot_type.is_savepoint
        base = self.increments.begin(options) if options is not None else None
        chained = partial(self.increments.written, checkpoint_id) if may_share else None
        types = {field.name: str(field.type) for field in self._schema}
        about = StateDescription(self._operator, STATE_NAME, "columnar_keyed", types)
        unloaded = None if self.restoring is None else self.restoring.frozen()
        frozen = self.rows.snapshots.freeze(None if unloaded is None else unloaded.is_left)
        last_ms = None if self._expiry is None else self._expiry.last_ms()
        return FrozenColumnarState(
            FrozenContent(frozen, unloaded, last_ms), self._schema, self._owned, about, base, chained
        )

    def restore(
        self, restored: RestoredOperator, source: SegmentSource, restored_checkpoint_id: int | None = None
    ) -> None:
        """Restores the state level by level, now or key group by key group. The next snapshot may build upon it. Raises ``CorruptData``, ``SchemaMismatch``,
        ``StorageError``.
        """
        mine = [s for s in restored.keyed if s.state_name == STATE_NAME and s.key_groups.intersect(self._owned).size]
        mine = in_reading_order(mine)
        left = None
        if self._bytes_of(mine) > self._eager_bytes:
            left = opened_for_parts(mine, source, self._directory, partial(has_columns, self._schema))
        is_same = bool(mine)
        if left is not None:
            put = partial(self._put_group, self.rows, self._last_expired_ms())
            self.restoring = UnloadedGroups(RestoredGroups(left, self._owned), self.rows, put, self._merged)
        else:
            is_same = self._read_all(mine, source) and is_same
        self.rows.values.begin_epoch()
        chain = restored_chain(mine, self._owned) if is_same else None
        if chain is not None and restored_checkpoint_id is not None:
            self.increments.restored(restored_checkpoint_id, chain)

    def close(self) -> None:
        """Ends loading."""
        if self.restoring is not None:
            self.restoring.close()

    def _bytes_of(self, segments: Sequence[SegmentHandle]) -> int:
        """Estimates, from the handles of state files, how many bytes the rows of this subtask's key groups take in them."""
        return sum(
            int(rows_by_group(s, self._owned).sum()) * s.handle.size_bytes // max(s.offsets[-1], 1)
            for s in segments
            if len(s.offsets) == s.key_groups.size + 1  # reading others fails with the reason
        )

    def _read_all(self, segments: Sequence[SegmentHandle], source: SegmentSource) -> bool:
        """Reads and loads all segments. Returns whether all have exactly the columns that are written now."""
        is_same, expired_ms = True, self._last_expired_ms()
        wholes = (rows_by_group(s, self._owned) for s in segments if s.level == 0)
        whole = sum(wholes, np.zeros(self._owned.size, np.int64))
        with ReadAhead(source, [segment.handle for segment in segments]) as files, self.rows.expecting(whole):
            for segment in segments:
                if segment.level == 0:
                    self.rows.table.make_room(rows_by_group(segment, self._owned))
                for groups, batch in read_keyed_batches(files, segment, self._owned):
                    data, had_columns = self._evolved(self._without_marks(batch))
                    is_same = is_same and had_columns
                    places = groups.astype(np.intp) - self._owned.start
                    self._put_restored(self.rows, expired_ms, places, data, are_new=segment.level == 0)
        return is_same

    def _last_expired_ms(self) -> int | None:
        return None if self._expiry is None else self._expiry.last_ms()

    def _put_restored(
        self,
        rows: ColumnarRows,
        expired_ms: int | None,
        places: npt.NDArray[np.intp],
        data: pa.RecordBatch,
        are_new: bool,
    ) -> None:
        """Loads restored rows. ``places``: their key groups, counted from the first one of ``rows``."""
        if self._expiry is not None and expired_ms is not None:
            data, places = _living(data, places, self._expiry.now_ms(), expired_ms)
        for at in range(0, data.num_rows, RESTORE_ROWS):
            columns = data.slice(at, RESTORE_ROWS).columns
            values = [to_numbers(column) for column in columns[self._key_columns :]]
            if are_new:
                rows.add_restored(columns[: self._key_columns], places[at : at + RESTORE_ROWS], values)
            else:
                rows.put_restored(columns[: self._key_columns], values)

    def _put_group(
        self, rows: ColumnarRows, expired_ms: int | None, group: int, data: pa.RecordBatch, are_new: bool
    ) -> None:
        self._put_restored(rows, expired_ms, np.full(data.num_rows, group, np.intp), data, are_new)

    def _merged(
        self, group: int, count: int, levels: Iterator[tuple[pa.RecordBatch, bool]]
    ) -> Iterator[pa.RecordBatch]:
        """Merges the levels of a key group in a table of its own; implements ``restored_groups.Merge``."""
        number = self._owned.start + group
        rows = self._rows_of(KeyGroupRange(number, number), RowMemory(capacity=count + MAX_PAGE))
        rows.table.make_room(np.array([count]))
        for data, is_whole in levels:
            self._put_group(rows, None, 0, data, is_whole)
        slots = rows.table.slots()
        for at in range(0, len(slots), PIECE_ROWS):
            here = slots[at : at + PIECE_ROWS]
            arrays = [*rows.table.keys_of(here), *columns_of(rows.values.take(here), self._schema)]
            yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _without_marks(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if DELETED not in batch.schema.names:
            return batch
        if batch.column(batch.schema.get_field_index(DELETED)).true_count:
            raise CorruptData(
                f"operator '{self._operator}': restored rows of '{STATE_NAME}' are marked as removed, which no checkpoint may "
                f"hold; {ON_DAMAGE}"
            )
        return batch.drop_columns([DELETED])

    def _evolved(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, bool]:
        """Converts restored rows to the present columns. Returns them, and whether they had these columns already."""
        if batch.schema.remove_metadata().equals(self._schema, check_metadata=True):
            return batch, True
        batch, written = as_written_now(batch, *self._names, self._operator), batch
        plan = evolve(batch.schema, self._schema)
        if isinstance(plan, Refusal):
            raise SchemaMismatch(
                f"operator '{self._operator}', state '{STATE_NAME}' cannot be restored: {'; '.join(plan.reasons)}. Keep keys "
                "and aggregates, or give the operator another uid"
            )
        return plan.apply(batch), not plan.changes and batch is written


def stored_schema(keys: Sequence[pa.Field], values: Sequence[pa.Field], *, expires: bool = False) -> pa.Schema:
    """Returns the schema of state files, without ``key_group`` and ``deleted``."""
    named = [(KEY_PREFIX, field) for field in keys] + [(VALUE_PREFIX, field) for field in values]
    stamps = [pa.field(TTL_COLUMN, pa.int64())] if expires else []
    return pa.schema([*(pa.field(prefix + f.name, f.type, f.nullable) for prefix, f in named), *stamps])


def _living(
    data: pa.RecordBatch, places: npt.NDArray[np.intp], now_ms: int, expired_ms: int
) -> tuple[pa.RecordBatch, npt.NDArray[np.intp]]:
    """Returns the rows that were written after ``expired_ms``, with their places. The time to live of rows without a time starts now (as since Flink 2.2)."""
    stamps = data.column(TTL_COLUMN).fill_null(now_ms)
    data = data.set_column(data.num_columns - 1, data.schema.field(TTL_COLUMN), stamps)
    lives = np.asarray(stamps) > expired_ms
    return (data, places) if lives.all() else (data.filter(pa.array(lives)), places[lives])
