"""Serializers of an enumerator's splits and checkpoints (Flink: ``SimpleVersionedSerializer.java``)."""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from tidegate.records.pickling import dumps

T = TypeVar("T")


class SimpleVersionedSerializer(ABC, Generic[T]):
    """Serializes objects in the current version of a format, and deserializes every version that checkpoints may hold."""

    @abstractmethod
    def get_version(self) -> int:
        """Returns the version of what ``serialize`` writes."""

    @abstractmethod
    def serialize(self, obj: T) -> bytes:
        """Returns the object as bytes."""

    @abstractmethod
    def deserialize(self, version: int, serialized: bytes) -> T:
        """Deserializes an object that ``serialize`` of that version wrote."""


class PickleSerializer(SimpleVersionedSerializer[T]):
    """The default serializer, which pickles. A checkpoint is readable as long as its classes are found under their names. This class is tidegate's own."""

    def get_version(self) -> int:
        return 1

    def serialize(self, obj: T) -> bytes:
        return dumps(obj)

    def deserialize(self, version: int, serialized: bytes) -> T:
        found: T = pickle.loads(serialized)
        return found
