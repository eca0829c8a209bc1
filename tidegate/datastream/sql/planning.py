"""The planner of queries on streams: builds operators of columns, and refuses what is not supported, with the place.

    SELECT items FROM input WHERE p                     ─▶ filter ─▶ select
    ... GROUP BY k, TUMBLE(ts, INTERVAL '5' SECOND)      ─▶ filter ─▶ select ─▶ key_by(k) ─▶ window ─▶ agg ─▶ filter ─▶ select
        HAVING h                                           (WHERE)  (keys, arguments)                  (HAVING)  (items)

DuckDB parses. Expressions become Arrow kernels; those that have no exact translation are computed by DuckDB as columns in
front of the step that needs them (``engine``). A window is of the event time of the rows, which a watermark strategy has
assigned: the first argument of ``TUMBLE`` is its column.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self, TypeVar

import pyarrow as pa

from tidegate.common.time import Time
from tidegate.datastream._graph.transformation import Transformation
from tidegate.datastream.aggregates import Aggregate, key_fields
from tidegate.datastream.sql.aggregation import HUGEINT, check_aggregate, check_result, parts_of, parts_together
from tidegate.datastream.sql.engine import (
    aggregate_names,
    interval_ms,
    text_of,
    types_of,
    types_of_aggregates,
)
from tidegate.datastream.sql.event_time import is_event_time
from tidegate.datastream.sql.names import named_items, resolved_groups, with_columns, without_aliases
from tidegate.datastream.sql.query import Node, Query, arguments_of, column_ref, hugeint, parse, plain, replaced, walk
from tidegate.datastream.sql.translation import column_name, column_or_field, column_path, is_moment, translated
from tidegate.datastream.sql.zones import window_shift_ms, zone_of
from tidegate.datastream.window import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from tidegate.functions.expressions import Expression, col, lit
from tidegate.functions.sql.duckdb_values import DuckDbColumns, DuckDbValues
from tidegate.functions.sql.kernels import Exact
from tidegate.model.errors import InvalidJob, SchemaMismatch
from tidegate.model.values import AssignedWindow, Record

_BOUNDS = {"": "window_start", "_start": "window_start", "_end": "window_end"}
_WINDOWS = ("tumble", "hop", "session")
_WINDOW = {kind + bound: column for kind in _WINDOWS for bound, column in _BOUNDS.items()}
_ALL = "__all"


class ColumnStream(Protocol):
    """The methods of ``DataStream`` that a query uses; each returns another stream."""

    @property
    def _transformation(self) -> Transformation: ...

    def _columns(self, method: str) -> pa.Schema: ...

    def filter(self, func: Expression) -> Self:
        """Keeps the rows for which the expression is true."""

    def select(self, *columns: str | Expression) -> Self:
        """Returns the columns named or computed."""

    def map_batches(self, func: Callable[[pa.RecordBatch], pa.RecordBatch], schema: pa.Schema) -> Self:
        """Applies a function to whole batches; ``schema``: the columns that it returns."""

    def name(self, name: str) -> Self:
        """Names the operator."""

    def _window_aggregates(
        self,
        keys: Sequence[str],
        window: WindowAssigner[Record, AssignedWindow],
        aggregates: Sequence[Aggregate],
    ) -> Self: ...


S = TypeVar("S", bound=ColumnStream)


def sql_stream(stream: S, text: str, configuration: Mapping[str, str]) -> S:
    """Returns the stream of a query's result, with the options of the environment. Raises ``InvalidJob``, ``SchemaMismatch``, ``ConfigurationError``."""
    query = parse(text, zone_of(configuration))
    _check_names(_columns(stream), text)
    _check_functions(query)
    _check_places_of_aggregates(query)
    if query.groups or any(_is_aggregate(node) for _, item in query.items for node in walk(item)):
        return _windowed(stream, query)
    if query.having is not None:
        raise InvalidJob(f"sql: HAVING needs a GROUP BY: {text}")
    return _selected(_filtered(stream, query, query.where), query, named_items(query, _columns(stream)))


def _check_names(schema: pa.Schema, text: str) -> None:
    """Raises ``InvalidJob`` where names differ by case only, which SQL ignores."""
    lower = [name.lower() for name in schema.names]
    twice = [name for name in schema.names if lower.count(name.lower()) > 1]
    if twice:
        raise InvalidJob(
            f"sql: the columns {' and '.join(twice)} of the stream differ by case only, which SQL does not see: "
            f"select(col({twice[0]!r}).alias(...), ...) before sql(...) renames one: {text}"
        )


def _check_places_of_aggregates(query: Query) -> None:
    """Raises ``InvalidJob`` for aggregates in clauses that are evaluated before the window."""
    places = [("WHERE", query.where), *(("GROUP BY", group) for group in query.groups)]
    for place, node in places:
        if any(_is_aggregate(one) for one in walk(node)):
            raise InvalidJob(
                f"sql: an aggregate in {place} is not allowed; conditions on aggregates belong into HAVING: {query.text}"
            )
    for node in (one for _, item in [*query.items, ("", query.having)] for one in walk(item) if _is_aggregate(one)):
        if any(_is_aggregate(inside) for inside in walk(arguments_of(node))):
            raise InvalidJob(f"sql: an aggregate of an aggregate is not possible in one query; write two: {query.text}")


def _check_functions(query: Query) -> None:
    """Raises ``InvalidJob`` for aggregate clauses on scalar functions."""
    for one in walk(query.tree):
        clauses = one["class"] == "FUNCTION" and (one["distinct"] or one["filter"] or one["order_bys"]["orders"])
        if clauses and not _is_aggregate(one):
            raise InvalidJob(
                f"sql: {one['function_name']} cannot have DISTINCT, FILTER or ORDER BY, as it is not an aggregate: {query.text}"
            )


def _is_lambda_parameter(node: Node, nodes: Sequence[Node]) -> bool:
    """Returns whether a name is a parameter of an enclosing lambda, which DuckDB evaluates."""
    lambdas = [one for outer in nodes for one in walk(outer) if one["class"] == "LAMBDA"]
    return any(
        any(inside is node for inside in walk(one)) and node["column_names"][:1] in _parameters_of(one)
        for one in lambdas
    )


def _parameters_of(node: Node) -> list[list[str]]:
    return [one["column_names"] for one in walk(node["lhs"]) if one["class"] == "COLUMN_REF"]


def _columns(stream: ColumnStream) -> pa.Schema:
    return stream._columns("sql")


def _filtered(stream: S, query: Query, condition: Node | None) -> S:
    if condition is None:
        return stream
    width = len(_columns(stream).names)
    condition = with_columns(condition, query, _columns(stream))
    stream, (predicate,) = _expressions(stream, query, [condition], "CASE WHEN {} THEN true ELSE false END")
    kept = stream.filter(predicate)
    names = _columns(stream).names
    return kept if len(names) == width else kept.select(*names[:width])


def _selected(stream: S, query: Query, items: Sequence[tuple[str, Node]]) -> S:
    names = [name for name, _ in items]
    lower = [name.lower() for name in names]
    twice = sorted({name for name in names if lower.count(name.lower()) > 1})
    if twice:
        raise InvalidJob(
            f"sql: the column {twice[0]!r} stands twice in the result, name one of them with AS: {query.text}"
        )
    stream, expressions = _expressions(stream, query, [node for _, node in items])
    return stream.select(*[one.alias(name) for name, one in zip(names, expressions, strict=True)])


def _expressions(stream: S, query: Query, nodes: Sequence[Node], form: str = "{}") -> tuple[S, list[Expression]]:
    """Translates nodes to expressions; returns them with the stream, to which columns that some of them read were added. ``form``: of the SQL that
    DuckDB evaluates; a condition becomes that of a CASE, which stops where a part is false."""
    schema = _columns(stream)
    for node in (inside for one in nodes for inside in walk(one) if inside["class"] == "COLUMN_REF"):
        if not is_moment(node, schema) and not _is_lambda_parameter(node, nodes):
            column_path(node, schema, query.table_names)
    zone = query.zone
    found: list[Expression | None] = [
        None if n["class"] != "COLUMN_REF" or is_moment(n, schema) else _handed_on(n, query, schema) for n in nodes
    ]
    open_places = [i for i, one in enumerate(found) if one is None]
    texts = [form.format(text_of(query, nodes[i])) for i in open_places]
    read = [_read(nodes[i], schema) for i in open_places]
    kinds = types_of(query, texts, _only(schema, read), zone) if texts else []
    left: list[tuple[int, str, pa.DataType]] = []
    own = _free_prefix(schema)
    for i, text, kind, columns in zip(open_places, texts, kinds, read, strict=True):
        kernels = translated(nodes[i], schema, query.table_names)
        if kernels is not None and kernels.output_field(schema).type == kind:
            found[i] = Exact(kernels, DuckDbValues([text], [kind], columns, zone))
        else:
            left.append((i, text, kind))
            found[i] = col(f"{own}{len(left) - 1}")
    if left:
        fields = [pa.field(f"{own}{n}", kind) for n, (_, _, kind) in enumerate(left)]
        wider = pa.schema([*schema, *fields])
        columns = _only(schema, [_read(nodes[i], schema) for i, _, _ in left]).names
        function = DuckDbColumns([text for _, text, _ in left], wider, zone, columns)
        stream = stream.map_batches(function, wider).name("DuckDB")
    return stream, [one for one in found if one is not None]


def _free_prefix(schema: pa.Schema) -> str:
    """Returns a prefix of names that no column of the stream has, in whatever case."""
    prefix = "__sql_"
    while any(name.lower().startswith(prefix) for name in schema.names):
        prefix += "_"
    return prefix


def _handed_on(node: Node, query: Query, schema: pa.Schema) -> Expression:
    return column_or_field(node, schema, query.table_names)


def _read(node: Node, schema: pa.Schema) -> list[str]:
    """Returns the columns that an expression reads, and possibly some more."""
    named = {part.lower() for one in walk(node) if one["class"] == "COLUMN_REF" for part in one["column_names"]}
    return [name for name in schema.names if name.lower() in named]


def _only(schema: pa.Schema, read: Sequence[Sequence[str]]) -> pa.Schema:
    return pa.schema([field for field in schema if any(field.name in names for names in read)])


@dataclass
class _Grouping:
    """The keys and aggregates of a windowed query; columns before the window are named by position."""

    query: Query
    schema: pa.Schema
    window: Node
    keys: list[tuple[str, Node]] = field(default_factory=list)
    aggregates: list[tuple[Node, str]] = field(default_factory=list)
    """The aggregates, with the names of their results."""
    huge: set[str] = field(default_factory=set)
    """The results of type HUGEINT."""

    def add_aggregate(self, node: Node) -> None:
        if any(plain(node) == plain(known) for known, _ in self.aggregates):
            return
        check_aggregate(node, self.query.text)
        self.aggregates.append((node, f"__agg_{len(self.aggregates)}"))

    def after(self, node: Node) -> Node | None:
        """Returns the node after the window that corresponds to a node of the query; ``None``: there is none."""
        if _is_call(node, _WINDOW) and plain(arguments_of(node)) == plain(arguments_of(self.window)):
            return column_ref(_WINDOW[node["function_name"]])
        for name, key in self.keys:
            if plain(node) == plain(key):
                return column_ref(name)
        for known, name in self.aggregates:
            if plain(node) == plain(known):
                return hugeint(name) if name in self.huge else column_ref(name)
        return None


def _windowed(stream: S, query: Query) -> S:
    schema = _columns(stream)
    named = named_items(query, schema)
    groups = resolved_groups(query, schema, named)
    windows = [node for node in groups if _is_call(node, _WINDOWS)]
    if len(windows) != 1:
        raise InvalidJob(
            "sql: aggregates of a stream need one window: GROUP BY ..., TUMBLE(time column, INTERVAL '5' SECOND), "
            "HOP(time column, slide, size) or SESSION(time column, gap): "
            f"{query.text}"
        )
    window, time = _window_of(windows[0], query, schema, query.zone)
    if not is_event_time(stream._transformation, time):
        raise InvalidJob(
            f"sql: the event time of this stream is not known to be its column {time!r}, and windows are of event time; "
            f"assign_timestamps_and_watermarks(strategy.with_timestamp_column({time!r})) before sql(...): {query.text}"
        )
    grouping = _Grouping(query, schema, windows[0])
    for node in groups:
        if node is not windows[0]:
            grouping.keys.append((f"__key_{len(grouping.keys)}", node))
    having = without_aliases(query, schema, named)
    for _, item in [*named, ("", having)]:
        for node in walk(item):
            if _is_aggregate(node):
                grouping.add_aggregate(node)
    rows = _filtered(stream, query, query.where)
    made = _aggregated(rows, grouping, window)
    if pa.types.is_timestamp(schema.field(time).type):
        made = _with_times(made, schema.field(time).type.tz)
    results = [(name, _after_grouping(grouping, node)) for name, node in named]
    condition = None if having is None else _after_grouping(grouping, having)
    return _selected(_filtered(made, query, condition), query, results)


def _aggregated(rows: S, grouping: _Grouping, window: WindowAssigner[Record, AssignedWindow]) -> S:
    """Aggregates windows: one row for each window and key, with the bounds, the keys and the results."""
    query, nodes = grouping.query, [node for node, _ in grouping.aggregates]
    zone = query.zone
    read = _only(_columns(rows), [_read(node, _columns(rows)) for node in nodes])
    results = types_of_aggregates(query, [text_of(query, node) for node in nodes], read, zone)
    keys = [name for name, _ in grouping.keys]
    arguments = [arguments_of(node)[0] for node in nodes if arguments_of(node)]
    rows, expressions = _expressions(rows, query, [*[node for _, node in grouping.keys], *arguments])
    columns = []
    for name, one in zip(keys, expressions, strict=False):
        kind = one.output_field(_columns(rows)).type
        _check_key(kind, query)
        if pa.types.is_floating(kind):
            one = (one + 0.0).cast(kind)  # as keys of a stream -0.0 and 0.0 are two, in SQL one
        columns.append(one.alias(name))
    rest = iter(expressions[len(keys) :])
    parts = [
        parts_of(node, name, next(rest) if arguments_of(node) else None, _columns(rows), kind, query.text)
        for (node, name), kind in zip(grouping.aggregates, results, strict=True)
    ]
    if not keys:
        keys, columns = [_ALL], [lit(0).alias(_ALL), *columns]
    before, aggregates = parts_together(parts)
    made = rows.select(*columns, *before)
    found = made._window_aggregates(keys, window, aggregates or [Aggregate("count", None, "__rows")])
    for (node, name), part, kind in zip(grouping.aggregates, parts, results, strict=True):
        check_result(part, _columns(found), kind, node, query.text)
        if kind == HUGEINT:
            grouping.huge.add(name)
    named = [one.result.alias(name) for (_, name), one in zip(grouping.aggregates, parts, strict=True)]
    return found.select("window_start", "window_end", *keys, *named)


def _check_key(kind: pa.DataType, query: Query) -> None:
    try:
        key_fields(pa.schema([("key", kind)]), ["key"])
    except SchemaMismatch as error:
        raise InvalidJob(f"sql: a column of type {kind} cannot be in GROUP BY: {query.text}") from error


def _window_of(
    node: Node, query: Query, schema: pa.Schema, zone: str
) -> tuple[WindowAssigner[Record, AssignedWindow], str]:
    """Returns the window assigner of a query, and its time column."""
    arguments = arguments_of(node)
    slides = node["function_name"] == "hop"
    if len(arguments) != (3 if slides else 2) or arguments[0]["class"] != "COLUMN_REF":
        raise InvalidJob(
            "sql: TUMBLE and SESSION take a column of time and an interval, HOP a column, the slide and the size: "
            f"{query.text}"
        )
    lengths = [interval_ms(text_of(query, argument)) for argument in arguments[1:]]
    if min(lengths) <= 0:
        raise InvalidJob(f"sql: a window must be at least a millisecond long: {query.text}")
    column = column_name(arguments[0], schema, query.table_names)
    kind = schema.field(column).type
    if node["function_name"] == "session":
        return EventTimeSessionWindows.with_gap(Time.milliseconds(lengths[0])), column
    is_instant = pa.types.is_timestamp(kind) and kind.tz is not None
    shift = Time.milliseconds(window_shift_ms(query.text, zone, lengths[0]) if is_instant else 0)
    times = [Time.milliseconds(length) for length in lengths]
    window: WindowAssigner[Record, AssignedWindow] = (
        SlidingEventTimeWindows.of(times[1], times[0], shift)
        if slides
        else TumblingEventTimeWindows.of(times[0], shift)
    )
    return window, column


def _after_grouping(grouping: _Grouping, node: Node) -> Node:
    found: Node = replaced(node, grouping.after)
    made = {"window_start", "window_end", *(name for name, _ in grouping.keys)}
    made |= {name for _, name in grouping.aggregates}
    for inside in walk(found):
        if inside["class"] == "COLUMN_REF" and (
            len(inside["column_names"]) > 1 or inside["column_names"][0] not in made
        ):
            name = ".".join(inside["column_names"])
            raise InvalidJob(f"sql: {name} must be in GROUP BY or in an aggregate: {grouping.query.text}")
    return found


def _with_times(stream: S, zone: str | None) -> S:
    """Casts the bounds of the window to instants, like its time column."""
    kind = pa.timestamp("ms", zone)
    schema = _columns(stream)
    bounds = ("window_start", "window_end")
    return stream.select(*[col(n).cast(kind).alias(n) if n in bounds else col(n) for n in schema.names])


def _is_call(node: Node, names: Container[str]) -> bool:
    return node["class"] == "FUNCTION" and node["function_name"] in names


def _is_aggregate(node: Node) -> bool:
    return node["class"] == "FUNCTION" and node["function_name"] in aggregate_names()
