"""How the rows of one state look: what their keys are, and what is in them (the table in ``tables``)."""

from __future__ import annotations

from tidegate.common.typeinfo import ListTypeInfo, MapTypeInfo, TypeInformation, Types
from tidegate.model.values import Key, StateValue
from tidegate.records.canonical.forms import value_of
from tidegate.taskmanager.keyed_state.entry import Entry, Namespace
from tidegate.taskmanager.keyed_state.heap.entries import EntryFormat
from tidegate.taskmanager.keyed_state.rocksdb.database import Pair
from tidegate.taskmanager.keyed_state.rocksdb.keys import PREFIX_BYTES, decode_key, encode_key, place
from tidegate.taskmanager.keyed_state.rocksdb.values import STAMP_BYTES, decode, encoder_of, stamp, stamp_of

_NONE = encode_key(None)[0]
"""The form of no namespace."""
NUMBER_BYTES = 8
"""The number of a list's element: 64 bits, in order."""


class StateRows:
    """How the rows of one state look. Immutable but for ``namespaces``, the forms of namespaces seen so far."""

    def __init__(self, state_id: int, layout: EntryFormat) -> None:
        self.layout = layout
        self.prefix = place(state_id, 0)[:2]
        self.namespaces: set[int] = set()
        self.state_id = state_id
        self._encode = encoder_of(element_type_of(layout))
        self._is_stamped = layout.ttl is not None
        self.has_several = layout.is_list or layout.is_map
        """An entry may have several rows, or none."""
        self._last: Entry = (self, None)
        self._last_row = b""

    def entry(self, group: int, entry: Entry) -> bytes:
        """What all rows of an entry begin with."""
        key, space = entry
        if key is self._last[0] and space is self._last[1]:  # read, then written
            return self._last_row
        namespace = encode_key(space)
        self.namespaces.add(namespace[0])
        self._last = entry
        self._last_row = found = place(self.state_id, group) + encode_key(key) + namespace
        return found

    def key(self, group: int, key: Key) -> bytes:
        """What all rows of a key begin with."""
        return place(self.state_id, group) + encode_key(key)

    def namespace(self, row: bytes, at: int) -> Namespace:
        """The namespace that begins at ``at``."""
        return value_of(decode_key(row, at)[0])

    @property
    def may_have_none(self) -> bool:
        """Whether an entry without a namespace was met."""
        return _NONE in self.namespaces

    def parts(self, row: bytes) -> tuple[Key, Namespace, int]:
        """Key and namespace of a row, and where its entry ends."""
        key, at = decode_key(row, PREFIX_BYTES)
        namespace, end = decode_key(row, at)
        return key, value_of(namespace), end

    def start_of(self, row: bytes) -> bytes:
        """What all rows of a row's entry begin with."""
        return row[: self.parts(row)[2]] if self.has_several else row

    def pairs_of(self, start: bytes, value: StateValue) -> list[Pair]:
        """All rows of an entry, a list's numbered from 0 on. Raises ``NotSerializable``."""
        if self.layout.is_list:
            return [(start + i.to_bytes(NUMBER_BYTES, "big"), self.pack(element)) for i, element in enumerate(value)]
        if self.layout.is_map:
            return sorted((start + encode_key(key), self.pack(element)) for key, element in value.items())
        return [(start, self.pack(value))]

    def pack(self, value: StateValue) -> bytes:
        """Raises ``NotSerializable``."""
        return stamp(self._encode(value[0]), value[1]) if self._is_stamped else self._encode(value)

    def unpack(self, content: bytes) -> StateValue:
        if self._is_stamped:
            return decode(content[STAMP_BYTES:]), stamp_of(content)
        return decode(content)


def element_type_of(layout: EntryFormat) -> TypeInformation:
    """The type of what is in one row; a timer, which has no value, is there or not."""
    value_type = layout.value_type or Types.BOOLEAN()
    if layout.is_list and isinstance(value_type, ListTypeInfo):
        return value_type.element_type
    if layout.is_map and isinstance(value_type, MapTypeInfo):
        return value_type.value_type
    return value_type
