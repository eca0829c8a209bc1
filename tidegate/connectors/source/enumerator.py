"""What finds the splits of a source and hands them out (Flink: ``SplitEnumerator.java``, ``SplitEnumeratorContext.java``)."""

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
    """Splits by subtask, for ``assign_splits``."""

    assignment: Mapping[int, Sequence[SplitT]]


class SplitEnumeratorContext(ABC, Generic[SplitT]):
    """What an enumerator acts through. Every method but those of ``call_async`` is for the enumerator's own thread, which calls all of
    its methods and all handlers one after the other."""

    @abstractmethod
    def current_parallelism(self) -> int:
        """Returns how many readers there are."""

    @abstractmethod
    def registered_readers(self) -> dict[int, ReaderInfo]:
        """Returns the readers that have registered so far, by subtask."""

    @abstractmethod
    def assign_splits(self, new_split_assignments: SplitsAssignment[SplitT] | Mapping[int, Sequence[SplitT]]) -> None:
        """Hands splits out. They are the readers' from now on, and in their state from the next checkpoint on."""

    def assign_split(self, split: SplitT, subtask: int) -> None:
        """Hands one split out."""
        self.assign_splits({subtask: [split]})

    @abstractmethod
    def signal_no_more_splits(self, subtask: int) -> None:
        """Tells a reader that it will be given none after those that it has."""

    @abstractmethod
    def send_event_to_source_reader(self, subtask_id: int, event: UserObject) -> None:
        """Sends an object to a reader, which gets it in ``handle_source_events``, in order with its splits. It can be pickled."""

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
        """Says whether the source works off a backlog: records whose results may wait. Meanwhile the job takes checkpoints every
        ``execution.checkpointing.interval-during-backlog``, if that is set. An enumerator that is restored says it again."""

    @abstractmethod
    def run_in_coordinator_thread(self, runnable: Callable[[], None]) -> None:
        """From any thread: has this called in the enumerator's."""


class SplitEnumerator(ABC, Generic[SplitT, CheckpointT]):
    """One for all readers of a source. What ``snapshot_state`` returns is in the checkpoint before any reader takes its part in it, so
    that a split is with the enumerator or with one reader, never with both and never with none."""

    def start(self) -> None:
        """Begin, before any reader registers."""

    @abstractmethod
    def handle_split_request(self, subtask_id: int, requester_hostname: str | None) -> None:
        """A reader asks for a split."""

    @abstractmethod
    def add_splits_back(self, splits: Sequence[SplitT], subtask_id: int) -> None:
        """Splits that were assigned, and that the reader had not been sent yet when the checkpoint was taken from which the job goes on
        at another parallelism."""

    @abstractmethod
    def add_reader(self, subtask_id: int) -> None:
        """A reader has registered."""

    @abstractmethod
    def snapshot_state(self, checkpoint_id: int) -> CheckpointT:
        """Returns everything that ``Source.restore_enumerator`` needs: splits that are not assigned, what was discovered."""

    def handle_source_event(self, subtask_id: int, source_event: UserObject) -> None:
        """A reader has sent an object of the user's. Refused unless it is overridden."""
        raise NotImplementedError(
            f"{type(self).__name__} takes no events, but subtask {subtask_id} sent {source_event!r}"
        )

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """This checkpoint was confirmed."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """This one will never be confirmed."""

    def close(self) -> None:
        """Give everything back. Called once, also after a failure."""
