"""`TypeSerializer`: values to a stream of bytes and back (PyFlink: ``pyflink.common.serializer``)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from io import BytesIO
from typing import Generic, TypeVar

__all__ = ["TypeSerializer", "VoidNamespaceSerializer"]

T = TypeVar("T")


class TypeSerializer(ABC, Generic[T]):
    """Two of the same class and with the same attributes are equal."""

    @abstractmethod
    def serialize(self, element: T, stream: BytesIO) -> None:
        """Write the element behind what is there."""

    @abstractmethod
    def deserialize(self, stream: BytesIO) -> T:
        """Read one element, no byte more."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class VoidNamespaceSerializer(TypeSerializer[bytes]):
    """Serializes the namespace of state that belongs to a key alone: no bytes."""

    def serialize(self, element: bytes, stream: BytesIO) -> None:
        """Writes nothing."""

    def deserialize(self, stream: BytesIO) -> bytes:
        return b""
