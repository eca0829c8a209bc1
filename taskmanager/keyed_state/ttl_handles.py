"""The handles of state with a time to live (TTL), as functions use it. ``tidegate.taskmanager.keyed_state.ttl`` describes the stored form.

Each access first takes a step of the cleanup, then looks at the entry of the current key (Flink: ``TtlValueState.java``
and its like):

    not there                       ─▶ nothing
    expired                         ─▶ removed; shown this once with ReturnExpiredIfNotCleanedUp, else nothing
    there                           ─▶ its time begins again with OnReadAndWrite
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tidegate.functions.interfaces import AggregateFunction
from tidegate.functions.state import AggregatingState, ListState, MapState, ReducingState, ValueState
from tidegate.model.values import MapKey, Record, StateValue
from tidegate.records.canonical.forms import values_of
from tidegate.records.record_copy import RecordCopy
from tidegate.taskmanager.keyed_state.backend import KeyedBackend, KeyedTable, ListCells, MapCells
from tidegate.taskmanager.keyed_state.entry import Entry
from tidegate.taskmanager.keyed_state.ttl import Sweep, Ttl
from tidegate.taskmanager.state.given import elements_of, items_of, refuse_no_key
from tidegate.taskmanager.state.map_keys import MapKeys

Stamped = tuple[StateValue, int]


class TtlPlace:
    """Gives the handles of one state that expires the current key's entry and the time, and removes some expired entries at each access."""

    def __init__(self, backend: KeyedBackend, windowed: bool, ttl: Ttl, sweep: Sweep, copies: RecordCopy) -> None:
        """Connects a handle to its backend. ``sweep``: removes some expired entries at each access. ``copies``: copies what reducing and aggregating functions
        return.
        """
        self.copies = copies
        self._backend = backend
        self._windowed = windowed
        self._sweep = sweep
        self.ttl = ttl
        if ttl.sweep_size and ttl.sweeps_every_record:
            backend.each_record.append(self._step)

    def enter(self) -> tuple[int, Entry, int]:
        """Begins an access to state: removes a few expired entries first, and returns the key group and entry of the current key, and the time."""
        self._step()
        backend = self._backend
        return backend.group, (backend.key, backend.namespace if self._windowed else None), backend.now_ms()

    def is_expired(self, stamp: int, now_ms: int) -> bool:
        return stamp + self.ttl.ms <= now_ms

    def _step(self) -> None:
        if self.ttl.sweep_size:
            self._sweep(self.ttl.sweep_size, self._backend.now_ms())


class _TtlTableHandle:
    def __init__(self, place: TtlPlace, table: KeyedTable) -> None:
        self._place = place
        self._table = table

    def clear(self) -> None:
        group, entry, _ = self._place.enter()
        self._table.delete(group, entry)

    def _shown(self) -> StateValue:
        place, table = self._place, self._table
        group, entry, now_ms = place.enter()
        found: Stamped | None = table.read(group, entry)
        if found is None:
            return None
        value, stamp = found
        if place.is_expired(stamp, now_ms):
            table.delete(group, entry)
            return value if place.ttl.shows_expired else None
        if place.ttl.is_renewed_by_reads and stamp != now_ms:
            table.write(group, entry, (value, now_ms))
        return value

    def _change(self, change: Callable[[StateValue], StateValue]) -> None:
        """Replaces the value by ``change(value)``, or ``change(None)`` if it is missing or expired and not visible (Flink: ``TtlReduceFunction.java``,
        ``TtlAggregateFunction.java``).
        """
        group, entry, now_ms = self._place.enter()
        found: Stamped | None = self._table.read(group, entry)
        ttl = self._place.ttl
        lives = found is not None and (ttl.shows_expired or not self._place.is_expired(found[1], now_ms))
        before = found[0] if found is not None and lives else None
        self._table.write(group, entry, (self._place.copies.unless_same(change(before), before), now_ms))


class TtlValueState(_TtlTableHandle, ValueState[StateValue]):
    """The value of the current key, with a time to live."""

    def value(self) -> StateValue:
        return self._shown()

    def update(self, value: StateValue) -> None:
        """Sets the value. ``None`` clears it."""
        if value is None:
            self.clear()
        else:
            group, entry, now_ms = self._place.enter()
            self._table.write(group, entry, (value, now_ms))


class TtlReducingState(_TtlTableHandle, ReducingState[StateValue]):
    """The reduced value of the current key, with a time to live."""

    def __init__(
        self, place: TtlPlace, table: KeyedTable, reduce: Callable[[StateValue, StateValue], StateValue]
    ) -> None:
        super().__init__(place, table)
        self._reduce = reduce

    def get(self) -> StateValue:
        return self._shown()

    def add(self, value: StateValue) -> None:
        self._change(lambda found: value if found is None else self._reduce(found, value))


class TtlAggregatingState(_TtlTableHandle, AggregatingState[Record, Record]):
    """The accumulator of the current key, with a time to live."""

    def __init__(self, place: TtlPlace, table: KeyedTable, function: AggregateFunction) -> None:
        super().__init__(place, table)
        self._function = function

    def get(self) -> StateValue:
        found = self._shown()
        return None if found is None else self._function.get_result(found)

    def add(self, value: StateValue) -> None:
        """Adds a value to the accumulator. ``None`` clears the state."""
        if value is None:
            self.clear()
            return
        function = self._function
        self._change(lambda found: function.add(value, function.create_accumulator() if found is None else found))


class TtlListState(ListState[StateValue]):
    """List state with a time to live for each element."""

    def __init__(self, place: TtlPlace, cells: ListCells) -> None:
        self._place = place
        self._cells = cells

    def get(self) -> Iterable[StateValue]:
        place = self._place
        group, entry, now_ms = place.enter()
        found: list[Stamped] = self._cells.read(group, entry)
        living = [pair for pair in found if not place.is_expired(pair[1], now_ms)]
        if place.ttl.is_renewed_by_reads and living:
            self._cells.replace(group, entry, [(element, now_ms) for element, _ in living])
        elif len(living) < len(found):
            self._cells.replace(group, entry, living)
        return iter([element for element, _ in (found if place.ttl.shows_expired else living)])

    def add(self, value: StateValue) -> None:
        self.add_all((value,))

    def add_all(self, values: Iterable[StateValue]) -> None:
        group, entry, now_ms = self._place.enter()
        self._cells.extend(group, entry, [(value, now_ms) for value in elements_of(values)])

    def update(self, values: Iterable[StateValue]) -> None:
        group, entry, now_ms = self._place.enter()
        self._cells.replace(group, entry, [(value, now_ms) for value in elements_of(values)])

    def clear(self) -> None:
        self.update(())


class TtlMapState(MapState[MapKey, StateValue]):
    """Map state with a time to live for each entry."""

    def __init__(self, place: TtlPlace, cells: MapCells, keys: MapKeys) -> None:
        self._place = place
        self._cells = cells
        self._keys = keys

    def get(self, key: MapKey) -> StateValue:
        place, key = self._place, self._keys.form(key)
        group, entry, now_ms = place.enter()
        found: Stamped | None = self._cells.get(group, entry, key)
        if found is None:
            return None
        value, stamp = found
        if place.is_expired(stamp, now_ms):
            self._cells.remove(group, entry, (key,))
            return value if place.ttl.shows_expired else None
        if place.ttl.is_renewed_by_reads and stamp != now_ms:
            self._cells.put_all(group, entry, {key: (value, now_ms)})
        return value

    def put(self, key: MapKey, value: StateValue) -> None:
        if key is None:
            refuse_no_key(value)
        self.put_all({self._keys.form(key): value})

    def put_all(self, dict_value: Mapping[MapKey, StateValue]) -> None:
        group, entry, now_ms = self._place.enter()
        self._cells.put_all(
            group, entry, {key: (value, now_ms) for key, value in self._keys.forms(items_of(dict_value)).items()}
        )

    def remove(self, key: MapKey) -> None:
        group, entry, _ = self._place.enter()
        self._cells.remove(group, entry, (self._keys.form(key),))

    def contains(self, key: MapKey) -> bool:
        place, key = self._place, self._keys.form(key)
        group, entry, now_ms = place.enter()
        found: Stamped | None = self._cells.get(group, entry, key)
        if found is None:
            return False
        if not place.is_expired(found[1], now_ms):
            if place.ttl.is_renewed_by_reads and found[1] != now_ms:
                self._cells.put_all(group, entry, {key: (found[0], now_ms)})
            return True
        self._cells.remove(group, entry, (key,))
        return place.ttl.shows_expired

    def items(self) -> Iterable[tuple[MapKey, StateValue]]:
        found = self._all()
        return list(zip(values_of(list(found)), found.values(), strict=True))

    def keys(self) -> Iterable[MapKey]:
        return values_of(list(self._all()))

    def values(self) -> Iterable[StateValue]:
        return list(self._all().values())

    def is_empty(self) -> bool:
        return not self._all()

    def clear(self) -> None:
        group, entry, _ = self._place.enter()
        self._cells.clear(group, entry)

    def _all(self) -> dict[MapKey, StateValue]:
        place = self._place
        group, entry, now_ms = place.enter()
        found: dict[StateValue, Stamped] = self._cells.read(group, entry)
        expired = [key for key, (_, stamp) in found.items() if place.is_expired(stamp, now_ms)]
        if expired:
            self._cells.remove(group, entry, expired)
        dead = frozenset(expired)
        if place.ttl.is_renewed_by_reads:
            renewed = {key: (value, now_ms) for key, (value, _) in found.items() if key not in dead}
            self._cells.put_all(group, entry, renewed)
        shown = found if place.ttl.shows_expired else {k: pair for k, pair in found.items() if k not in dead}
        return {key: value for key, (value, _) in shown.items()}
