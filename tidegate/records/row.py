"""`Row` and `RowKind`: a record with positional and optionally named fields (PyFlink: ``pyflink.common.types``).

A row made with keywords, or one that a stream of named columns hands to a record function, answers to ``row.name``,
``row["name"]`` and ``row[0]``; one made with positions only answers to ``row[0]``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum

from tidegate.model.values import FieldValue

__all__ = ["Row", "RowKind"]


class RowKind(Enum):
    """The change that a row makes in a changelog: an insertion, one side of an update, or a deletion."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    def __str__(self) -> str:
        return ("+I", "-U", "+U", "-D")[self.value]


class PositionalNames(list[str]):
    """The names ``f0``, ``f1``, ... of a row whose type names no fields. They are printed and can be used for access, as in Flink. Such a row equals
    ``Row(f0=1, f1=2)``, as in PyFlink, and ``Row(1, 2)``, from which it was made. Shared by many rows, never changed."""


def make_row(fields: list[str] | None, values: Sequence[FieldValue], kind: RowKind = RowKind.INSERT) -> Row:
    """Creates a row. ``fields``: its names or ``None``; they may be shared by rows, and are never changed. ``values``: become the row's own when they
    are a list."""
    row = Row.__new__(Row)
    row._fields = fields
    row._values = values if isinstance(values, list) else list(values)
    row._row_kind = kind
    return row


def make_rows(fields: list[str] | None, values: Iterable[Sequence[FieldValue]]) -> list[Row]:
    """Creates a row of each sequence of values, for a whole batch."""
    rows = []
    new, kind = Row.__new__, RowKind.INSERT
    for each in values:
        row = new(Row)
        row._fields = fields
        row._values = list(each)
        row._row_kind = kind
        rows.append(row)
    return rows


def copied(row: Row) -> Row:
    """Returns a shallow copy of a row. Not a method, since a field may have any name."""
    made = Row.__new__(Row)
    made._fields = row._fields
    made._values = row._values[:]
    made._row_kind = row._row_kind
    return made


class Row:
    """A record with a fixed number of fields, which may be ``None``. Equality compares kind, names (in any order) and values."""

    __slots__ = ("_fields", "_row_kind", "_values")

    _fields: list[str] | None
    """The names of the fields, shared with other rows: replaced, never changed."""
    _values: list[FieldValue]
    _row_kind: RowKind

    def __init__(self, *args: FieldValue, **kwargs: FieldValue) -> None:
        self._row_kind = RowKind.INSERT
        if not kwargs:
            self._fields = None
            self._values = list(args)
            return
        if args:
            raise ValueError("a Row takes either values or name=value pairs, not both")
        self._fields = list(kwargs)
        self._values = list(kwargs.values())

    @staticmethod
    def of_kind(row_kind: RowKind, *args: FieldValue, **kwargs: FieldValue) -> Row:
        """Creates a row of a kind, such as ``RowKind.DELETE``."""
        row = Row(*args, **kwargs)
        row._row_kind = row_kind
        return row

    def as_dict(self, recursive: bool = False) -> dict[str, FieldValue]:
        """Returns the values by name; with ``recursive``, nested rows (also in lists and dicts) become dicts too."""
        if self._fields is None:
            raise TypeError("a Row without field names has no dict: make it with Row(name=value, ...)")
        if not recursive:
            return dict(zip(self._fields, self._values, strict=False))
        return {name: _plain(value) for name, value in zip(self._fields, self._values, strict=False)}

    def get_row_kind(self) -> RowKind:
        """Returns whether the row is an insertion, an update or a deletion."""
        return self._row_kind

    def set_row_kind(self, row_kind: RowKind) -> None:
        """Sets whether the row is an insertion, an update or a deletion."""
        self._row_kind = row_kind

    def set_field_names(self, field_names: Sequence[str]) -> None:
        """Names the fields; there must be as many names as values."""
        self._fields = field_names if isinstance(field_names, PositionalNames) else list(field_names)

    def get_fields_by_names(self, names: Sequence[str]) -> list[FieldValue]:
        """Returns the values of the fields in the order of ``names``. Raises ``KeyError`` for a name that the row does
        not have."""
        if self._fields is None or list(names) == self._fields:
            return self._values
        missing = [name for name in names if name not in self._fields]
        if missing:
            raise KeyError(f"no field {missing} in {self._fields}")
        return [self._values[self._fields.index(name)] for name in names]

    @property
    def given_names(self) -> list[str] | None:
        """The given names of the fields; ``None`` when there are none."""
        return None if self._fields.__class__ is PositionalNames else self._fields

    def __call__(self, *args: FieldValue) -> Row:
        """Returns a row with the values of this one as names: ``Person = Row("name", "age"); Person("Ada", 36)``. Raises ``ValueError`` for more values
        than names."""
        if len(args) > len(self._values):
            raise ValueError(f"{self!r} has {len(self._values)} fields, {len(args)} values were given")
        return make_row(list(self._values), args, self._row_kind)

    def __getattr__(self, item: str) -> FieldValue:
        if not item.startswith("_") and self._fields is not None:
            try:
                return self._values[self._fields.index(item)]
            except ValueError:
                pass
        raise AttributeError(item)

    def __getitem__(self, item: int | slice | str) -> FieldValue:
        if not isinstance(item, str):
            return self._values[item]
        if self._fields is not None:
            try:
                return self._values[self._fields.index(item)]
            except ValueError:
                pass
        raise _no_field(item, self._fields)

    def __setitem__(self, key: int | slice | str, value: FieldValue) -> None:
        if isinstance(key, slice):
            self._values[key] = value
        else:
            self._values[key if isinstance(key, int) else self._position(key)] = value

    def _position(self, name: str) -> int:
        if self._fields is None or name not in self._fields:
            raise _no_field(name, self._fields)
        return self._fields.index(name)

    def __contains__(self, item: object) -> bool:
        return item in (self._fields if self._fields is not None else self._values)

    def __iter__(self) -> Iterator[FieldValue]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Row) or self._row_kind is not other._row_kind:
            return False
        mine, theirs = self._fields, other._fields
        if mine == theirs or (self.given_names is None and other.given_names is None):
            return self._values == other._values
        if mine is None or theirs is None:
            return False
        return self.as_dict() == other.as_dict()

    def __hash__(self) -> int:
        return hash(tuple(self._values))

    def __reduce__(self) -> tuple[object, ...]:
        return make_row, (self._fields, self._values, self._row_kind)

    def __repr__(self) -> str:
        if self._fields is None:
            return f"<Row({', '.join(map(repr, self._values))})>"
        return f"Row({', '.join(f'{k}={v!r}' for k, v in zip(self._fields, self._values, strict=False))})"


def _no_field(name: str, fields: list[str] | None) -> KeyError:
    return KeyError(f"no field {name!r} in {fields or 'a Row without names'}")


def _plain(value: FieldValue) -> FieldValue:
    if isinstance(value, Row):
        return value.as_dict(True)
    if isinstance(value, list):
        return [_plain(v) for v in value]
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return value


for _named in (PositionalNames, Row, RowKind, make_row):
    _named.__module__ = "tidegate.common.row"  # as pickles and keys in checkpoints have it
