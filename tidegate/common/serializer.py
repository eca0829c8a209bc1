"""`TypeSerializer`: serializes values to a stream of bytes (PyFlink: ``pyflink.common.serializer``)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from io import BytesIO
from typing import Generic, TypeVar

__all__ = ["TypeSerializer", "VoidNamespaceSerializer"]

T = TypeVar("T")


class TypeSerializer(ABC, Generic[T]):
    """Serializes values of one type. Two serializers are equal when their class and attributes are."""

    @abstractmethod
    def serialize(self, element: T, stream: BytesIO) -> None:
        """Writes an element to the stream."""

    @abstractmethod
    def deserialize(self, stream: BytesIO) -> T:
        """Reads one element from the stream, and no further bytes."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class VoidNamespaceSerializer(TypeSerializer[bytes]):
    """The serializer of the namespace of state that only belongs to a key: no bytes."""

    def serialize(self, element: bytes, stream: BytesIO) -> None:
        """Writes nothing."""

    def deserialize(self, stream: BytesIO) -> bytes:
        return b""
