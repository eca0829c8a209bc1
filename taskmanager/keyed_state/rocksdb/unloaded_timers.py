"""Restored timers that are not in RocksDB yet: those of a key group are loaded in the order of their time, the first ones at once.

    rows of a key group, in files and RocksDB:   ···· loaded ····│ horizon │···· in the files: neither in RocksDB, nor gone ····

Timers up to the horizon of a group are all in RocksDB, so the earliest timers are read from RocksDB alone. A timer after the horizon is registered in RocksDB,
and deleted by deleting it there and writing a mark, without reading the files. When the horizon moves, marked timers are skipped, and a timer that is in both
becomes one row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from tidegate.model.keygroups import KeyGroupRange
from tidegate.taskmanager.keyed_state.rocksdb.database import RocksDatabase
from tidegate.taskmanager.keyed_state.rocksdb.restored_rows import RestoredRows
from tidegate.taskmanager.keyed_state.rocksdb.state_rows import StateRows
from tidegate.taskmanager.keyed_state.rocksdb.unloaded import Entries, FrozenUnloaded, Unloaded

STEP_TIMERS = 1024
"""Timers of a key group that are loaded at once, which takes a millisecond or two."""


class UnloadedTimers(Unloaded):
    """The unloaded timers of one time domain. Used from the subtask's thread."""

    def __init__(self, database: RocksDatabase, rows: StateRows, restored: RestoredRows, owned: KeyGroupRange) -> None:
        super().__init__(database, rows, restored, owned, _load_nothing)
        self._horizons: dict[int, bytes] = {}
        self._step = STEP_TIMERS

    @property
    def groups(self) -> Sequence[int]:
        """The key groups that are not completely loaded."""
        return list(self._left)

    def is_loaded_up_to(self, group: int, row: bytes) -> bool:
        """Tells whether everything of a group up to a row is in the database."""
        return group not in self._left or row <= self._horizons.get(group, b"")

    def is_whole(self, group: int) -> bool:
        """Tells whether everything of a group is in the database."""
        return group not in self._left

    def advance(self, group: int, step: int) -> None:
        """Loads the next ``step`` rows of a group that is not completely loaded."""
        self._step = step
        self._loader.advance(group)
        self._step = STEP_TIMERS

    def mark_gone(self, group: int, start: bytes) -> None:
        if not self.is_loaded_up_to(group, start):
            super().mark_gone(group, start)

    def frozen(self) -> FrozenUnloaded | None:
        found = super().frozen()
        return None if found is None else FrozenUnloaded(found.restored, found.groups, dict(self._horizons))

    def chunks(self, group: int) -> Iterator[Entries]:
        walk = self._restored.in_order(group, self._step)
        while chunk := [(row, b"") for row, _ in islice(walk, self._step)]:
            yield chunk

    def put(self, group: int, chunk: Entries) -> int:
        self._horizons[group] = chunk[-1][0]
        return super().put(group, chunk)

    def loaded(self, group: int) -> None:
        self._horizons.pop(group, None)
        super().loaded(group)


def _load_nothing(pairs: Entries) -> None:
    assert not pairs, "timers are rows"
