"""The state handles that functions use: PyFlink's interfaces over the tables of a keyed backend.

A handle reads the current key and key group of its backend at each call. Handles work with all backends. State with a time-to-live has other handles
(``ttl_handles``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from tidegate.functions.interfaces import AggregateFunction, KeyedStateStore
from tidegate.functions.state import (
    AggregatingState,
    AggregatingStateDescriptor,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ReducingState,
    ReducingStateDescriptor,
    State,
    StateDescriptor,
    ValueState,
    ValueStateDescriptor,
)
from tidegate.model.errors import InvalidJob
from tidegate.model.values import MapKey, Record, StateValue, UserObject
from tidegate.records.canonical.forms import values_of
from tidegate.records.record_copy import RecordCopy
from tidegate.taskmanager.keyed_state.backend import KeyedBackend, KeyedTable, ListCells, MapCells
from tidegate.taskmanager.keyed_state.entry import Entry, Namespace
from tidegate.taskmanager.keyed_state.queryable import QueryableState, ReadKey
from tidegate.taskmanager.keyed_state.ttl import Ttl
from tidegate.taskmanager.keyed_state.ttl_handles import (
    TtlAggregatingState,
    TtlListState,
    TtlMapState,
    TtlPlace,
    TtlReducingState,
    TtlValueState,
)
from tidegate.taskmanager.state.given import elements_of, items_of, refuse_no_key
from tidegate.taskmanager.state.map_keys import MapKeys


class _Handle:
    """Base class of state handles. ``windowed``: the entry is that of the current key and window, otherwise of the key alone."""

    def __init__(self, backend: KeyedBackend, windowed: bool) -> None:
        self._backend = backend
        self._windowed = windowed

    def _entry(self) -> Entry:
        backend = self._backend
        return (backend.key, backend.namespace if self._windowed else None)


class _TableHandle(_Handle):
    def __init__(self, backend: KeyedBackend, table: KeyedTable, windowed: bool) -> None:
        super().__init__(backend, windowed)
        self._table = table

    def _read(self) -> StateValue:
        return self._table.read(self._backend.group, self._entry())

    def _write(self, value: StateValue) -> None:
        self._table.write(self._backend.group, self._entry(), value)

    def clear(self) -> None:
        self._table.delete(self._backend.group, self._entry())

    def _merge(self, sources: Iterable[Namespace], merge: Callable[[StateValue, StateValue], StateValue]) -> None:
        """Merges the values of these windows into that of the current window."""
        backend, table = self._backend, self._table
        spaces = [space for space in sources if space != backend.namespace]
        found = self._read()
        for space in spaces:
            more = table.read(backend.group, (backend.key, space))
            if more is not None:
                table.delete(backend.group, (backend.key, space))
                found = more if found is None else merge(found, more)
        if found is not None:
            self._write(found)


class KeyedValueState(_TableHandle, ValueState[StateValue]):
    """The value of the current key."""

    def value(self) -> StateValue:
        return self._read()

    def update(self, value: StateValue) -> None:
        """Sets the value. ``None`` clears it, as in Flink."""
        if value is None:
            self.clear()
        else:
            self._write(value)


class KeyedListState(_Handle, ListState[StateValue]):
    """The list of the current key."""

    def __init__(self, backend: KeyedBackend, cells: ListCells, windowed: bool) -> None:
        super().__init__(backend, windowed)
        self._cells = cells

    def get(self) -> Iterable[StateValue]:
        """Returns the elements in the order in which they were added."""
        return iter(self._cells.read(self._backend.group, self._entry()))

    def add(self, value: StateValue) -> None:
        self._cells.extend(self._backend.group, self._entry(), (value,))

    def add_all(self, values: Iterable[StateValue]) -> None:
        self._cells.extend(self._backend.group, self._entry(), elements_of(values))

    def update(self, values: Iterable[StateValue]) -> None:
        self._cells.replace(self._backend.group, self._entry(), elements_of(values))

    def clear(self) -> None:
        self._cells.replace(self._backend.group, self._entry(), ())

    def merge_namespaces(self, sources: Iterable[Namespace]) -> None:
        """Moves the elements of these windows to the current window, after its own."""
        backend, key = self._backend, self._backend.key
        for space in [space for space in sources if space != backend.namespace]:
            moved = list(self._cells.read(backend.group, (key, space)))
            self._cells.replace(backend.group, (key, space), ())
            if moved:
                self._cells.extend(backend.group, self._entry(), moved)


class KeyedMapState(_Handle, MapState[MapKey, StateValue]):
    """The map of the current key. Keys are compared in their canonical form."""

    def __init__(self, backend: KeyedBackend, cells: MapCells, keys: MapKeys, windowed: bool) -> None:
        super().__init__(backend, windowed)
        self._cells = cells
        self._keys = keys
        self._plain = keys.plain

    def get(self, key: MapKey) -> StateValue:
        if key.__class__ not in self._plain:
            key = self._keys.form(key)
        backend = self._backend
        return self._cells.get(backend.group, (backend.key, backend.namespace if self._windowed else None), key)

    def put(self, key: MapKey, value: StateValue) -> None:
        if key is None:
            refuse_no_key(value)
        if key.__class__ not in self._plain:
            key = self._keys.form(key)
        backend = self._backend
        entry = (backend.key, backend.namespace if self._windowed else None)
        self._cells.put_all(backend.group, entry, {key: value})

    def put_all(self, dict_value: Mapping[MapKey, StateValue]) -> None:
        self._cells.put_all(self._backend.group, self._entry(), self._keys.forms(items_of(dict_value)))

    def remove(self, key: MapKey) -> None:
        self._cells.remove(self._backend.group, self._entry(), (self._keys.form(key),))

    def contains(self, key: MapKey) -> bool:
        return self._cells.contains(self._backend.group, self._entry(), self._keys.form(key))

    def items(self) -> Iterable[tuple[MapKey, StateValue]]:
        """Returns the entries as they are now. The map may be changed while the caller iterates."""
        found = self._all()
        return list(zip(values_of(list(found)), found.values(), strict=True))

    def keys(self) -> Iterable[MapKey]:
        return values_of(list(self._all()))

    def values(self) -> Iterable[StateValue]:
        return list(self._all().values())

    def is_empty(self) -> bool:
        return self._cells.is_empty(self._backend.group, self._entry())

    def clear(self) -> None:
        self._cells.clear(self._backend.group, self._entry())

    def _all(self) -> dict[MapKey, StateValue]:
        return self._cells.read(self._backend.group, self._entry())


class _FoldedHandle(_TableHandle):
    """Base class of handles that store the result of a user's function. They copy it where the function may return the same object again for another key.

    (Other values are stored as they are given, as in PyFlink and Flink's ``HashMapStateBackend``.)
    """

    def __init__(self, backend: KeyedBackend, table: KeyedTable, windowed: bool, copies: RecordCopy) -> None:
        super().__init__(backend, table, windowed)
        self._copies = copies

    def _keep(self, made: StateValue, found: StateValue) -> None:
        self._write(self._copies.unless_same(made, found))


class KeyedReducingState(_FoldedHandle, ReducingState[StateValue]):
    """The value of the current key, into which each added value is reduced."""

    def __init__(
        self,
        backend: KeyedBackend,
        table: KeyedTable,
        windowed: bool,
        reduce: Callable[[StateValue, StateValue], StateValue],
        copies: RecordCopy,
    ) -> None:
        super().__init__(backend, table, windowed, copies)
        self._reduce = reduce

    def get(self) -> StateValue:
        return self._read()

    def add(self, value: StateValue) -> None:
        found = self._read()
        self._keep(value if found is None else self._reduce(found, value), found)

    def merge_namespaces(self, sources: Iterable[Namespace]) -> None:
        self._merge(sources, self._reduce)


class KeyedAggregatingState(_FoldedHandle, AggregatingState[Record, Record]):
    """The accumulator of the current key; ``get`` returns the result of the aggregate function for it."""

    def __init__(
        self,
        backend: KeyedBackend,
        table: KeyedTable,
        windowed: bool,
        function: AggregateFunction,
        copies: RecordCopy,
    ) -> None:
        super().__init__(backend, table, windowed, copies)
        self._function = function

    def get(self) -> StateValue:
        found = self._read()
        return None if found is None else self._function.get_result(found)

    def add(self, value: StateValue) -> None:
        """Adds a value to the accumulator. ``None`` clears the state, as in Flink."""
        if value is None:
            self.clear()
            return
        found = self._read()
        made = self._function.add(value, self._function.create_accumulator() if found is None else found)
        self._keep(made, found)

    def merge_namespaces(self, sources: Iterable[Namespace]) -> None:
        self._merge(sources, self._function.merge)


_KINDS: Mapping[type[StateDescriptor], str] = {
    ValueStateDescriptor: "value",
    ReducingStateDescriptor: "reducing",
    AggregatingStateDescriptor: "aggregating",
}


def _reader(backend: KeyedBackend, descriptor: StateDescriptor, name: str) -> ReadKey:
    """Returns a function that reads the entry of any key; it returns ``None`` if there is none."""
    match descriptor:
        case ListStateDescriptor():
            elements = backend.list_cells(name, descriptor.type_info)
            return lambda group, key: elements.read(group, (key, None)) or None
        case MapStateDescriptor():
            items = backend.map_cells(name, descriptor.type_info)
            return lambda group, key: items.read(group, (key, None)) or None
        case _:
            kind = next(kind for of, kind in _KINDS.items() if isinstance(descriptor, of))
            table = backend.table(name, kind, descriptor.type_info)
            return lambda group, key: table.peek(group, (key, None))


D = TypeVar("D", bound=StateDescriptor)
H = TypeVar("H")


def _kept(make: Callable[[StateStore, D], H]) -> Callable[[StateStore, D], H]:
    """Wraps a getter so that it returns the same handle for the same descriptor, since triggers request their state for every record."""

    def found_or_made(store: StateStore, state_descriptor: D) -> H:
        known = store.handles.get(state_descriptor.name)
        if known is not None and known[0] is state_descriptor:
            handle: H = known[1]
            return handle
        made = make(store, state_descriptor)
        if state_descriptor.is_queryable():
            store.publish(state_descriptor)
        store.handles[state_descriptor.name] = (state_descriptor, made)
        return made

    return found_or_made


class StateStore(KeyedStateStore):
    """Creates state handles by descriptor. ``prefix``: separates the names of one purpose (window state, trigger state) from others."""

    def __init__(self, backend: KeyedBackend, *, windowed: bool = False, prefix: str = "") -> None:
        self._backend = backend
        self._windowed = windowed
        self._prefix = prefix
        self.handles: dict[str, tuple[StateDescriptor, Any]] = {}
        """The last descriptor of each name, with its handle."""

    @_kept
    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[StateValue]:
        table, ttl = self._table(state_descriptor, "value")
        if ttl is not None:
            return TtlValueState(self._place(state_descriptor, ttl), table)
        return KeyedValueState(self._backend, table, self._windowed)

    @_kept
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[StateValue]:
        ttl = Ttl.of(state_descriptor.ttl_config)
        cells = self._backend.list_cells(self._prefix + state_descriptor.name, state_descriptor.type_info, ttl)
        if ttl is not None:
            return TtlListState(self._place(state_descriptor, ttl), cells)
        return KeyedListState(self._backend, cells, self._windowed)

    @_kept
    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[MapKey, StateValue]:
        ttl = Ttl.of(state_descriptor.ttl_config)
        cells = self._backend.map_cells(self._prefix + state_descriptor.name, state_descriptor.type_info, ttl)
        where = f"operator '{self._backend.operator}', state '{state_descriptor.name}'"
        keys = MapKeys(state_descriptor.key_type_info, where)
        if ttl is not None:
            return TtlMapState(self._place(state_descriptor, ttl), cells, keys)
        return KeyedMapState(self._backend, cells, keys, self._windowed)

    @_kept
    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[StateValue]:
        function: UserObject = state_descriptor.get_reduce_function()
        reduce: UserObject = getattr(function, "reduce", function)
        table, ttl = self._table(state_descriptor, "reducing")
        if ttl is not None:
            return TtlReducingState(self._place(state_descriptor, ttl), table, reduce)
        return KeyedReducingState(self._backend, table, self._windowed, reduce, self._copies(state_descriptor))

    @_kept
    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> AggregatingState[Record, Record]:
        function = state_descriptor.get_agg_function()
        table, ttl = self._table(state_descriptor, "aggregating")
        if ttl is not None:
            return TtlAggregatingState(self._place(state_descriptor, ttl), table, function)
        copies = self._copies(state_descriptor)
        return KeyedAggregatingState(self._backend, table, self._windowed, function, copies)

    def of(self, descriptor: StateDescriptor) -> State:
        """Returns the handle for a descriptor of any kind."""
        match descriptor:
            case ValueStateDescriptor():
                return self.get_state(descriptor)
            case ListStateDescriptor():
                return self.get_list_state(descriptor)
            case MapStateDescriptor():
                return self.get_map_state(descriptor)
            case ReducingStateDescriptor():
                return self.get_reducing_state(descriptor)
            case AggregatingStateDescriptor():
                return self.get_aggregating_state(descriptor)
            case _:
                raise TypeError(
                    f"not a state descriptor: {descriptor!r}; give a ValueStateDescriptor, ListStateDescriptor, MapStateDescriptor, ReducingStateDescriptor or "
                    "AggregatingStateDescriptor"
                )

    def publish(self, descriptor: StateDescriptor) -> None:
        """Makes a state queryable by clients. Raises ``InvalidJob`` for state of a window."""
        name = descriptor.get_queryable_state_name()
        assert name is not None, descriptor
        if self._windowed:
            raise InvalidJob(
                f"operator '{self._backend.operator}': state '{descriptor.name}' belongs to a window, and clients can ask "
                "for state of keys only: use the context's global state, or leave set_queryable out"
            )
        backend, key_type = self._backend, self._backend.key_type
        read = _reader(backend, descriptor, self._prefix + descriptor.name)
        backend.publish(
            QueryableState(name, self._prefix + descriptor.name, key_type, descriptor.type_info, backend.owned, read)
        )

    def _table(self, descriptor: StateDescriptor, kind: str) -> tuple[KeyedTable, Ttl | None]:
        ttl = Ttl.of(descriptor.ttl_config)
        return self._backend.table(self._prefix + descriptor.name, kind, descriptor.type_info, ttl), ttl

    def _place(self, descriptor: StateDescriptor, ttl: Ttl) -> TtlPlace:
        sweep = self._backend.sweep(self._prefix + descriptor.name)
        return TtlPlace(self._backend, self._windowed, ttl, sweep, self._copies(descriptor))

    def _copies(self, descriptor: StateDescriptor) -> RecordCopy:
        return self._backend.copies_of(self._prefix + descriptor.name, descriptor.type_info)
