"""PyFlink's internal form of values, for Python code that calls ``to_internal_type`` and ``from_internal_type`` directly.

| type                      | internal form                                       |
|---------------------------|-----------------------------------------------------|
| date                      | days since the epoch                                |
| time, timestamp           | microseconds since midnight, since the epoch (in UTC; PyFlink: in the machine's zone) |
| instant                   | microseconds since the epoch                        |
| row                       | tuple: number of the kind, then the fields          |
| tuple                     | tuple of the fields                                 |
| everything else           | the value                                           |

Nothing in tidegate stores or sends values in it: records travel as Arrow columns.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from tidegate.model.values import FieldValue
from tidegate.records.row import Row, RowKind
from tidegate.records.time import Instant

_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)
_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()


def to_internal(kind: Any, value: FieldValue) -> FieldValue:
    """Converts a value to PyFlink's internal form. ``kind``: its TypeInformation. Raises ``ValueError`` for a value that is not a row or tuple where
    the type is one."""
    if value is None or not kind.need_conversion():
        return value
    match kind.__class__.__name__:
        case "RowTypeInfo":
            return _row(kind, value)
        case "TupleTypeInfo":
            if not isinstance(value, (list, tuple, Row)):
                raise ValueError(f"Unexpected tuple {value!r} with TupleTypeInfo")
            return _fields(kind, value)
        case "SqlTimeTypeInfo":
            return _sql_time(kind.kind, value)
        case _:
            return value.to_epoch_milli() * 1000


def from_internal(kind: Any, value: FieldValue) -> FieldValue:
    """Converts a value from PyFlink's internal form to the form that functions see."""
    if value is None or not kind.need_conversion():
        return value
    match kind.__class__.__name__:
        case "RowTypeInfo" | "TupleTypeInfo":
            return value
        case "SqlTimeTypeInfo":
            return _from_sql_time(kind.kind, value)
        case _:
            return Instant.of_epoch_milli(value // 1000)


def _row(kind: Any, value: FieldValue) -> tuple[FieldValue, ...]:
    names = kind.get_field_names()
    if isinstance(value, Row):
        fields = list(value) if value.given_names is None else value.get_fields_by_names(names)
        return (value.get_row_kind().value, *_fields(kind, fields))
    if isinstance(value, dict):
        return (RowKind.INSERT.value, *_fields(kind, [value.get(name) for name in names]))
    if isinstance(value, (tuple, list)):
        return (RowKind.INSERT.value, *_fields(kind, value))
    if hasattr(value, "__dict__"):
        return (RowKind.INSERT.value, *_fields(kind, [vars(value).get(name) for name in names]))
    raise ValueError(f"Unexpected tuple {value!r} with RowTypeInfo")


def _fields(kind: Any, values: FieldValue) -> tuple[FieldValue, ...]:
    return tuple(to_internal(field, value) for field, value in zip(kind.get_field_types(), values, strict=False))


def _sql_time(kind: str, value: FieldValue) -> int:
    if kind == "Date":
        return int(value.toordinal()) - _EPOCH_DAY
    if kind == "Time":
        return int(((value.hour * 60 + value.minute) * 60 + value.second) * 10**6 + value.microsecond)
    in_utc = value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
    return int((in_utc - _EPOCH) // _MICROSECOND)


def _from_sql_time(kind: str, value: int) -> dt.date | dt.time:
    if kind == "Date":
        return dt.date.fromordinal(value + _EPOCH_DAY)
    if kind == "Time":
        seconds, micros = divmod(value, 10**6)
        return dt.time(seconds // 3600, seconds // 60 % 60, seconds % 60, micros)
    return _EPOCH + dt.timedelta(microseconds=value)
