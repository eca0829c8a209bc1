"""Lists, maps and the cleanup of expired state, on a table of Python objects.

A value that was changed in place is written back, so that the table notes the entry as changed since the last snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tidegate.model.keygroups import KeyGroupRange
from tidegate.model.values import MapKey, StateValue
from tidegate.taskmanager.keyed_state.entry import Entry
from tidegate.taskmanager.keyed_state.heap.copy_on_write_table import StateTable
from tidegate.taskmanager.keyed_state.ttl import Ttl


class HeapListCells:
    """Lists by entry, each stored as one Python list in the table."""

    def __init__(self, table: StateTable) -> None:
        self._table = table

    def read(self, group: int, entry: Entry) -> list[StateValue]:
        return self._table.read(group, entry) or []

    def extend(self, group: int, entry: Entry, elements: Sequence[StateValue]) -> None:
        found = self._table.read(group, entry)
        if found is None:
            self.replace(group, entry, elements)
        elif elements:
            found.extend(elements)
            self._table.write(group, entry, found)

    def replace(self, group: int, entry: Entry, elements: Sequence[StateValue]) -> None:
        if elements:
            self._table.write(group, entry, list(elements))
        else:
            self._table.delete(group, entry)

    def is_empty(self, group: int, entry: Entry) -> bool:
        return not self._table.peek(group, entry)


class HeapMapCells:
    """Maps by entry, each stored as one dictionary in the table."""

    def __init__(self, table: StateTable) -> None:
        self._table = table

    def get(self, group: int, entry: Entry, key: MapKey) -> StateValue:
        return (self._table.read(group, entry) or {}).get(key)

    def contains(self, group: int, entry: Entry, key: MapKey) -> bool:
        return key in (self._table.peek(group, entry) or ())

    def put_all(self, group: int, entry: Entry, items: Mapping[MapKey, StateValue]) -> None:
        found = self._table.read(group, entry)
        if found is not None:
            found.update(items)
            self._table.write(group, entry, found)
        elif items:
            self._table.write(group, entry, dict(items))

    def remove(self, group: int, entry: Entry, keys: Iterable[MapKey]) -> None:
        found = self._table.read(group, entry)
        if found is None:
            return
        for key in keys:
            found.pop(key, None)
        if found:
            self._table.write(group, entry, found)
        else:
            self._table.delete(group, entry)

    def read(self, group: int, entry: Entry) -> dict[MapKey, StateValue]:
        return dict(self._table.read(group, entry) or {})

    def is_empty(self, group: int, entry: Entry) -> bool:
        return not self._table.peek(group, entry)

    def clear(self, group: int, entry: Entry) -> None:
        self._table.delete(group, entry)


class HeapSweep:
    """Cleans up expired entries: walks through the key groups, some entries at each call. The keys of a group are listed when it is reached."""

    def __init__(self, table: StateTable, kind: str, ttl: Ttl, owned: KeyGroupRange) -> None:
        self._table = table
        self._kind = kind
        self._ttl = ttl
        self._owned = owned
        self._walk = self._around()

    def __call__(self, count: int, now_ms: int) -> None:
        for _ in range(count):
            place = next(self._walk)
            if place is None:
                return
            group, entry = place
            stored = self._table.peek(group, entry)
            if stored is None:
                continue
            left = self._ttl.living(self._kind, stored, now_ms)
            if left is None:
                self._table.delete(group, entry)
            elif left is not stored:
                self._table.write(group, entry, left)

    def _around(self) -> Iterator[tuple[int, Entry] | None]:
        """Yields all entries for ever, and ``None`` after the last key group."""
        while True:
            for group in self._table.groups():
                for entry in self._table.keys(group):
                    yield group, entry
            yield None
