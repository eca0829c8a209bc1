"""A table of keyed state that can be frozen without copying it: law 3 of a checkpoint.

    reads   top layer ▶ ... ▶ base                 base: {key group: {(key, namespace): value}}
    writes  top layer only
    freeze  the layers there are become read-only; a new, empty layer comes on top
    release layers that nobody holds any more are merged downwards

Laws: a frozen layer is never changed. A mutable value that lies in a frozen layer is deep-copied into the top layer the
first time that it is handed out, so that whatever the function does to it stays out of the snapshot. Removed entries
stand as ``DELETED`` in the layers above the base.
"""

from __future__ import annotations

import copy
import datetime
import decimal
from collections.abc import Iterator
from typing import Any, Final

Entry = tuple[Any, Any]
"""(key, namespace); the namespace is ``None`` where there is none."""
Layer = dict[int, dict[Entry, Any]]


class _Mark:
    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name

    def __deepcopy__(self, memo: Any) -> _Mark:
        return self


DELETED: Final = _Mark("DELETED")
MISSING: Final = _Mark("MISSING")

_IMMUTABLE = frozenset(
    {
        int, float, str, bytes, bool, type(None), complex, decimal.Decimal,
        datetime.date, datetime.datetime, datetime.time, datetime.timedelta,
    }
)  # fmt: skip


def detached(value: Any) -> Any:
    """The value itself when nothing can change it, else a deep copy."""
    kind = type(value)
    if kind in _IMMUTABLE or (kind is tuple and all(type(part) in _IMMUTABLE for part in value)):
        return value
    return copy.deepcopy(value)


class StateTable:
    """State of one name, of all key groups of a subtask. Used from the subtask's thread only."""

    def __init__(self) -> None:
        self._layers: list[Layer] = [{}]
        self._holders: list[int] = []
        """``_holders[i]``: how many unreleased snapshots hold layer i and all below it as their top."""

    def read(self, group: int, entry: Entry) -> Any:
        """The value for user code, or ``None``. It may be changed in place: a frozen one is a copy."""
        found = self._layers[-1].get(group, _EMPTY).get(entry, MISSING)
        if found is MISSING and len(self._layers) > 1:
            found = self._peek_below(group, entry)
            if found is not MISSING and found is not DELETED:
                mine = detached(found)
                if mine is not found:
                    found = mine
                    self.write(group, entry, mine)
        return None if found is MISSING or found is DELETED else found

    def peek(self, group: int, entry: Entry) -> Any:
        """The value as it lies there, or ``None``: for callers that never change it."""
        found = self._layers[-1].get(group, _EMPTY).get(entry, MISSING)
        if found is MISSING and len(self._layers) > 1:
            found = self._peek_below(group, entry)
        return None if found is MISSING or found is DELETED else found

    def write(self, group: int, entry: Entry, value: Any) -> None:
        top = self._layers[-1]
        entries = top.get(group)
        if entries is None:
            entries = top[group] = {}
        entries[entry] = value

    def delete(self, group: int, entry: Entry) -> None:
        if len(self._layers) == 1:
            entries = self._layers[0].get(group)
            if entries is not None:
                entries.pop(entry, None)
        else:
            self.write(group, entry, DELETED)

    def entries(self) -> Iterator[tuple[int, Entry, Any]]:
        """All entries now, by key group: (group, entry, value)."""
        return _entries(tuple(self._layers))

    def groups(self) -> list[int]:
        """Key groups that may hold something."""
        return sorted(set().union(*self._layers))

    def keys(self, group: int) -> list[Entry]:
        """What may be there in a key group, removed entries included."""
        return list(set().union(*(layer.get(group, _EMPTY) for layer in self._layers)))

    def freeze(self) -> FrozenTable:
        """References to what is there now. O(1)."""
        held = tuple(self._layers)
        self._layers.append({})
        self._holders.append(1)
        return FrozenTable(self, held)

    def _release(self, depth: int) -> None:
        """One snapshot whose top was layer ``depth`` is done: merge layers down into those that nobody holds."""
        self._holders[depth] -= 1
        for index in range(len(self._layers) - 2, -1, -1):
            if not any(self._holders[index:]):
                _merge_down(self._layers[index], self._layers.pop(index + 1), is_base=index == 0)
                self._holders.pop(index)

    def _peek_below(self, group: int, entry: Entry) -> Any:
        for layer in self._layers[-2::-1]:
            found = layer.get(group, _EMPTY).get(entry, MISSING)
            if found is not MISSING:
                return found
        return MISSING


class FrozenTable:
    """What a table was when it was frozen. Read from any thread; released in the subtask's."""

    def __init__(self, table: StateTable, layers: tuple[Layer, ...]) -> None:
        self._table = table
        self._layers = layers

    def entries(self) -> Iterator[tuple[int, Entry, Any]]:
        """All entries, by key group."""
        return _entries(self._layers)

    def release(self) -> None:
        """A second call changes nothing."""
        if not self._layers:
            return
        depth, self._layers = self._table_depth(), ()
        self._table._release(depth)

    def _table_depth(self) -> int:
        # older snapshots may have been released and merged since: the place of our top layer tells our depth
        top = self._layers[-1]
        return next(i for i, layer in enumerate(self._table._layers) if layer is top)


_EMPTY: dict[Entry, Any] = {}


def _entries(layers: tuple[Layer, ...]) -> Iterator[tuple[int, Entry, Any]]:
    for group in sorted(set().union(*layers)):
        if len(layers) == 1:
            entries = layers[0][group]
        else:
            entries = {}
            for layer in layers:
                entries.update(layer.get(group, _EMPTY))
        for entry, value in entries.items():
            if value is not DELETED:
                yield group, entry, value


def _merge_down(below: Layer, above: Layer, *, is_base: bool) -> None:
    for group, entries in above.items():
        target = below.setdefault(group, {})
        if not is_base:
            target.update(entries)
            continue
        for entry, value in entries.items():
            if value is DELETED:
                target.pop(entry, None)
            else:
                target[entry] = value
