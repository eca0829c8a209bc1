"""The operator state of one user function, as ``CheckpointedFunction`` uses it (Flink: ``DefaultOperatorStateBackend.java``).

    restored elements ─▶ unclaimed ── asked for by descriptor ─▶ state ── freeze ─▶ one file for each state name
                            └───────────────── not requested ──────────────▶ freeze ─▶ written again as it was

Elements are encoded when the state is frozen, since the function may change its objects later; the encoded form is the copy (law 3). On disk an element has the
descriptor's type (other stored types are read as ``schema_evolution`` allows); an entry of broadcast state is a struct of ``key`` and ``value``. Broadcast
state is written even if it is empty, so that every subtask has a copy to restore from. Union state that no function requests is written by subtask 0 alone: all
subtasks hold the same elements, and each copy would multiply them at the next restore.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

import pyarrow as pa

from tidegate.common.typeinfo import RowTypeInfo, TypeInformation
from tidegate.functions.checkpointed_function import OperatorStateStore
from tidegate.functions.state import BroadcastState, ListState, ListStateDescriptor, MapStateDescriptor
from tidegate.model.checkpoint import OperatorSnapshot, OperatorStateHandle, RestoredOperator, StateRedistribution
from tidegate.model.errors import InvalidJob, SchemaMismatch
from tidegate.model.values import MapKey, StateValue
from tidegate.records.canonical.forms import values_of
from tidegate.records.record_codec import decode_column, encode_column
from tidegate.records.schema_evolution import Refusal, evolve
from tidegate.taskmanager.state.files.segments import (
    ELEMENT,
    StateDescription,
    element_schema,
    metadata_of,
    read_element_table,
    write_elements,
)
from tidegate.taskmanager.state.given import elements_of, items_of, refuse_no_key
from tidegate.taskmanager.state.map_keys import MapKeys
from tidegate.taskmanager.state.ports import FrozenState, SegmentSource, SegmentStore

_KINDS = {
    StateRedistribution.SPLIT: "list",
    StateRedistribution.UNION: "union",
    StateRedistribution.BROADCAST: "broadcast",
}


class ElementList(ListState[StateValue]):
    """List and union state: the elements in memory."""

    def __init__(self, elements: Iterable[StateValue]) -> None:
        self.elements = list(elements)

    def get(self) -> Iterable[StateValue]:
        return iter(list(self.elements))

    def add(self, value: StateValue) -> None:
        self.elements.append(value)

    def add_all(self, values: Iterable[StateValue]) -> None:
        self.elements.extend(elements_of(values))

    def update(self, values: Iterable[StateValue]) -> None:
        self.elements = list(elements_of(values))

    def clear(self) -> None:
        self.elements = []


class BroadcastEntries(BroadcastState[MapKey, StateValue]):
    """Broadcast state in memory. ``entries``: by the canonical forms of their keys."""

    def __init__(self, entries: Iterable[tuple[MapKey, StateValue]], keys: MapKeys) -> None:
        self.entries = keys.forms(entries)
        self._keys = keys

    def get(self, key: MapKey) -> StateValue:
        return self.entries.get(self._keys.form(key))

    def put(self, key: MapKey, value: StateValue) -> None:
        if key is None:
            refuse_no_key(value)
        self.entries[self._keys.form(key)] = value

    def put_all(self, dict_value: Mapping[MapKey, StateValue]) -> None:
        self.entries.update(self._keys.forms(items_of(dict_value)))

    def remove(self, key: MapKey) -> None:
        self.entries.pop(self._keys.form(key), None)

    def contains(self, key: MapKey) -> bool:
        return self._keys.form(key) in self.entries

    def items(self) -> Iterable[tuple[MapKey, StateValue]]:
        return list(zip(self.keys(), self.entries.values(), strict=True))

    def keys(self) -> Iterable[MapKey]:
        return values_of(list(self.entries))

    def values(self) -> Iterable[StateValue]:
        return list(self.entries.values())

    def is_empty(self) -> bool:
        return not self.entries

    def clear(self) -> None:
        self.entries = {}


@dataclass(frozen=True, slots=True)
class _Registered:
    mode: StateRedistribution
    type_info: TypeInformation
    """The type of an element; for broadcast state, the type of an entry."""
    state: ElementList | BroadcastEntries

    @property
    def elements(self) -> list[StateValue]:
        return self.state.elements if isinstance(self.state, ElementList) else list(self.state.items())


@dataclass(slots=True)
class _Unclaimed:
    mode: StateRedistribution
    parts: list[pa.Table] = field(default_factory=list)


class FunctionStateBackend(OperatorStateStore):
    """The operator state of a user function. Used from the subtask's thread."""

    def __init__(self, operator: str, subtask: int) -> None:
        self._operator = operator
        self._subtask = subtask
        self._states: dict[str, _Registered] = {}
        self._unclaimed: dict[str, _Unclaimed] = {}

    def restore(self, restored: RestoredOperator, source: SegmentSource) -> None:
        """Reads the restored elements, which stay encoded until the function requests the state. Raises ``CorruptData``, ``StorageError``."""
        for handle, (first, last) in zip(restored.operator, restored.slices, strict=True):
            self._unclaimed_of(handle).parts.append(read_element_table(source, handle, first, last))

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[StateValue]:
        return self._list(state_descriptor, StateRedistribution.SPLIT)

    def get_union_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[StateValue]:
        return self._list(state_descriptor, StateRedistribution.UNION)

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[MapKey, StateValue]:
        if not isinstance(state_descriptor, MapStateDescriptor):
            raise InvalidJob(f"{self._where} broadcast state needs a MapStateDescriptor, not {state_descriptor!r}")
        entry = entry_type(state_descriptor)
        name, mode = state_descriptor.name, StateRedistribution.BROADCAST
        found = self._known(name, mode, entry)
        if found is None:
            entries = ((row[0], row[1]) for row in self._claim(name, mode, entry))
            keys = MapKeys(state_descriptor.key_type_info, f"{self._where} state '{name}'")
            found = self._states[name] = _Registered(mode, entry, BroadcastEntries(entries, keys))
        assert isinstance(found.state, BroadcastEntries)
        return found.state

    def get_registered_state_names(self) -> AbstractSet[str]:
        return self._names(lambda mode: mode is not StateRedistribution.BROADCAST)

    def get_registered_broadcast_state_names(self) -> AbstractSet[str]:
        return self._names(lambda mode: mode is StateRedistribution.BROADCAST)

    def registered(self) -> dict[str, tuple[StateRedistribution, TypeInformation]]:
        """Returns the requested states by name, with their kind and the type of an element (for broadcast state, of an entry)."""
        return {name: (found.mode, found.type_info) for name, found in self._states.items()}

    def freeze(self) -> FrozenState | None:
        """Encodes all elements; returns them as frozen state, ``None`` if there is nothing to write. Raises ``SchemaMismatch`` naming state and value when an
        element does not fit its type, or ``NotSerializable``.
        """
        columns = [self._frozen(name, found) for name, found in self._states.items()]
        columns += [self._kept(name, kept) for name, kept in self._unclaimed.items() if self._has_to_keep(kept)]
        written = [c for c in columns if len(c.elements) or c.mode is StateRedistribution.BROADCAST]
        return FrozenColumns(written) if written else None

    def _list(self, descriptor: ListStateDescriptor, mode: StateRedistribution) -> ListState[StateValue]:
        if not isinstance(descriptor, ListStateDescriptor):
            raise InvalidJob(f"{self._where} {_KINDS[mode]} state needs a ListStateDescriptor, not {descriptor!r}")
        name, type_info = descriptor.name, descriptor.elem_type_info
        found = self._known(name, mode, type_info)
        if found is None:
            found = self._states[name] = _Registered(mode, type_info, ElementList(self._claim(name, mode, type_info)))
        assert isinstance(found.state, ElementList)
        return found.state

    def _known(self, name: str, mode: StateRedistribution, type_info: TypeInformation) -> _Registered | None:
        found = self._states.get(name)
        if found is not None and (found.mode is not mode or found.type_info != type_info):
            raise InvalidJob(
                f"{self._where} state '{name}' is registered as {_KINDS[found.mode]} of {found.type_info!r} and as "
                f"{_KINDS[mode]} of {type_info!r}: use two names"
            )
        return found

    def _claim(self, name: str, mode: StateRedistribution, type_info: TypeInformation) -> list[StateValue]:
        """Returns the restored elements of a state that is requested, decoded; empty if there are none. Raises ``SchemaMismatch`` if kind or type
        do not fit.
        """
        kept = self._unclaimed.get(name)
        if kept is None:
            return []
        if kept.mode is not mode:
            raise SchemaMismatch(
                f"{self._where} state '{name}' was written as {_KINDS[kept.mode]} state, the job asks for "
                f"{_KINDS[mode]} state: keep the kind, or give the state another name"
            )
        values: list[StateValue] = []
        for table in kept.parts:
            values += decode_column(type_info, as_declared(table, type_info, f"{self._where} state '{name}'"))
        del self._unclaimed[name]
        return values

    def _frozen(self, name: str, found: _Registered) -> FrozenColumn:
        about = StateDescription(self._operator, name, _KINDS[found.mode], {ELEMENT: repr(found.type_info)})
        array = encode_column(found.type_info, found.elements, f"{self._where} state '{name}'")
        return FrozenColumn(found.mode, array, found.type_info.arrow_field(ELEMENT), about)

    def _kept(self, name: str, kept: _Unclaimed) -> FrozenColumn:
        table = pa.concat_tables(kept.parts)
        types = metadata_of(table.schema).get("types", {})
        about = StateDescription(self._operator, name, _KINDS[kept.mode], types)
        return FrozenColumn(kept.mode, _one_array(table), table.schema.field(ELEMENT), about)

    def _has_to_keep(self, kept: _Unclaimed) -> bool:
        return bool(kept.parts) and (kept.mode is not StateRedistribution.UNION or self._subtask == 0)

    def _unclaimed_of(self, handle: OperatorStateHandle) -> _Unclaimed:
        return self._unclaimed.setdefault(handle.state_name, _Unclaimed(handle.redistribution))

    def _names(self, wanted: Callable[[StateRedistribution], bool]) -> AbstractSet[str]:
        modes = {name: found.mode for name, found in self._states.items()}
        modes |= {name: kept.mode for name, kept in self._unclaimed.items()}
        return {name for name, mode in modes.items() if wanted(mode)}

    @property
    def _where(self) -> str:
        return f"operator '{self._operator}',"


@dataclass(slots=True)
class FrozenColumn:
    """The encoded elements of one operator state."""

    mode: StateRedistribution
    elements: pa.Array
    field: pa.Field
    about: StateDescription


@dataclass(slots=True)
class FrozenColumns(FrozenState):
    """All operator state of one function, frozen for a snapshot."""

    columns: list[FrozenColumn]

    def write(self, store: SegmentStore) -> OperatorSnapshot:
        return OperatorSnapshot(
            operator=tuple(
                write_elements(store, c.elements, element_schema(c.field, c.about), c.mode, c.about)
                for c in self.columns
            )
        )


def entry_type(descriptor: MapStateDescriptor) -> TypeInformation:
    """Returns the type of an entry of broadcast state, a row of ``key`` and ``value``."""
    return RowTypeInfo([descriptor.key_type_info, descriptor.value_type_info], ["key", "value"])


def as_declared(table: pa.Table, type_info: TypeInformation, where: str) -> pa.Array:
    """Returns the column of elements in the declared type, as far as stored types may evolve. Raises ``SchemaMismatch``."""
    plan = evolve(table.schema, pa.schema([type_info.arrow_field(ELEMENT)]))
    if isinstance(plan, Refusal):
        raise SchemaMismatch(
            f"{where} cannot be restored: {'; '.join(plan.reasons)}. Keep the type, or give the state another name"
        )
    column = _one_array(table)
    return plan.apply(pa.RecordBatch.from_arrays([column], schema=table.schema)).column(ELEMENT)


def _one_array(table: pa.Table) -> pa.Array:
    column = table.column(ELEMENT).combine_chunks()
    return column if isinstance(column, pa.Array) else pa.concat_arrays(column.chunks)
