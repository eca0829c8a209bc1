"""Contracts of state: what operators use, what the runtime freezes, and what the asynchronous writer writes.

Laws: ``freeze`` copies nothing and does no I/O. What is frozen never changes: a mutable value that is handed to user
code while its snapshot is still being written is copied on that access. ``FrozenState.write`` runs in the snapshot
thread; ``release`` is called in the subtask's thread afterwards, whatever happened.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from tidegate.model.checkpoint import OperatorSnapshot, RestoredOperator, StateHandle
from tidegate.store.verified_file import PartialFile


class SegmentStore(Protocol):
    """Where one attempt writes the files of one checkpoint. Small contents come back inline
    (``execution.checkpointing.data-inline-threshold``); files are durable when ``write`` returns."""

    @property
    def written_bytes(self) -> int:
        """Returns the bytes that were written so far."""

    @property
    def compresses(self) -> bool:
        """State files are to be compressed (``execution.checkpointing.snapshot-compression``)."""

    def write(self, name_hint: str, parts: Iterable[bytes | memoryview], *, is_shared: bool = False) -> StateHandle:
        """``parts`` may be a generator: what it yields is on its way to the disk before the next part is made, and may not
        be changed. ``is_shared``: later checkpoints may name the file too, if this one has a place for such files.
        Raises ``StorageError``. File names hold the attempt id; ``name_hint`` is only for people. Thread-safe: the states
        of a subtask's operators are written at the same time."""


class SegmentSource(Protocol):
    """Where restored state is read from."""

    def read(self, handle: StateHandle) -> memoryview:
        """The bytes, checksum verified. Raises ``CorruptData`` naming the file, or ``StorageError``. Thread-safe: files are read
        ahead (``read_ahead``)."""


@dataclass(frozen=True, slots=True)
class OperatorRestore:
    """The checkpoint that an attempt starts from, as one of its operators sees it."""

    checkpoint_id: int
    location: str
    """The directory of the checkpoint."""
    operator: RestoredOperator | None
    """What the operator has in it; ``None``: nothing."""
    segments: SegmentSource
    """Where that is read from."""


@runtime_checkable
class PartialSource(SegmentSource, Protocol):
    """It also knows how to read parts of a file."""

    def open(self, handle: StateHandle, directory: str = "") -> PartialFile | None:
        """The file, held open; ``None`` where only ``read`` is possible. ``directory``: parts that come from elsewhere
        are kept there; empty: where the system has its temporary files. Raises ``CorruptData`` naming the file, or ``StorageError``. Thread-safe."""


class FrozenState(ABC):
    """References to what an operator's state was at the barrier."""

    @abstractmethod
    def write(self, store: SegmentStore) -> OperatorSnapshot:
        """Snapshot thread. Raises ``StorageError``."""

    def size_limit_bytes(self) -> int | None:
        """At least what ``write`` writes, where that is little and known; ``None``: unknown. Small states are written by the
        subtask's thread itself: handing them to another one would take longer."""
        return None

    def release(self) -> None:  # noqa: B027  (optional hook)
        """Subtask's thread: merge what was written meanwhile, drop the references."""
