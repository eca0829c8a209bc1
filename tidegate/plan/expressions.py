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
    """What is in a plan. A field without a default is always there; one with a default is not written when it has that value."""


class Bound(PlanPart, frozen=True):
    """An end of a range: ``bound_type`` is OPEN or CLOSED, ``value`` is written as in a literal."""

    value: JsonValue
    bound_type: str

    @property
    def is_open(self) -> bool:
        """Whether the end itself is outside."""
        return self.bound_type == "OPEN"


class Range(PlanPart, frozen=True):
    """Values between two ends; without one the range has no end there."""

    lower: Bound | None = None
    upper: Bound | None = None

    @property
    def is_point(self) -> bool:
        """Whether there is one value in it."""
        ends = (self.lower, self.upper)
        return all(end is not None and not end.is_open for end in ends) and self.lower == self.upper


class Sarg(PlanPart, frozen=True):
    """The search argument of ``SEARCH``, which is how IN, BETWEEN and OR of comparisons arrive: ranges in order that do not
    overlap, and what null is: ``TRUE``, ``FALSE`` or ``UNKNOWN``."""

    ranges: tuple[Range, ...]
    null_as: str | None = None
    contains_null: bool | None = None


class RexInputRef(PlanPart, frozen=True, tag_field="kind", tag="INPUT_REF"):
    """A field of the input."""

    input_index: int
    type: LogicalType


class RexLiteral(PlanPart, frozen=True, tag_field="kind", tag="LITERAL"):
    """A constant: one of ``value`` and ``sarg``; ``symbol`` names the Java enumeration of a symbol such as a time unit."""

    type: LogicalType
    value: JsonValue | UnsetType = UNSET
    sarg: Sarg | None = None
    symbol: str | None = None


class RexCall(PlanPart, frozen=True, tag_field="kind", tag="CALL"):
    """A call of a function or operator. ``type`` is that of its result, ``None`` for those of patterns."""

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
        """The name that tells functions apart."""
        return self.internal_name or self.system_name or self.catalog_name or self.class_ or self.sql_kind or "?"

    @property
    def is_built_in(self) -> bool:
        """Whether it is a function of Flink's or of Calcite's."""
        return self.internal_name is not None or self.sql_kind is not None


class RexFieldAccess(PlanPart, frozen=True, tag_field="kind", tag="FIELD_ACCESS"):
    """The field ``name`` of a row, or of the row of the left side in a correlation."""

    name: str
    expr: Rex


class RexCorrelVariable(PlanPart, frozen=True, tag_field="kind", tag="CORREL_VARIABLE"):
    """The row of the left side of a correlation."""

    correl: str
    type: LogicalType


class RexPatternInputRef(PlanPart, frozen=True, tag_field="kind", tag="PATTERN_INPUT_REF"):
    """A field of the rows that the variable ``alpha`` of a pattern matched."""

    alpha: str
    input_index: int
    type: LogicalType


class RexTableArgCall(PlanPart, frozen=True, tag_field="kind", tag="TABLE_ARG_CALL"):
    """A table that is an argument of a function."""

    input_index: int
    type: LogicalType
    partition_keys: tuple[int, ...] = ()
    order_keys: tuple[int, ...] = ()
    order_directions: tuple[str, ...] = ()


Rex: TypeAlias = (
    RexInputRef | RexLiteral | RexCall | RexFieldAccess | RexCorrelVariable | RexPatternInputRef | RexTableArgCall
)


class CurrentRow(PlanPart, frozen=True, tag_field="kind", tag="CURRENT_ROW"):
    """The row itself, and with RANGE those of the same time."""


class UnboundedPreceding(PlanPart, frozen=True, tag_field="kind", tag="UNBOUNDED_PRECEDING"):
    """All rows before."""


class UnboundedFollowing(PlanPart, frozen=True, tag_field="kind", tag="UNBOUNDED_FOLLOWING"):
    """All rows after."""


class BoundedWindow(PlanPart, frozen=True, tag_field="kind", tag="BOUNDED_WINDOW"):
    """Rows, or a span of time, before or after; ``offset`` refers to a constant behind the fields of the input."""

    offset: Rex
    is_preceding: bool = False
    is_following: bool = False


WindowBound: TypeAlias = CurrentRow | UnboundedPreceding | UnboundedFollowing | BoundedWindow


class AggregateCall(PlanPart, frozen=True):
    """A call of an aggregate function over fields of the input. ``filter_arg`` is the field of a FILTER, or -1."""

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
        """The name that tells functions apart."""
        return self.internal_name or self.system_name or self.catalog_name or self.class_ or "?"

    @property
    def is_built_in(self) -> bool:
        """Whether it is a function of Flink's."""
        return self.internal_name is not None


def python_value(value: JsonValue | UnsetType, type: LogicalType) -> bool | int | float | str | Decimal | None:
    """The value of a literal or bound: numbers as ``int``, ``float`` or ``Decimal``, intervals as ``int`` in ms or months;
    everything else as it is written: dates and times as texts, bytes in base 64."""
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
