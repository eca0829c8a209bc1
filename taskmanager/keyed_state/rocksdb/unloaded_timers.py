"""Restored timers that are not in RocksDB yet: those of a key group are loaded in the order of their time, the first ones at once.

    rows of a key group, in files and RocksDB:   ···· loaded ····│ horizon │···· in the files: neither in RocksDB, nor gone ····

Up to its horizon a group is as if there were no files, so the earliest timers come from RocksDB alone. A timer behind it is registered in RocksDB, and deleted there and
by a mark, without a look at the files: the walk that moves the horizon leaves out what is marked, and what is there twice is one row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from tidegate.model.keygroups import KeyGroupRange
from tidegate.model.values import StateValue
from tidegate.taskmanager.keyed_state.rocksdb.database import RocksDatabase
from tidegate.taskmanager.keyed_state.rocksdb.groups_ahead import AHEAD
from tidegate.taskmanager.keyed_state.rocksdb.restored_rows import RestoredRows
from tidegate.taskmanager.keyed_state.rocksdb.state_rows import StateRows
from tidegate.taskmanager.keyed_state.rocksdb.unloaded import FrozenUnloaded, Unloaded

STEP_TIMERS = 1024
"""So many of a key group at once take a millisecond or two."""


class UnloadedTimers(Unloaded):
    """Those of one time domain. Subtask's thread."""

    def __init__(self, database: RocksDatabase, rows: StateRows, restored: RestoredRows, owned: KeyGroupRange) -> None:
        super().__init__(database, rows, restored, owned, _load_nothing)
        self._walks: dict[int, Iterator[tuple[bytes, StateValue]]] = {}
        self._horizons: dict[int, bytes] = {}
        self._loaded_of = dict.fromkeys(self._waiting, 0)

    @property
    def groups(self) -> Sequence[int]:
        """Key groups that are not wholly loaded."""
        return list(self._waiting)

    @property
    def rows_left(self) -> int:
        return sum(max(self._counts[group] - self._loaded_of[group], 0) for group in self._waiting)

    def is_loaded_up_to(self, group: int, row: bytes) -> bool:
        """Whether everything of the group up to a row is in the database."""
        return group not in self._waiting or row <= self._horizons.get(group, b"")

    def is_whole(self, group: int) -> bool:
        """Everything of the group is in the database."""
        return group not in self._waiting

    def advance(self, group: int, step: int) -> None:
        """Loads the next ``step`` rows of a group that is not wholly loaded."""
        walk = self._walks.get(group)
        if walk is None:
            walk = self._walks[group] = self._restored.in_order(group, step)
        chunk = [(row, b"") for row, _ in islice(walk, step)]
        self._load_missing(group, chunk)
        self._loaded_of[group] += len(chunk)
        if len(chunk) < step:
            del self._walks[group]
            self._horizons.pop(group, None)
            self._end(group)
        else:
            self._horizons[group] = chunk[-1][0]

    def load_some(self) -> None:
        group = next(iter(self._waiting))
        if group != self._last:
            self._last = group
            self._ahead.want(self._next_groups(group, AHEAD))
        self.advance(group, STEP_TIMERS)

    def mark_gone(self, group: int, start: bytes) -> None:
        if not self.is_loaded_up_to(group, start):
            super().mark_gone(group, start)

    def frozen(self) -> FrozenUnloaded | None:
        found = super().frozen()
        return None if found is None else FrozenUnloaded(found.restored, found.groups, dict(self._horizons))


def _load_nothing(pairs: Sequence[tuple[bytes, StateValue]]) -> None:
    assert not pairs, "timers are rows"
