"""Operator state of user functions, and notifications about checkpoints. PyFlink has neither, so these are Java's interfaces in snake case
(``org.apache.flink.streaming.api.checkpoint.CheckpointedFunction``, ``OperatorStateStore``, ``CheckpointListener``).

    initialize_state(context) ─▶ open(runtime_context) ─▶ { records · snapshot_state(context) · notify_checkpoint_... }* ─▶ close()

Operator state belongs to a subtask, not to a key. When the job comes back with another parallelism,

    list       elements of all subtasks in their order, cut into even runs
    union      every subtask is given all elements, and takes what it needs (``update`` it: what stays is written again by each)
    broadcast  every subtask has the same entries, for which the function has to see to: the same records in the same order
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from tidegate.functions.base import KeyedStateStore, OperatorStateStore

__all__ = [
    "CheckpointListener",
    "CheckpointedFunction",
    "FunctionInitializationContext",
    "FunctionSnapshotContext",
    "OperatorStateStore",
]


class FunctionInitializationContext(ABC):
    """The context that ``initialize_state`` receives (Flink: ``FunctionInitializationContext.java``)."""

    @abstractmethod
    def is_restored(self) -> bool:
        """Returns whether the job was restored from a checkpoint or savepoint, whether or not that has state of this operator."""

    @abstractmethod
    def get_restored_checkpoint_id(self) -> int | None:
        """Returns the id of the checkpoint that was restored, or ``None`` at a fresh start."""

    @abstractmethod
    def get_operator_state_store(self) -> OperatorStateStore:
        """Returns the store of operator state."""

    @abstractmethod
    def get_keyed_state_store(self) -> KeyedStateStore:
        """Returns the store of keyed state, for functions on a KeyedStream: state can be requested here, and used when there is a record."""


class FunctionSnapshotContext(ABC):
    """The context that ``snapshot_state`` receives (Flink: ``FunctionSnapshotContext.java``)."""

    @abstractmethod
    def get_checkpoint_id(self) -> int:
        """Returns the id of the checkpoint that is being taken."""

    @abstractmethod
    def get_checkpoint_timestamp(self) -> int:
        """Returns when the JobManager triggered the checkpoint, in ms since the epoch."""


class CheckpointedFunction(ABC):
    """An interface for functions with operator state, inherited next to their kind: ``class Buffer(MapFunction, CheckpointedFunction)``."""

    @abstractmethod
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Requests state and takes what was restored. Called before ``open``, in every attempt."""

    @abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Updates the state for a snapshot. Called at the barrier, between two records, so it must be fast. An exception fails the attempt."""


class CheckpointListener(ABC):
    """An interface for functions that are notified of checkpoints, inherited next to their kind. A notification may be lost: a later one includes it."""

    @abstractmethod
    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Notes that a checkpoint and all before it are complete. An exception fails the attempt. A savepoint is notified only when it stops the job."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:  # noqa: B027  (optional hook)
        """Notes that a checkpoint was aborted; what it contained is part of a later one."""
