"""A part of a source (Flink: ``SourceSplit.java``)."""

from __future__ import annotations

from abc import ABC, abstractmethod


class SourceSplit(ABC):
    """What an enumerator assigns and a reader reads. A reader's snapshot holds its splits with how far it has read them."""

    @abstractmethod
    def split_id(self) -> str:
        """Returns a name that no other split of the source has, and that stays the same across restarts."""
