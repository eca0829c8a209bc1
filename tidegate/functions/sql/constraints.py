"""Checks of the column constraints of a sink table: NOT NULL, and the lengths of CHAR, VARCHAR, BINARY and VARBINARY (Flink: ``ConstraintEnforcer``).

All rows of a batch are looked at by column. Where a row breaks what an option says is an error, or breaks several promises that are treated
differently, that row is gone through in Flink's order, which decides what is said of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.functions.sql.scalar.context import EvaluationError
from tidegate.plan.errors import UnsupportedPlan
from tidegate.plan.logical_types import Field, LogicalType, TypeRoot

NOT_NULL_KEY: Final = "table.exec.sink.not-null-enforcer"
TYPE_LENGTH_KEY: Final = "table.exec.sink.type-length-enforcer"
NESTED_KEY: Final = "table.exec.sink.nested-constraint-enforcer"
_TEXTS = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_BINARIES = (TypeRoot.BINARY, TypeRoot.VARBINARY)
_PADDED = (TypeRoot.CHAR, TypeRoot.BINARY)
_MOST = 2147483647
"""Flink's length of STRING and BYTES: Java's largest int."""
_Choice = TypeVar("_Choice", bound=Enum)


class NotNullEnforcer(Enum):
    """The treatment of a row that has a null in a NOT NULL column."""

    ERROR = "ERROR"
    DROP = "DROP"


class TypeLengthEnforcer(Enum):
    """The treatment of a value that is longer than its type, or shorter than a CHAR or BINARY."""

    IGNORE = "IGNORE"
    TRIM_PAD = "TRIM_PAD"
    ERROR = "ERROR"


class NestedEnforcer(Enum):
    """Whether NOT NULL is checked within nested types too."""

    IGNORE = "IGNORE"
    ROWS = "ROWS"
    ROWS_AND_COLLECTIONS = "ROWS_AND_COLLECTIONS"


@dataclass(frozen=True)
class Enforcers:
    """The enforcer options of a sink."""

    not_null: NotNullEnforcer = NotNullEnforcer.ERROR
    length: TypeLengthEnforcer = TypeLengthEnforcer.IGNORE
    nested: NestedEnforcer = NestedEnforcer.IGNORE

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Enforcers:
        """Reads the options of a sink. Raises ``UnsupportedPlan`` for an invalid value, and for combinations that Flink refuses."""
        made = cls(
            _value(options, NOT_NULL_KEY, NotNullEnforcer.ERROR),
            _value(options, TYPE_LENGTH_KEY, TypeLengthEnforcer.IGNORE),
            _value(options, NESTED_KEY, NestedEnforcer.IGNORE),
        )
        if made.nested is NestedEnforcer.ROWS_AND_COLLECTIONS and made.length is TypeLengthEnforcer.TRIM_PAD:
            raise UnsupportedPlan(
                "Trimming and/or padding is not supported if constraint checking is enabled on types nested in collections."
            )
        return made


def _value(options: Mapping[str, str], key: str, default: _Choice) -> _Choice:
    text = options.get(key, default.value)
    try:
        return type(default)(text.upper())
    except ValueError:
        known = ", ".join(one.value for one in type(default))
        raise UnsupportedPlan(f"Could not parse value '{text}' for key '{key}'. Expected one of: [{known}]") from None


class ConstraintEnforcer:
    """Checks rows against the constraints of ``fields``, whose columns come first in a batch. Raises ``EvaluationError``, with Flink's message, for a
    row that is an error."""

    def __init__(self, fields: Sequence[Field], enforcers: Enforcers) -> None:
        self._fields = tuple(fields)
        self._enforcers = enforcers

    @property
    def is_needed(self) -> bool:
        """Returns whether there are constraints to check."""
        return any(self._promises(field.type) for field in self._fields)

    def _promises(self, type: LogicalType) -> bool:
        if not type.nullable or (self._enforcers.length is not TypeLengthEnforcer.IGNORE and _has_length(type)):
            return True
        return any(self._promises(inner.type) for inner in self._inner(type))

    def _inner(self, type: LogicalType) -> Sequence[Field]:
        """Returns the parts of a nested type (fields, elements, keys, values) whose NOT NULL is checked, under Flink's names."""
        nested = self._enforcers.nested
        if type.root is TypeRoot.ROW and nested is not NestedEnforcer.IGNORE:
            return type.fields
        if nested is not NestedEnforcer.ROWS_AND_COLLECTIONS:
            return ()
        if type.root is TypeRoot.ARRAY:
            return (Field("element", type.element),)
        if type.root is TypeRoot.MAP:
            key, value = type.children
            return Field("key", key), Field("value", value)
        return ()

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        found = _Found(batch.num_rows)
        every = np.arange(batch.num_rows)
        for field, column in zip(self._fields, batch.columns, strict=False):
            self._find(field.type, column, every, found)
        dropped = found.null
        if self._enforcers.not_null is NotNullEnforcer.ERROR:
            doubtful, dropped = found.null | found.length, np.zeros(batch.num_rows, bool)
        else:
            doubtful = found.length
        for row in np.flatnonzero(doubtful):
            dropped[row] = self._is_dropped(batch.slice(int(row), 1))
        if dropped.any():
            batch = batch.filter(pa.array(~dropped))
        if self._enforcers.length is not TypeLengthEnforcer.TRIM_PAD:
            return batch
        fitted = [self._fitted(field.type, column) for field, column in zip(self._fields, batch.columns, strict=False)]
        return pa.RecordBatch.from_arrays([*fitted, *batch.columns[len(fitted) :]], schema=batch.schema)

    def _find(self, type: LogicalType, column: pa.Array, rows: np.ndarray, found: _Found) -> None:
        """Notes the rows in which a column violates its constraints; ``rows``: the row of each of its values."""
        if column.null_count and not type.nullable:
            found.null[rows[column.is_null().to_numpy(zero_copy_only=False)]] = True
        if self._enforcers.length is TypeLengthEnforcer.ERROR and _has_length(type):
            misfits = pc.fill_null(_misfits(type, column), False)
            found.length[rows[misfits.to_numpy(zero_copy_only=False)]] = True
        if not any(self._promises(inner.type) for inner in self._inner(type)):
            return
        if column.null_count:
            rows = rows[column.is_valid().to_numpy(zero_copy_only=False)]
            column = column.drop_null()
        if type.root is TypeRoot.ROW:
            parts = [column.field(place) for place in range(len(type.fields))]
        else:
            offsets = column.offsets.to_numpy()
            first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
            rows = np.repeat(rows, np.diff(offsets))
            whole = [column.values] if type.root is TypeRoot.ARRAY else [column.keys, column.items]
            parts = [one.slice(first, count) for one in whole]
        for inner, part in zip(self._inner(type), parts, strict=True):
            self._find(inner.type, part, rows, found)

    def _is_dropped(self, row: pa.RecordBatch) -> bool:
        for broken in self._broken(self._fields, [column[0].as_py() for column in row.columns[: len(self._fields)]]):
            if broken.is_null and self._enforcers.not_null is NotNullEnforcer.DROP:
                return True
            raise EvaluationError(f"Column '{broken.path}' {broken.what}")
        return False

    def _broken(self, fields: Sequence[Field], values: Sequence[Any]) -> Iterator[_Broken]:
        """Yields the violations of a row, in the order in which Flink finds them."""
        pairs = list(zip(fields, values, strict=True))
        for field, value in pairs:
            if value is None and not field.type.nullable:
                yield _Broken(field.name, _NULL, True)
        for roots in (_TEXTS, _BINARIES) if self._enforcers.length is TypeLengthEnforcer.ERROR else ():
            for field, value in pairs:
                if field.type.root in roots and value is not None and _is_misfit(field.type, len(value)):
                    yield _Broken(field.name, _too_long(field.type, len(value)))
        if self._enforcers.nested is NestedEnforcer.IGNORE:
            return
        for field, value in _present(pairs, TypeRoot.ROW):
            for broken in self._broken(field.type.fields, list(value.values())):
                yield replace(broken, path=f"{field.name}.{broken.path}")
        if self._enforcers.nested is NestedEnforcer.ROWS:
            return
        for field, value in _present(pairs, TypeRoot.ARRAY):
            for position, element in enumerate(value):
                for broken in self._broken(self._inner(field.type), [element]):
                    yield replace(broken, path=f"{field.name}[{position}]{broken.path.replace('element', '')}")
        for field, value in _present(pairs, TypeRoot.MAP):
            for entry in value:
                for broken in self._broken(self._inner(field.type), entry):
                    path = broken.path
                    path = f"{path}]" if path in ("key", "value") else path.replace(".", "].", 1)
                    yield replace(broken, path=f"{field.name}[{path}")

    def _fitted(self, type: LogicalType, column: pa.Array) -> pa.Array:
        """Trims and pads the values of a column to the length of their type."""
        if _has_length(type):
            return _trimmed_or_padded(type, column)
        if not any(self._promises(inner.type) for inner in self._inner(type)):
            return column
        parts = [self._fitted(inner.type, part) for inner, part in zip(type.fields, column.flatten(), strict=True)]
        return pa.StructArray.from_arrays(parts, fields=list(column.type), mask=column.is_null())


@dataclass(frozen=True)
class _Broken:
    """A violated constraint. ``path``: the column, or the nested value; ``what``: the rest of the message."""

    path: str
    what: str
    is_null: bool = False


class _Found:
    """Rows with a forbidden null, and rows with a value of the wrong length."""

    def __init__(self, count: int) -> None:
        self.null = np.zeros(count, bool)
        self.length = np.zeros(count, bool)


_NULL = (
    f"is NOT NULL, however, a null value is being written into it. You can set job configuration '{NOT_NULL_KEY}'='DROP' to suppress this "
    "exception and drop such records silently."
)


def _too_long(type: LogicalType, length: int) -> str:
    return (
        f"is {type.root.value}({type.length}), however, a string of length {length} is being written into it. You can set job configuration "
        f"'{TYPE_LENGTH_KEY}' to control this behaviour."
    )


def _has_length(type: LogicalType) -> bool:
    return type.root in (*_TEXTS, *_BINARIES) and (type.length or _MOST) < _MOST


def _is_misfit(type: LogicalType, length: int) -> bool:
    assert type.length is not None
    return length > type.length or (type.root in _PADDED and length < type.length)


def _misfits(type: LogicalType, column: pa.Array) -> pa.Array:
    lengths = pc.utf8_length(column) if type.root in _TEXTS else pc.binary_length(column)
    return pc.not_equal(lengths, type.length) if type.root in _PADDED else pc.greater(lengths, type.length)


def _trimmed_or_padded(type: LogicalType, column: pa.Array) -> pa.Array:
    assert type.length is not None
    if not pc.any(_misfits(type, column)).as_py():
        return column
    if type.root in _TEXTS:
        cut = pc.utf8_slice_codeunits(column, 0, type.length)
        return pc.utf8_rpad(cut, type.length, " ") if type.root in _PADDED else cut
    if type.root in _PADDED:
        column = pc.binary_join_element_wise(column, pa.scalar(bytes(type.length), column.type), pa.scalar(b""))
    return pc.binary_slice(column, 0, type.length)


def _present(pairs: Sequence[tuple[Field, Any]], root: TypeRoot) -> Iterator[tuple[Field, Any]]:
    return ((field, value) for field, value in pairs if field.type.root is root and value is not None)
