"""`ListView` and `MapView`: collections in the accumulators of aggregate functions (PyFlink: ``pyflink.table.data_view``).

A collection is stored as part of its accumulator, in the accumulator's state, not as separate state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

__all__ = ["DataView", "ListView", "MapView"]

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class DataView(ABC):
    """The base class of collections in accumulators."""

    @abstractmethod
    def clear(self) -> None:
        """Removes everything."""


class ListView(DataView, Generic[T]):
    """A list in an accumulator."""

    def __init__(self) -> None:
        self._list: list[T] = []

    def get(self) -> Iterable[T]:
        """Returns the elements."""
        return self._list

    def add(self, value: T) -> None:
        """Adds an element."""
        self._list.append(value)

    def add_all(self, values: Sequence[T]) -> None:
        """Adds elements."""
        self._list.extend(values)

    def clear(self) -> None:
        self._list = []

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ListView) and self._list == other._list

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[T]:
        return iter(self._list)


class MapView(DataView, Generic[K, V]):
    """A map in an accumulator. Raises ``KeyError`` for a missing key."""

    def __init__(self) -> None:
        self._dict: dict[K, V] = {}

    def get(self, key: K) -> V:
        """Returns the value of a key."""
        return self._dict[key]

    def put(self, key: K, value: V) -> None:
        """Sets the value of a key."""
        self._dict[key] = value

    def put_all(self, dict_value: Mapping[K, V]) -> None:
        """Sets the values of keys."""
        self._dict.update(dict_value)

    def remove(self, key: K) -> None:
        """Removes a key."""
        del self._dict[key]

    def contains(self, key: K) -> bool:
        """Returns whether there is a key."""
        return key in self._dict

    def items(self) -> Iterable[tuple[K, V]]:
        """Returns keys with their values."""
        return self._dict.items()

    def keys(self) -> Iterable[K]:
        """Returns the keys."""
        return self._dict.keys()

    def values(self) -> Iterable[V]:
        """Returns the values."""
        return self._dict.values()

    def is_empty(self) -> bool:
        """Returns whether there is no key."""
        return not self._dict

    def clear(self) -> None:
        self._dict.clear()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MapView) and self._dict == other._dict

    __hash__ = None  # type: ignore[assignment]

    def __getitem__(self, key: K) -> V:
        return self.get(key)

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())
