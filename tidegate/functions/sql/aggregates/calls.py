"""Compilation of a node's aggregate calls: arguments are taken from rows, FILTER and DISTINCT are applied."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Final

from tidegate.functions.base import Function
from tidegate.functions.sql.aggregates.functions import (
    BITS,
    RUNNING,
    Accumulator,
    Extreme,
    SqlAggregate,
    form_of,
    make,
)
from tidegate.functions.sql.aggregates.ranked import PLAIN
from tidegate.functions.sql.aggregates.running import Kind, RunningAggregates, RunningCall
from tidegate.plan.errors import UnsupportedPlan
from tidegate.plan.expressions import AggregateCall
from tidegate.plan.logical_types import Field, LogicalType
from tidegate.records.canonical.forms import value_of


class UserAggregates(Function):
    """Aggregate functions of users, opened and closed with the operator that calls them."""

    @abstractmethod
    def aggregate(self, call: AggregateCall, arguments: Sequence[Field]) -> SqlAggregate | None:
        """Returns the function of a call with the columns of its arguments; ``None``: it is not the user's."""


class _Call:
    """An aggregate call. The accumulator of a distinct one is ``[count of each argument, accumulator]``: NaN equals itself there, zeros with different
    signs differ (Java's ``Double.equals``)."""

    def __init__(self, call: AggregateCall, function: SqlAggregate, keeps: bool = False) -> None:
        """Creates the call. ``keeps``: retractions are ignored, as for the MAX of values that only grow."""
        self._positions: Final = call.arg_list
        self._filter: Final = call.filter_arg
        self._distinct: Final = call.distinct
        self._keeps: Final = keeps
        self.function: Final = function
        self.counts_at: Final = [(False, 0)] if call.distinct else []
        """Where counts of values stand: whether in the function's accumulator within that of a distinct call, and the index."""
        if function.counts_at is not None:
            self.counts_at.append((call.distinct, function.counts_at))

    @property
    def merges_alike(self) -> bool:
        """Whether rows may be accumulated apart, and merged."""
        return not self._distinct and self.function.merges_alike

    def running(self) -> RunningCall | None:
        """Returns the call for arrays, if they can compute it."""
        function = self.function
        kind = RUNNING.get(type(function))
        if kind is None or not self._has_plain_arguments(kind):
            return None
        if isinstance(function, Extreme):
            if function.counts_at is not None:
                return None
            kind = function.kind
        argument = self._positions[0] if self._positions else None
        bits = BITS.get(function.type.root, 64)
        condition = self._filter if self._filter >= 0 else None
        return RunningCall(kind, argument, condition, self._keeps, bits, self._distinct)

    def _has_plain_arguments(self, kind: Kind) -> bool:
        """Tells whether arrays can compute the call over its arguments, by their types."""
        roots = [type.root for type in self.function.arguments]
        if kind in ("sum", "sum0", "avg") and not all(root in BITS for root in (self.function.type.root, *roots[:1])):
            return False
        is_plain = len(roots) == 1 and roots[0] in PLAIN
        return is_plain if self._distinct or kind == "max" else True

    def create(self) -> Accumulator:
        created = self.function.create()
        return [{}, created] if self._distinct else created

    def change(self, acc: Accumulator, row: Sequence[Any], adds: bool) -> None:
        if (self._filter >= 0 and row[self._filter] is not True) or (self._keeps and not adds):
            return
        args = tuple([row[position] for position in self._positions])
        function = self.function
        if not self._distinct:
            (function.add if adds else function.retract)(acc, args)
            return
        counts, inner = acc
        form = form_of(args)
        if adds:
            count = counts[form] = counts.get(form, 0) + 1
            if count == 1:
                function.add(inner, args)
        else:
            count = counts.get(form, 0) - 1
            if count > 0:
                counts[form] = count
            elif counts.pop(form, None) is not None:
                function.retract(inner, args)

    def merge(self, acc: Accumulator, other: Accumulator) -> None:
        if not self._distinct:
            self.function.merge(acc, other)
            return
        for form, count in other[0].items():
            before = acc[0].get(form, 0)
            acc[0][form] = before + count
            if not before:
                self.function.add(acc[1], value_of(form))

    def value(self, acc: Accumulator) -> Any:
        return self.function.value(acc[1] if self._distinct else acc)


class CompiledAggregates:
    """All aggregate calls of a node. An accumulator is ``[number of rows, accumulator of each call]``."""

    def __init__(self, calls: Sequence[_Call]) -> None:
        self._calls = tuple(calls)
        running = [found for call in calls if (found := call.running()) is not None]
        self.running: Final = RunningAggregates(running) if len(running) == len(calls) else None
        """The same over arrays; ``None`` where a call needs its rows one by one."""
        self.emits_rows: Final = any(call.function.emits_rows for call in calls)
        """Whether the one value is a tuple of rows."""
        self.want_all_rows: Final = any(call.function.wants_all_rows for call in calls)
        """Whether functions want all rows at once: it is better to keep these than their accumulators."""
        self.merges_alike: Final = all(call.merges_alike for call in calls)
        """Whether rows may be accumulated apart, in whatever order, and merged: the values are the same."""
        self.counts_at: Final = [(number, *place) for number, call in enumerate(calls) for place in call.counts_at]
        """Where counts stand that grow with the number of different values: the number of the call, whether in the function's accumulator within that of a
        distinct call, and the index."""

    def create(self) -> Accumulator:
        """Returns an empty accumulator."""
        return [0, [call.create() for call in self._calls]]

    def change(self, acc: Accumulator, row: Sequence[Any], adds: bool) -> None:
        """Accumulates (``adds``) or retracts a row."""
        acc[0] += 1 if adds else -1
        for call, inner in zip(self._calls, acc[1], strict=True):
            call.change(inner, row, adds)

    def merge(self, acc: Accumulator, other: Accumulator) -> None:
        """Merges ``other`` into an accumulator."""
        acc[0] += other[0]
        for call, inner, more in zip(self._calls, acc[1], other[1], strict=True):
            call.merge(inner, more)

    def values(self, acc: Accumulator) -> tuple[Any, ...]:
        """Returns the result of each aggregate call, from an accumulator."""
        return tuple([call.value(inner) for call, inner in zip(self._calls, acc[1], strict=True)])


def compile_aggregates(
    calls: Sequence[AggregateCall],
    input_type: LogicalType,
    retracts: bool | Sequence[bool],
    where: str,
    functions: UserAggregates | None = None,
) -> CompiledAggregates:
    """Compiles the aggregate calls of a node. ``retracts``: whether rows may be retracted, for all calls or for each. Raises ``UnsupportedPlan`` that
    names ``where`` and each function."""
    each = [retracts] * len(calls) if isinstance(retracts, bool) else list(retracts)
    fields = input_type.fields
    made: list[_Call] = []
    for call, may_go in zip(calls, each, strict=True):
        columns = [fields[position] for position in call.arg_list if position < len(fields)]
        arguments = [field.type for field in columns]
        function = None if functions is None else functions.aggregate(call, columns)
        keeps = function is None and not isinstance(retracts, bool) and not may_go
        if function is None:
            function = make(call, arguments, may_go)
        if function is None or (may_go and not function.can_retract):
            what = ", ".join(map(str, arguments))
            change = " of rows that may be taken back" if function is not None else ""
            raise UnsupportedPlan(f"{where}: the aggregate function {call.function}({what}){change} is not supported")
        made.append(_Call(call, function, keeps))
    return CompiledAggregates(made)


__all__ = ["CompiledAggregates", "UserAggregates", "compile_aggregates"]
