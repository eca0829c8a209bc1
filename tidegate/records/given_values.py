"""Converts a program's values to their declared type as Flink does (``from_collection``), also within rows, tuples, maps, lists and arrays.

    STRING      ◀─ bool, int, float, Decimal   as Java writes them: ``true``, ``1``, ``1.0E10``, ``1.50``
    SQL_DATE    ◀─ datetime                    its date
    SQL_TIME    ◀─ datetime                    its time, in milliseconds
    ROW         ◀─ dict                        by the names of the fields; one that it lacks is ``None``
                   another object              by its attributes, if it has all

Law: everything else stays as it is, and ``record_codec.encode`` judges it. Flink makes nonsense of some of it, without a word: the
address of a list where a text is declared, the lowest bits of a number that is too large, ``None`` of a field of another type.

(PyFlink: ``TypeInformation.to_internal_type``, and ``PythonTypeUtils.TypeInfoToDataConverter`` of its Java side, as
``tests/contract/pyflink`` has recorded them.)
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import lru_cache

from tidegate.model.values import FieldValue, Record
from tidegate.records.column_codec import Misfit, attributes_of
from tidegate.records.java_text import double_text
from tidegate.records.record_check import looks_fit
from tidegate.records.row import Row, make_row
from tidegate.records.type_information import (
    BasicType,
    BasicTypeInfo,
    MapTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    SqlTimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)

_Turn = Callable[[FieldValue], FieldValue]


def as_declared(type_info: TypeInformation, values: Sequence[Record]) -> Sequence[Record]:
    """Converts the values that Flink converts to the declared type; returns the same objects where nothing changes."""
    fit, turn = looks_fit(type_info), _turn_of(type_info)
    if turn is None or (fit is not None and fit(values)):
        return values
    return [turn(value) for value in values]


@lru_cache(maxsize=512)
def _turn_of(type_info: TypeInformation) -> _Turn | None:
    """Returns the conversion of values to a type; ``None`` when no other value converts to it."""
    if isinstance(type_info, BasicTypeInfo):
        return _text if type_info.basic_type is BasicType.STRING else None
    if isinstance(type_info, SqlTimeTypeInfo):
        return {"Date": _date, "Time": _time}.get(type_info.kind)
    if isinstance(type_info, RowTypeInfo):
        return _row(type_info)
    if isinstance(type_info, TupleTypeInfo):
        return _fields([_turn_of(field) for field in type_info.get_field_types()])
    if isinstance(type_info, MapTypeInfo):
        return _entries(_turn_of(type_info.key_type), _turn_of(type_info.value_type))
    element_type = getattr(type_info, "element_type", None)
    if element_type is None or isinstance(type_info, PrimitiveArrayTypeInfo):
        return None
    return _elements(_turn_of(element_type))


def _text(value: FieldValue) -> FieldValue:
    kind = value.__class__
    if kind is bool:
        return "true" if value else "false"
    if kind is float:
        return double_text(value)
    return str(value) if kind is int or (kind is Decimal and value.is_finite()) else value


def _date(value: FieldValue) -> FieldValue:
    return value.date() if value.__class__ is datetime.datetime and value.tzinfo is None else value


def _time(value: FieldValue) -> FieldValue:
    if value.__class__ is not datetime.datetime or value.tzinfo is not None:
        return value
    return value.time().replace(microsecond=value.microsecond // 1000 * 1000)


def _elements(turn: _Turn | None) -> _Turn | None:
    if turn is None:
        return None
    return lambda value: [turn(element) for element in value] if isinstance(value, (list, tuple)) else value


def _entries(key: _Turn | None, item: _Turn | None) -> _Turn | None:
    if key is None and item is None:
        return None

    def turned(value: FieldValue) -> FieldValue:
        if not isinstance(value, dict):
            return value
        return {k if key is None else key(k): v if item is None else item(v) for k, v in value.items()}

    return turned


def _fields(turns: Sequence[_Turn | None]) -> _Turn | None:
    if not any(turns):
        return None

    def turned(value: FieldValue) -> FieldValue:
        if isinstance(value, Row):
            return make_row(value._fields, _each(value._values), value.get_row_kind())
        return tuple(_each(value)) if isinstance(value, (tuple, list)) else value

    def _each(values: Sequence[FieldValue]) -> list[FieldValue]:
        if len(values) != len(turns):
            return list(values)
        return [value if turn is None else turn(value) for value, turn in zip(values, turns, strict=True)]

    return turned


def _row(type_info: RowTypeInfo) -> _Turn:
    names = type_info.get_field_names()
    turns = [_turn_of(field) for field in type_info.get_field_types()]
    by_position = _fields(turns)

    def turned(value: FieldValue) -> FieldValue:
        if isinstance(value, dict) and value.keys() <= set(names):
            value = make_row(None, [value.get(name) for name in names])
        elif isinstance(value, Row) and type_info.is_named and value.given_names not in (None, names):
            if sorted(value.given_names or ()) != sorted(names):
                return value
            value = make_row(names, value.get_fields_by_names(names), value.get_row_kind())
        elif by_position is not None and type_info.is_named and not isinstance(value, (Row, tuple, list)):
            with contextlib.suppress(Misfit):  # it is no object with these attributes
                value = make_row(None, attributes_of(value, names))
        return value if by_position is None else by_position(value)

    return turned
