"""Keyed state of columnar sessions: Arrow batches of partial aggregates, each with its keys and the times of its session.

    window_start · window_end (the last row's time and the gap) · keys · partial columns

Law 3 holds by construction: batches are never written in place, so freezing takes references, and merging makes new ones. What is written
is merged in the snapshot thread, and looks like the state of other columnar windows.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tidegate.common.keys.hashing import hash_columns, key_groups
from tidegate.model.checkpoint import OperatorSnapshot, RestoredOperator
from tidegate.model.errors import SchemaMismatch
from tidegate.model.keygroups import KeyGroupRange
from tidegate.taskmanager.state.base import FrozenState, SegmentSource, SegmentStore
from tidegate.taskmanager.state.columnar.window_files import KEY_PREFIX, STATE_NAME, VALUE_PREFIX, WINDOW_COLUMNS
from tidegate.taskmanager.state.files.read_ahead import ReadAhead
from tidegate.taskmanager.state.files.segments import StateDescription, read_keyed, write_keyed

Merge = Callable[[Sequence[pa.RecordBatch]], pa.RecordBatch]
"""Batches to one in which each session is one row. Also called in the snapshot thread."""


@dataclass(frozen=True, slots=True)
class SessionPlace:
    """Whose state it is, and how it is cut."""

    operator: str
    keys: tuple[str, ...]
    owned: KeyGroupRange
    max_parallelism: int


@dataclass(slots=True)
class FrozenSessions(FrozenState):
    place: SessionPlace
    merge: Merge
    parts: tuple[pa.RecordBatch, ...]

    def write(self, store: SegmentStore) -> OperatorSnapshot:
        if not self.parts:
            return OperatorSnapshot()
        place, merged = self.place, self.merge(self.parts)
        keys = [merged.column(name) for name in place.keys]
        values = [name for name in merged.schema.names if name not in (*place.keys, *WINDOW_COLUMNS)]
        names = [*(KEY_PREFIX + n for n in place.keys), *WINDOW_COLUMNS, *(VALUE_PREFIX + n for n in values)]
        columns = [*keys, *(merged.column(n) for n in (*WINDOW_COLUMNS, *values))]
        data = pa.RecordBatch.from_arrays(columns, names=names)
        types = {name: str(data.schema.field(name).type) for name in names}
        about = StateDescription(place.operator, STATE_NAME, "columnar_windows", types)
        groups = key_groups(hash_columns(keys), place.max_parallelism)
        return OperatorSnapshot(keyed=(write_keyed(store, data, groups, place.owned, about),))

    def release(self) -> None:
        self.parts = ()


def restored_sessions(
    place: SessionPlace, restored: RestoredOperator, source: SegmentSource
) -> Generator[pa.RecordBatch, None, None]:
    """The partials of the owned key groups; to be closed: it reads ahead. Raises ``CorruptData``; ``SchemaMismatch`` when the state has other keys."""
    mine = [s for s in restored.keyed if s.state_name == STATE_NAME and s.key_groups.intersect(place.owned).size]
    with ReadAhead(source, [segment.handle for segment in mine]) as files:
        for segment in mine:
            yield _partials(place, read_keyed(files, segment, place.owned)[1])


def _partials(place: SessionPlace, data: pa.RecordBatch) -> pa.RecordBatch:
    stored = [n.removeprefix(KEY_PREFIX) for n in data.schema.names if n.startswith(KEY_PREFIX)]
    if stored != list(place.keys) or not set(WINDOW_COLUMNS) <= set(data.schema.names):
        raise SchemaMismatch(
            f"operator '{place.operator}': the restored windows have the keys {stored}, the job's {list(place.keys)}: "
            "give the operator another uid, or restore with the job that wrote them"
        )
    values = [n for n in data.schema.names if n.startswith(VALUE_PREFIX)]
    order = [*WINDOW_COLUMNS, *(KEY_PREFIX + n for n in place.keys), *values]
    names = [*WINDOW_COLUMNS, *place.keys, *(n.removeprefix(VALUE_PREFIX) for n in values)]
    return pa.RecordBatch.from_arrays([data.column(n) for n in order], names=names)
