"""Splits of a user's source (Flink: ``SourceSplit.java``)."""

from __future__ import annotations

from abc import ABC, abstractmethod


class SourceSplit(ABC):
    """A part of a source that an enumerator assigns and a reader reads. A reader's snapshot holds its splits with their positions."""

    @abstractmethod
    def split_id(self) -> str:
        """Returns a name that no other split of the source has, and that stays the same across restarts."""
