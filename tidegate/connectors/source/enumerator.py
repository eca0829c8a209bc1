"""Split enumerators, which find the splits of a source and assign them (Flink: ``SplitEnumerator.java``, ``SplitEnumeratorContext.java``)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from tidegate.connectors.source.splits import SourceSplit
from tidegate.model.values import UserObject

SplitT = TypeVar("SplitT", bound=SourceSplit)
CheckpointT = TypeVar("CheckpointT")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ReaderInfo:
    """A reader that has registered: the index of its subtask, and the host on which it runs."""

    subtask_id: int
    location: str


@dataclass(frozen=True)
class SplitsAssignment(Generic[SplitT]):
    """Splits to assign, by subtask."""

    assignment: Mapping[int, Sequence[SplitT]]


class SplitEnumeratorContext(ABC, Generic[SplitT]):
    """The interface through which an enumerator acts. All methods but ``run_in_coordinator_thread`` are for the enumerator's own thread, which runs all
    of its methods and handlers one after the other."""

    @abstractmethod
    def current_parallelism(self) -> int:
        """Returns how many readers there are."""

    @abstractmethod
    def registered_readers(self) -> dict[int, ReaderInfo]:
        """Returns the readers that have registered so far, by subtask."""

    @abstractmethod
    def assign_splits(self, new_split_assignments: SplitsAssignment[SplitT] | Mapping[int, Sequence[SplitT]]) -> None:
        """Assigns splits to readers. They are part of the readers' state from the next checkpoint on."""

    def assign_split(self, split: SplitT, subtask: int) -> None:
        """Assigns one split."""
        self.assign_splits({subtask: [split]})

    @abstractmethod
    def signal_no_more_splits(self, subtask: int) -> None:
        """Notifies a reader that no further splits will be assigned to it."""

    @abstractmethod
    def send_event_to_source_reader(self, subtask_id: int, event: UserObject) -> None:
        """Sends a picklable object to a reader's ``handle_source_events``, in order with its splits."""

    @abstractmethod
    def call_async(
        self,
        callable: Callable[[], T],
        handler: Callable[[T | None, BaseException | None], None],
        initial_delay_ms: int = 0,
        period_ms: int | None = None,
    ) -> None:
        """Calls ``callable`` in a worker thread, where it may block (it lists a directory, say), then ``handler(result, error)`` in the
        enumerator's thread. With a period it is called again and again, each time so long after the last one had ended."""

    @abstractmethod
    def set_is_processing_backlog(self, is_processing_backlog: bool) -> None:
        """Sets whether the source processes a backlog. During one the job takes checkpoints every ``execution.checkpointing.interval-during-backlog``,
        if that is set. A restored enumerator sets it again."""

    @abstractmethod
    def run_in_coordinator_thread(self, runnable: Callable[[], None]) -> None:
        """Schedules a call in the enumerator's thread; may be called from any thread."""


class SplitEnumerator(ABC, Generic[SplitT, CheckpointT]):
    """Finds and assigns the splits of a source, one for all its readers. What ``snapshot_state`` returns is in the checkpoint before any reader's part
    of it, so that a split is either with the enumerator or with one reader."""

    def start(self) -> None:
        """Starts the enumerator, before any reader registers."""

    @abstractmethod
    def handle_split_request(self, subtask_id: int, requester_hostname: str | None) -> None:
        """Handles the split request of a reader."""

    @abstractmethod
    def add_splits_back(self, splits: Sequence[SplitT], subtask_id: int) -> None:
        """Takes splits back that were assigned but not yet sent when the checkpoint was taken, after a restore at another parallelism."""

    @abstractmethod
    def add_reader(self, subtask_id: int) -> None:
        """Notes that a reader has registered."""

    @abstractmethod
    def snapshot_state(self, checkpoint_id: int) -> CheckpointT:
        """Returns everything that ``Source.restore_enumerator`` needs: splits that are not assigned, what was discovered."""

    def handle_source_event(self, subtask_id: int, source_event: UserObject) -> None:
        """Handles an object that a reader sent. Raises ``NotImplementedError`` unless it is overridden."""
        raise NotImplementedError(
            f"{type(self).__name__} does not handle events of readers, but subtask {subtask_id} sent {source_event!r}"
        )

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Notes that a checkpoint was confirmed."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Notes that a checkpoint was aborted."""

    def close(self) -> None:
        """Releases all resources. Called once, also after a failure."""
