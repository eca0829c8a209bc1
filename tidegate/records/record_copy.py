"""Copies records between chained functions, so that one function cannot change the objects of another.

    record of an immutable class ─▶ handed on as it is      (one look at its class; ``shared``)
    another ─▶ ``copy``: of flat tuples, rows, lists and dicts at once, else deep, with what it has twice still the same object

Which classes a stream hands on follows from its declared type, once: a tuple whose fields are declared as numbers and texts is never
looked into, and the first record of a batch stands for all. Without a declared type each is looked at, and tuples are looked into. A
frozen dataclass and a ``NamedTuple`` whose annotations are such types are known
by their class from the second record on. (Flink: ``CopyingChainingOutput.java``, ``TypeSerializer.copy``.)
"""

from __future__ import annotations

import copy
import dataclasses
import datetime
import decimal
import enum
import fractions
import ipaddress
import pathlib
import re
import types
import typing
import uuid
import zoneinfo
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain

import numpy as np
import pyarrow as pa

from tidegate.model.configuration import Configuration
from tidegate.model.errors import NotSerializable
from tidegate.model.options import PipelineOptions
from tidegate.model.values import FieldValue, Record
from tidegate.records.batch import RecordsBatch
from tidegate.records.canonical.forms import EncodedKey
from tidegate.records.row import Row, copied
from tidegate.records.time import Instant
from tidegate.records.type_information import (
    BasicTypeInfo,
    MapTypeInfo,
    RowTypeInfo,
    SqlTimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)

_IMMUTABLE: frozenset[type] = frozenset(
    {
        int, float, str, bytes, bool, type(None), complex, decimal.Decimal, Instant, EncodedKey,
        datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone,
    }
)  # fmt: skip
_ALSO_IMMUTABLE: tuple[type, ...] = (
    enum.Enum, uuid.UUID, pathlib.PurePath, fractions.Fraction, zoneinfo.ZoneInfo, re.Pattern, range, type, np.generic,
    ipaddress.IPv4Address, ipaddress.IPv6Address, ipaddress.IPv4Network, ipaddress.IPv6Network,
    types.FunctionType, types.BuiltinFunctionType, types.ModuleType,
    pa.Scalar, pa.Array, pa.ChunkedArray, pa.RecordBatch, pa.Table, pa.DataType, pa.Field, pa.Schema,
)  # fmt: skip
"""Further immutable classes, with their subclasses."""
_known: set[type] = set(_IMMUTABLE)
"""Classes whose objects are known as immutable: those above, and those found at run time."""
_looked_at: dict[type, Callable[[FieldValue], Iterable[FieldValue]] | None] = {}
"""How to list the parts of objects that are immutable when their parts are, by class; ``None``: objects that can be changed themselves."""


class RecordCopy:
    """Copies the records of one stream where it is necessary. In a loop over records:
    ``record if record.__class__ in copies.shared else copies.copy(record)``.
    """

    __slots__ = ("_is_plain", "copy", "keeps_apart", "shared")

    def __init__(
        self,
        shared: set[type] | frozenset[type],
        copy: Callable[[Record], Record],
        *,
        is_plain: bool = False,
        keeps_apart: bool = True,
    ) -> None:
        """Takes a copy function. ``shared``: classes of records that are not copied. ``is_plain``: the declared type has only fields of immutable values.
        ``keeps_apart``: false when ``copy`` returns its argument.
        """
        self._is_plain = is_plain
        self.keeps_apart = keeps_apart
        """Whether ``copy`` copies; false: it returns its argument."""
        self.shared = shared
        """Classes of records that are not copied."""
        self.copy = copy
        """Returns a copy of a record; the record itself when it is immutable. Raises ``NotSerializable`` for what cannot be copied."""

    def unless_same(self, made: Record, found: Record) -> Record:
        """Returns a copy of what a function returned in place of ``found``, or the object itself when it is the same object or immutable."""
        return made if made is found or made.__class__ in self.shared else self.copy(made)

    def batch(self, batch: RecordsBatch) -> RecordsBatch:
        """Returns a batch with copied records; the batch itself when its records are immutable."""
        values = self.all(batch.values)
        return batch if values is batch.values else RecordsBatch(values, batch.timestamps)

    def tells(self, values: Sequence[Record]) -> bool:
        """Tells whether the type and these first records of a batch prove that no record of the batch needs a copy."""
        return self._is_plain and self.shared.issuperset(map(type, values))

    def are_shared(self, values: Sequence[Record]) -> bool:
        """Tells whether none of the records needs a copy. False when that is unknown."""
        kinds = set(map(type, values)) - self.shared
        if kinds == {tuple}:
            tuples = [value for value in values if value.__class__ is tuple]
            return _known.issuperset(map(type, chain.from_iterable(tuples)))
        return not kinds

    def all(self, values: list[Record]) -> list[Record]:
        """Returns copies of the records; the list itself when they are immutable."""
        shared, copy = self.shared, self.copy
        if shared.issuperset(map(type, values)):
            return values
        return [value if value.__class__ in shared else copy(value) for value in values]


def value_copy(value: FieldValue, where: str = "a value") -> FieldValue:
    """Returns the value itself when it is immutable, else a deep copy. Raises ``NotSerializable``, with a message that begins with
    ``where``, for what cannot be copied."""
    return _copied(where, value)


def record_copy(type_info: TypeInformation | None, where: str, *, reuses_objects: bool = False) -> RecordCopy:
    """Creates the copier of a type's records; ``None``: of any type. ``where`` begins the error message for objects that cannot be copied.
    ``reuses_objects``: records are not copied (Flink: ``pipeline.object-reuse``)."""
    if reuses_objects:
        return RecordCopy(_IMMUTABLE | {tuple}, _as_it_is, is_plain=True, keeps_apart=False)
    if isinstance(type_info, (RowTypeInfo, TupleTypeInfo)):
        if all(map(_is_plain, type_info.get_field_types())):
            copies = _flat_row if isinstance(type_info, RowTypeInfo) else _copied
            return RecordCopy(_IMMUTABLE | {tuple}, partial(copies, where), is_plain=True)
    elif isinstance(type_info, MapTypeInfo):
        if _is_plain(type_info.key_type) and _is_plain(type_info.value_type):
            return RecordCopy(_IMMUTABLE, partial(_flat_dict, where))
    elif _is_plain(getattr(type_info, "element_type", None)):
        return RecordCopy(_IMMUTABLE | {tuple}, partial(_flat_list, where))
    return RecordCopy(_known, partial(_copied, where), is_plain=_is_plain(type_info))


def reuses_objects(configuration: Mapping[str, str]) -> bool:
    """Returns the option ``pipeline.object-reuse`` of a job's configuration."""
    option = PipelineOptions.OBJECT_REUSE
    return option.key in configuration and Configuration.from_strings({option.key: configuration[option.key]}).get(
        option
    )


def _copied(where: str, value: FieldValue) -> FieldValue:
    kind = value.__class__
    if kind in _known:
        return value
    if kind is tuple:
        if _are_known(value) or _is_immutable(value):
            return value
    elif kind is dict:
        if _are_known(value.values()):  # keys can be hashed: what can change is no key
            return value.copy()
    elif kind is list:
        if _are_known(value):
            return value[:]
    elif kind is Row:
        if _are_known(value._values):
            return copied(value)
    elif _is_immutable(value):
        return value
    try:
        return _deep(value, {})
    except Exception as error:  # the object is the user's
        raise NotSerializable(
            f"{where}: {repr(value)[:200]} of type {kind.__name__} cannot be copied ({error}), so it cannot be kept apart from what the "
            "function that made it does to it later: emit something that can be copied, or set pipeline.object-reuse: true, where no "
            "function changes what it has emitted or was given"
        ) from error


def _are_known(values: Iterable[FieldValue]) -> bool:
    """Tells whether all values are of immutable classes. A loop is faster than ``issuperset(map(type, values))`` for few values."""
    for value in values:  # noqa: SIM110
        if value.__class__ not in _known:
            return False
    return True


def _is_plain(type_info: TypeInformation | None) -> bool:
    """Tells whether a field of this type holds immutable values only."""
    return isinstance(type_info, (BasicTypeInfo, SqlTimeTypeInfo))


def _as_it_is(value: Record) -> Record:
    return value


def _flat_row(where: str, value: Record) -> Record:
    return copied(value) if value.__class__ is Row else _copied(where, value)


def _flat_dict(where: str, value: Record) -> Record:
    return value.copy() if value.__class__ is dict else _copied(where, value)


def _flat_list(where: str, value: Record) -> Record:
    return value[:] if value.__class__ is list else _copied(where, value)


def _is_immutable(value: FieldValue) -> bool:
    kind = value.__class__
    if kind in _known:
        return True
    if kind is tuple or kind is frozenset:
        return all(map(_is_immutable, value))
    if kind not in _looked_at:
        if isinstance(value, _ALSO_IMMUTABLE):
            _known.add(kind)
            return True
        _looked_at[kind] = _parts_of(kind)
        if kind in _known:
            return True
    parts = _looked_at[kind]
    return parts is not None and all(map(_is_immutable, parts(value)))


def _parts_of(kind: type) -> Callable[[FieldValue], Iterable[FieldValue]] | None:
    """Returns how to list the parts of a class's objects; ``None`` for a class whose objects can be changed. Registers the class as immutable when its
    fields are annotated with immutable types."""
    if "__dataclass_params__" in vars(kind) and kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        names = [field.name for field in dataclasses.fields(kind)]
        if _are_annotated(kind, names):
            _known.add(kind)
        return lambda value: [getattr(value, name) for name in names]
    if issubclass(kind, tuple) and hasattr(kind, "_fields") and kind.__bases__ == (tuple,):
        if _are_annotated(kind, kind._fields):
            _known.add(kind)
        return tuple
    return None


def _are_annotated(kind: type, names: Sequence[str]) -> bool:
    """Tells whether all of these fields are annotated with immutable types."""
    try:
        hints = typing.get_type_hints(kind)
    except Exception:  # noqa: BLE001  annotations are the user's, and may name what is not there
        return False
    return all(_is_known_hint(hints.get(name)) for name in names)


def _is_known_hint(hint: object) -> bool:
    if isinstance(hint, (types.UnionType,)) or typing.get_origin(hint) is typing.Union:
        return all(map(_is_known_hint, typing.get_args(hint)))
    return isinstance(hint, type) and (hint in _known or issubclass(hint, enum.Enum))


def _deep(value: FieldValue, memo: dict[int, FieldValue]) -> FieldValue:
    """Copies deeply like ``copy.deepcopy``, with fewer steps for rows, lists and dicts. ``memo``: as there."""
    kind = value.__class__
    if kind in _known:
        return value
    made = memo.get(id(value))
    if made is not None:
        return made
    if kind is dict:
        made = memo[id(value)] = {}
        for key, item in value.items():
            made[key if key.__class__ in _known else _deep(key, memo)] = (
                item if item.__class__ in _known else _deep(item, memo)
            )
        return made
    if kind is list:
        made = memo[id(value)] = []
        made += [item if item.__class__ in _known else _deep(item, memo) for item in value]
        return made
    if kind is tuple:
        return tuple([item if item.__class__ in _known else _deep(item, memo) for item in value])
    if kind is Row:
        made = memo[id(value)] = copied(value)
        made._values = _deep(value._values, memo)
        return made
    if _is_immutable(value):
        return value
    return copy.deepcopy(value, memo)
