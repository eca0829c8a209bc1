"""How splits and checkpoints of an enumerator become bytes (Flink: ``SimpleVersionedSerializer.java``)."""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from tidegate.records.pickling import dumps

T = TypeVar("T")


class SimpleVersionedSerializer(ABC, Generic[T]):
    """Writes the present version of a format, and reads every version that checkpoints may hold."""

    @abstractmethod
    def get_version(self) -> int:
        """Returns the version of what ``serialize`` writes."""

    @abstractmethod
    def serialize(self, obj: T) -> bytes:
        """Returns the object as bytes."""

    @abstractmethod
    def deserialize(self, version: int, serialized: bytes) -> T:
        """Returns what ``serialize`` of that version was given."""


class PickleSerializer(SimpleVersionedSerializer[T]):
    """Ours, and the default: pickles. A checkpoint is readable as long as the classes in it are found under their names."""

    def get_version(self) -> int:
        return 1

    def serialize(self, obj: T) -> bytes:
        return dumps(obj)

    def deserialize(self, version: int, serialized: bytes) -> T:
        found: T = pickle.loads(serialized)
        return found
