"""Source readers, which read the splits of one subtask (Flink: ``SourceReader.java``, ``ReaderOutput.java``)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Generic, TypeVar

from tidegate.connectors.source.splits import SourceSplit
from tidegate.model.values import Record, UserObject

SplitT = TypeVar("SplitT", bound=SourceSplit)

MAIN_OUTPUT = ""
"""The split id of records that a reader emits without a split."""


class InputStatus(Enum):
    """What ``poll_next`` returns about further records (Flink: ``InputStatus.java``)."""

    MORE_AVAILABLE = "MORE_AVAILABLE"
    NOTHING_AVAILABLE = "NOTHING_AVAILABLE"
    """The reader is polled again after some milliseconds."""
    END_OF_INPUT = "END_OF_INPUT"
    """The reader is not polled again; the source ends when all readers have."""


class SourceOutput(ABC):
    """Takes the records of a reader."""

    @abstractmethod
    def collect(self, record: Record, timestamp: int | None = None) -> None:
        """Emits a record, with its time in ms since the epoch."""


class ReaderOutput(SourceOutput):
    """Takes the records of a reader. ``create_output_for_split`` returns outputs for single splits, so that each has a watermark of its own, of which
    the smallest counts."""

    @abstractmethod
    def create_output_for_split(self, split_id: str) -> SourceOutput:
        """Creates the output of a split, which holds the watermark back from now on."""

    @abstractmethod
    def release_output_for_split(self, split_id: str) -> None:
        """Releases the output of a finished split, which stops holding the watermark back once its records were emitted."""


class SourceReaderContext(ABC):
    """What a reader learns about its subtask, and its connection to the enumerator."""

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
        """Requests a split: the enumerator's ``handle_split_request`` is called."""

    @abstractmethod
    def send_source_event_to_coordinator(self, source_event: UserObject) -> None:
        """Sends a picklable object to the enumerator's ``handle_source_event``. Events arrive once each and in order, unless the job restarts from a
        checkpoint meanwhile."""


class SourceReader(ABC, Generic[SplitT]):
    """Reads the splits of one subtask. All methods are called in the subtask's thread, which they must not block for more than some milliseconds."""

    def start(self) -> None:
        """Starts the reader, with the splits of the restored checkpoint if there is one. A reader without splits requests one here."""

    @abstractmethod
    def poll_next(self, output: ReaderOutput) -> InputStatus:
        """Emits the next record, or a few. Collected records are behind the position that ``snapshot_state`` returns."""

    @abstractmethod
    def snapshot_state(self, checkpoint_id: int) -> Sequence[SplitT]:
        """Returns the splits that are not finished, each with its position."""

    @abstractmethod
    def add_splits(self, splits: Sequence[SplitT]) -> None:
        """Adds splits of the enumerator, or of the restored checkpoint; the latter before ``start``."""

    @abstractmethod
    def notify_no_more_splits(self) -> None:
        """Notes that the enumerator will assign no further splits."""

    def handle_source_events(self, source_event: UserObject) -> None:
        """Handles an object that the enumerator sent. Raises ``NotImplementedError`` unless it is overridden."""
        raise NotImplementedError(
            f"{type(self).__name__} does not handle events of its enumerator, but it sent {source_event!r}"
        )

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Notes that a checkpoint was confirmed."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Notes that a checkpoint was aborted."""

    def close(self) -> None:
        """Releases all resources. Called once, also after a failure."""
