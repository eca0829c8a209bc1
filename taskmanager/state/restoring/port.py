"""The interface to restored state that is not loaded yet, the same for all kinds of state.

    restore ─▶ RestoredPart ── find ──────▶ what the files have of one thing, which is read and verified for it alone
                            ├─ load_some ─▶ a step of some milliseconds, beside the records
                            ├─ settle ────▶ all at once: what asks for everything must find it
                            └─ close ─────▶ reads nothing from now on

    of                                      in                                    loaded by
    rows of RocksDB, timers of RocksDB      keyed_state/rocksdb/unloaded*         GroupLoader, in the order of their key groups
    rows of columns by key                  keyed_state/columns/restored_groups   GroupLoader, what most records wait for first
    windows of columns                      windows/state/restored                file by file, since levels say what has fired
    sessions of columns, state on the heap  (read at once: ``files.read_ahead``)

Laws. The state always reads as if everything were loaded, also for a snapshot. Nothing is decoded before its checksum was verified, and a damaged file is
reported by the call that needs it. Files are held open: their checkpoint may be deleted meanwhile.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

Wanted = TypeVar("Wanted", contravariant=True)
Found = TypeVar("Found", covariant=True)


class RestoredPart(ABC, Generic[Wanted, Found]):
    """A restored state of one subtask, used in its thread. Every method raises ``CorruptData`` naming the file, or ``StorageError``."""

    @property
    @abstractmethod
    def is_done(self) -> bool:
        """Whether all of the state is loaded."""

    @property
    @abstractmethod
    def rows_left(self) -> int:
        """The number of rows in the files that are not loaded, those of older levels included."""

    @abstractmethod
    def find(self, group: int, wanted: Wanted) -> Found:
        """Returns what the files have of one key, timer or window of a key group. No more than that is read where its place in the files is known."""

    @abstractmethod
    def load_some(self) -> None:
        """Loads some of the state, for some milliseconds. Does nothing when all is loaded."""

    @abstractmethod
    def settle(self) -> None:
        """Loads all of the restored state that is not loaded yet."""

    @abstractmethod
    def close(self) -> None:
        """Ends loading, since the subtask ends or all is loaded. A second call changes nothing."""
