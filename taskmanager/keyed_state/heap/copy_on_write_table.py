"""A table of keyed state that can be frozen without copying it.

    group ─▶ layers: base ◀ ... ◀ top        a layer: {(key, namespace): value}; reads go down, writes to the top
    freeze    the present layers belong to the snapshot; a group gets a new top with its first write after that
    written   the snapshot has written a group: its layers may be merged, group by group (``merge_some``)

Laws: a layer that a snapshot needs is never changed. A mutable value in such a layer is deep-copied into the top layer when a function first reads it, so
that changes by the function do not affect the snapshot. Removed entries are ``DELETED`` in the layers above the base.

For incremental checkpoints a table records which entries were written or removed between one freeze and the next (``note_changes``). The number of a freeze
is its epoch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from tidegate.model.values import Key, StateValue
from tidegate.records.record_copy import value_copy
from tidegate.taskmanager.keyed_state.entry import Entry, Namespace
from tidegate.taskmanager.keyed_state.named_values import NamedValues, of_columns, of_mappings

Layer = dict[Entry, StateValue]
Changes = dict[int, set[Entry]]
"""Changed entries by key group."""

LOOKED_AT = 256
"""Most groups that one ``merge_some`` checks."""


class _Mark:
    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name

    def __deepcopy__(self, memo: object) -> _Mark:
        return self


DELETED: Final = _Mark("DELETED")
MISSING: Final = _Mark("MISSING")
_NO_KEYS: Final[dict[Key, dict[Namespace, StateValue]]] = {}
_NO_VALUES: Final[dict[Namespace, StateValue]] = {}


class _Group:
    """The layers of a key group. ``epochs[i]``: the number of freezes before layer i was begun, or when no snapshot was last found to need it."""

    __slots__ = ("epochs", "layers", "number")

    def __init__(self, number: int, epoch: int) -> None:
        self.number = number
        self.layers: list[Layer] = [{}]
        self.epochs = [epoch]


class StateTable:
    """The table of one state, of all key groups of a subtask. Used from the subtask's thread only."""

    def __init__(self) -> None:
        self._groups: dict[int, _Group] = {}
        self._epoch = 0
        """The number of freezes."""
        self._snapshots: list[FrozenTable] = []
        self._layered: deque[_Group] = deque()
        """Groups with more than one layer."""
        self._changes: Changes | None = None
        self._sealed: list[tuple[int, Changes]] = []

    def read(self, group: int, entry: Entry) -> StateValue:
        """Returns the value for user code, or ``None``. It may be changed in place: a frozen one is copied."""
        held = self._groups.get(group)
        if held is None:
            return None
        found = held.layers[-1].get(entry, MISSING)
        if held.epochs[-1] != self._epoch or (found is MISSING and len(held.layers) > 1):
            is_mine = found is not MISSING and not self._is_needed(held)
            if found is MISSING:
                found = _peek_below(held.layers, entry)
            if not is_mine and found is not MISSING and found is not DELETED:
                mine = value_copy(found, "a value in state")
                if mine is not found:
                    found = mine
                    self._top(held)[entry] = mine
        return None if found is MISSING or found is DELETED else found

    def peek(self, group: int, entry: Entry) -> StateValue:
        """Returns the value as it is stored, or ``None``, for callers that never change it."""
        held = self._groups.get(group)
        if held is None:
            return None
        found = held.layers[-1].get(entry, MISSING)
        if found is MISSING and len(held.layers) > 1:
            found = _peek_below(held.layers, entry)
        return None if found is MISSING or found is DELETED else found

    def write(self, group: int, entry: Entry, value: StateValue) -> None:
        held = self._groups.get(group)
        if held is None:
            held = self._groups[group] = _Group(group, self._epoch)
        top = held.layers[-1] if held.epochs[-1] == self._epoch else self._top(held)
        top[entry] = value
        if self._changes is not None:
            self._note(group, entry)

    def peek_all(self, groups: Sequence[int], entries: Sequence[Entry]) -> list[StateValue]:
        """Returns the values of entries as ``peek`` does."""
        found: dict[int, Callable[[Entry], StateValue]] = {group: self._peek_in(group) for group in set(groups)}
        return [found[group](entry) for group, entry in zip(groups, entries, strict=True)]

    def write_all(self, groups: Sequence[int], entries: Sequence[Entry], values: Sequence[StateValue]) -> None:
        """Writes entries as ``write`` does."""
        if self._changes is None:
            tops = {group: self._layer_of(group) for group in set(groups)}
            for group, entry, value in zip(groups, entries, values, strict=True):
                tops[group][entry] = value
            return
        noting = {group: (self._layer_of(group), self._changes.setdefault(group, set())) for group in set(groups)}
        for group, entry, value in zip(groups, entries, values, strict=True):
            top, noted = noting[group]
            top[entry] = value
            noted.add(entry)

    def direct(self, group: int) -> Layer | None:
        """Returns the layer of a group that may be changed in place; ``None`` if a snapshot needs the group, or changes are noted."""
        held = self._groups.get(group)
        if held is None or self._changes is not None or len(held.layers) > 1 or held.epochs[-1] != self._epoch:
            return None
        return held.layers[0]

    def delete(self, group: int, entry: Entry) -> None:
        held = self._groups.get(group)
        if held is None:
            return
        top = held.layers[-1] if held.epochs[-1] == self._epoch else self._top(held)
        if len(held.layers) == 1:
            top.pop(entry, None)
        else:
            top[entry] = DELETED
        if self._changes is not None:
            self._note(group, entry)

    def delete_all(self, groups: Sequence[int], entries: Sequence[Entry]) -> None:
        """Removes entries as ``delete`` does."""
        tops: dict[int, tuple[Layer, bool]] = {}
        for group in set(groups):
            held = self._groups.get(group)
            if held is not None:
                top = held.layers[-1] if held.epochs[-1] == self._epoch else self._top(held)
                tops[group] = top, len(held.layers) == 1
        for group, entry in zip(groups, entries, strict=True):
            if group not in tops:
                continue
            top, is_single = tops[group]
            if is_single:
                top.pop(entry, None)
            else:
                top[entry] = DELETED
            if self._changes is not None:
                self._note(group, entry)

    def add_all(self, groups: Sequence[int], entries: Sequence[Entry], value: StateValue) -> list[tuple[int, Entry]]:
        """Writes a value into those entries that are missing. Returns them, with their key groups."""
        new: list[tuple[int, Entry]] = []
        singles = {group: self._single(group) for group in set(groups)}
        for place in zip(groups, entries, strict=True):
            group, entry = place
            if (layer := singles[group]) is None:
                if self.peek(group, entry) is not None:
                    continue
                self.write(group, entry, value)
                new.append(place)
                continue
            count = len(layer)
            layer.setdefault(entry, value)
            if len(layer) > count:
                new.append(place)
                if self._changes is not None:
                    self._note(group, entry)
        return new

    def take_all(self, groups: Sequence[int], entries: Sequence[Entry]) -> list[StateValue]:
        """Removes entries. Returns their values, ``None`` for each that is missing."""
        found: list[StateValue] = []
        singles = {group: self._single(group) for group in set(groups)}
        for group, entry in zip(groups, entries, strict=True):
            if (layer := singles[group]) is None:
                value = self.peek(group, entry)
                if value is not None:
                    self.delete(group, entry)
            else:
                value = layer.pop(entry, None)
                if value is not None and self._changes is not None:
                    self._note(group, entry)
            found.append(value)
        return found

    def entries(self) -> Iterator[tuple[int, Entry, StateValue]]:
        """Yields all present entries, by key group: (group, entry, value)."""
        for group in self.groups():
            for entry, value in _merged(self._groups[group].layers).items():
                yield group, entry, value

    def forget_all(self) -> None:
        """Removes all entries of a table that was never frozen."""
        assert not self._epoch, self._epoch
        self._groups = {}

    def groups(self) -> list[int]:
        """Returns the key groups that may have entries."""
        return sorted(self._groups)

    def keys(self, group: int) -> list[Entry]:
        """Returns the entries that a key group may have, removed ones included."""
        held = self._groups.get(group)
        return [] if held is None else list(set().union(*held.layers))

    def note_changes(self) -> None:
        """Begins to note changes for incremental snapshots. A second call does nothing."""
        if self._changes is None:
            self._changes = {}

    def forget_changes(self, epoch: int) -> None:
        """Forgets the changes up to an epoch, before which no later delta starts."""
        while self._sealed and self._sealed[0][0] <= epoch:
            del self._sealed[0]

    def freeze(self) -> FrozenTable:
        """Freezes the table as references, without copies."""
        self._epoch += 1
        if self._changes is not None:
            self._sealed.append((self._epoch, self._changes))
            self._changes = {}
        groups = [(held, tuple(held.layers)) for held in self._groups.values()]
        frozen = FrozenTable(self, self._epoch, groups, tuple(self._sealed))
        self._snapshots.append(frozen)
        return frozen

    def merge_some(self, limit: int) -> bool:
        """Merges layers that no snapshot needs, until more than ``limit`` entries were moved. Returns whether there may be others left."""
        for _ in range(min(LOOKED_AT, len(self._layered))):
            held = self._layered.popleft()
            limit -= self._merge(held)
            if len(held.layers) > 1:
                self._layered.append(held)
            if limit < 0:
                break
        return bool(self._layered)

    def _peek_in(self, group: int) -> Callable[[Entry], StateValue]:
        """Returns the fastest function that does what ``peek`` does for the entries of a group."""
        held = self._groups.get(group)
        if held is not None and len(held.layers) == 1:
            return held.layers[0].get  # no entry of a single layer is marked as removed
        return partial(self.peek, group)

    def _note(self, group: int, entry: Entry) -> None:
        assert self._changes is not None
        noted = self._changes.get(group)
        if noted is None:
            noted = self._changes[group] = set()
        noted.add(entry)

    def _layer_of(self, group: int) -> Layer:
        """Returns the layer to which entries of a group are written."""
        held = self._groups.get(group)
        if held is None:
            held = self._groups[group] = _Group(group, self._epoch)
        return held.layers[-1] if held.epochs[-1] == self._epoch else self._top(held)

    def _single(self, group: int) -> Layer | None:
        """Returns the layer of a group that has no other one and no snapshot needs; ``None`` where there is none."""
        layer = self._layer_of(group)
        return layer if len(self._groups[group].layers) == 1 else None

    def _top(self, held: _Group) -> Layer:
        """Returns the top layer, to write into; a new one if a snapshot needs the present one."""
        if self._is_needed(held):
            held.layers.append({})
            held.epochs.append(self._epoch)
            if len(held.layers) == 2:
                self._layered.append(held)
        else:
            held.epochs[-1] = self._epoch
        return held.layers[-1]

    def _is_needed(self, held: _Group) -> bool:
        """Tells whether the top layer is part of a snapshot that has not written the group yet."""
        begun = held.epochs[-1]
        return any(begun < snapshot.epoch and snapshot.needs(held.number) for snapshot in self._snapshots)

    def _merge(self, held: _Group) -> int:
        """Merges layers down into those that no snapshot needs. Returns how many entries were moved."""
        moved = 0
        for index in range(len(held.layers) - 2, -1, -1):
            begun = held.epochs[index]
            if any(begun < snapshot.epoch and snapshot.needs(held.number) for snapshot in self._snapshots):
                continue
            above = held.layers.pop(index + 1)
            held.epochs[index] = held.epochs.pop(index + 1)
            _merge_down(held.layers[index], above, is_base=index == 0)
            moved += len(above)
        return moved

    @property
    def oldest_needed(self) -> int:
        """The epoch of the oldest snapshot that is being written, or the last epoch."""
        return min((snapshot.epoch for snapshot in self._snapshots), default=self._epoch)

    def _release(self, frozen: FrozenTable) -> None:
        self._snapshots.remove(frozen)


class IndexedTable(StateTable):
    """A table that also finds the values of each key by their namespaces."""

    def __init__(self) -> None:
        super().__init__()
        self._of_key: dict[int, dict[Key, dict[Namespace, StateValue]]] = {}
        self.has_unnamed = False
        """Whether there was an entry without a namespace."""

    def of_key(self, group: int, key: Key) -> Mapping[Namespace, StateValue]:
        """Returns the values of a key by namespace, for callers that change neither the mapping nor the values."""
        return self._of_key.get(group, _NO_KEYS).get(key, _NO_VALUES)

    def named(self, groups: Sequence[int], keys: Sequence[Key], names: Sequence[Namespace]) -> NamedValues:
        """Returns the values of keys that have some names, for callers that do not change them."""
        of_group = {group: self._of_key.get(group, _NO_KEYS) for group in set(groups)}
        held = [of_group[group].get(key, _NO_VALUES) for group, key in zip(groups, keys, strict=True)]
        if sum(map(len, held)) > len(names) * len(held):
            return of_columns([[values.get(name) for values in held] for name in names])
        return of_mappings(held, names)

    def write(self, group: int, entry: Entry, value: StateValue) -> None:
        super().write(group, entry, value)
        keys = self._of_key.get(group)
        if keys is None:
            keys = self._of_key[group] = {}
        key, namespace = entry
        if namespace is None:
            self.has_unnamed = True
        held = keys.get(key)
        if held is None:
            keys[key] = {namespace: value}
        else:
            held[namespace] = value

    def write_all(self, groups: Sequence[int], entries: Sequence[Entry], values: Sequence[StateValue]) -> None:
        places = {group: (self._layer_of(group), self._of_key.setdefault(group, {})) for group in set(groups)}
        for group, entry, value in zip(groups, entries, values, strict=True):
            layer, keys = places[group]
            layer[entry] = value
            key, namespace = entry
            held = keys.get(key)
            if held is None:
                keys[key] = {namespace: value}
            else:
                held[namespace] = value
            if namespace is None:
                self.has_unnamed = True
        if self._changes is not None:
            noting = {group: self._changes.setdefault(group, set()) for group in places}
            for group, entry in zip(groups, entries, strict=True):
                noting[group].add(entry)

    def peek_all(self, groups: Sequence[int], entries: Sequence[Entry]) -> list[StateValue]:
        keys_of = {group: self._of_key.get(group, _NO_KEYS) for group in set(groups)}
        values_of = [keys_of[group].get(key) for group, (key, _) in zip(groups, entries, strict=True)]
        return [
            None if values is None else values.get(namespace)
            for values, (_, namespace) in zip(values_of, entries, strict=True)
        ]

    def direct(self, group: int) -> Layer | None:
        return None

    def delete(self, group: int, entry: Entry) -> None:
        super().delete(group, entry)
        key, namespace = entry
        keys = self._of_key.get(group, _NO_KEYS)
        held = keys.get(key)
        if held is not None:
            held.pop(namespace, None)
            if not held:
                del keys[key]

    def delete_all(self, groups: Sequence[int], entries: Sequence[Entry]) -> None:
        super().delete_all(groups, entries)
        for group, (key, namespace) in zip(groups, entries, strict=True):
            keys = self._of_key.get(group, _NO_KEYS)
            held = keys.get(key)
            if held is not None:
                held.pop(namespace, None)
                if not held:
                    del keys[key]

    def forget_all(self) -> None:
        super().forget_all()
        self._of_key = {}


class FrozenTable:
    """A table as it was when it was frozen. It is read from the snapshot thread, and released in the subtask's."""

    def __init__(
        self,
        table: StateTable,
        epoch: int,
        groups: list[tuple[_Group, tuple[Layer, ...]]],
        changes: tuple[tuple[int, Changes], ...],
    ) -> None:
        self.epoch = epoch
        self._table: StateTable | None = table
        self._layers = {held.number: layers for held, layers in groups}
        self._changes = changes
        self._written: set[int] = set()

    def needs(self, group: int) -> bool:
        return group in self._layers and group not in self._written

    def groups(self) -> list[int]:
        return sorted(self._layers)

    def group(self, group: int) -> Layer:
        """Returns the entries of one group, without removed ones. Read-only."""
        layers = self._layers.get(group)
        return {} if layers is None else _merged(layers)

    def some(self, group: int, entries: Iterable[Entry]) -> Layer:
        """Returns those of some entries that a group has, without merging its layers."""
        layers = self._layers.get(group, ())
        if len(layers) == 1:  # no entry of a single layer is marked as removed
            get = layers[0].get
            return {entry: value for entry in entries if (value := get(entry, MISSING)) is not MISSING}
        found: Layer = {}
        for entry in entries:
            value = _peek_in(layers, entry)
            if value is not MISSING and value is not DELETED:
                found[entry] = value
        return found

    def size_of(self, group: int) -> int:
        """Returns approximately how many entries a group has."""
        return sum(len(layer) for layer in self._layers.get(group, ()))

    def changed(self, group: int, since: int) -> set[Entry]:
        """Returns the entries of a group that were written or removed after the freeze ``since``."""
        return set().union(*(changes[group] for epoch, changes in self._changes if epoch > since and group in changes))

    def entries(self) -> Iterator[tuple[int, Entry, StateValue]]:
        """Yields all entries, by key group."""
        for group in self.groups():
            for entry, value in self.group(group).items():
                yield group, entry, value

    def written(self, group: int) -> None:
        """Notes that a group was written, so that its layers may be changed."""
        self._written.add(group)

    def release(self) -> None:
        """Releases the references. A second call does nothing."""
        if self._table is not None:
            table, self._table, self._layers, self._changes = self._table, None, {}, ()
            table._release(self)


def _peek_below(layers: list[Layer], entry: Entry) -> StateValue:
    return _peek_in(layers[:-1], entry)


def _peek_in(layers: Sequence[Layer], entry: Entry) -> StateValue:
    """Returns the value of an entry in the highest layer that has it, or ``MISSING``."""
    for layer in reversed(layers):
        found = layer.get(entry, MISSING)
        if found is not MISSING:
            return found
    return MISSING


def _merged(layers: tuple[Layer, ...] | list[Layer]) -> Layer:
    if len(layers) == 1:
        return layers[0]
    entries: Layer = {}
    for layer in layers:
        entries.update(layer)
    return {entry: value for entry, value in entries.items() if value is not DELETED}


def _merge_down(below: Layer, above: Layer, *, is_base: bool) -> None:
    if not is_base:
        below.update(above)
        return
    for entry, value in above.items():
        if value is DELETED:
            below.pop(entry, None)
        else:
            below[entry] = value
