"""Implementations of the aggregate functions. Values are as rows hold them (``tidegate.functions.sql.rows``).

create() ─▶ accumulator    add(accumulator, arguments)    retract(accumulator, arguments)    merge(accumulator, other)    value(accumulator)
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Sequence
from ctypes import c_float
from decimal import ROUND_HALF_UP, Context, Decimal
from itertools import accumulate
from math import ceil, copysign, floor
from typing import Any, Final

from tidegate.functions.sql.aggregates.running import Kind
from tidegate.functions.sql.scalar import EvaluationError
from tidegate.plan.expressions import AggregateCall
from tidegate.plan.logical_types import LogicalType, TypeRoot
from tidegate.records.canonical.forms import canonical_key, value_of

Accumulator = list[Any]
Arguments = Sequence[Any]
_WIDE: Final = Context(prec=120)
BITS: Final = {TypeRoot.TINYINT: 8, TypeRoot.SMALLINT: 16, TypeRoot.INTEGER: 32, TypeRoot.BIGINT: 64}


class SqlAggregate(ABC):
    """An aggregate function for given argument types and a given result type."""

    can_retract = True
    emits_rows = False
    """Whether its value is a tuple of rows."""
    wants_all_rows = False
    """Whether its accumulator is exactly the list of all added arguments."""
    counts_at: int | None = None
    """The index in its accumulator of the counts of all its values; ``None``: it has none."""

    @property
    def merges_alike(self) -> bool:
        """Whether merging an accumulator of some rows is the same as adding these rows, in whatever order, and leaves it unshared."""
        return False

    def __init__(self, call: AggregateCall, arguments: Sequence[LogicalType]) -> None:
        self.call = call
        self.type = call.type
        self.arguments = arguments

    @abstractmethod
    def create(self) -> Accumulator:
        """Returns an empty accumulator."""

    @abstractmethod
    def add(self, acc: Accumulator, args: Arguments) -> None:
        """Accumulates the arguments of a row."""

    @abstractmethod
    def retract(self, acc: Accumulator, args: Arguments) -> None:
        """Retracts the arguments of a row."""

    @abstractmethod
    def merge(self, acc: Accumulator, other: Accumulator) -> None:
        """Merges ``other`` into an accumulator."""

    @abstractmethod
    def value(self, acc: Accumulator) -> Any:
        """Returns the result."""


class Count(SqlAggregate):
    """COUNT of rows, or of non-null values."""

    @property
    def merges_alike(self) -> bool:
        return True

    def create(self) -> Accumulator:
        return [0]

    def add(self, acc: Accumulator, args: Arguments) -> None:
        if not args or args[0] is not None:
            acc[0] += 1

    def retract(self, acc: Accumulator, args: Arguments) -> None:
        if not args or args[0] is not None:
            acc[0] -= 1

    def merge(self, acc: Accumulator, other: Accumulator) -> None:
        acc[0] += other[0]

    def value(self, acc: Accumulator) -> Any:
        return acc[0]


def _wrapped(value: int, bits: int) -> int:
    """Wraps a number around at ``bits`` bits, as Java's arithmetic does."""
    half = 1 << (bits - 1)
    return (value + half) % (1 << bits) - half


def _fitted(value: Decimal, type: LogicalType) -> Decimal | None:
    """Rounds a number to the precision and scale of a DECIMAL; null where it does not fit."""
    assert type.precision is not None
    rounded = value.quantize(Decimal(1).scaleb(-(type.scale or 0)), rounding=ROUND_HALF_UP, context=_WIDE)
    return rounded if len(rounded.as_tuple().digits) <= type.precision or not rounded else None


class Sum(SqlAggregate):
    """SUM; null without values. A sum of whole numbers wraps around in its type, one of FLOAT is rounded to it at each step, one of DECIMAL is null
    when it does not fit."""

    _starts_with_zero = False
    """Whether the sum of -0.0 alone is 0.0."""

    def __init__(self, call: AggregateCall, arguments: Sequence[LogicalType]) -> None:
        super().__init__(call, arguments)
        self._is_single = call.type.root is TypeRoot.FLOAT
        self._zero: Any = 0.0 if call.type.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE) else 0
        if call.type.root is TypeRoot.DECIMAL:
            self._zero = Decimal(0)

    @property
    def merges_alike(self) -> bool:
        """Sums of floating-point numbers depend on the order."""
        return isinstance(self._zero, int)

    def create(self) -> Accumulator:
        return [self._zero, 0]

    def add(self, acc: Accumulator, args: Arguments) -> None:
        if args[0] is not None:
            acc[0] = self._sum(acc, args[0])
            acc[1] += 1

    def retract(self, acc: Accumulator, args: Arguments) -> None:
        if args[0] is not None:
            acc[0] = self._plus(acc[0], -args[0])
            acc[1] -= 1

    def merge(self, acc: Accumulator, other: Accumulator) -> None:
        if other[1] or other[0]:
            acc[0] = self._sum(acc, other[0])
            acc[1] += other[1]

    def value(self, acc: Accumulator) -> Any:
        if acc[1] == 0:
            return self._empty()
        if self.type.root is TypeRoot.DECIMAL:
            return _fitted(acc[0], self.type)
        bits = BITS.get(self.type.root)
        return acc[0] if bits is None else _wrapped(acc[0], bits)

    def _empty(self) -> Any:
        return None

    def _sum(self, acc: Accumulator, value: Any) -> Any:
        is_first = acc[1] == 0 and acc[0] == 0 and not self._starts_with_zero
        return value if is_first and isinstance(value, float) else self._plus(acc[0], value)

    def _plus(self, left: Any, right: Any) -> Any:
        if self._is_single:
            return c_float(left + right).value
        return _WIDE.add(left, right) if self.type.root is TypeRoot.DECIMAL else left + right


class Sum0(Sum):
    """SUM0; 0 without values."""

    _starts_with_zero = True

    def _empty(self) -> Any:
        return _fitted(Decimal(0), self.type) if self.type.root is TypeRoot.DECIMAL else self._zero


class Avg(Sum):
    """AVG: of whole numbers it is a whole number, the sum wrapping around in BIGINT and the result rounded toward zero; of FLOAT the sum is DOUBLE, as
    in Flink."""

    _starts_with_zero = True

    def __init__(self, call: AggregateCall, arguments: Sequence[LogicalType]) -> None:
        super().__init__(call, arguments)
        self._is_single = False
        if arguments[0].root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
            self._zero = 0.0

    def value(self, acc: Accumulator) -> Any:
        total, count = acc
        if count == 0:
            return None
        if self.type.root is TypeRoot.DECIMAL:
            return _fitted(_WIDE.divide(total, Decimal(count)), self.type)
        if isinstance(total, float):
            return total / count
        total = _wrapped(total, 64)
        quotient = abs(total) // abs(count)
        return _wrapped(quotient if (total < 0) == (count < 0) else -quotient, BITS.get(self.type.root, 64))


class WelfordM2(SqlAggregate):
    """The sum of squared distances from the mean, of which the planner makes STDDEV and VAR."""

    def create(self) -> Accumulator:
        return [0, 0.0, 0.0]

    def add(self, acc: Accumulator, args: Arguments) -> None:
        if args[0] is None:
            return
        x = float(args[0])
        acc[0] += 1
        distance = x - acc[1]
        acc[1] += distance / acc[0]
        acc[2] += distance * (x - acc[1])

    def retract(self, acc: Accumulator, args: Arguments) -> None:
        if args[0] is None:
            return
        if acc[0] <= 1:
            acc[:] = self.create()
            return
        x = float(args[0])
        acc[0] -= 1
        distance = x - acc[1]
        acc[1] -= distance / acc[0]
        acc[2] -= distance * (x - acc[1])

    def merge(self, acc: Accumulator, other: Accumulator) -> None:
        if other[0]:
            count = acc[0] + other[0]
            distance = other[1] - acc[1]
            acc[2] += other[2] + distance * distance * acc[0] * other[0] / count
            acc[1] += distance * other[0] / count
            acc[0] = count

    def value(self, acc: Accumulator) -> Any:
        return acc[2] if acc[0] > 0 else None


class Extreme(SqlAggregate):
    """MIN and MAX: ``[best value]``, and with retractions the count of each value. As in Flink, without retractions a NaN that comes first stays and a
    later one is skipped; with them NaN is larger than all numbers, and -0.0 smaller than 0.0."""

    def __init__(
        self, call: AggregateCall, arguments: Sequence[LogicalType], best: Callable[..., Any], keeps_all: bool
    ) -> None:
        super().__init__(call, arguments)
        self._best = best
        self._keeps_all = keeps_all
        self.kind: Final[Kind] = "min" if best is min else "max"
        self.counts_at = 1 if keeps_all else None

    @property
    def merges_alike(self) -> bool:
        """Where NaN comes decides about it."""
        return not self._keeps_all and self.type.root not in (TypeRoot.FLOAT, TypeRoot.DOUBLE)

    def create(self) -> Accumulator:
        return [None, {}] if self._keeps_all else [None]

    def add(self, acc: Accumulator, args: Arguments) -> None:
        value = args[0]
        if value is None:
            return
        if self._keeps_all and _count(acc[1], value, 1) <= 0:
            return
        if acc[0] is None:
            acc[0] = value
        elif self._keeps_all:
            acc[0] = self._best((acc[0], value), key=_in_order)
        else:
            acc[0] = self._best(acc[0], value)

    def retract(self, acc: Accumulator, args: Arguments) -> None:
        value = args[0]
        if value is not None and _count(acc[1], value, -1) == 0 and form_of(value) == form_of(acc[0]):
            self._find(acc)

    def merge(self, acc: Accumulator, other: Accumulator) -> None:
        if not self._keeps_all:
            self.add(acc, other)
            return
        for form, count in other[1].items():
            _count(acc[1], value_of(form), count)
        self._find(acc)

    def value(self, acc: Accumulator) -> Any:
        return acc[0]

    def _find(self, acc: Accumulator) -> None:
        there = [value_of(form) for form, count in acc[1].items() if count > 0]
        acc[0] = self._best(there, key=_in_order) if there else None


RUNNING: Final[dict[type[SqlAggregate], Kind]] = {Count: "count", Sum: "sum", Sum0: "sum0", Avg: "avg", Extreme: "max"}
"""The functions that arrays compute. ``Extreme`` has its own kind."""


def _in_order(value: Any) -> Any:
    """Returns a sort key by Java's order: NaN last, and -0.0 before 0.0."""
    if not isinstance(value, float):
        return value
    return (True, 0.0, 0.0) if value != value else (False, value, copysign(1.0, value))


def form_of(value: Any) -> Any:
    """Returns a value as a dict key that compares as Java's ``equals``: NaN equals itself, -0.0 differs from 0.0. ``value_of`` converts it back."""
    return canonical_key(value) if _is_odd(value) else value


def _is_odd(value: Any) -> bool:
    if value.__class__ is float:
        return bool(value != value or (value == 0 and copysign(1.0, value) < 0))
    return value.__class__ is tuple and any(map(_is_odd, value))


def _count(counts: dict[Any, int], value: Any, change: int) -> int:
    """Changes the count of a value and returns the new one. A count below 0 is kept, since the missing addition may come late."""
    form = form_of(value)
    count = counts.get(form, 0) + change
    if count:
        counts[form] = count
    else:
        counts.pop(form, None)
    return count


class KeptValues(SqlAggregate):
    """The base of functions of all values in order of arrival."""

    ignores_nulls = True

    def create(self) -> Accumulator:
        return []

    def add(self, acc: Accumulator, args: Arguments) -> None:
        if not self.ignores_nulls or args[0] is not None:
            acc.append(tuple(args))

    def retract(self, acc: Accumulator, args: Arguments) -> None:
        if not self.ignores_nulls or args[0] is not None:
            gone = tuple(args)
            if gone in acc:
                acc.remove(gone)

    def merge(self, acc: Accumulator, other: Accumulator) -> None:
        acc.extend(other)


class FirstValue(KeptValues):
    """FIRST_VALUE with retractions."""

    def value(self, acc: Accumulator) -> Any:
        return acc[0][0] if acc else None


class LastValue(KeptValues):
    """LAST_VALUE with retractions."""

    def value(self, acc: Accumulator) -> Any:
        return acc[-1][0] if acc else None


class LastOnly(SqlAggregate):
    """LAST_VALUE of inserts."""

    can_retract = False

    def create(self) -> Accumulator:
        return [None]

    def add(self, acc: Accumulator, args: Arguments) -> None:
        if args[0] is not None:
            acc[0] = args[0]

    def retract(self, acc: Accumulator, args: Arguments) -> None:
        raise AssertionError(f"{type(self).__name__} is an aggregate for insert-only rows, and got a row to take back")

    def merge(self, acc: Accumulator, other: Accumulator) -> None:
        self.add(acc, other)

    def value(self, acc: Accumulator) -> Any:
        return acc[0]


class FirstOnly(LastOnly):
    """FIRST_VALUE of inserts."""

    def add(self, acc: Accumulator, args: Arguments) -> None:
        if acc[0] is None:
            acc[0] = args[0]


class ListAgg(KeptValues):
    """LISTAGG: texts with a delimiter between them."""

    def value(self, acc: Accumulator) -> Any:
        if not acc:
            return None
        delimiter = acc[0][1] if len(acc[0]) > 1 else ","
        return delimiter.join(entry[0] for entry in acc)


class ArrayAgg(KeptValues):
    """ARRAY_AGG; null without values."""

    def __init__(self, call: AggregateCall, arguments: Sequence[LogicalType]) -> None:
        super().__init__(call, arguments)
        self.ignores_nulls = call.ignore_nulls

    def value(self, acc: Accumulator) -> Any:
        return tuple(entry[0] for entry in acc) if acc else None


class Collect(SqlAggregate):
    """COLLECT: a multiset, that is, the count of each value. Null is ignored."""

    def create(self) -> Accumulator:
        return [{}]

    def add(self, acc: Accumulator, args: Arguments) -> None:
        if args[0] is not None:
            _count(acc[0], args[0], 1)

    def retract(self, acc: Accumulator, args: Arguments) -> None:
        if args[0] is not None:
            _count(acc[0], args[0], -1)

    def merge(self, acc: Accumulator, other: Accumulator) -> None:
        for form, count in other[0].items():
            _count(acc[0], value_of(form), count)

    def value(self, acc: Accumulator) -> Any:
        return tuple([(value_of(form), count) for form, count in acc[0].items()])


class Percentile(SqlAggregate):
    """PERCENTILE(value, percentage or array of them [, frequency]): ``[percentages, count of each value]``. A percentile between two values is
    interpolated (Flink: ``PercentileAggFunction.java``). Raises ``EvaluationError`` for a percentage outside of 0 to 1."""

    def create(self) -> Accumulator:
        return [None, {}]

    def add(self, acc: Accumulator, args: Arguments) -> None:
        if acc[0] is None:
            acc[0] = _percentages(args[1])
        self._update(acc, args, 1)

    def retract(self, acc: Accumulator, args: Arguments) -> None:
        self._update(acc, args, -1)

    def merge(self, acc: Accumulator, other: Accumulator) -> None:
        if acc[0] is None:
            acc[0] = other[0]
        for form, count in other[1].items():
            _count(acc[1], value_of(form), count)

    def value(self, acc: Accumulator) -> Any:
        percentages, counts = acc
        total = sum(counts.values())
        if not percentages or total <= 0:
            return None
        there = sorted(((value_of(form), count) for form, count in counts.items()), key=lambda one: _in_order(one[0]))
        values = [value for value, _ in there]
        ends = list(accumulate(count for _, count in there))
        found = tuple([_percentile(values, ends, percentage * (total - 1) + 1) for percentage in percentages])
        return found if self.type.root is TypeRoot.ARRAY else found[0]

    def _update(self, acc: Accumulator, args: Arguments, sign: int) -> None:
        frequency = args[2] if len(args) > 2 else 1
        if args[0] is not None and frequency is not None and int(frequency) > 0:
            _count(acc[1], float(args[0]), sign * int(frequency))


def _percentages(given: Any) -> tuple[float, ...]:
    found = tuple(map(float, given)) if isinstance(given, (tuple, list)) else (float(given),)
    for percentage in found:
        if not 0 <= percentage <= 1:
            raise EvaluationError(f"Percentage of PERCENTILE should be between [0.0, 1.0], but was '{percentage}'.")
    return found


def _percentile(values: Sequence[float], ends: Sequence[int], position: float) -> float:
    """Returns the interpolated percentile at ``position``, from 1. ``ends``: for each value how many there are up to it."""
    lower, higher = floor(position), ceil(position)
    at = bisect_left(ends, lower)
    if ends[at] >= higher:
        return values[at]
    return (higher - position) * values[at] + (position - lower) * values[at + 1]


class SingleValue(KeptValues):
    """SINGLE_VALUE: the value of a scalar subquery."""

    ignores_nulls = False

    def value(self, acc: Accumulator) -> Any:
        if len(acc) > 1:
            raise EvaluationError("SingleValueAggFunction received more than one element.")
        return acc[0][0] if acc else None


def _json(key: str) -> str:
    """Formats a text as a JSON string as Jackson does."""
    return json.dumps(key, ensure_ascii=False)


class JsonArrayAgg(KeptValues):
    """JSON_ARRAYAGG. Values are JSON texts, since the planner wraps the arguments in ``JSON_STRING``."""

    def __init__(self, call: AggregateCall, arguments: Sequence[LogicalType]) -> None:
        super().__init__(call, arguments)
        self.ignores_nulls = "ABSENT_ON_NULL" in call.function

    def value(self, acc: Accumulator) -> Any:
        return f"[{','.join('null' if entry[0] is None else entry[0] for entry in acc)}]"


class JsonObjectAgg(KeptValues):
    """JSON_OBJECTAGG of values that are JSON texts. Raises ``EvaluationError`` for a null or duplicate key."""

    ignores_nulls = False

    def add(self, acc: Accumulator, args: Arguments) -> None:
        key = args[0]
        if key is None:
            raise EvaluationError("Key is not allowed to be null. JSON_OBJECTAGG was given one: filter out such rows.")
        if any(entry[0] == key for entry in acc):
            raise EvaluationError(
                f"Key '{key}' is already present. Duplicate keys are not allowed in JSON_OBJECTAGG. Please ensure that keys are unique."
            )
        if args[1] is not None or "NULL_ON_NULL" in self.call.function:
            acc.append(tuple(args))

    def value(self, acc: Accumulator) -> Any:
        texts = [f"{_json(key)}:{'null' if value is None else value}" for key, value in sorted(acc)]
        return f"{{{','.join(texts)}}}"


class Lag(SqlAggregate):
    """LAG: the value some rows before, ``LAG(value, offset = 1, default = NULL)``."""

    can_retract = False

    def create(self) -> Accumulator:
        return [[], 1, None]

    def add(self, acc: Accumulator, args: Arguments) -> None:
        if len(args) > 1:
            acc[1] = args[1]
        acc[2] = args[2] if len(args) > 2 else None
        acc[0].append(args[0])
        del acc[0][: -acc[1] - 1]

    def retract(self, acc: Accumulator, args: Arguments) -> None:
        raise AssertionError(f"{type(self).__name__} is an aggregate for insert-only rows, and got a row to take back")

    def merge(self, acc: Accumulator, other: Accumulator) -> None:
        raise AssertionError("LAG got two accumulators to merge, and is never computed in two phases")

    def value(self, acc: Accumulator) -> Any:
        return acc[0][-acc[1] - 1] if len(acc[0]) > acc[1] else acc[2]


class RowNumber(Count):
    """ROW_NUMBER: the number of rows so far; in streaming mode also RANK and DENSE_RANK, where rows of the same time count, as in Flink 2.3."""

    def add(self, acc: Accumulator, args: Arguments) -> None:
        acc[0] += 1


def make(call: AggregateCall, arguments: Sequence[LogicalType], retracts: bool) -> SqlAggregate | None:
    """Creates the function of a call; ``None``: it is unknown."""
    name = call.function
    if name in ("$MIN$1", "$MAX$1"):
        return Extreme(call, arguments, min if name == "$MIN$1" else max, retracts)
    if name in ("$FIRST_VALUE$1", "$LAST_VALUE$1") and not retracts:
        return (FirstOnly if name == "$FIRST_VALUE$1" else LastOnly)(call, arguments)
    made = FUNCTIONS.get(name)
    return None if made is None else made(call, arguments)


FUNCTIONS: Final[dict[str, type[SqlAggregate]]] = {
    "$COUNT$1": Count,
    "$SUM$1": Sum,
    "$$SUM0$1": Sum0,
    "$AVG$1": Avg,
    "$$WELFORD_M2$1$1": WelfordM2,
    "$FIRST_VALUE$1": FirstValue,
    "$LAST_VALUE$1": LastValue,
    "$LISTAGG$1": ListAgg,
    "$ARRAY_AGG$1": ArrayAgg,
    "$COLLECT$1": Collect,
    "$PERCENTILE$1": Percentile,
    "$SINGLE_VALUE$1": SingleValue,
    "$JSON_ARRAYAGG_ABSENT_ON_NULL$1": JsonArrayAgg,
    "$JSON_ARRAYAGG_NULL_ON_NULL$1": JsonArrayAgg,
    "$JSON_OBJECTAGG_NULL_ON_NULL$1": JsonObjectAgg,
    "$JSON_OBJECTAGG_ABSENT_ON_NULL$1": JsonObjectAgg,
    "$LAG$1": Lag,
    "$ROW_NUMBER$1": RowNumber,
    "$RANK$1": RowNumber,
    "$DENSE_RANK$1": RowNumber,
}
