"""State as functions use it: PyFlink's interfaces over the tables of a keyed backend.

A handle belongs to no key: it reads the current key and group of its backend at each call. Containers (the list of a
ListState, the dict of a MapState) are only changed in the form in which ``StateTable.read`` hands them out, so a frozen
one is copied first (law 3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from taskmanager.state.keyed_backend import KeyedStateBackend
from taskmanager.state.layers import Entry, StateTable
from tidegate.datastream.functions import KeyedStateStore
from tidegate.datastream.state import (
    AggregatingState,
    AggregatingStateDescriptor,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ReducingState,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueState,
    ValueStateDescriptor,
)


class _Handle:
    """What all handles share. ``windowed``: the entry is that of the current key and window."""

    def __init__(self, backend: KeyedStateBackend, table: StateTable, windowed: bool) -> None:
        self._backend = backend
        self._table = table
        self._windowed = windowed

    def _entry(self) -> Entry:
        backend = self._backend
        return (backend.key, backend.namespace if self._windowed else None)

    def _read(self) -> Any:
        return self._table.read(self._backend.group, self._entry())

    def _write(self, value: Any) -> None:
        self._table.write(self._backend.group, self._entry(), value)

    def clear(self) -> None:
        self._table.delete(self._backend.group, self._entry())


class HeapValueState(_Handle, ValueState[Any]):
    def value(self) -> Any:
        return self._read()

    def update(self, value: Any) -> None:
        """``None`` clears, as in Flink."""
        if value is None:
            self.clear()
        else:
            self._write(value)


class HeapListState(_Handle, ListState[Any]):
    def get(self) -> Iterable[Any]:
        """The elements, in the order in which they were added; nothing when there are none."""
        return iter(self._read() or ())

    def add(self, value: Any) -> None:
        found = self._read()
        if found is None:
            self._write([value])
        else:
            found.append(value)

    def add_all(self, values: Sequence[Any]) -> None:
        found = self._read()
        if found is None:
            self.update(values)
        else:
            found.extend(values)

    def update(self, values: Sequence[Any]) -> None:
        elements = list(values)
        if elements:
            self._write(elements)
        else:
            self.clear()


class HeapMapState(_Handle, MapState[Any, Any]):
    def get(self, key: Any) -> Any:
        return (self._read() or {}).get(key)

    def put(self, key: Any, value: Any) -> None:
        found = self._read()
        if found is None:
            self._write({key: value})
        else:
            found[key] = value

    def put_all(self, dict_value: Mapping[Any, Any]) -> None:
        found = self._read()
        if found is not None:
            found.update(dict_value)
        elif dict_value:
            self._write(dict(dict_value))

    def remove(self, key: Any) -> None:
        found = self._read()
        if found is not None:
            found.pop(key, None)
            if not found:
                self.clear()

    def contains(self, key: Any) -> bool:
        return key in (self._read() or ())

    def items(self) -> Iterable[tuple[Any, Any]]:
        """As it is now: the map may be changed while the caller walks through."""
        return list((self._read() or {}).items())

    def keys(self) -> Iterable[Any]:
        return list(self._read() or ())

    def values(self) -> Iterable[Any]:
        return list((self._read() or {}).values())

    def is_empty(self) -> bool:
        return not self._read()


class HeapReducingState(_Handle, ReducingState[Any]):
    def __init__(
        self, backend: KeyedStateBackend, table: StateTable, windowed: bool, reduce: Callable[[Any, Any], Any]
    ) -> None:
        super().__init__(backend, table, windowed)
        self._reduce = reduce

    def get(self) -> Any:
        return self._read()

    def add(self, value: Any) -> None:
        found = self._read()
        self._write(value if found is None else self._reduce(found, value))


class HeapAggregatingState(_Handle, AggregatingState[Any, Any]):
    def __init__(self, backend: KeyedStateBackend, table: StateTable, windowed: bool, function: Any) -> None:
        super().__init__(backend, table, windowed)
        self._function = function

    def get(self) -> Any:
        found = self._read()
        return None if found is None else self._function.get_result(found)

    def add(self, value: Any) -> None:
        found = self._read()
        self._write(self._function.add(value, self._function.create_accumulator() if found is None else found))


class StateStore(KeyedStateStore):
    """Handles by descriptor. ``prefix`` keeps names of one purpose (window state, trigger state) apart from others."""

    def __init__(self, backend: KeyedStateBackend, *, windowed: bool = False, prefix: str = "") -> None:
        self._backend = backend
        self._windowed = windowed
        self._prefix = prefix

    def _table(self, descriptor: StateDescriptor, kind: str) -> StateTable:
        return self._backend.table(self._prefix + descriptor.name, kind, descriptor.type_info)

    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        return HeapValueState(self._backend, self._table(state_descriptor, "value"), self._windowed)

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        return HeapListState(self._backend, self._table(state_descriptor, "list"), self._windowed)

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        return HeapMapState(self._backend, self._table(state_descriptor, "map"), self._windowed)

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        function: Any = state_descriptor.get_reduce_function()
        reduce = getattr(function, "reduce", function)
        return HeapReducingState(self._backend, self._table(state_descriptor, "reducing"), self._windowed, reduce)

    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> AggregatingState[Any, Any]:
        table = self._table(state_descriptor, "aggregating")
        return HeapAggregatingState(self._backend, table, self._windowed, state_descriptor.get_agg_function())

    def of(self, descriptor: StateDescriptor) -> Any:
        """The handle for a descriptor of any kind."""
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
                raise TypeError(f"not a state descriptor: {descriptor!r}")
