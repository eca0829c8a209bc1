"""From a query to operators of columns, when the graph is built: what does not fit is refused then, with the place.

    SELECT items FROM input WHERE p                     ─▶ filter ─▶ select
    ... GROUP BY k, TUMBLE(ts, INTERVAL '5' SECOND)      ─▶ filter ─▶ select ─▶ key_by(k) ─▶ window ─▶ agg ─▶ filter ─▶ select
        HAVING h                                           (WHERE)  (keys, arguments)                  (HAVING)  (items)

DuckDB parses. Expressions become Arrow kernels; those that have no exact translation are computed by DuckDB as columns in
front of the step that needs them (``engine``). A window is of the event time of the rows, which a watermark strategy has
assigned: the first argument of ``TUMBLE`` is its column.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidegate.common.time import Time
from tidegate.datastream.aggregates import Aggregate, AggregateFunctionName
from tidegate.datastream.sql.engine import DuckDbColumns, aggregate_names, interval_ms, text_of, types_of
from tidegate.datastream.sql.event_time import is_event_time
from tidegate.datastream.sql.names import named_items, resolved_groups, without_aliases
from tidegate.datastream.sql.query import Node, Query, arguments_of, column_ref, parse, plain, replaced, walk
from tidegate.datastream.sql.translation import column_name, is_moment, translated
from tidegate.datastream.sql.zones import window_shift_ms, zone_of
from tidegate.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows, WindowAssigner
from tidegate.functions.expressions import Expression, col, lit
from tidegate.model.errors import InvalidJob

if TYPE_CHECKING:
    from tidegate.datastream.data_stream import DataStream

_AGGREGATES: dict[str, AggregateFunctionName] = {
    "count_star": "count",
    "count": "count",
    "sum": "sum",
    "min": "min",
    "max": "max",
    "avg": "avg",
    "first": "first",
    "last": "last",
    "stddev": "stddev",
    "stddev_samp": "stddev",
    "approx_count_distinct": "approx_distinct",
    "median": "quantile",
    "approx_quantile": "quantile",
}
_BOUNDS = {"": "window_start", "_start": "window_start", "_end": "window_end"}
_WINDOW = {kind + bound: column for kind in ("tumble", "hop") for bound, column in _BOUNDS.items()}
_ALL = "__all"


def sql_stream(stream: DataStream, text: str) -> DataStream:
    """Raises ``InvalidJob``, ``SchemaMismatch``."""
    query = parse(text)
    _check_functions(query)
    _check_places_of_aggregates(query)
    if query.groups or any(_is_aggregate(node) for _, item in query.items for node in walk(item)):
        return _windowed(stream, query)
    if query.having is not None:
        raise InvalidJob(f"sql: HAVING needs a GROUP BY: {text}")
    return _selected(_filtered(stream, query, query.where), query, named_items(query, _columns(stream)))


def _check_places_of_aggregates(query: Query) -> None:
    """Raises ``InvalidJob`` for aggregates where no window is behind them yet."""
    places = [("WHERE", query.where), *(("GROUP BY", group) for group in query.groups)]
    for place, node in places:
        if any(_is_aggregate(one) for one in walk(node)):
            raise InvalidJob(f"sql: an aggregate in {place} has no rows yet, HAVING is for those: {query.text}")
    for node in (one for _, item in [*query.items, ("", query.having)] for one in walk(item) if _is_aggregate(one)):
        if any(_is_aggregate(inside) for inside in walk(arguments_of(node))):
            raise InvalidJob(f"sql: an aggregate of an aggregate needs two queries: {query.text}")


def _check_functions(query: Query) -> None:
    """Raises ``InvalidJob`` for clauses of aggregates at functions of one row."""
    for one in walk(query.tree):
        clauses = one["class"] == "FUNCTION" and (one["distinct"] or one["filter"] or one["order_bys"]["orders"])
        if clauses and not _is_aggregate(one):
            raise InvalidJob(
                f"sql: {one['function_name']} takes no DISTINCT, FILTER or ORDER BY, it is no aggregate: {query.text}"
            )


def _is_lambda_parameter(node: Node, nodes: Sequence[Node]) -> bool:
    """Whether a name is a parameter of a lambda around it: DuckDB computes these, and knows what they are."""
    lambdas = [one for outer in nodes for one in walk(outer) if one["class"] == "LAMBDA"]
    return any(
        any(inside is node for inside in walk(one)) and node["column_names"][:1] in _parameters_of(one)
        for one in lambdas
    )


def _parameters_of(node: Node) -> list[list[str]]:
    return [one["column_names"] for one in walk(node["lhs"]) if one["class"] == "COLUMN_REF"]


def _columns(stream: DataStream) -> pa.Schema:
    return stream._columns("sql")


def _filtered(stream: DataStream, query: Query, condition: Node | None) -> DataStream:
    if condition is None:
        return stream
    width = len(_columns(stream).names)
    stream, (predicate,) = _expressions(stream, query, [condition])
    kept = stream.filter(predicate)
    names = _columns(stream).names
    return kept if len(names) == width else kept.select(*names[:width])


def _selected(stream: DataStream, query: Query, items: Sequence[tuple[str, Node]]) -> DataStream:
    names = [name for name, _ in items]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidJob(f"sql: the column {twice[0]!r} is there twice, name one of them with AS: {query.text}")
    stream, expressions = _expressions(stream, query, [node for _, node in items])
    return stream.select(*[one.alias(name) for name, one in zip(names, expressions, strict=True)])


def _expressions(stream: DataStream, query: Query, nodes: Sequence[Node]) -> tuple[DataStream, list[Expression]]:
    """Expressions for the nodes, and the stream with the further columns that some of them read."""
    schema = _columns(stream)
    for node in (inside for one in nodes for inside in walk(one) if inside["class"] == "COLUMN_REF"):
        if not is_moment(node, schema) and not _is_lambda_parameter(node, nodes):
            column_name(node, schema, query.table_names)
    found = [translated(node, schema, query.table_names) for node in nodes]
    texts = [text_of(query, node) for node, one in zip(nodes, found, strict=True) if one is None]
    if texts:
        zone = zone_of(stream.get_execution_environment())
        kinds = types_of(query, texts, schema, zone)
        names = [f"__sql_{i}" for i in range(len(texts))]
        fields = [pa.field(name, kind) for name, kind in zip(names, kinds, strict=True)]
        wider = pa.schema([*schema, *fields])
        stream = stream.map_batches(DuckDbColumns(texts, wider, zone), wider).name("DuckDB")
        rest = iter(names)
        return stream, [col(next(rest)) if one is None else one for one in found]
    return stream, [one for one in found if one is not None]


@dataclass
class _Grouping:
    """What a windowed query groups by and aggregates; columns in front of the window are called by position."""

    query: Query
    schema: pa.Schema
    window: Node
    keys: list[tuple[str, Node]] = field(default_factory=list)
    arguments: list[tuple[str, Node]] = field(default_factory=list)
    aggregates: list[tuple[Node, Aggregate]] = field(default_factory=list)

    def add_aggregate(self, node: Node) -> None:
        if any(plain(node) == plain(known) for known, _ in self.aggregates):
            return
        name = node["function_name"]
        if name not in _AGGREGATES or node["distinct"] or node["filter"] or node["order_bys"]["orders"]:
            what = "DISTINCT, FILTER and ORDER BY in an aggregate" if name in _AGGREGATES else f"the aggregate {name}"
            raise InvalidJob(
                f"sql on a stream knows no {what}, only {', '.join(list(_AGGREGATES)[1:])}: {self.query.text}"
            )
        column = None
        if arguments_of(node):
            column = f"__arg_{len(self.arguments)}"
            self.arguments.append((column, arguments_of(node)[0]))
        share = self._share_of(node) if _AGGREGATES[name] == "quantile" else None
        made = Aggregate(_AGGREGATES[name], column, f"__agg_{len(self.aggregates)}", share)
        self.aggregates.append((node, made))

    def _share_of(self, node: Node) -> float:
        """Of ``median(x)`` and ``approx_quantile(x, share)``."""
        arguments = arguments_of(node)
        if len(arguments) == 1 and node["function_name"] == "median":
            return 0.5
        literal = arguments[-1].get("literal", {})
        share = float(literal["text"]) if literal.get("kind") in ("INTEGER", "NUMERIC") else -1.0
        if len(arguments) != 2 or not 0.0 <= share <= 1.0:
            raise InvalidJob(f"sql: {node['function_name']} takes a column and a number from 0 to 1: {self.query.text}")
        return share

    def behind(self, node: Node) -> Node | None:
        """What stands behind the window for a node of the query."""
        if _is_call(node, _WINDOW) and plain(arguments_of(node)) == plain(arguments_of(self.window)):
            return column_ref(_WINDOW[node["function_name"]])
        for name, key in self.keys:
            if plain(node) == plain(key):
                return column_ref(name)
        for known, aggregate in self.aggregates:
            if plain(node) == plain(known):
                return column_ref(aggregate.output_name)
        return None


def _windowed(stream: DataStream, query: Query) -> DataStream:
    schema = _columns(stream)
    named = named_items(query, schema)
    groups = resolved_groups(query, schema, named)
    windows = [node for node in groups if _is_call(node, ("tumble", "hop"))]
    if len(windows) != 1:
        raise InvalidJob(
            "sql: aggregates of a stream need one window: GROUP BY ..., TUMBLE(time column, INTERVAL '5' SECOND) "
            "or HOP(time column, slide, size): "
            f"{query.text}"
        )
    window, time = _window_of(windows[0], query, schema, zone_of(stream.get_execution_environment()))
    if not is_event_time(stream._transformation, time):
        raise InvalidJob(
            f"sql: the event time of this stream is not known to be its column {time!r}, and windows are of event time; "
            f"assign_timestamps_and_watermarks(strategy.with_timestamp_column({time!r})) before sql(...): {query.text}"
        )
    grouping = _Grouping(query, schema, windows[0])
    for node in groups:
        if node is not windows[0]:
            grouping.keys.append((f"__key_{len(grouping.keys)}", node))
    having = None if query.having is None else without_aliases(query.having, schema, named)
    for _, item in [*named, ("", having)]:
        for node in walk(item):
            if _is_aggregate(node):
                grouping.add_aggregate(node)
    results = [(name, _behind(grouping, node)) for name, node in named]
    rows = _filtered(stream, query, query.where)
    rows, expressions = _expressions(rows, query, [node for _, node in [*grouping.keys, *grouping.arguments]])
    columns = [
        one.alias(name) for (name, _), one in zip([*grouping.keys, *grouping.arguments], expressions, strict=True)
    ]
    keys = [name for name, _ in grouping.keys]
    if not keys:
        keys, columns = [_ALL], [lit(0).alias(_ALL), *columns]
    aggregates = [one for _, one in grouping.aggregates] or [Aggregate("count", None, "__agg_0")]
    made = rows.select(*columns).key_by(*keys).window(window).agg(*aggregates)
    if pa.types.is_timestamp(schema.field(time).type):
        made = _with_times(made, schema.field(time).type.tz)
    condition = None if having is None else _behind(grouping, having)
    return _selected(_filtered(made, query, condition), query, results)


def _window_of(node: Node, query: Query, schema: pa.Schema, zone: str) -> tuple[WindowAssigner[Any, Any], str]:
    """Its assigner, and its column of time."""
    arguments = arguments_of(node)
    slides = node["function_name"] == "hop"
    if len(arguments) != (3 if slides else 2) or arguments[0]["class"] != "COLUMN_REF":
        raise InvalidJob(
            f"sql: TUMBLE takes a column of time and an interval, HOP a column, the slide and the size: {query.text}"
        )
    lengths = [interval_ms(text_of(query, argument)) for argument in arguments[1:]]
    if min(lengths) <= 0:
        raise InvalidJob(f"sql: a window must be at least a millisecond long: {query.text}")
    column = column_name(arguments[0], schema, query.table_names)
    kind = schema.field(column).type
    is_instant = pa.types.is_timestamp(kind) and kind.tz is not None
    shift = Time.milliseconds(window_shift_ms(query.text, zone, lengths[0]) if is_instant else 0)
    times = [Time.milliseconds(length) for length in lengths]
    window: WindowAssigner[Any, Any] = (
        SlidingEventTimeWindows.of(times[1], times[0], shift)
        if slides
        else TumblingEventTimeWindows.of(times[0], shift)
    )
    return window, column


def _behind(grouping: _Grouping, node: Node) -> Node:
    found: Node = replaced(node, grouping.behind)
    made = {"window_start", "window_end", *(name for name, _ in grouping.keys)}
    made |= {one.output_name for _, one in grouping.aggregates}
    for inside in walk(found):
        if inside["class"] == "COLUMN_REF" and inside["column_names"][-1] not in made:
            name = ".".join(inside["column_names"])
            raise InvalidJob(f"sql: {name} must be in GROUP BY or in an aggregate: {grouping.query.text}")
    return found


def _with_times(stream: DataStream, zone: str | None) -> DataStream:
    """The bounds of the window as instants, like the column that they are of."""
    kind = pa.timestamp("ms", zone)
    schema = _columns(stream)
    bounds = ("window_start", "window_end")
    return stream.select(*[col(n).cast(kind).alias(n) if n in bounds else col(n) for n in schema.names])


def _is_call(node: Node, names: Container[str]) -> bool:
    return node["class"] == "FUNCTION" and node["function_name"] in names


def _is_aggregate(node: Node) -> bool:
    return node["class"] == "FUNCTION" and node["function_name"] in aggregate_names()
