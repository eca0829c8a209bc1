"""The format of the rows of one state: their keys and contents (the table in ``tables``)."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.common.typeinfo import ListTypeInfo, MapTypeInfo, TypeInformation, Types
from tidegate.model.values import Key, StateValue
from tidegate.records.canonical.forms import value_of
from tidegate.taskmanager.keyed_state.entry import Entry, Namespace
from tidegate.taskmanager.keyed_state.heap.entries import EntryFormat
from tidegate.taskmanager.keyed_state.rocksdb.database import Pair
from tidegate.taskmanager.keyed_state.rocksdb.keys import PREFIX_BYTES, decode_key, encode_key, integer_rows, place
from tidegate.taskmanager.keyed_state.rocksdb.values import STAMP_BYTES, decode, encoder_of, stamp, stamp_of

_NONE = encode_key(None)[0]
"""The first byte of a missing namespace."""
NUMBER_BYTES = 8
"""The number of bytes of a list element's number, in the order of the numbers."""


class StateRows:
    """The format of the rows of one state. Immutable but for ``namespaces``, the forms of the namespaces that occurred."""

    def __init__(self, state_id: int, layout: EntryFormat) -> None:
        self.layout = layout
        self.prefix = place(state_id, 0)[:2]
        self.namespaces: set[int] = set()
        self.state_id = state_id
        self._encode = encoder_of(element_type_of(layout))
        self._is_stamped = layout.ttl is not None
        self.has_several = layout.is_list or layout.is_map
        """Whether an entry may have several rows, or none."""
        self._last: Entry = (self, None)
        self._last_group = 0
        self._last_row = b""
        self._last_entries: tuple[Sequence[Entry], Sequence[bytes]] = (), ()

    def entry(self, group: int, entry: Entry) -> bytes:
        """Returns the row-key prefix of an entry."""
        key, space = entry
        if key is self._last[0] and space is self._last[1] and group == self._last_group:  # read, then written
            return self._last_row
        namespace = encode_key(space)
        self.namespaces.add(namespace[0])
        self._last, self._last_group = entry, group
        self._last_row = found = place(self.state_id, group) + encode_key(key) + namespace
        return found

    def entries(self, groups: Sequence[int], entries: Sequence[Entry]) -> Sequence[bytes]:
        """Returns the row-key prefix of each entry, which are those of ``entry``."""
        if entries is self._last_entries[0]:  # read, then written
            return self._last_entries[1]
        found: Sequence[bytes] | None = None
        if all(space is None for _, space in entries):
            found = integer_rows(self.state_id, groups, [key for key, _ in entries])
        if found is None:
            found = [self.entry(group, entry) for group, entry in zip(groups, entries, strict=True)]
        elif found:
            self.namespaces.add(_NONE)
        self._last_entries = entries, found
        return found

    def key(self, group: int, key: Key) -> bytes:
        """Returns the row-key prefix of a key."""
        return place(self.state_id, group) + encode_key(key)

    def namespace(self, row: bytes, at: int) -> Namespace:
        """Returns the namespace that begins at ``at`` in a row key."""
        return value_of(decode_key(row, at)[0])

    @property
    def may_have_none(self) -> bool:
        """Whether an entry without a namespace occurred."""
        return _NONE in self.namespaces

    def parts(self, row: bytes) -> tuple[Key, Namespace, int]:
        """Returns key and namespace of a row, and where its entry ends."""
        key, at = decode_key(row, PREFIX_BYTES)
        namespace, end = decode_key(row, at)
        return key, value_of(namespace), end

    def start_of(self, row: bytes) -> bytes:
        """Returns the row-key prefix of a row's entry."""
        return row[: self.parts(row)[2]] if self.has_several else row

    def pairs_of(self, start: bytes, value: StateValue) -> list[Pair]:
        """Returns the RocksDB rows (key and content) that store the value of an entry: one for each element of a list or of a map, else a
        single one. ``start``: the row-key prefix of the entry. List elements are numbered from 0. Raises ``NotSerializable``.
        """
        if self.layout.is_list:
            return [(start + i.to_bytes(NUMBER_BYTES, "big"), self.pack(element)) for i, element in enumerate(value)]
        if self.layout.is_map:
            return sorted((start + encode_key(key), self.pack(element)) for key, element in value.items())
        return [(start, self.pack(value))]

    def pack(self, value: StateValue) -> bytes:
        """Encodes a value as the content of a row. Raises ``NotSerializable``."""
        return stamp(self._encode(value[0]), value[1]) if self._is_stamped else self._encode(value)

    def unpack(self, content: bytes) -> StateValue:
        if self._is_stamped:
            return decode(content[STAMP_BYTES:]), stamp_of(content)
        return decode(content)


def element_type_of(layout: EntryFormat) -> TypeInformation:
    """Returns the type of the content of one row. A timer, which has no value, counts as a boolean."""
    value_type = layout.value_type or Types.BOOLEAN()
    if layout.is_list and isinstance(value_type, ListTypeInfo):
        return value_type.element_type
    if layout.is_map and isinstance(value_type, MapTypeInfo):
        return value_type.value_type
    return value_type
