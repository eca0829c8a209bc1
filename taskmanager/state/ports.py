"""Contracts of state: stores and sources of state files, frozen state, and what an operator restores from.

Laws: ``freeze`` copies nothing and does no I/O. Frozen state never changes: a mutable value that user code reads while its snapshot is still being written is
copied on that access. ``FrozenState.write`` runs in the snapshot thread; ``release`` is called in the subtask's thread afterwards, also after errors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from tidegate.model.checkpoint import OperatorSnapshot, RestoredOperator, StateHandle
from tidegate.store.verified_file import PartialFile


class SegmentStore(Protocol):
    """Writes the state files of one attempt for one checkpoint. Small contents are returned inline (``execution.checkpointing.data-inline-threshold``); files
    are durable when ``write`` returns.
    """

    @property
    def written_bytes(self) -> int:
        """The bytes that were written so far."""

    @property
    def compresses(self) -> bool:
        """Whether state files are compressed (``execution.checkpointing.snapshot-compression``)."""

    def write(self, name_hint: str, parts: Iterable[bytes | memoryview], *, is_shared: bool = False) -> StateHandle:
        """Writes a state file; returns its handle. Raises ``StorageError``. Thread-safe, as the states of a subtask's operators are written at the same time.

        ``parts`` may be a generator: each part is written before the next one is made, and must not be changed. ``is_shared``: later checkpoints may name the
        file too, if this one has a shared directory. File names contain the attempt id; ``name_hint`` is for people only.
        """


class SegmentSource(Protocol):
    """Reads the state files of a restored checkpoint."""

    def read(self, handle: StateHandle) -> memoryview:
        """Returns the content of a file, with its checksum verified. Raises ``CorruptData`` naming the file, or ``StorageError``. Thread-safe, since files are
        read ahead (``read_ahead``).
        """


@dataclass(frozen=True, slots=True)
class OperatorRestore:
    """The checkpoint that an attempt is restored from, with the state of one operator."""

    checkpoint_id: int
    location: str
    """The directory of the checkpoint."""
    operator: RestoredOperator | None
    """The operator's state in the checkpoint; ``None``: it has none."""
    segments: SegmentSource
    """Reads the files of that state."""


@runtime_checkable
class PartialSource(SegmentSource, Protocol):
    """A source that can also read parts of a file."""

    def open(self, handle: StateHandle, directory: str = "") -> PartialFile | None:
        """Opens a file for reading parts of it; ``None`` where only ``read`` is possible. Raises ``CorruptData`` naming the file, or ``StorageError``.
        Thread-safe.

        ``directory``: where parts that come from an object store are kept; empty: the system's directory for temporary files.
        """


class FrozenState(ABC):
    """The state of an operator as it was at the barrier, as references that are not copied."""

    @abstractmethod
    def write(self, store: SegmentStore) -> OperatorSnapshot:
        """Writes the state; returns the operator's part of the snapshot. Runs in the snapshot thread. Raises ``StorageError``."""

    def size_limit_bytes(self) -> int | None:
        """Returns an upper bound of the bytes that ``write`` writes; ``None`` if it is not known. Small states are written in the subtask's thread, since
        passing them to another one would take longer.
        """
        return None

    def release(self) -> None:  # noqa: B027  (optional hook)
        """Drops the references, and merges changes that were made while the state was written. Called in the subtask's thread."""
