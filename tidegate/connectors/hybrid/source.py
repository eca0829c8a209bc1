"""``HybridSource`` under Flink's name: reads bounded sources one after the other, then one more that may be unbounded.

    HybridSource.builder(FileSource.for_text("archive")).add_source(kafka_source).build()

Follows Flink's ``HybridSource.java``.
"""

from __future__ import annotations

from tidegate.common.typeinfo import TypeInformation
from tidegate.connectors import base
from tidegate.connectors.hybrid.enumerator import HybridEnumerator
from tidegate.connectors.hybrid.parts import HybridCheckpoint, HybridPart, HybridSplit, SourceFactory
from tidegate.connectors.hybrid.reader import HybridReader, hybrid_split
from tidegate.connectors.source.enumerator import SplitEnumeratorContext
from tidegate.connectors.source.reader import SourceReader, SourceReaderContext
from tidegate.connectors.source.source import Boundedness, Source
from tidegate.model.errors import InvalidJob


class HybridSource(Source[HybridSplit, HybridCheckpoint]):
    """A source of several parts, created by ``HybridSource.builder(first_source)``. ``deals_in_advance``: whether its readers generate watermarks."""

    def __init__(
        self, parts: tuple[HybridPart, ...], produced_type: TypeInformation, *, deals_in_advance: bool = False
    ) -> None:
        self.parts = parts
        self._produced_type = produced_type
        self._deals_in_advance = deals_in_advance

    @staticmethod
    def builder(first_source: base.Source) -> HybridSourceBuilder:
        """Creates a builder with the first source, which must be bounded."""
        return HybridSourceBuilder(first_source)

    def dealing_in_advance(self) -> HybridSource:
        """Returns the source for readers that generate watermarks: they know all of their splits of a part at its start."""
        return HybridSource(self.parts, self._produced_type, deals_in_advance=True)

    def get_boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED if self.parts[-1].bounded else Boundedness.CONTINUOUS_UNBOUNDED

    def create_reader(self, reader_context: SourceReaderContext) -> SourceReader[HybridSplit]:
        """Raises ``InvalidJob``: only ``from_source`` creates the readers, which are those of the parts."""
        raise InvalidJob("a hybrid source can only be read with env.from_source(...)")

    def create_enumerator(self, enum_context: SplitEnumeratorContext[HybridSplit]) -> HybridEnumerator:
        return HybridEnumerator(enum_context, self.parts, None, deals_in_advance=self._deals_in_advance)

    def restore_enumerator(
        self, enum_context: SplitEnumeratorContext[HybridSplit], checkpoint: HybridCheckpoint
    ) -> HybridEnumerator:
        return HybridEnumerator(enum_context, self.parts, checkpoint, deals_in_advance=self._deals_in_advance)

    def get_produced_type(self) -> TypeInformation:
        return self._produced_type


class HybridSourceBuilder:
    """Builds a hybrid source. Raises ``InvalidJob`` for parts that cannot follow each other."""

    def __init__(self, first_source: base.Source) -> None:
        self._parts: list[HybridPart] = []
        self._type: TypeInformation | None = None
        if not isinstance(first_source, base.Source):
            raise InvalidJob(
                f"HybridSource.builder needs one of tidegate's sources (tidegate.connectors), not {first_source!r}"
            )
        self.add_source(first_source)

    def add_source(self, source: base.Source | SourceFactory, bounded: bool = False) -> HybridSourceBuilder:
        """Adds a source that is read when the previous one has ended; all but the last must be bounded. Beyond Flink, ``source`` may be a function of a
        ``SourceSwitchContext`` that creates the source at that time, so that it can begin where the previous one ended; set ``bounded=True`` if
        another one follows."""
        if isinstance(source, base.Source):
            self._add(source)
        elif callable(source):
            self._check_previous()
            self._parts.append(HybridPart(source, bounded))
        else:
            raise InvalidJob(
                f"add_source needs one of tidegate's sources (tidegate.connectors) or a function that makes one, not {source!r}; "
                "a HybridSource cannot hold a source with an enumerator of your own"
            )
        return self

    def build(self) -> HybridSource:
        """Returns the hybrid source."""
        assert self._type is not None, "the first part is a source"
        return HybridSource(tuple(self._parts), self._type)

    def _add(self, source: base.Source) -> None:
        self._check_previous()
        found = source.produced_type()
        if self._type is not None and found != self._type:
            raise InvalidJob(
                f"the parts of a hybrid source have one type, and {self._type!r} is followed by {found!r}; map one of them to the other's "
                "type by its format"
            )
        self._type = found
        self._parts.append(HybridPart(source, source.bounded))

    def _check_previous(self) -> None:
        if self._parts and not self._parts[-1].bounded:
            raise InvalidJob(
                f"part {len(self._parts)} of a hybrid source never ends, so nothing can follow it (set_bounded() of KafkaSource, or "
                "add_source(function, bounded=True))"
            )


class HybridReaders(base.Source):
    """The source of the readers' vertex."""

    takes_splits = True
    hides_splits = True

    def __init__(self, source: HybridSource) -> None:
        self.source = source
        self.bounded = source.get_boundedness() is Boundedness.BOUNDED

    def list_splits(self, parallelism: int) -> list[base.Split]:
        return []

    def make_reader(self, context: base.ReaderContext) -> base.SourceReader:
        return HybridReader(context)

    def owner_of(self, split: base.Split, parallelism: int) -> int | None:
        """Returns the owner of a split according to the source of its part."""
        found = hybrid_split(split)
        source = found.made or self.source.parts[found.part].made(None)
        return source.owner_of(found.split, parallelism)

    def produced_type(self) -> TypeInformation:
        return self.source.get_produced_type()
