"""`TableTypeInfo`: the type of a stream of rows from a table, with PyFlink's Python values.

| column                              | value                                                      |
|-------------------------------------|------------------------------------------------------------|
| TIMESTAMP_LTZ                       | ``Instant``                                                |
| TIMESTAMP                           | ``datetime`` without a zone, to the microsecond            |
| ROW, MAP and MULTISET, ARRAY        | ``Row`` with its names, ``dict``, ``list``                 |
| a struct that is a tuple in Flink   | ``tuple``                                                  |
| RAW                                 | the object; for ``Types.BIG_INT()`` an ``int``             |
| everything else                     | as in a columnar stream                                    |
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from tidegate.model.values import FieldValue
from tidegate.records.arrow_type import ArrowTypeInfo
from tidegate.records.column_codec import (
    Decoder,
    Encoder,
    Misfit,
    attributes_of,
    decode_big_integers,
    encode_big_integers,
    leaf_codec,
    pickle_column,
    unpickle_column,
)
from tidegate.records.row import Row, make_row
from tidegate.records.time import Instant
from tidegate.records.type_information import PICKLED_METADATA

TUPLE_METADATA = {b"tidegate.tuple": b"1"}
"""Metadata of an Arrow field whose structs are tuples."""
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
"""How many of each unit are in a second."""
_NANOS = 10**9
"""The nanoseconds of a second: a conversion."""
_Make = Callable[[Any], FieldValue]


class TableTypeInfo(ArrowTypeInfo):
    """The type of a table's rows as records of a stream (Flink: ``ExternalTypeInfo``). ``columns``: Flink's types of the columns without the row kind;
    types whose columns have the same Arrow types are equal."""

    def __init__(self, schema: pa.Schema, columns: Sequence[str]) -> None:
        super().__init__(schema)
        self.columns = tuple(columns)

    def __repr__(self) -> str:
        return f"TableTypeInfo({', '.join(f'{f.name}: {f.type}' for f in self.schema)})"


def table_codec(field: pa.Field) -> tuple[Encoder, Decoder]:
    """Returns the encoder and decoder of a column of a table's rows."""
    kind = field.type
    if field.metadata == PICKLED_METADATA:
        return pickle_column, unpickle_column
    if pa.types.is_decimal256(kind):
        return encode_big_integers, decode_big_integers
    if pa.types.is_timestamp(kind):
        if kind.tz is not None:
            return partial(_encode, kind), partial(_decode_instants, _UNITS[kind.unit])
        encode, decode = leaf_codec(kind)
        return encode, _decode_date_times if kind.unit == "ns" else decode
    if not pa.types.is_nested(kind):
        return leaf_codec(kind)
    make = value_maker(kind)
    if field.metadata == TUPLE_METADATA and make is not None:
        return partial(_encode, kind), partial(_decode_tuples, make)
    return partial(_encode, kind), partial(_decode_nested, make)


def value_maker(kind: pa.DataType) -> _Make | None:
    """Returns the conversion of Arrow's Python value of a column to PyFlink's value; ``None`` when they are the same."""
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        makers = [value_maker(field.type) or _same for field in kind]
        return _of_any(
            lambda value: make_row(names, [make(value[name]) for name, make in zip(names, makers, strict=True)])
        )
    if pa.types.is_map(kind):
        key, item = value_maker(kind.key_type) or _same, value_maker(kind.item_type) or _same
        return _of_any(
            lambda value: {key(k): item(v) for k, v in (value.items() if isinstance(value, dict) else value)}
        )
    if pa.types.is_list(kind):
        element = value_maker(kind.value_type)
        return None if element is None else _of_any(lambda value: [element(part) for part in value])
    if pa.types.is_timestamp(kind):
        if kind.tz is not None:
            return _of_any(_instant)
        return _of_any(_date_time) if kind.unit == "ns" else None
    return None


def _instant(value: datetime.datetime) -> Instant:
    since = value - _EPOCH
    return Instant(since.days * 86400 + since.seconds, since.microseconds * 1000 + getattr(value, "nanosecond", 0))


def _date_time(value: Any) -> datetime.datetime:
    """Converts pandas timestamps to ``datetime``, without the nanoseconds, which it does not have."""
    made: datetime.datetime = value.to_pydatetime(warn=False) if hasattr(value, "to_pydatetime") else value
    return made


def _of_any(make: _Make) -> _Make:
    return lambda value: None if value is None else make(value)


def _same(value: FieldValue) -> FieldValue:
    return value


def _decode_instants(per_second: int, column: pa.Array) -> list[FieldValue]:
    nanos = _NANOS // per_second
    return [
        None if count is None else Instant(count // per_second, count % per_second * nanos)
        for count in column.cast(pa.int64()).to_pylist()
    ]


def _decode_date_times(column: pa.Array) -> list[FieldValue]:
    return list(column.cast(pa.timestamp("us"), safe=False).to_pylist())


def _decode_nested(make: _Make | None, column: pa.Array) -> list[FieldValue]:
    values: list[FieldValue] = column.to_pylist()
    return values if make is None else [make(value) for value in values]


def _decode_tuples(make: _Make, column: pa.Array) -> list[FieldValue]:
    return [None if value is None else tuple(value) for value in _decode_nested(make, column)]


def _encode(kind: pa.DataType, values: Sequence[FieldValue]) -> pa.Array:
    plain = _plain_maker(kind) or _same
    return pa.array([plain(value) for value in values], kind)


def _plain_maker(kind: pa.DataType) -> _Make | None:
    """Returns the conversion of PyFlink's value of a column to one that Arrow accepts; ``None`` when they are the same."""
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        makers = [_plain_maker(field.type) or _same for field in kind]
        return _of_any(lambda value: _struct(value, names, makers))
    if pa.types.is_map(kind):
        key, item = _plain_maker(kind.key_type) or _same, _plain_maker(kind.item_type) or _same
        return _of_any(
            lambda value: [(key(k), item(v)) for k, v in (value.items() if isinstance(value, dict) else value)]
        )
    if pa.types.is_list(kind):
        element = _plain_maker(kind.value_type)
        return None if element is None else _of_any(lambda value: [element(part) for part in value])
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return partial(_count, _UNITS[kind.unit])
    return None


def _struct(value: FieldValue, names: list[str], makers: list[_Make]) -> dict[str, FieldValue]:
    """Returns a nested row as a dict by field name: from a row or dict by its names, where it has all of them, or by position, or from an object with
    such attributes. Raises ``Misfit``."""
    if isinstance(value, Row):
        by_name = value.given_names is not None and set(value.given_names) == set(names)
        fields = value.get_fields_by_names(names) if by_name else list(value)
    elif isinstance(value, dict):
        fields = [value[name] for name in names] if set(value) == set(names) else list(value.values())
    else:
        fields = list(value) if isinstance(value, (tuple, list)) else attributes_of(value, names)
    if len(fields) != len(names):
        raise Misfit(value, f"it has {len(fields)} fields, not {len(names)} ({', '.join(names)})")
    return {name: make(field) for name, make, field in zip(names, makers, fields, strict=True)}


def _count(per_second: int, value: FieldValue) -> FieldValue:
    """Converts an ``Instant`` to the count of a timestamp column. Raises ``Misfit`` for one that is finer than the column."""
    if not isinstance(value, Instant):
        return value
    parts, rest = divmod(value.nanos * per_second, _NANOS)
    if rest:
        raise Misfit(value, f"instants of this column are kept to 1/{per_second} s")
    return value.seconds * per_second + parts
