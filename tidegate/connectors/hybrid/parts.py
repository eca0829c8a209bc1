"""What the enumerator and the readers of a hybrid source speak of: its parts, their splits, and which part is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidegate.connectors import base
from tidegate.connectors.source.splits import SourceSplit
from tidegate.model.errors import InvalidJob


@dataclass(frozen=True)
class SourceSwitchContext:
    """What a function that makes the next source may know (Flink: ``SourceSwitchContext``)."""

    previous_source: base.Source

    def get_previous_source(self) -> base.Source:
        """Returns the source that was read to its end."""
        return self.previous_source


SourceFactory = Callable[[SourceSwitchContext], base.Source]


@dataclass(frozen=True)
class HybridPart:
    """A source, or what makes it when the one before it has ended."""

    source: base.Source | SourceFactory
    bounded: bool

    def made(self, previous: base.Source | None) -> base.Source:
        """Returns the source. Raises ``InvalidJob`` when the function makes none, or one that does not end where it should."""
        if isinstance(self.source, base.Source):
            return self.source
        assert previous is not None, "the first part is a source"
        made = self.source(SourceSwitchContext(previous))
        if not isinstance(made, base.Source):
            raise InvalidJob(
                f"a part of a hybrid source is made by a function that returned {made!r}, which is no source"
            )
        if self.bounded and not made.bounded:
            raise InvalidJob(
                "a part of a hybrid source that is followed by another must end, and its function made one that does not"
            )
        return made


@dataclass(frozen=True)
class HybridSplit(SourceSplit):
    """``place``: among all splits of the part in the order of their ids. ``made``: the source, where a function made it."""

    part: int
    place: int
    split: base.Split
    made: base.Source | None = None

    def split_id(self) -> str:
        return f"{self.part}/{self.split.split_id}"


@dataclass(frozen=True)
class HybridCheckpoint:
    """Which part is read, its source, and its splits that no reader had; ``None``: they are not listed yet."""

    part: int
    source: base.Source
    unassigned: tuple[HybridSplit, ...] | None


@dataclass(frozen=True)
class Switch:
    """A reader is to read this part from now on. ``is_asked``: it gets splits by asking, and otherwise has all of them."""

    part: int
    source: base.Source
    is_asked: bool
    is_last: bool


@dataclass(frozen=True)
class PartRead:
    """A reader has read and emitted all that it had of this part."""

    part: int
