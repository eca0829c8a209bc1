"""Expressions of a compiled plan: Calcite's row expressions, the bounds of OVER windows and calls of aggregate functions.

An expression refers to fields of its input by position. Functions have an ``internal_name`` such as ``$CAST$1`` where they are
built in, a ``system_name`` or ``catalog_name`` where a user registered them.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from tidegate.plan.logical_types import LogicalType, TypeRoot

JsonValue: TypeAlias = bool | int | float | str | None


class PlanPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, rename="camel"):
    """A part of a plan. A field without a default is always written; one with a default is not written when it has that value."""


class Bound(PlanPart, frozen=True):
    """One end of a range: ``bound_type`` is OPEN or CLOSED, ``value`` is encoded like a literal."""

    value: JsonValue
    bound_type: str

    @property
    def is_open(self) -> bool:
        """Whether the end itself is excluded."""
        return self.bound_type == "OPEN"


class Range(PlanPart, frozen=True):
    """A range of values between two ends; without one it is unbounded there."""

    lower: Bound | None = None
    upper: Bound | None = None

    @property
    def is_point(self) -> bool:
        """Whether the range holds a single value."""
        ends = (self.lower, self.upper)
        return all(end is not None and not end.is_open for end in ends) and self.lower == self.upper


class Sarg(PlanPart, frozen=True):
    """The search argument of ``SEARCH``, the form of IN, BETWEEN and OR of comparisons: ordered ranges that do not overlap, and the result for null:
    ``TRUE``, ``FALSE`` or ``UNKNOWN``."""

    ranges: tuple[Range, ...]
    null_as: str | None = None
    contains_null: bool | None = None


class RexInputRef(PlanPart, frozen=True, tag_field="kind", tag="INPUT_REF"):
    """A reference to a field of the input."""

    input_index: int
    type: LogicalType


class RexLiteral(PlanPart, frozen=True, tag_field="kind", tag="LITERAL"):
    """A constant: one of ``value`` and ``sarg``; ``symbol``: the Java enumeration of a symbol such as a time unit."""

    type: LogicalType
    value: JsonValue | UnsetType = UNSET
    sarg: Sarg | None = None
    symbol: str | None = None


class RexCall(PlanPart, frozen=True, tag_field="kind", tag="CALL"):
    """A call of a function or operator. ``type``: that of its result, ``None`` in patterns."""

    type: LogicalType | None = None
    operands: tuple[Rex, ...] = ()
    internal_name: str | None = None
    system_name: str | None = None
    catalog_name: str | None = None
    class_: str | None = msgspec.field(default=None, name="class")
    sql_kind: str | None = None
    syntax: str | None = None

    @property
    def function(self) -> str:
        """The name that identifies the function."""
        return self.internal_name or self.system_name or self.catalog_name or self.class_ or self.sql_kind or "?"

    @property
    def is_built_in(self) -> bool:
        """Whether the function is built into Flink or Calcite."""
        return self.internal_name is not None or self.sql_kind is not None


class RexFieldAccess(PlanPart, frozen=True, tag_field="kind", tag="FIELD_ACCESS"):
    """An access to the field ``name`` of a row, or of the left row of a correlation."""

    name: str
    expr: Rex


class RexCorrelVariable(PlanPart, frozen=True, tag_field="kind", tag="CORREL_VARIABLE"):
    """The left row of a correlation."""

    correl: str
    type: LogicalType


class RexPatternInputRef(PlanPart, frozen=True, tag_field="kind", tag="PATTERN_INPUT_REF"):
    """A reference to a field of the rows that the variable ``alpha`` of a pattern matched."""

    alpha: str
    input_index: int
    type: LogicalType


class RexTableArgCall(PlanPart, frozen=True, tag_field="kind", tag="TABLE_ARG_CALL"):
    """A table as an argument of a function."""

    input_index: int
    type: LogicalType
    partition_keys: tuple[int, ...] = ()
    order_keys: tuple[int, ...] = ()
    order_directions: tuple[str, ...] = ()


Rex: TypeAlias = (
    RexInputRef | RexLiteral | RexCall | RexFieldAccess | RexCorrelVariable | RexPatternInputRef | RexTableArgCall
)


class CurrentRow(PlanPart, frozen=True, tag_field="kind", tag="CURRENT_ROW"):
    """The window bound CURRENT ROW: the row itself, and with RANGE those of the same time."""


class UnboundedPreceding(PlanPart, frozen=True, tag_field="kind", tag="UNBOUNDED_PRECEDING"):
    """The window bound UNBOUNDED PRECEDING: all rows before."""


class UnboundedFollowing(PlanPart, frozen=True, tag_field="kind", tag="UNBOUNDED_FOLLOWING"):
    """The window bound UNBOUNDED FOLLOWING: all rows after."""


class BoundedWindow(PlanPart, frozen=True, tag_field="kind", tag="BOUNDED_WINDOW"):
    """A window bound of a number of rows or a length of time; ``offset``: refers to a constant after the fields of the input."""

    offset: Rex
    is_preceding: bool = False
    is_following: bool = False


WindowBound: TypeAlias = CurrentRow | UnboundedPreceding | UnboundedFollowing | BoundedWindow


class AggregateCall(PlanPart, frozen=True):
    """A call of an aggregate function on fields of the input. ``filter_arg``: the field of a FILTER, or -1."""

    name: str | None
    arg_list: tuple[int, ...]
    filter_arg: int
    distinct: bool
    approximate: bool
    ignore_nulls: bool
    type: LogicalType
    internal_name: str | None = None
    system_name: str | None = None
    catalog_name: str | None = None
    class_: str | None = msgspec.field(default=None, name="class")
    syntax: str | None = None

    @property
    def function(self) -> str:
        """The name that identifies the function."""
        return self.internal_name or self.system_name or self.catalog_name or self.class_ or "?"

    @property
    def is_built_in(self) -> bool:
        """Whether the function is built into Flink."""
        return self.internal_name is not None


def python_value(value: JsonValue | UnsetType, type: LogicalType) -> bool | int | float | str | Decimal | None:
    """Converts the value of a literal or bound: numbers to ``int``, ``float`` or ``Decimal``, intervals to ``int`` in ms or months; other values as in
    the JSON: dates and times as texts, bytes in base 64."""
    if value is None or value is UNSET:
        return None
    match type.root:
        case TypeRoot.DECIMAL:
            return Decimal(str(value))
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            return float(str(value))
        case TypeRoot.INTERVAL_YEAR_MONTH | TypeRoot.INTERVAL_DAY_TIME:
            return int(str(value))
        case _:
            assert isinstance(value, (bool, int, str)), value
            return value
