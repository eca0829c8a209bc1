"""Functions that begin expressions (PyFlink: ``pyflink.table.expressions``): ``col("a")``, ``lit(1)``, ``call("MY_FUNCTION", col("a"))``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegate.common.names.finding import elsewhere, finding
from tidegate.records.data_types import DataType
from tidegate.table.expression import Expression, JsonOnNull, TimePointUnit, literal, static_call, static_field, to_java

if TYPE_CHECKING:
    from tidegate.table._planner.session import Planner

__all__ = [
    "CURRENT_RANGE", "CURRENT_ROW", "UNBOUNDED_RANGE", "UNBOUNDED_ROW", "and_", "array", "atan2", "call", "call_sql", "coalesce", "col",
    "concat", "concat_ws", "convert_tz", "current_database", "current_date", "current_time", "current_timestamp", "current_watermark",
    "date_format", "descriptor", "e", "from_unixtime", "if_then_else", "json", "json_array", "json_array_agg", "json_object",
    "json_object_agg", "json_string", "lag", "lead", "lit", "local_time", "local_timestamp", "log", "map_", "map_from_arrays", "negative",
    "not_", "null_of", "object_of", "or_", "pi", "rand", "rand_integer", "range_", "row", "row_interval", "source_watermark",
    "temporal_overlaps", "timestamp_diff", "to_date", "to_timestamp", "to_timestamp_ltz", "unix_timestamp", "uuid", "with_all_columns",
    "with_columns", "without_columns",
]  # fmt: skip

UNBOUNDED_ROW = static_field("UNBOUNDED_ROW")
UNBOUNDED_RANGE = static_field("UNBOUNDED_RANGE")
CURRENT_ROW = static_field("CURRENT_ROW")
CURRENT_RANGE = static_field("CURRENT_RANGE")


def _given(*values: object) -> list[object]:
    """Without what was left out at the end."""
    found = list(values)
    while found and found[-1] is None:
        found.pop()
    return found


def col(name: str) -> Expression:
    """A column by its name."""
    return static_call("col", name)


def lit(v: object, data_type: DataType | None = None) -> Expression:
    """A constant, of the type that its value has, or of ``data_type``."""
    return literal(v, data_type)


def range_(start: str | int, end: str | int) -> Expression:
    """Columns from one to another, for ``with_columns``."""
    return static_call("range", start, end)


def and_(predicate0: object, predicate1: object, *predicates: object) -> Expression:
    """Three-valued AND."""
    return static_call("and", predicate0, predicate1, rest=predicates)


def or_(predicate0: object, predicate1: object, *predicates: object) -> Expression:
    """Three-valued OR."""
    return static_call("or", predicate0, predicate1, rest=predicates)


def not_(expression: object) -> Expression:
    """Three-valued NOT."""
    return static_call("not", expression)


def current_database() -> Expression:
    """The name of the current database."""
    return static_call("currentDatabase")


def current_date() -> Expression:
    """Today's date in the session's time zone."""
    return static_call("currentDate")


def current_time() -> Expression:
    """The time of day in the session's time zone."""
    return static_call("currentTime")


def current_timestamp() -> Expression:
    """The present moment, TIMESTAMP_LTZ(3)."""
    return static_call("currentTimestamp")


def current_watermark(rowtimeAttribute: object) -> Expression:  # noqa: N803
    """The watermark of a time attribute; null before the first."""
    return static_call("currentWatermark", rowtimeAttribute)


def local_time() -> Expression:
    """As ``current_time``."""
    return static_call("localTime")


def local_timestamp() -> Expression:
    """The present date and time in the session's time zone, TIMESTAMP(3)."""
    return static_call("localTimestamp")


def to_date(date_str: object, format: object = None) -> Expression:
    """The date that a text means, by a pattern (``yyyy-MM-dd``)."""
    return static_call("toDate", *_given(date_str, format))


def to_timestamp(timestamp_str: object, format: object = None) -> Expression:
    """The timestamp that a text means, by a pattern (``yyyy-MM-dd HH:mm:ss``)."""
    return static_call("toTimestamp", *_given(timestamp_str, format))


def to_timestamp_ltz(*args: object) -> Expression:
    """The moment that an epoch with its precision, or a text, means."""
    return static_call("toTimestampLtz", *args)


def temporal_overlaps(
    left_time_point: object, left_temporal: object, right_time_point: object, right_temporal: object
) -> Expression:
    """Whether two spans of time overlap."""
    return static_call("temporalOverlaps", left_time_point, left_temporal, right_time_point, right_temporal)


def date_format(timestamp: object, format: object) -> Expression:
    """A timestamp as text, by a pattern of Java's."""
    return static_call("dateFormat", timestamp, format)


def timestamp_diff(time_point_unit: TimePointUnit, time_point1: object, time_point2: object) -> Expression:
    """Whole units from the first to the second point."""
    return static_call("timestampDiff", time_point_unit, time_point1, time_point2)


def convert_tz(date_str: object, tz_from: object, tz_to: object) -> Expression:
    """A text ``yyyy-MM-dd HH:mm:ss`` of one zone as that of another."""
    return static_call("convertTz", date_str, tz_from, tz_to)


def from_unixtime(unixtime: object, format: object = None) -> Expression:
    """Seconds since 1970 as text in the session's time zone."""
    return static_call("fromUnixtime", *_given(unixtime, format))


def unix_timestamp(date_str: object = None, format: object = None) -> Expression:
    """Seconds since 1970, of now or of a text."""
    return static_call("unixTimestamp", *_given(date_str, format))


def array(head: object, *tail: object) -> Expression:
    """An array of the arguments."""
    return static_call("array", head, rest=tail)


def row(head: object, *tail: object) -> Expression:
    """A row of the arguments."""
    return static_call("row", head, rest=tail)


def map_(key: object, value: object, *tail: object) -> Expression:
    """A map of keys and values in turn."""
    return static_call("map", key, value, rest=tail)


def map_from_arrays(key: object, value: object) -> Expression:
    """A map of an array of keys and one of values."""
    return static_call("mapFromArrays", key, value)


def descriptor(*column_names: str) -> Expression:
    """Columns by their names, for a function that takes a table."""
    return Expression(
        lambda planner: planner.api.Expressions.descriptor(planner.array(planner.jvm.String, list(column_names)))
    )


def object_of(class_name: str, *args: object) -> Expression:
    """A structured value."""
    return static_call("objectOf", class_name, rest=args)


def row_interval(rows: int) -> Expression:
    """A number of rows, for windows."""
    return Expression(lambda planner: planner.api.Expressions.rowInterval(planner.jvm.java.lang.Long(rows)))


def pi() -> Expression:
    """π."""
    return static_call("pi")


def e() -> Expression:
    """Euler's number."""
    return static_call("e")


def rand(seed: object = None) -> Expression:
    """A random number from 0 to 1, without 1."""
    return static_call("rand", *_given(seed))


def rand_integer(bound: object, seed: object = None) -> Expression:
    """A random whole number from 0 to the bound, without it."""
    return static_call("randInteger", *([bound] if seed is None else [seed, bound]))


def atan2(y: object, x: object) -> Expression:
    """The angle of a point."""
    return static_call("atan2", y, x)


def negative(v: object) -> Expression:
    """The negative value."""
    return static_call("negative", v)


def concat(first: object, *others: object) -> Expression:
    """Texts one behind another; null if one is null."""
    return static_call("concat", first, rest=others)


def concat_ws(separator: object, first: object, *others: object) -> Expression:
    """Texts with a separator between them, without those that are null."""
    return static_call("concatWs", separator, first, rest=others)


def uuid() -> Expression:
    """A random UUID for each row."""
    return static_call("uuid")


def null_of(data_type: DataType) -> Expression:
    """Null of a type."""
    return static_call("nullOf", data_type)


def log(v: object, base: object = None) -> Expression:
    """The logarithm to a base, or the natural one."""
    return static_call("log", *([v] if base is None else [base, v]))


def source_watermark() -> Expression:
    """The watermarks that the source of a table has."""
    return static_call("sourceWatermark")


def if_then_else(condition: object, if_true: object, if_false: object) -> Expression:
    """One of two values."""
    return static_call("ifThenElse", condition, if_true, if_false)


def coalesce(*args: object) -> Expression:
    """The first value that is not null."""
    return static_call("coalesce", rest=args)


def with_all_columns() -> Expression:
    """All columns."""
    return static_call("withAllColumns")


def with_columns(head: object, *tails: object) -> Expression:
    """Some columns."""
    return static_call("withColumns", head, rest=tails)


def without_columns(head: object, *tails: object) -> Expression:
    """All columns but some."""
    return static_call("withoutColumns", head, rest=tails)


def json(value: object) -> Expression:
    """A text that is JSON already, within ``json_object`` and ``json_array``."""
    return static_call("json", value)


def json_string(value: object) -> Expression:
    """A value as JSON."""
    return static_call("jsonString", value)


def json_object(on_null: JsonOnNull = JsonOnNull.NULL, *args: object) -> Expression:
    """A JSON object of keys and values in turn."""
    return static_call("jsonObject", on_null, rest=args)


def json_object_agg(on_null: JsonOnNull, key_expr: object, value_expr: object) -> Expression:
    """A JSON object of the keys and values of many rows."""
    return static_call("jsonObjectAgg", on_null, key_expr, value_expr)


def json_array(on_null: JsonOnNull = JsonOnNull.ABSENT, *args: object) -> Expression:
    """A JSON array of the arguments."""
    return static_call("jsonArray", on_null, rest=args)


def json_array_agg(on_null: JsonOnNull, item_expr: object) -> Expression:
    """A JSON array of the values of many rows."""
    return static_call("jsonArrayAgg", on_null, item_expr)


def lag(expr: object, offset: object = 1, default: object = None) -> Expression:
    """The value some rows before, in an OVER window."""
    return static_call("lag", *_given(expr, offset, default))


def lead(expr: object, offset: object = 1, default: object = None) -> Expression:
    """The value some rows behind, in an OVER window."""
    return static_call("lead", *_given(expr, offset, default))


def call(f: object, *args: object) -> Expression:
    """A function by its name in the catalog, or one made by ``udf``, of the arguments."""
    if not isinstance(f, str):
        if not callable(f):
            raise TypeError(f"call() takes the name of a function, or one made by udf(), not {f!r}")
        made = f(*args)
        assert isinstance(made, Expression)
        return made
    return static_call("call", f, rest=args)


def call_sql(sql_expression: str) -> Expression:
    """An expression of SQL."""
    return static_call("callSql", sql_expression)


def to_java_expressions(values: tuple[object, ...], planner: Planner) -> Any:
    """A Java array of expressions; texts are columns, as ``*`` is all of them."""
    found = [col(value) if isinstance(value, str) else value for value in values]
    return planner.array(planner.jvm.org.apache.flink.table.expressions.Expression, to_java(found, planner))


__getattr__ = finding(__name__, elsewhere("tidegate.table.udf", "UserDefinedFunctionWrapper"))
