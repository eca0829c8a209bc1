"""The base class of users' sources for ``from_source`` (Flink: ``Source.java``)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import Generic, TypeVar

from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.connectors.source.enumerator import SplitEnumerator, SplitEnumeratorContext
from tidegate.connectors.source.reader import SourceReader, SourceReaderContext
from tidegate.connectors.source.serializers import PickleSerializer, SimpleVersionedSerializer
from tidegate.connectors.source.splits import SourceSplit

SplitT = TypeVar("SplitT", bound=SourceSplit)
CheckpointT = TypeVar("CheckpointT")


class Boundedness(Enum):
    """Whether a source is bounded (Flink: ``Boundedness.java``)."""

    BOUNDED = "BOUNDED"
    CONTINUOUS_UNBOUNDED = "CONTINUOUS_UNBOUNDED"


class Source(ABC, Generic[SplitT, CheckpointT]):
    """Creates the enumerator and the readers of a source. Pickled by the client."""

    @abstractmethod
    def get_boundedness(self) -> Boundedness:
        """Returns whether the source is bounded, so that it can be read in BATCH mode."""

    @abstractmethod
    def create_reader(self, reader_context: SourceReaderContext) -> SourceReader[SplitT]:
        """Creates the reader; called in the process of each subtask."""

    @abstractmethod
    def create_enumerator(self, enum_context: SplitEnumeratorContext[SplitT]) -> SplitEnumerator[SplitT, CheckpointT]:
        """Creates the enumerator of a new job; called in the enumerator's process."""

    @abstractmethod
    def restore_enumerator(
        self, enum_context: SplitEnumeratorContext[SplitT], checkpoint: CheckpointT
    ) -> SplitEnumerator[SplitT, CheckpointT]:
        """Restores the enumerator from what ``snapshot_state`` returned for the checkpoint; called in the enumerator's process."""

    def get_split_serializer(self) -> SimpleVersionedSerializer[SplitT]:
        """Returns the serializer of splits. The default pickles them."""
        return PickleSerializer()

    def get_enumerator_checkpoint_serializer(self) -> SimpleVersionedSerializer[CheckpointT]:
        """Returns the serializer of the enumerator's snapshots. The default pickles them."""
        return PickleSerializer()

    def get_produced_type(self) -> TypeInformation:
        """Returns the type of the records. By default they travel pickled; ``from_source(type_info=...)`` overrides it."""
        return Types.PICKLED_BYTE_ARRAY()
