"""Writes a snapshot of columnar keyed state into segments of kind ``columnar_keyed``.

    frozen rows, some key groups at a time ─▶ copied ─▶ these groups are released to the subtask's thread ─▶ written
    key groups that were not loaded        ─▶ the restored files are referred to again, or read ─▶ written

In this way the whole state is never copied at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.columnar.table.fixed_width import to_column
from tidegate.columnar.table.layout import Rows
from tidegate.columnar.table.snapshots import FrozenRows
from tidegate.model.checkpoint import OperatorSnapshot, SegmentHandle
from tidegate.model.keygroups import KeyGroupRange
from tidegate.records.schema_evolution import TTL_COLUMN
from tidegate.taskmanager.keyed_state.columns.restored_groups import FrozenGroups
from tidegate.taskmanager.machines.incremental_snapshot import SegmentChain, decide
from tidegate.taskmanager.state.files.segment_streams import Rows as Piece
from tidegate.taskmanager.state.files.segment_streams import write_segments
from tidegate.taskmanager.state.files.segments import DELETED, Groups, StateDescription
from tidegate.taskmanager.state.ports import FrozenState, SegmentStore

PIECE_ROWS = 1 << 15
"""Rows that the snapshot thread copies at once, which bounds what a snapshot holds besides the state."""


@dataclass(frozen=True, slots=True)
class FrozenContent:
    """The content of a frozen state. ``unloaded``: groups that are not in ``rows`` but still in the restored files. ``expired_ms``: rows written up to this
    time are not written in whole segments; ``None``: they never expire.
    """

    rows: FrozenRows
    unloaded: FrozenGroups | None = None
    expired_ms: int | None = None


class FrozenColumnarState(FrozenState):
    """The frozen state of a columnar operator, as rows by key: what a snapshot writes."""

    def __init__(
        self,
        content: FrozenContent,
        schema: pa.Schema,
        owned: KeyGroupRange,
        about: StateDescription,
        base: SegmentChain | None,
        chained: Callable[[SegmentChain], None] | None,
    ) -> None:
        """Takes the frozen rows. ``base``: the chain of files on which the snapshot may build. ``chained``: called with the chain on which later snapshots may
        build; ``None``: they may not.
        """
        self._frozen = content.rows
        self._unloaded = content.unloaded
        self._expired_ms = content.expired_ms
        self._schema = schema
        self._owned = owned
        self._about = about
        self._base = base
        self._chained = chained

    def write(self, store: SegmentStore) -> OperatorSnapshot:
        frozen, base, owned = self._frozen, self._base, self._owned
        changed = self._changed(base.epoch) if base else np.zeros(owned.size, np.int64)
        rows = frozen.counts if self._unloaded is None else frozen.counts + self._unloaded.rows
        plan = decide(base, owned, rows.tolist(), changed.tolist())
        whole = (
            range(0) if plan.whole is None else range(plan.whole.start - owned.start, plan.whole.end + 1 - owned.start)
        )
        written: list[SegmentHandle] = []
        if plan.delta is not None:
            others = [group for group in range(owned.size) if group not in whole]
            written += self._segments(store, self._pieces(others, plan.delta.since), owned, plan.delta.level)
        frozen.written[: whole.start] = True
        frozen.written[whole.stop :] = True
        if plan.whole is not None:
            written += self._segments(store, self._everything(whole), plan.whole, 0)
        if self._chained is not None:
            self._chained(plan.chain(frozen.epoch, written))
        return OperatorSnapshot(keyed=(*plan.kept, *written))

    def release(self) -> None:
        self._frozen.release()

    def _segments(
        self, store: SegmentStore, pieces: Iterator[Piece], groups: KeyGroupRange, level: int
    ) -> Iterator[SegmentHandle]:
        is_shared = self._chained is not None
        return write_segments(store, self._about, pieces, groups, level, is_shared=is_shared, batch_rows=PIECE_ROWS)

    def _changed(self, since: int) -> npt.NDArray[np.int64]:
        """Returns how many rows of each group have changed after an epoch."""
        found = np.zeros(self._owned.size, np.int64)
        for group in range(self._owned.size):
            if self._frozen.counts[group]:
                found[group] = np.count_nonzero(self._frozen.epochs_of(self._frozen.slots_of(group)) > since)
        return found

    def _everything(self, groups: Sequence[int]) -> Iterator[Piece]:
        """Yields all rows of these groups, from memory or from the restored files."""
        loaded: list[int] = []
        for group in groups:
            if self._unloaded is None or not self._unloaded.is_left[group]:
                loaded.append(group)
                continue
            yield from self._pieces(loaded, None)
            loaded = []
            for data in self._unloaded.content(group):
                if self._expired_ms is not None:
                    data = data.filter(pc.greater(data.column(TTL_COLUMN), self._expired_ms))
                if data.num_rows:
                    yield np.full(data.num_rows, self._owned.start + group, np.int32), data
        yield from self._pieces(loaded, None)

    def _pieces(self, groups: Sequence[int], since: int | None) -> Iterator[Piece]:
        """Yields all rows of these groups, or those that have changed after the epoch ``since``, in pieces of some groups or of parts of one. A group is
        released when its last row is copied.
        """
        frozen = self._frozen
        waiting: list[int] = []
        held: list[npt.NDArray[np.int32]] = []
        rows = 0
        for group in groups:
            slots = frozen.slots_of(group)
            if since is not None:
                slots = slots[frozen.epochs_of(slots) > since]
            while rows + len(slots) > PIECE_ROWS:
                room = PIECE_ROWS - rows
                piece = self._copied([*waiting, group], [*held, slots[:room]], since)
                frozen.written[waiting] = True
                if len(piece[0]):
                    yield piece
                waiting, held, rows, slots = [], [], 0, slots[room:]
            waiting.append(group)
            held.append(slots)
            rows += len(slots)
        if rows:
            piece = self._copied(waiting, held, since)
            frozen.written[waiting] = True
            if len(piece[0]):  # not all of it has expired
                yield piece

    def _copied(
        self, groups: Sequence[int], held: Sequence[npt.NDArray[np.int32]], since: int | None
    ) -> tuple[Groups, pa.RecordBatch]:
        slots = np.concatenate(held)
        values, _ = self._frozen.read(slots)
        of = np.repeat(np.array(groups, np.int32) + self._owned.start, [len(part) for part in held])
        if self._expired_ms is not None and since is None:
            lives = values[-1][0] > self._expired_ms
            slots, of = slots[lives], of[lives]
            values = [(part[lives], None if nulls is None else nulls[lives]) for part, nulls in values]
        arrays = [*self._frozen.keys_of(slots), *columns_of(values, self._schema)]
        schema = self._schema
        if since is not None:
            arrays.append(pa.array(np.zeros(len(slots), np.bool_)))
            schema = schema.append(pa.field(DELETED, pa.bool_(), nullable=False))
        return of, pa.RecordBatch.from_arrays(arrays, schema=schema)


def columns_of(rows: Rows, schema: pa.Schema) -> list[pa.Array]:
    """Returns the value columns of a schema for rows."""
    kinds = schema.types[len(schema) - len(rows) :]
    return [to_column(values, kind, nulls) for (values, nulls), kind in zip(rows, kinds, strict=True)]
