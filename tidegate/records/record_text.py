"""Formats a record as Flink prints it: ``(a,1)`` for a tuple, ``+I[a, 1]`` for a row, ``null``, ``true``, ``[1, 2]``, ``{k=v}``.

The type of the stream counts where the Python value alone does not tell what Java would print: a FLOAT is ``1.1`` and not
``1.100000023841858``, a DOUBLE ``1.0E10``, a timestamp ``2021-01-09 12:00:00.011``, a time of day has no fraction. Objects of unknown type are
printed as Python does, as in PyFlink.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from tidegate.model.values import FieldValue
from tidegate.records.arrow_type import ArrowTypeInfo
from tidegate.records.java_text import double_text, float_text
from tidegate.records.row import Row
from tidegate.records.table_type import TableTypeInfo, value_maker
from tidegate.records.type_information import (
    BasicType,
    BasicTypeInfo,
    MapTypeInfo,
    PickledBytesTypeInfo,
    RowTypeInfo,
    SqlTimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)

_Text = Callable[[FieldValue], str]


def record_text(value: FieldValue, type_info: TypeInformation) -> str:
    """Formats a record of this type as text."""
    return str(value) if isinstance(type_info, PickledBytesTypeInfo) else _text_of_type(type_info)(value)


def printed_text(value: FieldValue, type_info: TypeInformation) -> str:
    """Formats a record as ``print()`` does: PyFlink formats a row in Python, ``+I[a,1,None]``, and other records in Java
    (``DataStream._align_output_type``)."""
    if isinstance(value, Row) and isinstance(type_info, RowTypeInfo):
        return f"{value.get_row_kind()}[{','.join(map(str, value))}]"
    if isinstance(value, Row) and isinstance(type_info, ArrowTypeInfo):
        parts = [part if make is None else make(part) for part, make in zip(value, _makers(type_info), strict=False)]
        return f"{value.get_row_kind()}[{','.join(map(str, parts))}]"
    return record_text(value, type_info)


def text_of(value: FieldValue) -> str:
    """Formats a value as Flink prints it."""
    match value:
        case str():
            return value
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case Row():
            return f"{value.get_row_kind()}[{', '.join(map(text_of, value))}]"
        case tuple():
            return f"({','.join(map(text_of, value))})"
        case list():
            return f"[{', '.join(map(text_of, value))}]"
        case dict():
            return "{" + ", ".join(f"{text_of(k)}={text_of(v)}" for k, v in value.items()) + "}"
        case _:
            return str(value)


@lru_cache(maxsize=512)
def _makers(kind: ArrowTypeInfo) -> list[Callable[[Any], FieldValue] | None]:
    """Returns the conversions of a row's column values to PyFlink's values; ``None`` for columns without one, such as those of tables."""
    if isinstance(kind, TableTypeInfo):
        return [None] * len(kind.schema)
    return [value_maker(field.type) for field in kind.schema]


@lru_cache(maxsize=512)
def _text_of_type(kind: TypeInformation) -> _Text:
    """Returns the function that formats values of a type: ``text_of`` itself, unless a part of the type has a format of its own."""
    match kind:
        case BasicTypeInfo() if kind.basic_type is BasicType.FLOAT:
            return _float_text
        case BasicTypeInfo() if kind.basic_type is BasicType.DOUBLE:
            return _double_text
        case SqlTimeTypeInfo():
            return _time_text
        case RowTypeInfo() | TupleTypeInfo():
            return _fields_text([_text_of_type(field) for field in kind.get_field_types()])
        case MapTypeInfo():
            return _map_text(_text_of_type(kind.key_type), _text_of_type(kind.value_type))
    element = getattr(kind, "element_type", None)
    return text_of if element is None else _list_text(_text_of_type(element))


def _float_text(value: FieldValue) -> str:
    return float_text(value) if value.__class__ is float else text_of(value)


def _double_text(value: FieldValue) -> str:
    return double_text(value) if value.__class__ is float else text_of(value)


def _time_text(value: FieldValue) -> str:
    match value:
        case datetime.datetime():
            fraction = f"{value.microsecond:06d}".rstrip("0") or "0"
            return f"{value.isoformat(sep=' ', timespec='seconds')}.{fraction}"
        case datetime.time():
            return f"{value:%H:%M:%S}"
        case _:
            return text_of(value)


def _fields_text(parts: list[_Text]) -> _Text:
    if all(part is text_of for part in parts):
        return text_of

    def text(value: FieldValue) -> str:
        if not isinstance(value, (Row, tuple)) or len(value) != len(parts):
            return text_of(value)
        texts = [part(field) for part, field in zip(parts, value, strict=True)]
        return f"{value.get_row_kind()}[{', '.join(texts)}]" if isinstance(value, Row) else f"({','.join(texts)})"

    return text


def _list_text(element: _Text) -> _Text:
    if element is text_of:
        return text_of
    return lambda value: f"[{', '.join(map(element, value))}]" if isinstance(value, (list, tuple)) else text_of(value)


def _map_text(key: _Text, item: _Text) -> _Text:
    if key is text_of and item is text_of:
        return text_of

    def text(value: FieldValue) -> str:
        if not isinstance(value, dict):
            return text_of(value)
        return "{" + ", ".join(f"{key(k)}={item(v)}" for k, v in value.items()) + "}"

    return text


class RecordText:
    """Formats the records of a stream as text."""

    def __init__(self, type_info: TypeInformation) -> None:
        self.type_info = type_info

    def __call__(self, value: FieldValue) -> str:
        return record_text(value, self.type_info)
