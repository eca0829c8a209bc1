"""`Row` and `RowKind`: a record with positions and, if it was given them, names (PyFlink: ``pyflink.common.types``).

A row made with keywords, or one that a stream of named columns hands to a record function, answers to ``row.name``,
``row["name"]`` and ``row[0]``; one made with positions only answers to ``row[0]``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any

__all__ = ["Row", "RowKind"]


class RowKind(Enum):
    """What a row says in a changelog."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    def __str__(self) -> str:
        return ("+I", "-U", "+U", "-D")[self.value]


class PositionalNames(list[str]):
    """``f0``, ``f1``, ... of a row whose type names no fields. They are shown and can be asked for, as in Flink, but are no
    part of equality: ``Row(1, 2)`` that went through a stream equals ``Row(1, 2)``. Shared by many rows, never changed."""


def make_row(fields: Sequence[str] | None, values: Sequence[Any], kind: RowKind = RowKind.INSERT) -> Row:
    """A row from names (or ``None``) and values; ``values`` becomes the row's own when it is a list."""
    row = Row.__new__(Row)
    row._fields = fields if fields is None or fields.__class__ is PositionalNames else list(fields)
    row._values = values if isinstance(values, list) else list(values)
    row._row_kind = kind
    return row


class Row:
    """Fixed length, values may be ``None``. Equality looks at kind, names (in any order) and values."""

    __slots__ = ("_fields", "_row_kind", "_values")

    _fields: list[str] | None
    _values: list[Any]
    _row_kind: RowKind

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError("a Row takes either values or name=value pairs, not both")
        self._fields = list(kwargs) if kwargs else None
        self._values = list(kwargs.values()) if kwargs else list(args)
        self._row_kind = RowKind.INSERT

    @staticmethod
    def of_kind(row_kind: RowKind, *args: Any, **kwargs: Any) -> Row:
        row = Row(*args, **kwargs)
        row._row_kind = row_kind
        return row

    def as_dict(self, recursive: bool = False) -> dict[str, Any]:
        """Names to values; with ``recursive``, rows inside (also in lists and dicts) become dicts too."""
        if self._fields is None:
            raise TypeError("a Row without field names has no dict: make it with Row(name=value, ...)")
        if not recursive:
            return dict(zip(self._fields, self._values, strict=False))
        return {name: _plain(value) for name, value in zip(self._fields, self._values, strict=False)}

    def get_row_kind(self) -> RowKind:
        return self._row_kind

    def set_row_kind(self, row_kind: RowKind) -> None:
        self._row_kind = row_kind

    def set_field_names(self, field_names: Sequence[str]) -> None:
        self._fields = field_names if isinstance(field_names, PositionalNames) else list(field_names)

    def get_fields_by_names(self, names: Sequence[str]) -> list[Any]:
        if self._fields is None or list(names) == self._fields:
            return self._values
        missing = [name for name in names if name not in self._fields]
        if missing:
            raise KeyError(f"no field {missing} in {self._fields}")
        return [self._values[self._fields.index(name)] for name in names]

    @property
    def given_names(self) -> list[str] | None:
        """The names of its fields; ``None`` when nobody gave it any."""
        return None if self._fields.__class__ is PositionalNames else self._fields

    def __call__(self, *args: Any) -> Row:
        """``Person = Row("name", "age"); Person("Ada", 36)``: the values of this row are the names of the new one."""
        if len(args) > len(self._values):
            raise ValueError(f"{self!r} has {len(self._values)} fields, {len(args)} values were given")
        return make_row(self._values, args, self._row_kind)

    def __getattr__(self, item: str) -> Any:
        if not item.startswith("_") and self._fields is not None and item in self._fields:
            return self._values[self._fields.index(item)]
        raise AttributeError(item)

    def __getitem__(self, item: int | slice | str) -> Any:
        if isinstance(item, (int, slice)):
            return self._values[item]
        return self._values[self._position(item)]

    def __setitem__(self, key: int | slice | str, value: Any) -> None:
        if isinstance(key, slice):
            self._values[key] = value
        else:
            self._values[key if isinstance(key, int) else self._position(key)] = value

    def _position(self, name: str) -> int:
        if self._fields is None or name not in self._fields:
            raise KeyError(f"no field {name!r} in {self._fields or 'a Row without names'}")
        return self._fields.index(name)

    def __contains__(self, item: object) -> bool:
        return item in (self._fields if self._fields is not None else self._values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Row) or self._row_kind is not other._row_kind:
            return False
        mine, theirs = self.given_names, other.given_names
        if mine == theirs:
            return self._values == other._values
        if mine is None or theirs is None:
            return False
        return self.as_dict() == other.as_dict()

    def __hash__(self) -> int:
        return hash(tuple(self._values))

    def __reduce__(self) -> tuple[Any, ...]:
        return make_row, (self._fields, self._values, self._row_kind)

    def __repr__(self) -> str:
        if self._fields is None:
            return f"<Row({', '.join(map(repr, self._values))})>"
        return f"Row({', '.join(f'{k}={v!r}' for k, v in zip(self._fields, self._values, strict=False))})"


def _plain(value: Any) -> Any:
    if isinstance(value, Row):
        return value.as_dict(True)
    if isinstance(value, list):
        return [_plain(v) for v in value]
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return value
