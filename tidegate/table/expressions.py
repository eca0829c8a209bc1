"""Functions that start an expression (PyFlink: ``pyflink.table.expressions``): ``col("a")``, ``lit(1)``, ``call("MY_FUNCTION", col("a"))``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegate.common.names.finding import elsewhere, finding
from tidegate.records.data_types import DataType
from tidegate.table.expression import Expression, JsonOnNull, TimePointUnit, literal, static_call, static_field, to_java

if TYPE_CHECKING:
    from tidegate.table._planner.planner import Planner

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
    """Drops trailing ``None`` arguments."""
    found = list(values)
    while found and found[-1] is None:
        found.pop()
    return found


def col(name: str) -> Expression:
    """Returns a column by name."""
    return static_call("col", name)


def lit(v: object, data_type: DataType | None = None) -> Expression:
    """Returns a constant, of the type of its value or of ``data_type``."""
    return literal(v, data_type)


def range_(start: str | int, end: str | int) -> Expression:
    """Selects the columns from one to another, for ``with_columns``."""
    return static_call("range", start, end)


def and_(predicate0: object, predicate1: object, *predicates: object) -> Expression:
    """Returns the three-valued AND of the predicates."""
    return static_call("and", predicate0, predicate1, rest=predicates)


def or_(predicate0: object, predicate1: object, *predicates: object) -> Expression:
    """Returns the three-valued OR of the predicates."""
    return static_call("or", predicate0, predicate1, rest=predicates)


def not_(expression: object) -> Expression:
    """Returns the three-valued NOT of an expression."""
    return static_call("not", expression)


def current_database() -> Expression:
    """Returns the name of the current database."""
    return static_call("currentDatabase")


def current_date() -> Expression:
    """Returns today's date in the session's time zone."""
    return static_call("currentDate")


def current_time() -> Expression:
    """Returns the time of day in the session's time zone."""
    return static_call("currentTime")


def current_timestamp() -> Expression:
    """Returns the current time, TIMESTAMP_LTZ(3)."""
    return static_call("currentTimestamp")


def current_watermark(rowtimeAttribute: object) -> Expression:  # noqa: N803
    """Returns the watermark of a time attribute; null before the first."""
    return static_call("currentWatermark", rowtimeAttribute)


def local_time() -> Expression:
    """Returns the time of day in the session's time zone."""
    return static_call("localTime")


def local_timestamp() -> Expression:
    """Returns the current date and time in the session's time zone, TIMESTAMP(3)."""
    return static_call("localTimestamp")


def to_date(date_str: object, format: object = None) -> Expression:
    """Parses a date by a pattern (default ``yyyy-MM-dd``)."""
    return static_call("toDate", *_given(date_str, format))


def to_timestamp(timestamp_str: object, format: object = None) -> Expression:
    """Parses a timestamp by a pattern (default ``yyyy-MM-dd HH:mm:ss``)."""
    return static_call("toTimestamp", *_given(timestamp_str, format))


def to_timestamp_ltz(*args: object) -> Expression:
    """Converts a number since the epoch, with its precision, or a text to TIMESTAMP_LTZ."""
    return static_call("toTimestampLtz", *args)


def temporal_overlaps(
    left_time_point: object, left_temporal: object, right_time_point: object, right_temporal: object
) -> Expression:
    """Tests whether two periods of time overlap."""
    return static_call("temporalOverlaps", left_time_point, left_temporal, right_time_point, right_temporal)


def date_format(timestamp: object, format: object) -> Expression:
    """Formats a timestamp by a pattern of Java's."""
    return static_call("dateFormat", timestamp, format)


def timestamp_diff(time_point_unit: TimePointUnit, time_point1: object, time_point2: object) -> Expression:
    """Returns the whole units between two points in time, the second minus the first."""
    return static_call("timestampDiff", time_point_unit, time_point1, time_point2)


def convert_tz(date_str: object, tz_from: object, tz_to: object) -> Expression:
    """Converts a text ``yyyy-MM-dd HH:mm:ss`` from one time zone to another."""
    return static_call("convertTz", date_str, tz_from, tz_to)


def from_unixtime(unixtime: object, format: object = None) -> Expression:
    """Formats seconds since 1970 as text in the session's time zone."""
    return static_call("fromUnixtime", *_given(unixtime, format))


def unix_timestamp(date_str: object = None, format: object = None) -> Expression:
    """Returns seconds since 1970, of the current time or of a text."""
    return static_call("unixTimestamp", *_given(date_str, format))


def array(head: object, *tail: object) -> Expression:
    """Makes an array of the arguments."""
    return static_call("array", head, rest=tail)


def row(head: object, *tail: object) -> Expression:
    """Makes a row of the arguments."""
    return static_call("row", head, rest=tail)


def map_(key: object, value: object, *tail: object) -> Expression:
    """Makes a map of alternating keys and values."""
    return static_call("map", key, value, rest=tail)


def map_from_arrays(key: object, value: object) -> Expression:
    """Makes a map of an array of keys and an array of values."""
    return static_call("mapFromArrays", key, value)


def descriptor(*column_names: str) -> Expression:
    """Names columns as an argument of a table-valued function."""
    return Expression(
        lambda planner: planner.api.Expressions.descriptor(planner.array(planner.jvm.String, list(column_names)))
    )


def object_of(class_name: str, *args: object) -> Expression:
    """Makes a structured value."""
    return static_call("objectOf", class_name, rest=args)


def row_interval(rows: int) -> Expression:
    """Returns a number of rows, for the size of a window."""
    return Expression(lambda planner: planner.api.Expressions.rowInterval(planner.jvm.java.lang.Long(rows)))


def pi() -> Expression:
    """Returns π."""
    return static_call("pi")


def e() -> Expression:
    """Returns Euler's number."""
    return static_call("e")


def rand(seed: object = None) -> Expression:
    """Returns a random number in [0, 1)."""
    return static_call("rand", *_given(seed))


def rand_integer(bound: object, seed: object = None) -> Expression:
    """Returns a random whole number in [0, bound)."""
    return static_call("randInteger", *([bound] if seed is None else [seed, bound]))


def atan2(y: object, x: object) -> Expression:
    """Returns the angle of the point (x, y)."""
    return static_call("atan2", y, x)


def negative(v: object) -> Expression:
    """Negates a value."""
    return static_call("negative", v)


def concat(first: object, *others: object) -> Expression:
    """Concatenates texts; null if one is null."""
    return static_call("concat", first, rest=others)


def concat_ws(separator: object, first: object, *others: object) -> Expression:
    """Concatenates texts with a separator, skipping null ones."""
    return static_call("concatWs", separator, first, rest=others)


def uuid() -> Expression:
    """Returns a random UUID for each row."""
    return static_call("uuid")


def null_of(data_type: DataType) -> Expression:
    """Returns null of a type."""
    return static_call("nullOf", data_type)


def log(v: object, base: object = None) -> Expression:
    """Returns the logarithm to a base, or the natural one."""
    return static_call("log", *([v] if base is None else [base, v]))


def source_watermark() -> Expression:
    """Refers to the watermarks of the table's source, for the watermark of a schema."""
    return static_call("sourceWatermark")


def if_then_else(condition: object, if_true: object, if_false: object) -> Expression:
    """Returns one of two values, depending on a condition."""
    return static_call("ifThenElse", condition, if_true, if_false)


def coalesce(*args: object) -> Expression:
    """Returns the first value that is not null."""
    return static_call("coalesce", rest=args)


def with_all_columns() -> Expression:
    """Selects all columns."""
    return static_call("withAllColumns")


def with_columns(head: object, *tails: object) -> Expression:
    """Selects the given columns."""
    return static_call("withColumns", head, rest=tails)


def without_columns(head: object, *tails: object) -> Expression:
    """Selects all columns except the given ones."""
    return static_call("withoutColumns", head, rest=tails)


def json(value: object) -> Expression:
    """Includes a text as raw JSON in ``json_object`` and ``json_array``."""
    return static_call("json", value)


def json_string(value: object) -> Expression:
    """Converts a value to JSON text."""
    return static_call("jsonString", value)


def json_object(on_null: JsonOnNull = JsonOnNull.NULL, *args: object) -> Expression:
    """Makes a JSON object of alternating keys and values."""
    return static_call("jsonObject", on_null, rest=args)


def json_object_agg(on_null: JsonOnNull, key_expr: object, value_expr: object) -> Expression:
    """Aggregates keys and values of rows to a JSON object."""
    return static_call("jsonObjectAgg", on_null, key_expr, value_expr)


def json_array(on_null: JsonOnNull = JsonOnNull.ABSENT, *args: object) -> Expression:
    """Makes a JSON array of the arguments."""
    return static_call("jsonArray", on_null, rest=args)


def json_array_agg(on_null: JsonOnNull, item_expr: object) -> Expression:
    """Aggregates values of rows to a JSON array."""
    return static_call("jsonArrayAgg", on_null, item_expr)


def lag(expr: object, offset: object = 1, default: object = None) -> Expression:
    """Returns the value ``offset`` rows before, in an OVER window."""
    return static_call("lag", *_given(expr, offset, default))


def lead(expr: object, offset: object = 1, default: object = None) -> Expression:
    """Returns the value ``offset`` rows after, in an OVER window."""
    return static_call("lead", *_given(expr, offset, default))


def call(f: object, *args: object) -> Expression:
    """Calls a function of the catalog by name, or one made by ``udf``."""
    if not isinstance(f, str):
        if not callable(f):
            raise TypeError(f"call() takes the name of a function, or one made by udf(), not {f!r}")
        made = f(*args)
        assert isinstance(made, Expression)
        return made
    return static_call("call", f, rest=args)


def call_sql(sql_expression: str) -> Expression:
    """Parses an SQL expression."""
    return static_call("callSql", sql_expression)


def to_java_expressions(values: tuple[object, ...], planner: Planner) -> Any:
    """Converts expressions to a Java array; texts are column names, and ``*`` is all columns."""
    found = [col(value) if isinstance(value, str) else value for value in values]
    return planner.array(planner.jvm.org.apache.flink.table.expressions.Expression, to_java(found, planner))


__getattr__ = finding(__name__, elsewhere("tidegate.table.udf", "UserDefinedFunctionWrapper"))
