"""Checks fast, without building columns, whether records fit their type: for records that are passed unchanged between chained functions.

    values ─▶ looks_fit? ─ yes ─▶ on
                 └──────── perhaps not ─▶ ``record_codec.encode``, which is the judge and names field and value

Law: what looks fit is never refused by ``encode``, but for what only the bytes tell (a lone surrogate in a text); what does
not look fit may still be (a number of numpy, say). Work goes column by column, with a few calls for each.
"""

from __future__ import annotations

import datetime
import decimal
from array import array
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain

from tidegate.model.values import FieldValue
from tidegate.records.row import Row
from tidegate.records.time import Instant
from tidegate.records.type_information import (
    BasicType,
    BasicTypeInfo,
    DecimalTypeInfo,
    MapTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    SqlTimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)

LooksFit = Callable[[Sequence[FieldValue]], bool]

_NONE = type(None)
_ARRAY_CODES = {BasicType.BYTE: "b", BasicType.SHORT: "h", BasicType.INT: "i", BasicType.LONG: "q"}
"""Type codes of ``array.array``, which refuses values out of range."""
_EXACT_IN_DOUBLE = 2**53
_CLASSES: dict[BasicType, type] = {
    BasicType.STRING: str,
    BasicType.CHAR: str,
    BasicType.BOOLEAN: bool,
    BasicType.FLOAT: float,
}
_BIG: dict[BasicType, type] = {BasicType.BIG_INT: int, BasicType.BIG_DEC: decimal.Decimal}
_BIG_BOUND = 10**18
_BIG_DIGITS = 18
"""The most digits of a big number, and of its fraction, that are accepted without a closer check."""
_TIMES: dict[str, type] = {"Date": datetime.date, "Time": datetime.time, "Timestamp": datetime.datetime}


@lru_cache(maxsize=512)
def looks_fit(type_info: TypeInformation) -> LooksFit | None:
    """Returns the fast check of a type; ``None`` for a type that accepts every value, or that only ``encode`` can check."""
    if isinstance(type_info, (RowTypeInfo, TupleTypeInfo)):
        return _rows(type_info)
    if isinstance(type_info, MapTypeInfo):
        return _maps(type_info)
    if isinstance(type_info, DecimalTypeInfo):
        return None
    if isinstance(type_info, BasicTypeInfo):
        return _basic(type_info.basic_type)
    if isinstance(type_info, SqlTimeTypeInfo):
        return _times(_TIMES[type_info.kind])
    if isinstance(type_info, PrimitiveArrayTypeInfo) and type_info.element_type == BasicTypeInfo.BYTE_TYPE_INFO():
        return _only(bytes, bytearray)
    element_type = getattr(type_info, "element_type", None)
    return None if element_type is None else _lists(element_type)


def _basic(kind: BasicType) -> LooksFit:
    if kind in _ARRAY_CODES:
        return _integers(_ARRAY_CODES[kind])
    if kind in _BIG:
        return _big_numbers(_BIG[kind])
    if kind is BasicType.DOUBLE:
        return _doubles
    return _instants if kind is BasicType.INSTANT else _only(_CLASSES[kind])


def _only(*classes: type) -> LooksFit:
    allowed = frozenset({*classes, _NONE})
    return lambda values: allowed.issuperset(map(type, values))


def _integers(code: str) -> LooksFit:
    only, allowed = frozenset({int}), frozenset({int, _NONE})

    def fit(values: Sequence[FieldValue]) -> bool:
        kinds = set(map(type, values))
        if not kinds <= only:
            if not kinds <= allowed:
                return False
            values = [value for value in values if value is not None]
        try:
            array(code, values)
        except OverflowError:
            return False
        return True

    return fit


def _doubles(values: Sequence[FieldValue]) -> bool:
    kinds = set(map(type, values))
    if kinds <= {float, _NONE}:
        return True
    return kinds <= {float, int, _NONE} and all(
        abs(value) <= _EXACT_IN_DOUBLE for value in values if value.__class__ is int
    )


def _big_numbers(kind: type[FieldValue]) -> LooksFit:
    def fits(value: FieldValue) -> bool:
        if value.__class__ is not kind or not -_BIG_BOUND < value < _BIG_BOUND:
            return False
        return value.__class__ is int or value.as_tuple().exponent >= -_BIG_DIGITS

    return lambda values: all(value is None or fits(value) for value in values)


def _times(kind: type) -> LooksFit:
    """Returns the check of dates or times without a zone; a ``datetime`` is not a date."""
    return lambda values: all(
        value is None or (value.__class__ is kind and getattr(value, "tzinfo", None) is None) for value in values
    )


def _instants(values: Sequence[FieldValue]) -> bool:
    return all(value is None or (value.__class__ is Instant and value.nanos % 1000 == 0) for value in values)


def _lists(element_type: TypeInformation) -> LooksFit | None:
    elements = looks_fit(element_type)
    if elements is None:
        return None

    def fit(values: Sequence[FieldValue]) -> bool:
        if not set(map(type, values)) <= {list, tuple, _NONE}:
            return False
        return elements(list(chain.from_iterable(value for value in values if value is not None)))

    return fit


def _maps(type_info: MapTypeInfo) -> LooksFit | None:
    keys, items = looks_fit(type_info.key_type), looks_fit(type_info.value_type)

    def fit(values: Sequence[FieldValue]) -> bool:
        if not set(map(type, values)) <= {dict, _NONE}:
            return False
        found = [value for value in values if value is not None]
        if keys is not None and not keys(list(chain.from_iterable(found))):
            return False
        return items is None or items(list(chain.from_iterable(value.values() for value in found)))

    return fit


def _rows(type_info: RowTypeInfo | TupleTypeInfo) -> LooksFit:
    checks = [(i, check) for i, t in enumerate(type_info.get_field_types()) if (check := looks_fit(t)) is not None]
    width = len(type_info.get_field_types())
    names = type_info.get_field_names() if isinstance(type_info, RowTypeInfo) and type_info.is_named else None

    def fit(values: Sequence[FieldValue]) -> bool:
        kinds = set(map(type, values))
        if kinds == {Row}:
            if names is not None and any(row.given_names not in (None, names) for row in values):
                return False
            values = [row._values for row in values]
        elif kinds != {tuple}:
            return False
        try:
            columns = list(zip(*values, strict=True))
        except ValueError:  # of several lengths
            return False
        return len(columns) == width and all(check(columns[position]) for position, check in checks)

    return fit
