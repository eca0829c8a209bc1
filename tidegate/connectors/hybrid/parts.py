"""The values that the enumerator and the readers of a hybrid source exchange: its parts, their splits, and the current part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidegate.connectors import base
from tidegate.connectors.source.splits import SourceSplit
from tidegate.model.errors import InvalidJob


@dataclass(frozen=True)
class SourceSwitchContext:
    """The context of a function that creates the next source (Flink: ``SourceSwitchContext``)."""

    previous_source: base.Source

    def get_previous_source(self) -> base.Source:
        """Returns the source that was read to its end."""
        return self.previous_source


SourceFactory = Callable[[SourceSwitchContext], base.Source]


@dataclass(frozen=True)
class HybridPart:
    """One part of a hybrid source: a source, or the function that creates it when the previous one has ended."""

    source: base.Source | SourceFactory
    bounded: bool

    def made(self, previous: base.Source | None) -> base.Source:
        """Returns the source, created by the function if there is one. Raises ``InvalidJob`` when that returns no source, or one that is not bounded
        where it must be."""
        if isinstance(self.source, base.Source):
            return self.source
        assert previous is not None, "the first part is a source"
        made = self.source(SourceSwitchContext(previous))
        if not isinstance(made, base.Source):
            raise InvalidJob(
                f"a part of a hybrid source is made by a function that returned {made!r}, which is not a source"
            )
        if self.bounded and not made.bounded:
            raise InvalidJob(
                "a part of a hybrid source that is followed by another must end, and its function made one that does not"
            )
        return made


@dataclass(frozen=True)
class HybridSplit(SourceSplit):
    """A split of a part. ``place``: its position among all splits of the part, ordered by id. ``made``: the source, where a function created it."""

    part: int
    place: int
    split: base.Split
    made: base.Source | None = None

    def split_id(self) -> str:
        return f"{self.part}/{self.split.split_id}"


@dataclass(frozen=True)
class HybridCheckpoint:
    """The state of the enumerator: the current part, its source, and its unassigned splits; ``None``: they are not listed yet."""

    part: int
    source: base.Source
    unassigned: tuple[HybridSplit, ...] | None


@dataclass(frozen=True)
class Switch:
    """Event: a reader switches to this part. ``is_asked``: whether it requests its splits, instead of having all of them."""

    part: int
    source: base.Source
    is_asked: bool
    is_last: bool


@dataclass(frozen=True)
class PartRead:
    """Event: a reader has read and emitted all of its splits of this part."""

    part: int
