"""Operator state of user functions, and what they hear of checkpoints. PyFlink has neither, so these are Java's interfaces in
snake case (``org.apache.flink.streaming.api.checkpoint.CheckpointedFunction``, ``OperatorStateStore``, ``CheckpointListener``).

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
    """What ``initialize_state`` receives (Flink: ``FunctionInitializationContext.java``)."""

    @abstractmethod
    def is_restored(self) -> bool:
        """Tells whether the job came from a checkpoint or savepoint, whether or not that held state of this operator."""

    @abstractmethod
    def get_restored_checkpoint_id(self) -> int | None:
        """Returns the id of the checkpoint that was restored, or ``None`` at a fresh start."""

    @abstractmethod
    def get_operator_state_store(self) -> OperatorStateStore:
        """Returns the store of operator state."""

    @abstractmethod
    def get_keyed_state_store(self) -> KeyedStateStore:
        """For functions on a KeyedStream only: state may be asked for here, and is used where there is a record."""


class FunctionSnapshotContext(ABC):
    """What ``snapshot_state`` receives (Flink: ``FunctionSnapshotContext.java``)."""

    @abstractmethod
    def get_checkpoint_id(self) -> int:
        """Returns the id of the checkpoint that is being taken."""

    @abstractmethod
    def get_checkpoint_timestamp(self) -> int:
        """When the JobManager triggered it, ms since the epoch."""


class CheckpointedFunction(ABC):
    """To be inherited by a function next to its kind: ``class Buffer(MapFunction, CheckpointedFunction)``."""

    @abstractmethod
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Before ``open``, in every attempt: ask for state, and take up what was restored."""

    @abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """At the barrier, between two records: bring the state up to date. Called in each checkpoint, at once, so nothing
        slow. What it raises fails the attempt."""


class CheckpointListener(ABC):
    """To be inherited by a function next to its kind. A notification may be missing: a later one stands for it."""

    @abstractmethod
    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Learns that everything up to this checkpoint is durable. An exception fails the attempt. A savepoint is
        notified only when it stops the job."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:  # noqa: B027  (optional hook)
        """This one will never complete; what it stood for is in a later one."""
