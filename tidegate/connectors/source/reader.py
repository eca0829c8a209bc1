"""What reads the splits of one subtask (Flink: ``SourceReader.java``, ``ReaderOutput.java``)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Generic, TypeVar

from tidegate.connectors.source.splits import SourceSplit
from tidegate.model.values import Record, UserObject

SplitT = TypeVar("SplitT", bound=SourceSplit)

MAIN_OUTPUT = ""
"""The split of records that a reader emits without saying of which split they are."""


class InputStatus(Enum):
    """What ``poll_next`` knows of what comes next (Flink: ``InputStatus.java``)."""

    MORE_AVAILABLE = "MORE_AVAILABLE"
    NOTHING_AVAILABLE = "NOTHING_AVAILABLE"
    """The reader is asked again after some milliseconds."""
    END_OF_INPUT = "END_OF_INPUT"
    """It is not asked again, and the source ends when all readers are at their ends."""


class SourceOutput(ABC):
    """Takes the records of a reader."""

    @abstractmethod
    def collect(self, record: Record, timestamp: int | None = None) -> None:
        """Emits a record, with its time in ms since the epoch."""


class ReaderOutput(SourceOutput):
    """Takes the records of a reader, of all of its splits together; ``create_output_for_split`` takes those of one split, so that each split
    has a watermark of its own and the smallest of them counts."""

    @abstractmethod
    def create_output_for_split(self, split_id: str) -> SourceOutput:
        """Returns the output of a split. From now on, the split holds event time back, at first altogether."""

    @abstractmethod
    def release_output_for_split(self, split_id: str) -> None:
        """The split is at its end: it holds nothing back when its records were emitted."""


class SourceReaderContext(ABC):
    """What a reader may know of where it runs, and how it speaks to the enumerator."""

    @abstractmethod
    def get_index_of_subtask(self) -> int:
        """Returns the index of this reader's subtask."""

    @abstractmethod
    def current_parallelism(self) -> int:
        """Returns how many readers there are."""

    @abstractmethod
    def get_local_host_name(self) -> str:
        """Returns the host of this process."""

    @abstractmethod
    def get_configuration(self) -> Mapping[str, str]:
        """Returns the configuration of the job."""

    @abstractmethod
    def send_split_request(self) -> None:
        """Asks for a split: the enumerator's ``handle_split_request`` is called."""

    @abstractmethod
    def send_source_event_to_coordinator(self, source_event: UserObject) -> None:
        """Sends an object, which can be pickled: the enumerator's ``handle_source_event`` is called. Events arrive once each and in
        order, unless the job restarts from a checkpoint meanwhile."""


class SourceReader(ABC, Generic[SplitT]):
    """One for each subtask. All methods are called in the subtask's thread, which must not be held for longer than some milliseconds."""

    def start(self) -> None:
        """Begin, with the splits of the restored checkpoint if there is one. A reader that has none asks for one here."""

    @abstractmethod
    def poll_next(self, output: ReaderOutput) -> InputStatus:
        """Emit the next record, or a few. What was collected is behind the position that ``snapshot_state`` tells."""

    @abstractmethod
    def snapshot_state(self, checkpoint_id: int) -> Sequence[SplitT]:
        """Returns the splits that are not read to their ends, each with how far it was read."""

    @abstractmethod
    def add_splits(self, splits: Sequence[SplitT]) -> None:
        """Splits of the enumerator, or of the restored checkpoint: the latter before ``start``."""

    @abstractmethod
    def notify_no_more_splits(self) -> None:
        """The enumerator has none left for this reader."""

    def handle_source_events(self, source_event: UserObject) -> None:
        """The enumerator has sent an object of the user's. Refused unless it is overridden."""
        raise NotImplementedError(f"{type(self).__name__} takes no events, but its enumerator sent {source_event!r}")

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """This checkpoint was confirmed."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """This one will never be confirmed."""

    def close(self) -> None:
        """Give everything back. Called once, also after a failure."""
