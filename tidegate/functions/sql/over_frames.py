"""OVER aggregation in batch mode, over whole sorted partitions (Flink: ``BufferDataOverWindowOperator.java``, ``OverWindowFrame.java``).

A frame is a pair of positions for each row, the second not included: ROWS counts rows, RANGE takes those whose value lies so far before or behind. Aggregates
of whole numbers and texts let rows go that leave the frame; those of floating point are computed anew for each frame, as in Flink, so that they have
Flink's last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import groupby
from typing import Any, Final, TypeAlias

from tidegate.functions.sql.aggregates import CompiledAggregates, UserAggregates, compile_aggregates
from tidegate.functions.sql.over_windows import over_constants, over_row_type
from tidegate.functions.sql.rows import Row
from tidegate.functions.sql.scalar.arrow_types import time_unit
from tidegate.functions.sql.scalar.calendar import DAY_MS
from tidegate.plan.errors import UnsupportedPlan
from tidegate.plan.expressions import (
    AggregateCall,
    BoundedWindow,
    CurrentRow,
    RexInputRef,
    UnboundedFollowing,
    UnboundedPreceding,
    WindowBound,
    python_value,
)
from tidegate.plan.logical_types import LogicalType, TypeRoot
from tidegate.plan.specs import OverGroup, OverSpec, SortField
from tidegate.records.canonical.forms import canonical_keys

Frames: TypeAlias = Sequence[tuple[int, int]]
Calls: TypeAlias = Callable[[Sequence[Row], "Peers"], list[tuple[Any, ...]]]
"""Computes the results of the calls for each row of a partition, given its rows with constants, and its peers."""
Side: TypeAlias = Callable[[Any, Any], Any]
"""Compares the value of another row with a frame bound of a row: below 0 before the bound, above 0 behind it."""
_FLOATS: Final = (TypeRoot.FLOAT, TypeRoot.DOUBLE)
_OF_MS: Final = {"ms": 1, "us": 1000, "ns": 1_000_000}


class Peers:
    """Peer groups of a partition, that is, rows with equal values in the order: their bounds, and the group of each row, from 0. As in Flink's ranks,
    0.0 equals -0.0 and NaN does not equal NaN. (In Flink's frames NaN equals every number, which is not an order.)"""

    def __init__(self, rows: Sequence[Row], order: Sequence[SortField]) -> None:
        self.spans: list[tuple[int, int]] = []
        self.groups: list[int] = []
        keys = canonical_keys(
            [tuple([_compared(row[field.index], at) for field in order]) for at, row in enumerate(rows)]
        )
        start = 0
        for number, (_, same) in enumerate(groupby(keys)):
            count = len(list(same))
            self.spans += [(start, start + count)] * count
            self.groups += [number] * count
            start += count


def _compared(value: Any, at: int) -> Any:
    """Returns a sort value in a form that is equal for peers."""
    if value.__class__ is not float:
        return value
    return (at,) if value != value else value + 0.0


class CompiledOver:
    """All windows of an OVER node, compiled. ``order``: how rows of all partitions are sorted before ``values`` takes those of one."""

    def __init__(
        self, spec: OverSpec, row_type: LogicalType, where: str, functions: UserAggregates | None = None
    ) -> None:
        """Compiles the windows. Raises ``UnsupportedPlan`` that names ``where`` and the function or frame that is not supported."""
        self.partition: Final = spec.partition.fields
        longest = max(spec.groups, key=lambda group: len(group.order_by.fields)).order_by.fields
        if any(longest[: len(group.order_by.fields)] != group.order_by.fields for group in spec.groups):
            raise UnsupportedPlan(f"{where}: OVER windows with different orders in one node are not supported")
        self.order: Final = (*[SortField(position, True, False) for position in self.partition], *longest)
        self._constants = over_constants(spec)
        wide = over_row_type(spec, row_type)
        self._groups = [
            (group.order_by.fields, _calls_of(spec, group, wide, where, functions)) for group in spec.groups
        ]

    def values(self, rows: Sequence[Row]) -> list[Row]:
        """Returns the rows of a partition with the results appended. ``rows``: sorted."""
        wide = [row + self._constants for row in rows]
        made = [calls(wide, Peers(rows, order)) for order, calls in self._groups]
        return [sum(results, row) for row, *results in zip(rows, *made, strict=True)]


def _calls_of(
    spec: OverSpec, group: OverGroup, row_type: LogicalType, where: str, functions: UserAggregates | None
) -> Calls:
    """Compiles the calls of a group: functions of whole partitions, and aggregates over frames."""
    counts_rows = group.agg_calls[0].function in _RANKS

    def whole(call: AggregateCall, rows: Sequence[Row], peers: Peers) -> Sequence[Any]:
        if call.function == "$CUME_DIST$1" and counts_rows:
            return [(at + 1) / len(rows) for at in range(len(rows))]
        return _WHOLE[call.function](call, rows, peers)

    if any(call.function in _COMPARING for call in group.agg_calls):
        for field in group.order_by.fields:
            _check_ranked(row_type.fields[field.index].type, where)
    plain = [call for call in group.agg_calls if call.function not in _WHOLE]
    aggregates = _aggregates(spec, group, plain, row_type, where, functions, counts_rows=counts_rows) if plain else None

    def values(rows: Sequence[Row], peers: Peers) -> list[tuple[Any, ...]]:
        framed = iter(zip(*aggregates(rows, peers), strict=True) if aggregates is not None else ())
        columns = [whole(call, rows, peers) if call.function in _WHOLE else next(framed) for call in group.agg_calls]
        return list(zip(*columns, strict=True))

    return values


def _check_ranked(type: LogicalType, where: str) -> None:
    """Raises ``UnsupportedPlan``, with Flink's message, for a type that its ranks do not support."""
    if type.root not in _RANKED:
        raise UnsupportedPlan(f"{where}: Unsupported type: {type}")


# --- functions of the whole partition ----------------------------------------------------------------


def _row_number(call: AggregateCall, rows: Sequence[Row], peers: Peers) -> Sequence[Any]:
    return range(1, len(rows) + 1)


def _rank(call: AggregateCall, rows: Sequence[Row], peers: Peers) -> Sequence[Any]:
    return [start + 1 for start, _ in peers.spans]


def _dense_rank(call: AggregateCall, rows: Sequence[Row], peers: Peers) -> Sequence[Any]:
    return [number + 1 for number in peers.groups]


def _percent_rank(call: AggregateCall, rows: Sequence[Row], peers: Peers) -> Sequence[Any]:
    return [start / (len(rows) - 1) if len(rows) > 1 else 0.0 for start, _ in peers.spans]


def _cume_dist(call: AggregateCall, rows: Sequence[Row], peers: Peers) -> Sequence[Any]:
    """Computes CUME_DIST: the part of the rows up to the last peer of each row."""
    return [end / len(rows) for _, end in peers.spans]


def _ntile(call: AggregateCall, rows: Sequence[Row], peers: Peers) -> Sequence[Any]:
    """Computes NTILE; the first buckets have one row more where rows cannot be divided evenly."""
    size, larger = divmod(len(rows), rows[0][call.arg_list[0]])
    of_larger = (size + 1) * larger
    return [
        at // (size + 1) + 1 if at < of_larger else larger + (at - of_larger) // size + 1 for at in range(len(rows))
    ]


def _shifted(call: AggregateCall, rows: Sequence[Row], direction: int) -> Sequence[Any]:
    """Computes LEAD or LAG, ``LEAD(value, offset = 1, default = NULL)``; the default is the current row's."""
    value, *more = call.arg_list
    found = []
    for at, row in enumerate(rows):
        other = at + direction * (row[more[0]] if more else 1)
        missing = row[more[1]] if len(more) > 1 else None
        found.append(rows[other][value] if 0 <= other < len(rows) else missing)
    return found


def _lead(call: AggregateCall, rows: Sequence[Row], peers: Peers) -> Sequence[Any]:
    return _shifted(call, rows, 1)


def _lag(call: AggregateCall, rows: Sequence[Row], peers: Peers) -> Sequence[Any]:
    return _shifted(call, rows, -1)


_WHOLE: Final[dict[str, Callable[[AggregateCall, Sequence[Row], Peers], Sequence[Any]]]] = {
    "$ROW_NUMBER$1": _row_number,
    "$RANK$1": _rank,
    "$DENSE_RANK$1": _dense_rank,
    "$PERCENT_RANK$1": _percent_rank,
    "$CUME_DIST$1": _cume_dist,
    "$NTILE$1": _ntile,
    "$LEAD$1": _lead,
    "$LAG$1": _lag,
}
_COMPARING: Final = ("$RANK$1", "$DENSE_RANK$1", "$PERCENT_RANK$1")
_RANKED: Final = (
    *(
        TypeRoot.BOOLEAN,
        TypeRoot.TINYINT,
        TypeRoot.SMALLINT,
        TypeRoot.INTEGER,
        TypeRoot.BIGINT,
        TypeRoot.FLOAT,
        TypeRoot.DOUBLE,
    ),
    *(TypeRoot.DECIMAL, TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.DATE, TypeRoot.TIME, TypeRoot.TIMESTAMP),
)
_RANKS: Final = ("$RANK$1", "$DENSE_RANK$1", "$PERCENT_RANK$1", "$NTILE$1", "$ROW_NUMBER$1")


# --- aggregates over frames ------------------------------------------------------------------------


def _aggregates(
    spec: OverSpec,
    group: OverGroup,
    calls: Sequence[AggregateCall],
    row_type: LogicalType,
    where: str,
    functions: UserAggregates | None,
    *,
    counts_rows: bool,
) -> Calls:
    """Compiles aggregates over frames. ``counts_rows``: a rank precedes them in the window, in which case Flink uses the rows up to the current one
    instead of the frame."""
    begins_first = counts_rows or isinstance(group.lower_bound, UnboundedPreceding)
    types = [field.type for field in row_type.fields]
    is_float = any(
        found.root in _FLOATS
        for call in calls
        for found in (call.type, *[types[position] for position in call.arg_list])
    )
    lets_go = not begins_first and not is_float
    aggregates = compile_aggregates(calls, row_type, lets_go, where, functions)
    frames = _rows_so_far if counts_rows else _frames_of(spec, group, types, where)

    def values(rows: Sequence[Row], peers: Peers) -> list[tuple[Any, ...]]:
        found = frames(rows, peers)
        if begins_first or lets_go:
            return _adding_and_retracting(aggregates, rows, found)
        return _recomputing(aggregates, rows, found)

    return values


def _adding_and_retracting(
    aggregates: CompiledAggregates, rows: Sequence[Row], frames: Frames
) -> list[tuple[Any, ...]]:
    """Computes aggregates over frames whose bounds only advance: each row is accumulated once and retracted once."""
    acc = aggregates.create()
    first = last = 0
    before: tuple[int, int] | None = None
    made: list[tuple[Any, ...]] = []
    for frame in frames:
        for row in rows[last : frame[1]]:
            aggregates.change(acc, row, True)
        for row in rows[first : frame[0]]:
            aggregates.change(acc, row, False)
        first, last = frame
        made.append(made[-1] if frame == before else aggregates.values(acc))
        before = frame
    return made


def _recomputing(aggregates: CompiledAggregates, rows: Sequence[Row], frames: Frames) -> list[tuple[Any, ...]]:
    before: tuple[int, int] | None = None
    made: list[tuple[Any, ...]] = []
    for frame in frames:
        if frame == before:
            made.append(made[-1])
            continue
        acc = aggregates.create()
        for row in rows[slice(*frame)]:
            aggregates.change(acc, row, True)
        made.append(aggregates.values(acc))
        before = frame
    return made


def _rows_so_far(rows: Sequence[Row], peers: Peers) -> Frames:
    return [(0, at + 1) for at in range(len(rows))]


def _frames_of(
    spec: OverSpec, group: OverGroup, types: Sequence[LogicalType], where: str
) -> Callable[[Sequence[Row], Peers], Frames]:
    bounds = [_offset(spec, bound) for bound in (group.lower_bound, group.upper_bound)]
    if group.is_rows:
        lower, upper = bounds
        return lambda rows, peers: [_clamped(at, lower, upper, len(rows)) for at in range(len(rows))]
    if all(offset in (None, 0) for offset in bounds):
        return lambda rows, peers: [
            (0 if bounds[0] is None else start, len(rows) if bounds[1] is None else end) for start, end in peers.spans
        ]
    field = group.order_by.fields[0]
    scale = _scale(types[field.index], where)
    sides = [
        None
        if isinstance(bound, (UnboundedPreceding, UnboundedFollowing))
        else _side(field, bound, offset, scale, is_lower)
        for bound, offset, is_lower in zip((group.lower_bound, group.upper_bound), bounds, (True, False), strict=True)
    ]
    return lambda rows, peers: _ranges([row[field.index] for row in rows], *sides)


def _clamped(at: int, lower: Any, upper: Any, count: int) -> tuple[int, int]:
    last = count if upper is None else min(max(at + int(upper) + 1, 0), count)
    return (0 if lower is None else min(max(at + int(lower), 0), last)), last


def _ranges(values: Sequence[Any], lower: Side | None, upper: Side | None) -> Frames:
    """Computes RANGE frames as Flink does, including its treatment of nulls: a row that is not within the upper bound delays those behind it."""
    first = last = 0
    found = []
    for value in values:
        if upper is None:
            last = len(values)
        if lower is not None:
            while first < last and lower(values[first], value) < 0:
                first += 1
        while upper is not None and last < len(values) and upper(values[last], value) <= 0:
            last += 1
            if lower is not None and lower(values[last - 1], value) < 0:
                first = last
        found.append((first, last))
    return found


def _side(field: SortField, bound: WindowBound, offset: Any, scale: Any, is_lower: bool) -> Side:
    """Returns the comparison with a frame bound. As in Flink, distances are compared, not sums, which may differ for floats."""
    direction = 1 if field.is_ascending else -1
    if isinstance(bound, CurrentRow):

        def against_itself(other: Any, value: Any) -> Any:
            if other is None or value is None:
                return ((other is None) - (value is None)) * (1 if field.null_is_last else -1)
            return (other - value) * direction

        return against_itself
    distance = float(offset) if scale is float else offset * scale

    def against_distance(other: Any, value: Any) -> Any:
        if other is None or value is None:
            return -distance if other is value else -1 if is_lower else 1
        return (other - value) * direction - distance

    return against_distance


def _offset(spec: OverSpec, bound: WindowBound) -> int | float | Decimal | None:
    """Returns the offset of a bound from the current row, negative before it; ``None``: the end of the partition."""
    match bound:
        case UnboundedPreceding() | UnboundedFollowing():
            return None
        case CurrentRow():
            return 0
        case BoundedWindow(offset=RexInputRef(input_index=index)):
            literal = spec.constants[index - spec.original_input_fields]
            distance = python_value(literal.value, literal.type)
            assert isinstance(distance, (int, float, Decimal))
            return -distance if bound.is_preceding else distance
    raise UnsupportedPlan("an OVER window whose bound is not a constant is not supported")


def _scale(type: LogicalType, where: str) -> Any:
    """Returns the factor that converts a distance (in ms for times) to values as rows hold them; ``float``: a conversion."""
    match type.root:
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            return float
        case TypeRoot.TINYINT | TypeRoot.SMALLINT | TypeRoot.INTEGER | TypeRoot.BIGINT | TypeRoot.DECIMAL:
            return 1
        case TypeRoot.DATE:
            return Fraction(1, DAY_MS)
        case TypeRoot.TIME | TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            return 1 if type.root is TypeRoot.TIME else _OF_MS[time_unit(type)]
    raise UnsupportedPlan(f"{where}: a RANGE of distances of {type} is not supported")


__all__ = ["CompiledOver"]
