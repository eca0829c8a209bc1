"""Converts the keys of map state from what user code passes to the declared key type and the canonical form.

key ─▶ the map's key type, if it has one: 1.0 of a LONG is 1 ─▶ canonical form ─▶ cells, broadcast state
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping

from tidegate.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    PickledBytesTypeInfo,
    SqlTimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from tidegate.model.errors import InvalidJob, NotSerializable
from tidegate.model.values import FieldValue, Key, MapKey, StateValue
from tidegate.records.canonical.forms import PLAIN, EncodedKey, canonical_key
from tidegate.records.record_codec import decode_column, encode_column

_CLASSES: Mapping[BasicType, type] = {
    BasicType.STRING: str,
    BasicType.BOOLEAN: bool,
    BasicType.BYTE: int,
    BasicType.SHORT: int,
    BasicType.INT: int,
    BasicType.LONG: int,
    BasicType.BIG_INT: int,
    BasicType.DOUBLE: float,
}
"""For each type, the class whose values a column of the type returns unchanged, or refuses."""


def comes_back(type_info: TypeInformation) -> Callable[[FieldValue], bool]:
    """Returns a function that tells whether a column of the type surely returns a value unchanged, or refuses it."""
    if isinstance(type_info, TupleTypeInfo):
        fields = [comes_back(field) for field in type_info.get_field_types()]
        return lambda value: (
            value.__class__ is tuple
            and len(value) == len(fields)
            and all(fits(part) for fits, part in zip(fields, value, strict=True))
        )
    only = _class_of(type_info)
    return lambda value: value.__class__ is only


def _class_of(type_info: TypeInformation) -> type | None:
    if isinstance(type_info, SqlTimeTypeInfo):
        return datetime.date if type_info.kind == "Date" else None
    return _CLASSES.get(type_info.basic_type) if isinstance(type_info, BasicTypeInfo) else None


class MapKeys:
    """Converts keys of one map state. ``where``: operator and state, for messages. ``plain``: classes whose keys are canonical as they are."""

    def __init__(self, key_type: TypeInformation, where: str) -> None:
        self._type = None if isinstance(key_type, PickledBytesTypeInfo) else key_type
        self._comes_back = comes_back(key_type)
        self._where = where
        self.plain = (PLAIN if self._type is None else PLAIN & {_class_of(key_type)}) | {EncodedKey}

    def form(self, key: MapKey) -> Key:
        """Returns the canonical form of a key. Raises ``SchemaMismatch`` for a key that does not fit its type, and ``InvalidJob`` or ``NotSerializable`` for a
        value that cannot be a key.
        """
        if key.__class__ in self.plain:
            return key
        try:
            if self._type is not None and not self._comes_back(key):
                (key,) = decode_column(self._type, encode_column(self._type, [key], f"{self._where}, key"))
            return canonical_key(key)
        except (InvalidJob, NotSerializable) as error:
            raise type(error)(f"{self._where}: {error.message}") from error

    def forms(self, items: Mapping[MapKey, StateValue] | Iterable[tuple[MapKey, StateValue]]) -> dict[Key, StateValue]:
        """Returns the entries with their keys in canonical form."""
        return {self.form(key): value for key, value in (items.items() if isinstance(items, Mapping) else items)}
