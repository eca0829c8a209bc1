"""The keyed state backend ``rocksdb``, for more state than fits into memory.

    handles ─▶ tables · list cells · map cells ─▶ rows of one database
    freeze  ─▶ view of the database ─▶ the same segments as every backend writes

Timers are rows too, with the earliest of them cached in memory (``timers``). With ``state.backend.rocksdb.timer-service.factory: HEAP`` they are kept in
memory, in a heap backend inside this one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tidegate.common.typeinfo import TypeInformation
from tidegate.model.checkpoint import CheckpointOptions, RestoredOperator
from tidegate.model.errors import InvalidJob
from tidegate.model.keygroups import KeyGroupRange
from tidegate.taskmanager.keyed_state.backend import KeyedBackend, KeyedTable
from tidegate.taskmanager.keyed_state.entry import Entry
from tidegate.taskmanager.keyed_state.heap.backend import KeyedStateBackend
from tidegate.taskmanager.keyed_state.heap.entries import EntryFormat
from tidegate.taskmanager.keyed_state.rocksdb.changes import ChangedEntries
from tidegate.taskmanager.keyed_state.rocksdb.database import RocksDatabase
from tidegate.taskmanager.keyed_state.rocksdb.restore import UnclaimedState
from tidegate.taskmanager.keyed_state.rocksdb.snapshot import FrozenEntries, FrozenRocks
from tidegate.taskmanager.keyed_state.rocksdb.tables import (
    RocksCells,
    RocksEntries,
    RocksListCells,
    RocksMapCells,
    RocksSweep,
    RocksTable,
)
from tidegate.taskmanager.keyed_state.rocksdb.timers import RocksTimers
from tidegate.taskmanager.keyed_state.rocksdb.unloaded import GONE_ID, Unloaded
from tidegate.taskmanager.keyed_state.rocksdb.unloaded_timers import UnloadedTimers
from tidegate.taskmanager.keyed_state.timers import EVENT_TIMERS, PROCESSING_TIMERS, TimerSet
from tidegate.taskmanager.keyed_state.ttl import Sweep, Ttl
from tidegate.taskmanager.machines.incremental_snapshot import Increments, restored_chain
from tidegate.taskmanager.state.ports import FrozenState, SegmentSource

_TIMERS = frozenset({EVENT_TIMERS, PROCESSING_TIMERS})
C = TypeVar("C", bound=RocksCells)


class RocksKeyedBackend(KeyedBackend):
    """The backend of ``state.backend.type: rocksdb``. ``is_incremental``: tracks changes for incremental checkpoints."""

    def __init__(
        self,
        operator: str,
        owned: KeyGroupRange,
        key_type: TypeInformation | None,
        now_ms: Callable[[], int],
        database: RocksDatabase,
        *,
        is_incremental: bool = False,
        restored_checkpoint_id: int | None = None,
    ) -> None:
        super().__init__(operator, owned, key_type, now_ms)
        self._database = database
        self._is_incremental = is_incremental
        self._restored_checkpoint_id = restored_checkpoint_id
        self._changes = ChangedEntries(database, is_kept=is_incremental)
        self._heap = KeyedStateBackend(operator, owned, key_type, now_ms)
        self._states: dict[str, RocksCells] = {}
        self._increments: dict[str, Increments] = {}
        self._unclaimed: dict[str, UnclaimedState] = {}
        self._loading: list[RocksCells] = []
        self._restored_ms = 0
        """The time of the restore: that of state which was written without a time to live."""

    def restore(self, restored: RestoredOperator, source: SegmentSource) -> None:
        """Takes restored segments. Files are opened when their state is requested, and read when its entries are."""
        self._restored_ms = self.now_ms()
        timers = tuple(segment for segment in restored.keyed if self._is_on_heap(segment.state_name))
        self._heap.restore(RestoredOperator(keyed=timers), source)
        for segment in restored.keyed:
            name = segment.state_name
            if self._is_on_heap(name) or not segment.key_groups.intersect(self.owned).size:
                continue
            if name not in self._unclaimed:
                self._unclaimed[name] = UnclaimedState(self.operator, name, self.owned, source, self._database.path)
            self._unclaimed[name].add(segment)

    def table(
        self, state_name: str, kind: str, value_type: TypeInformation | None, ttl: Ttl | None = None
    ) -> KeyedTable:
        return self._claimed(state_name, kind, value_type, ttl, RocksTable)

    def entries_by_key(self, state_name: str, value_type: TypeInformation, ttl: Ttl | None = None) -> RocksEntries:
        return self._claimed(state_name, "value", value_type, ttl, RocksEntries)

    def list_cells(
        self, state_name: str, value_type: TypeInformation, ttl: Ttl | None = None, kind: str = "list"
    ) -> RocksListCells:
        return self._claimed(state_name, kind, value_type, ttl, RocksListCells)

    def map_cells(self, state_name: str, value_type: TypeInformation, ttl: Ttl | None = None) -> RocksMapCells:
        return self._claimed(state_name, "map", value_type, ttl, RocksMapCells)

    def timers(self, state_name: str) -> TimerSet:
        if self._is_on_heap(state_name):
            return self._heap.timers(state_name)
        found = self._claimed(state_name, "timers", None, None, RocksTimers)
        found.begin()
        return found

    def entry_keys(self, state_name: str) -> list[tuple[int, Entry]]:
        return self._states[state_name].entry_keys()

    def sweep(self, state_name: str) -> Sweep:
        return RocksSweep(self._database, self._states[state_name], self._changes)

    def freeze(self, checkpoint_id: int = 0, options: CheckpointOptions | None = None) -> FrozenState:
        changes = self._changes.seal()
        builds_chains = (
            self._is_incremental
            and options is not None
            and bool(options.shared_location)
            and not options.snapshot_type.is_savepoint
        )
        if options is not None and not options.snapshot_type.is_savepoint and not options.shared_location:
            self._changes.forget(changes.epoch)
        states = [
            FrozenEntries(
                cells.rows,
                frozenset(cells.rows.namespaces),
                self._increments[name],
                self._increments[name].begin(options) if builds_chains and options is not None else None,
                None if cells.unloaded is None else cells.unloaded.frozen(),
            )
            for name, cells in self._states.items()
        ]
        return FrozenRocks(
            checkpoint_id=checkpoint_id,
            owned=self.owned,
            view=self._database.view(
                state.rows.prefix for state in states if state.base is None and state.unloaded is None
            ),
            changes=changes,
            states=states,
            timers=self._heap.freeze(checkpoint_id, options),
            builds_chains=builds_chains,
            frozen_ms=self.now_ms(),
            released=self._changes.release,
            unclaimed=tuple(self._unclaimed.values()),
        )

    def confirmed(self, checkpoint_id: int) -> None:
        self._heap.confirmed(checkpoint_id)
        for increments in self._increments.values():
            increments.confirmed(checkpoint_id)
        self._forget_changes()

    def aborted(self, checkpoint_id: int) -> None:
        self._heap.aborted(checkpoint_id)
        for increments in self._increments.values():
            increments.aborted(checkpoint_id)
        self._forget_changes()

    def merge_some(self) -> None:
        self._heap.merge_some()
        if self._loading:
            self.load_some()

    @property
    def loads_later(self) -> bool:
        return bool(self._unclaimed or self._loading)

    @property
    def rows_to_load(self) -> int:
        return sum(cells.unloaded.rows_left for cells in self._loading if cells.unloaded is not None)

    def load_some(self) -> None:
        for cells in self._loading[:1]:
            unloaded = cells.unloaded
            if unloaded is not None and not unloaded.is_done:
                unloaded.load_some()
            if unloaded is None or unloaded.is_done:
                cells.drop_unloaded()
                self._loading.remove(cells)

    def close(self) -> None:
        for cells in self._loading:
            cells.drop_unloaded()
        self._heap.close()
        self._database.close()

    def _claimed(
        self, state_name: str, kind: str, value_type: TypeInformation | None, ttl: Ttl | None, make: type[C]
    ) -> C:
        wanted = EntryFormat(self.operator, state_name, kind, self._key_type, value_type, ttl)
        known = self._states.get(state_name)
        if known is not None:
            if known.rows.layout != wanted or not isinstance(known, make):
                raise InvalidJob(
                    f"operator '{self.operator}': state '{state_name}' is registered as {known.rows.layout.kind} of "
                    f"{known.rows.layout.value_type!r} and as {kind} of {value_type!r}: use two names"
                )
            return known
        if len(self._states) >= GONE_ID:
            raise InvalidJob(f"operator '{self.operator}' has more than {GONE_ID} states")
        cells = make(self._database, make.row_form(len(self._states), wanted), self._changes)
        self._increments[state_name] = increments = Increments()
        restored = self._unclaimed.pop(state_name, None)
        if restored is not None:
            is_same = self._leave(restored, cells) or restored.claim(wanted, cells, self._restored_ms)
            chain = restored_chain(restored.segments, self.owned) if is_same else None
            if chain is not None and self._restored_checkpoint_id is not None and self._changes.is_fresh:
                increments.restored(self._restored_checkpoint_id, chain)
        self._states[state_name] = cells
        return cells

    def _leave(self, restored: UnclaimedState, cells: RocksCells) -> bool:
        """Leaves a state's rows in their files until they are needed or loaded, if possible. Returns whether it is."""
        rows = cells.rows
        files = restored.leave(rows.layout, rows.state_id, self._restored_ms)
        if files is None:
            return False
        if rows.layout.value_type is not None:
            cells.unloaded = Unloaded(self._database, rows, files, self.owned, cells.load)
        elif files.is_always_in_order:
            cells.unloaded = UnloadedTimers(self._database, rows, files, self.owned)
        else:
            return False
        rows.namespaces |= files.namespaces
        self._loading.append(cells)
        return True

    def _is_on_heap(self, state_name: str) -> bool:
        return self._database.settings.timers_on_heap and state_name in _TIMERS

    def _forget_changes(self) -> None:
        """Forgets the changes of epochs that no later snapshot needs."""
        oldest = [increments.oldest_epoch for increments in self._increments.values()]
        known = [epoch for epoch in oldest if epoch is not None]
        if known:
            self._changes.forget(min(known))
