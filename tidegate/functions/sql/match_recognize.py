"""MATCH_RECOGNIZE: a pattern, its conditions and its measures from a compiled plan (behaves as Flink's ``StreamExecMatch`` and ``MatchCodeGenerator``).

    PATTERN, DEFINE, AFTER MATCH, WITHIN ─▶ Pattern         MEASURES ─▶ a projection over what a match has

An expression over a pattern asks for single values: the field of a row that a variable matched, or an aggregate of its rows. Each of these becomes a column of
one row, over which the rest of the expression is compiled as any other. A subset is a variable without rows, as it is in Flink.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, Final, TypeAlias

import pyarrow as pa
from msgspec.structs import replace

from tidegate.functions.cep.after_match_skip_strategy import AfterMatchSkipStrategy
from tidegate.functions.cep.compiler import compile_pattern
from tidegate.functions.cep.conditions import IterativeCondition
from tidegate.functions.cep.errors import MalformedPatternException
from tidegate.functions.cep.pattern import Pattern
from tidegate.functions.cep.quantifier import QuantifierProperty
from tidegate.functions.sql.aggregates import compile_aggregates
from tidegate.functions.sql.changelog import INSERT
from tidegate.functions.sql.rows import Row, array_of_values, batch_of, values_of
from tidegate.functions.sql.scalar import EvaluationContext, arrow_schema, compile_filter, compile_projection
from tidegate.plan import UnsupportedPlan
from tidegate.plan.expressions import AggregateCall, Rex, RexCall, RexInputRef, RexLiteral, RexPatternInputRef
from tidegate.plan.logical_types import Field, LogicalType, TypeRoot
from tidegate.plan.specs import MatchSpec

RowsOf: TypeAlias = Callable[[str], list[Row]]
"""Returns the rows that a variable matched, in order; ``*``: of all variables."""
Leaf: TypeAlias = Callable[[RowsOf, int], Any]
"""Computes one value of a match, or of a partial one, from its rows and the time in ms of the last one."""
ALL: Final = "*"
_AGGREGATES = frozenset(f"${name}$1" for name in ("SUM", "SUM0", "$SUM0", "COUNT", "AVG", "MIN", "MAX"))


def pattern_of(spec: MatchSpec, row_type: LogicalType, context: EvaluationContext) -> Pattern:
    """Builds the CEP pattern of a MATCH_RECOGNIZE node of a plan. Raises ``UnsupportedPlan``; for patterns that Flink refuses too, with Flink's message."""
    if spec.all_rows:
        raise UnsupportedPlan("All rows per match mode is not supported yet.")
    names = _variables(spec.pattern)
    if len(set(names)) < len(names):
        raise UnsupportedPlan("Pattern variables must be unique. That might change in the future.")
    try:
        pattern = _Stages(spec, row_type, context, names).pattern()
        if spec.interval is not None:
            pattern.within(_milliseconds(spec.interval))
        if compile_pattern(pattern).can_match_nothing():
            raise UnsupportedPlan(
                "Patterns that can produce empty matches are not supported. There must be at least one non-optional state."
            )
    except MalformedPatternException as error:
        raise UnsupportedPlan(error.message) from error
    if pattern.get_quantifier().has_property(QuantifierProperty.GREEDY):
        raise UnsupportedPlan(
            "Greedy quantifiers are not allowed as the last element of a Pattern yet. Finish your pattern with either a simple variable or reluctant "
            f"quantifier. (The last variable is {pattern.get_name()}: with a greedy quantifier it could match without end.)"
        )
    return pattern


class Measures:
    """The MEASURES clause, compiled, in the order of the columns of ``output_type``, which ends with them; a plan has them in that of their names."""

    def __init__(
        self, spec: MatchSpec, row_type: LogicalType, output_type: LogicalType, context: EvaluationContext
    ) -> None:
        self._names = _variables(spec.pattern)
        self._columns = _Columns(None, row_type, context)
        computed = output_type.fields[len(output_type.fields) - len(spec.measures) :]
        rexes = [self._columns.lifted(spec.measures[field.name]) for field in computed]
        self._projection = compile_projection(rexes, self._columns.type, context)

    def of(self, match: Mapping[str, list[Row]], timestamp: int) -> Row:
        """Computes the measures of one match, with the time of its last row in ms."""
        batch = self._columns.batch(_rows_of(match, self._names), timestamp)
        return tuple([values_of(column)[0] for column in self._projection.evaluate(batch)])


class _Defined(IterativeCondition):
    """A condition of the DEFINE clause."""

    def __init__(
        self, rex: Rex, variable: str, names: Sequence[str], row_type: LogicalType, context: EvaluationContext
    ) -> None:
        self._variable, self._names = variable, names
        self._columns = _Columns(variable, row_type, context)
        self._filter = compile_filter(self._columns.lifted(rex), self._columns.type, context)

    def filter(self, value: Any, ctx: IterativeCondition.Context) -> bool:
        def rows_of(variable: str) -> list[Row]:
            if variable == ALL:
                return [*chain.from_iterable(ctx.get_events_for_pattern(name) for name in self._names), value]
            rows = list(ctx.get_events_for_pattern(variable))
            return [*rows, value] if variable == self._variable else rows

        return bool(self._filter.evaluate(self._columns.batch(rows_of, ctx.timestamp()))[0].as_py())


class _Columns:
    """Collects the single values that expressions over a match need, as columns of one row. ``current``: the variable whose condition is compiled."""

    def __init__(self, current: str | None, row_type: LogicalType, context: EvaluationContext) -> None:
        self._current, self._row_type, self._context = current, row_type, context
        self._places: dict[Rex, int] = {}
        self._leaves: list[Leaf] = []
        self._types: list[LogicalType] = []

    @property
    def type(self) -> LogicalType:
        fields = tuple(Field(f"f{at}", type) for at, type in enumerate(self._types))
        return LogicalType(TypeRoot.ROW, False, fields=fields)

    def lifted(self, rex: Rex) -> Rex:
        """Rewrites an expression to one over the columns. Raises ``UnsupportedPlan``."""
        if isinstance(rex, RexPatternInputRef):
            return self._last(rex, rex, 0, from_end=True)
        if not isinstance(rex, RexCall):
            return rex
        function = rex.function
        if function == "$FINAL$1":
            return self.lifted(rex.operands[0])
        if function == "$RUNNING$1":
            raise UnsupportedPlan(f"Unsupported call: RUNNING({getattr(rex.operands[0], 'type', None)})")
        if function in ("$PREV$1", "$NEXT$1"):
            if _whole(rex.operands[1]):
                raise UnsupportedPlan("Flink does not support physical offset within partition.")
            return self.lifted(rex.operands[0])
        if function in ("$FIRST$1", "$LAST$1"):
            offset = _whole(rex.operands[1])
            return self._navigated(rex.operands[0], offset, from_end=function == "$LAST$1")
        if function in _AGGREGATES:
            return self._aggregate(rex)
        if function == "$MATCH_ROWTIME$1":
            assert rex.type is not None
            return self._add(rex, rex.type, lambda rows_of, timestamp: timestamp)
        if function in ("$MATCH_PROCTIME$1", "$CLASSIFIER$1", "$MATCH_NUMBER$1"):
            raise UnsupportedPlan(f"{function.strip('$').removesuffix('$1')} is not supported in MATCH_RECOGNIZE")
        return replace(rex, operands=tuple(map(self.lifted, rex.operands)))

    def batch(self, rows_of: RowsOf, timestamp: int) -> pa.RecordBatch:
        kept: dict[str, list[Row]] = {}

        def once(variable: str) -> list[Row]:
            found = kept.get(variable)
            if found is None:
                found = kept[variable] = rows_of(variable)
            return found

        schema = self._schema()
        columns = [
            array_of_values([leaf(once, timestamp)], field.type)
            for leaf, field in zip(self._leaves, schema, strict=True)
        ]
        if not columns:  # a condition of constants
            return pa.RecordBatch.from_pydict({"f0": [None]})
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _schema(self) -> pa.Schema:
        return arrow_schema(self.type)

    def _navigated(self, rex: Rex, offset: int, *, from_end: bool) -> Rex:
        """Rewrites FIRST or LAST of an expression to that of each of its fields."""
        if isinstance(rex, RexPatternInputRef):
            return self._last(RexCall(rex.type, (rex,), f"{offset}/{from_end}"), rex, offset, from_end=from_end)
        if isinstance(rex, RexCall):
            if rex.function in ("$FIRST$1", "$LAST$1", "$PREV$1", "$NEXT$1"):
                raise UnsupportedPlan("FIRST, LAST, PREV and NEXT within each other are not supported")
            return replace(rex, operands=tuple(self._navigated(one, offset, from_end=from_end) for one in rex.operands))
        return rex

    def _last(self, key: Rex, ref: RexPatternInputRef, offset: int, *, from_end: bool) -> Rex:
        variable, field = ref.alpha, ref.input_index

        def leaf(rows_of: RowsOf, timestamp: int) -> Any:
            rows = rows_of(variable)
            if offset >= len(rows):
                return None
            return rows[-1 - offset if from_end else offset][field]

        return self._add(key, ref.type, leaf)

    def _aggregate(self, rex: RexCall) -> Rex:
        assert rex.type is not None
        variables: set[str] = set()
        arguments = [_argument(operand, variables) for operand in rex.operands]
        if len(variables) > 1:
            raise UnsupportedPlan("Aggregation must be applied to a single pattern variable.")
        variable = next(iter(variables), ALL)
        is_star = rex.syntax == "FUNCTION_STAR" and rex.function == "$COUNT$1" and not arguments
        positions, row_type, row_of = self._arguments(() if is_star else arguments)
        call = AggregateCall(None, positions, -1, False, False, False, rex.type, internal_name=rex.function)
        compiled = compile_aggregates([call], row_type, False, "MATCH_RECOGNIZE")

        def leaf(rows_of: RowsOf, timestamp: int) -> Any:
            accumulator = compiled.create()
            for row in row_of(rows_of(variable)):
                compiled.change(accumulator, row, True)
            return compiled.values(accumulator)[0]

        return self._add(rex, rex.type, leaf)

    def _arguments(
        self, arguments: Sequence[RexInputRef | RexLiteral | RexCall]
    ) -> tuple[tuple[int, ...], LogicalType, Callable[[list[Row]], Sequence[Row]]]:
        """Returns the positions of an aggregate's arguments in rows, the type of these rows, and the function that makes them of the rows of a variable."""
        fields = [one.input_index for one in arguments if isinstance(one, RexInputRef)]
        if len(fields) == len(arguments):
            return tuple(fields), self._row_type, lambda rows: rows
        types = [_type_of(one) for one in arguments]
        row_type = LogicalType(
            TypeRoot.ROW, False, fields=tuple(Field(f"a{at}", type) for at, type in enumerate(types))
        )
        projection = compile_projection(arguments, self._row_type, self._context)
        schema = arrow_schema(self._row_type)

        def computed(rows: list[Row]) -> Sequence[Row]:
            if not rows:
                return rows
            batch = batch_of([(INSERT, row) for row in rows], schema)
            return list(zip(*map(values_of, projection.evaluate(batch)), strict=True))

        return tuple(range(len(types))), row_type, computed

    def _add(self, key: Rex, type: LogicalType, leaf: Leaf) -> Rex:
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = len(self._leaves)
            self._leaves.append(leaf)
            self._types.append(type.with_nullable(True))
        return RexInputRef(place, self._types[place])


class _Stages:
    """Converts the PATTERN clause to stages, first to last, each following immediately."""

    def __init__(
        self, spec: MatchSpec, row_type: LogicalType, context: EvaluationContext, names: Sequence[str]
    ) -> None:
        self._spec, self._row_type, self._context, self._names = spec, row_type, context, names
        self._skip = _strategy(spec.after)
        self._pattern: Pattern | None = None

    def pattern(self) -> Pattern:
        self._append(self._spec.pattern)
        assert self._pattern is not None
        return self._pattern

    def _append(self, rex: Rex) -> None:
        if isinstance(rex, RexLiteral):
            self._stage(str(rex.value))
            return
        assert isinstance(rex, RexCall)
        match rex.sql_kind or rex.function:
            case "PATTERN_CONCAT":
                for operand in rex.operands:
                    self._append(operand)
            case "$PATTERN_QUANTIFIER$1":
                self._quantified(rex)
            case "PATTERN_ALTER":
                raise UnsupportedPlan("Currently, CEP doesn't support branching patterns.")
            case "PATTERN_PERMUTE" | "$PERMUTE$1" | "$PATTERN_PERMUTE$1":
                raise UnsupportedPlan("Currently, CEP doesn't support PERMUTE patterns.")
            case "PATTERN_EXCLUDED" | "$PATTERN_EXCLUDE$1":
                raise UnsupportedPlan("Currently, CEP doesn't support '{-' '-}' patterns.")
            case other:
                raise UnsupportedPlan(f"{other} is not supported in a PATTERN")

    def _stage(self, name: str) -> Pattern:
        made = Pattern.begin(name, self._skip) if self._pattern is None else self._pattern.next(name)
        defined = self._spec.pattern_definitions.get(name)
        if defined is not None:
            made.where(_Defined(defined, name, self._names, self._row_type, self._context))
        self._pattern = made
        return made

    def _quantified(self, rex: RexCall) -> None:
        variable, start, end, reluctant = rex.operands
        if not isinstance(variable, RexLiteral):
            raise UnsupportedPlan("Group patterns are not supported yet.")
        stage = self._stage(str(variable.value))
        least, most = _whole(start), _whole(end)
        assert isinstance(reluctant, RexLiteral)
        is_optional = (least, most) == (0, 1)
        if is_optional and reluctant.value:
            raise UnsupportedPlan("Reluctant optional variables are not supported yet.")
        if (least, most) == (0, -1):
            stage.one_or_more().optional().consecutive()
        elif is_optional:
            stage.optional()
        elif most != -1:
            stage.times(least, most).consecutive()
        else:
            stage.times_or_more(least).consecutive()
        if not reluctant.value and not is_optional and least != most:
            stage.greedy()


def _strategy(after: Rex) -> AfterMatchSkipStrategy:
    if isinstance(after, RexLiteral):
        return {
            "SKIP_PAST_LAST_ROW": AfterMatchSkipStrategy.skip_past_last_event,
            "SKIP_TO_NEXT_ROW": AfterMatchSkipStrategy.skip_to_next,
        }[str(after.value)]()
    assert isinstance(after, RexCall)
    (variable,) = after.operands
    assert isinstance(variable, RexLiteral)
    is_first = "FIRST" in after.function
    name = str(variable.value)
    made = AfterMatchSkipStrategy.skip_to_first(name) if is_first else AfterMatchSkipStrategy.skip_to_last(name)
    return made.throw_exception_on_miss()


def _variables(rex: Rex) -> list[str]:
    """Returns the variables of a pattern, in order."""
    if isinstance(rex, RexLiteral):
        return [str(rex.value)] if rex.type.root in (TypeRoot.CHAR, TypeRoot.VARCHAR) else []
    return [name for operand in rex.operands for name in _variables(operand)] if isinstance(rex, RexCall) else []


def _rows_of(match: Mapping[str, list[Row]], names: Sequence[str]) -> RowsOf:
    def rows_of(variable: str) -> list[Row]:
        if variable == ALL:
            return list(chain.from_iterable(match.get(name, ()) for name in names))
        return match.get(variable, [])

    return rows_of


def _argument(rex: Rex, variables: set[str]) -> RexInputRef | RexLiteral | RexCall:
    """Rewrites an argument of an aggregate to an expression over a row of its variable, whose name is added to ``variables``."""
    if isinstance(rex, RexPatternInputRef):
        variables.add(rex.alpha)
        return RexInputRef(rex.input_index, rex.type)
    if isinstance(rex, RexLiteral):
        return rex
    if not isinstance(rex, RexCall):
        raise UnsupportedPlan(f"an aggregate of a {type(rex).__name__} is not supported in MATCH_RECOGNIZE")
    if rex.function in ("$LAST$1", "$PREV$1") and not _whole(rex.operands[1]):
        return _argument(rex.operands[0], variables)
    if rex.function in ("$FINAL$1", "$RUNNING$1", *_AGGREGATES, "$FIRST$1", "$LAST$1", "$PREV$1", "$NEXT$1"):
        name = rex.function.strip("$").removesuffix("$1")
        raise UnsupportedPlan(f"{name} within an aggregate is not supported in MATCH_RECOGNIZE")
    return replace(rex, operands=tuple([_argument(one, variables) for one in rex.operands]))


def _type_of(rex: RexInputRef | RexLiteral | RexCall) -> LogicalType:
    """Returns the type of an argument of an aggregate."""
    assert rex.type is not None
    return rex.type


def _whole(rex: Rex) -> int:
    assert isinstance(rex, RexLiteral)
    return int(str(rex.value))


def _milliseconds(rex: Rex) -> int:
    if not isinstance(rex, RexLiteral) or rex.type.root is TypeRoot.INTERVAL_YEAR_MONTH:
        raise UnsupportedPlan(
            "Only constant intervals with millisecond resolution are supported as time constraints of patterns."
        )
    return int(str(rex.value))


__all__ = ["Measures", "pattern_of"]
