"""Tracks which entries changed since an earlier snapshot, for incremental checkpoints: their row keys, epoch by epoch.

    add(entry) ─▶ set in memory ──8192──▶ rows of the database itself, under a state id that no state has
    seal()     ─▶ the epoch is over; its set is never changed again

Epoch n is what changed after freeze n - 1 and before freeze n. ``since(e)`` gives each entry once, in order, in bounded
memory, to any thread: rows of a sealed epoch never change, and are not deleted before the snapshots that were frozen with
them are released.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from tidegate.taskmanager.keyed_state.rocksdb.database import RocksDatabase

CHANGES_ID = 0xFFFF
_ROWS = CHANGES_ID.to_bytes(2, "big")
_EPOCH_BYTES = 4
SPILL_AT = 8192
"""Changed keys that are held in memory; more of them become rows of the database (docs/adr/0030). Chosen, not measured."""


class ChangedEntries:
    """The changed entries of a backend. ``is_kept``: false if checkpoints are not incremental, so that nothing is tracked."""

    def __init__(self, database: RocksDatabase, *, is_kept: bool) -> None:
        self._database = database
        self._is_kept = is_kept
        self._epoch = 1
        self._current: set[bytes] = set()
        self._sealed: dict[int, frozenset[bytes]] = {}
        self._oldest = 0
        """The epoch up to which changes are forgotten."""
        self._in_use: dict[int, int] = {}
        """For each freeze that is not released, by epoch: the epoch after which no changes may be removed."""

    @property
    def is_fresh(self) -> bool:
        """Whether nothing was frozen yet."""
        return self._epoch == 1

    def add(self, entry: bytes) -> None:
        if self._is_kept:
            self._current.add(entry)
            if len(self._current) >= SPILL_AT:
                self._database.put_all([(_spilled(self._epoch) + changed, b"") for changed in self._current])
                self._current = set()

    def seal(self) -> SealedChanges:
        """Ends the epoch and returns the changes up to now. Called at a freeze, before its view is made."""
        if self._current:
            self._sealed[self._epoch] = frozenset(self._current)
            self._current = set()
        sealed = SealedChanges(self._database, self._epoch, dict(self._sealed), self._oldest)
        self._in_use[self._epoch] = self._oldest
        self._epoch += 1
        return sealed

    def release(self, sealed: SealedChanges) -> None:
        """Releases the changes that a snapshot used, after it has ended."""
        self._in_use.pop(sealed.epoch, None)

    def forget(self, epoch: int) -> None:
        """Forgets the changes up to an epoch, which no later snapshot needs."""
        epoch = min(epoch, *self._in_use.values()) if self._in_use else epoch
        if epoch <= self._oldest:
            return
        for old in [sealed for sealed in self._sealed if sealed <= epoch]:
            del self._sealed[old]
        self._database.delete_range(_spilled(self._oldest), _spilled(epoch + 1))
        self._oldest = epoch


class SealedChanges:
    """The changes of all epochs that a snapshot may need. Immutable."""

    def __init__(self, database: RocksDatabase, epoch: int, sets: dict[int, frozenset[bytes]], oldest: int) -> None:
        self._database = database
        self.epoch = epoch
        self._sets = sets
        self._oldest = oldest

    def since(self, epoch: int, prefix: bytes) -> Iterator[bytes]:
        """Yields the entries with this prefix that changed after ``epoch``, each once, in order. May run in any thread."""
        assert epoch >= self._oldest, (
            f"changes since epoch {epoch} are asked for, those up to {self._oldest} are forgotten"
        )
        parts: list[Iterator[bytes]] = []
        for number in range(epoch + 1, self.epoch + 1):
            parts.append(iter(sorted(entry for entry in self._sets.get(number, ()) if entry.startswith(prefix))))
            parts.append(self._spilled_entries(number, prefix))
        last = b""
        for entry in heapq.merge(*parts):
            if entry != last:
                last = entry
                yield entry

    def _spilled_entries(self, epoch: int, prefix: bytes) -> Iterator[bytes]:
        cut = 2 + _EPOCH_BYTES
        return (row[cut:] for row, _ in self._database.rows(_spilled(epoch) + prefix))


def _spilled(epoch: int) -> bytes:
    return _ROWS + epoch.to_bytes(_EPOCH_BYTES, "big")
