"""Computes the keys of records by a selector, in the same way before an exchange and after it.

    records ─▶ selector ─▶ the key's type, if it has one: 1 of a DOUBLE is 1.0, a FLOAT is rounded ─▶ keys

Laws: a key is converted to its declared type once, before it is hashed. A key without a declared type is computed from the record as its consumer sees it
(``survives`` tells whether the producer's record equals that).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tidegate.common.row import Row
from tidegate.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    PickledBytesTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from tidegate.model.program import KeySpec
from tidegate.model.values import FieldValue, Key, Record
from tidegate.records.record_check import looks_fit
from tidegate.records.record_codec import decode_column, encode_column
from tidegate.taskmanager.operators.operator import OperatorContext
from tidegate.taskmanager.operators.user_code.boundary import (
    Blamed,
    FunctionContext,
    close_function,
    open_function,
    user_error,
)

_EXACT = frozenset(
    {BasicType.STRING, BasicType.BOOLEAN, BasicType.BYTE, BasicType.SHORT, BasicType.INT, BasicType.LONG}
)
"""Types whose values a column returns unchanged, or refuses."""


class KeyFunction:
    """Computes keys by the selector of a ``KeySpec``. ``where``: its name in errors."""

    def __init__(self, spec: KeySpec, where: str) -> None:
        self._select: Callable[[Record], Key] = spec.selector
        self._where = where
        self._type: TypeInformation | None = None if isinstance(spec.key_type, PickledBytesTypeInfo) else spec.key_type
        self._looks_fit = looks_fit(spec.key_type) if self._type is not None and _is_exact(spec.key_type) else None
        """Tells whether all keys fit their type; set for types whose values a column returns unchanged."""
        self._function = getattr(spec.selector, "selector", None)
        """The user's ``KeySelector``, if it is one."""

    def open(self, context: OperatorContext) -> None:
        open_function(self._function, context, FunctionContext(context))

    def close(self) -> None:
        close_function(self._function, self._where)

    def keys_of(self, values: Sequence[Record]) -> list[Key]:
        """Returns the keys of records. Raises ``UserFunctionError``, and ``SchemaMismatch`` for a key that does not fit its type."""
        taken = Blamed(values)
        try:
            keys = list(map(self._select, taken))
        except Exception as error:
            raise user_error(self._where, error, *taken.record()) from error
        if self._type is None or (self._looks_fit is not None and self._looks_fit(keys)):
            return keys
        return decode_column(self._type, encode_column(self._type, keys, self._where))


def survives(type_info: TypeInformation, values: Sequence[Record]) -> bool:
    """Tells whether records of this type are certain to be unchanged, in value and Python type, after conversion to columns and back."""
    if isinstance(type_info, (RowTypeInfo, TupleTypeInfo)):
        if not set(map(type, values)) <= {tuple, list, Row}:
            return False
        for position, field in enumerate(type_info.get_field_types()):
            if not _has_floats(field):
                continue
            if not _is_double(field) or not _are_floats(value[position] for value in values):
                return False
        return True
    return not _has_floats(type_info) or (_is_double(type_info) and _are_floats(values))


def _are_floats(values: Iterable[FieldValue]) -> bool:
    return set(map(type, values)) <= {float, type(None)}


def _is_double(type_info: TypeInformation) -> bool:
    return isinstance(type_info, BasicTypeInfo) and type_info.basic_type is BasicType.DOUBLE


def _is_exact(type_info: TypeInformation) -> bool:
    if type_info is None or isinstance(type_info, PickledBytesTypeInfo):
        return True
    return isinstance(type_info, BasicTypeInfo) and type_info.basic_type in _EXACT


def _has_floats(type_info: TypeInformation) -> bool:
    """Tells whether a type contains a FLOAT or DOUBLE, at any depth."""
    if isinstance(type_info, BasicTypeInfo):
        return type_info.basic_type in (BasicType.FLOAT, BasicType.DOUBLE)
    if isinstance(type_info, (RowTypeInfo, TupleTypeInfo)):
        return any(_has_floats(field) for field in type_info.get_field_types())
    return not (type_info is None or isinstance(type_info, PickledBytesTypeInfo)) and _mentions_floats(type_info)


def _mentions_floats(type_info: TypeInformation) -> bool:
    kind = str(type_info.arrow_type())
    return "float" in kind or "double" in kind
