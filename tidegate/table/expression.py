"""`Expression`: computations over columns (PyFlink: ``pyflink.table.expression``).

An expression is a description; Flink's planner reads it when a table is made with it: until then no Java is needed.
A name that is no method is a field of a row: ``col("person").age`` is ``col("person").get("age")``.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

from tidegate.records.data_types import DataType
from tidegate.records.data_types import DataTypes as DataTypes

if TYPE_CHECKING:
    from tidegate.table._planner.planner import Planner

__all__ = [
    "Expression",
    "JsonExistsOnError",
    "JsonOnNull",
    "JsonQueryOnEmptyOrError",
    "JsonQueryWrapper",
    "JsonType",
    "JsonValueOnEmptyOrError",
    "TimeIntervalUnit",
    "TimePointUnit",
]

_API = "org.apache.flink.table.api"
_EXPRESSIONS = "org.apache.flink.table.expressions"


class _JavaEnum(Enum):
    """An enumeration whose Java class has constants of the same names."""

    @property
    def _java_class(self) -> str:
        package = _EXPRESSIONS if type(self).__name__.startswith("Time") else _API
        return f"{package}.{type(self).__name__}"


class TimeIntervalUnit(_JavaEnum):
    """Units for ``extract``, ``floor`` and ``ceil``."""

    YEAR, YEAR_TO_MONTH, QUARTER, MONTH, WEEK, DAY, DAY_TO_HOUR, DAY_TO_MINUTE, DAY_TO_SECOND, HOUR, SECOND = range(11)
    HOUR_TO_MINUTE, HOUR_TO_SECOND, MINUTE, MINUTE_TO_SECOND = range(11, 15)


class TimePointUnit(_JavaEnum):
    """Units for ``timestamp_diff``."""

    YEAR, MONTH, DAY, HOUR, MINUTE, SECOND, QUARTER, WEEK, MILLISECOND, MICROSECOND = range(10)


class JsonType(_JavaEnum):
    """Kinds of JSON that ``is_json`` checks for."""

    VALUE, SCALAR, ARRAY, OBJECT = range(4)


class JsonExistsOnError(_JavaEnum):
    """The result of ``json_exists`` for invalid JSON."""

    TRUE, FALSE, UNKNOWN, ERROR = range(4)


class JsonValueOnEmptyOrError(_JavaEnum):
    """The result of ``json_value`` without a value, or for invalid JSON."""

    NULL, ERROR, DEFAULT = range(3)


class JsonQueryWrapper(_JavaEnum):
    """Whether ``json_query`` wraps its result in an array."""

    WITHOUT_ARRAY, CONDITIONAL_ARRAY, UNCONDITIONAL_ARRAY = range(3)


class JsonQueryOnEmptyOrError(_JavaEnum):
    """The result of ``json_query`` without a result, or for invalid JSON."""

    NULL, EMPTY_ARRAY, EMPTY_OBJECT, ERROR = range(4)


class JsonOnNull(_JavaEnum):
    """Whether JSON objects and arrays include null members."""

    NULL, ABSENT = range(2)


class Expression:
    """A computation over columns. Operators: ``+ - * / % **``, ``== != < <= > >=``, ``& | ~``, ``abs()``, ``[index]``."""

    def __init__(self, make: Callable[[Planner], Any]) -> None:
        self._make = make

    def __str__(self) -> str:
        from tidegate.table._planner.planner import running_planner

        return str(self._make(running_planner()).asSummaryString())

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._call("get", name)

    def __getitem__(self, index: object) -> Expression:
        return self._call("at", index)

    def __iter__(self) -> Any:
        raise TypeError("an expression cannot be iterated over")

    def __bool__(self) -> bool:
        raise TypeError("an expression has no truth value here: combine conditions with &, | and ~, in parentheses")

    __hash__ = None  # type: ignore[assignment]

    def __abs__(self) -> Expression:
        return self._call("abs")

    def __neg__(self) -> Expression:
        return static_call("negative", self)

    def __invert__(self) -> Expression:
        return self._call("isNotTrue")

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        return self._call("isEqual", other)

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        return self._call("isNotEqual", other)

    def __lt__(self, other: object) -> Expression:
        return self._call("isLess", other)

    def __gt__(self, other: object) -> Expression:
        return self._call("isGreater", other)

    def __le__(self, other: object) -> Expression:
        return self._call("isLessOrEqual", other)

    def __ge__(self, other: object) -> Expression:
        return self._call("isGreaterOrEqual", other)

    def __and__(self, other: object) -> Expression:
        return self._call("and", other)

    def __or__(self, other: object) -> Expression:
        return self._call("or", other)

    def __rand__(self, other: object) -> Expression:
        return self._call("and", other)

    def __ror__(self, other: object) -> Expression:
        return self._call("or", other)

    def __add__(self, other: object) -> Expression:
        return self._call("plus", other)

    def __radd__(self, other: object) -> Expression:
        return literal(other)._call("plus", self)

    def __sub__(self, other: object) -> Expression:
        return self._call("minus", other)

    def __rsub__(self, other: object) -> Expression:
        return literal(other)._call("minus", self)

    def __mul__(self, other: object) -> Expression:
        return self._call("times", other)

    def __rmul__(self, other: object) -> Expression:
        return self._call("times", other)

    def __truediv__(self, other: object) -> Expression:
        return self._call("dividedBy", other)

    def __rtruediv__(self, other: object) -> Expression:
        return literal(other)._call("dividedBy", self)

    def __mod__(self, other: object) -> Expression:
        return self._call("mod", other)

    def __rmod__(self, other: object) -> Expression:
        return literal(other)._call("mod", self)

    def __pow__(self, other: object) -> Expression:
        return self._call("power", other)

    def __rpow__(self, other: object) -> Expression:
        return literal(other)._call("power", self)

    def alias(self, name: str, *extra_names: str) -> Expression:
        """Names the result; several names are for the columns of a table function."""
        return Expression(
            lambda planner: self._method(planner, "as")(name, planner.array(planner.jvm.String, list(extra_names)))
        )

    def cast(self, data_type: DataType) -> Expression:
        """Casts the value to a type; a value that cannot be cast fails the job."""
        return self._call("cast", data_type)

    def try_cast(self, data_type: DataType) -> Expression:
        """Casts the value to a type; a value that cannot be cast becomes null."""
        return self._call("tryCast", data_type)

    def in_(self, first_element_or_table: object, *remaining_elements: object) -> Expression:
        """Tests whether the value is one of those given, or in a table with one column."""
        table = getattr(first_element_or_table, "_j_table", None) if _is_table(first_element_or_table) else None
        if table is not None:
            return Expression(lambda planner: self._method(planner, "in")(table))
        return self._call_with_list("in", (), (first_element_or_table, *remaining_elements))

    def printf(self, *obj: object) -> Expression:
        """Formats values by this text as C's ``printf`` does."""
        return self._call_with_list("printf", (), obj)

    def elt(self, expr: object, *exprs: object) -> Expression:
        """Returns the argument at this index, from 1."""
        return self._call_with_list("elt", (expr,), exprs)

    def over(self, alias: str | Expression) -> Expression:
        """Evaluates the aggregate over a window that ``over_window`` named."""
        return self._call("over", alias)

    def json_value(
        self,
        path: str,
        returning_type: DataType | None = None,
        on_empty: JsonValueOnEmptyOrError = JsonValueOnEmptyOrError.NULL,
        default_on_empty: object = None,
        on_error: JsonValueOnEmptyOrError = JsonValueOnEmptyOrError.NULL,
        default_on_error: object = None,
    ) -> Expression:
        """Extracts the scalar at a path of this JSON text, as ``returning_type`` (default STRING)."""
        from tidegate.records.data_types import DataTypes

        returning = returning_type or DataTypes.STRING()
        return self._call("jsonValue", path, returning, on_empty, default_on_empty, on_error, default_on_error)

    def json_query(
        self,
        path: str,
        wrapping_behavior: JsonQueryWrapper = JsonQueryWrapper.WITHOUT_ARRAY,
        on_empty: JsonQueryOnEmptyOrError = JsonQueryOnEmptyOrError.NULL,
        on_error: JsonQueryOnEmptyOrError = JsonQueryOnEmptyOrError.NULL,
    ) -> Expression:
        """Extracts the JSON at a path of this JSON text."""
        return self._call("jsonQuery", path, wrapping_behavior, on_empty, on_error)

    def _call(self, method: str, *arguments: object) -> Expression:
        return Expression(lambda planner: self._method(planner, method)(*to_java(arguments, planner)))

    def _call_with_list(self, method: str, fixed: Sequence[object], rest: Sequence[object]) -> Expression:
        def make(planner: Planner) -> Any:
            convert = planner.jvm.org.apache.flink.table.expressions.ApiExpressionUtils.objectToExpression
            elements = [convert(value) for value in to_java(rest, planner)]
            return self._method(planner, method)(*to_java(fixed, planner), planner.array(planner.jvm.Object, elements))

        return Expression(make)

    def _method(self, planner: Planner, name: str) -> Any:
        return getattr(self._make(planner), name)


def literal(value: object, data_type: DataType | None = None) -> Expression:
    """Returns a constant expression."""
    if isinstance(value, Expression):
        return value
    return static_call("lit", value) if data_type is None else static_call("lit", value, data_type)


def static_call(name: str, *arguments: object, rest: Sequence[object] | None = None) -> Expression:
    """Returns a call of a method of Flink's ``Expressions``. ``rest``: the arguments of its last, variadic parameter."""

    def make(planner: Planner) -> Any:
        given = to_java(arguments, planner)
        if rest is not None:
            given.append(planner.array(planner.jvm.Object, to_java(rest, planner)))
        return getattr(planner.api.Expressions, name)(*given)

    return Expression(make)


def static_field(name: str) -> Expression:
    """Returns a constant of Flink's ``Expressions``."""
    return Expression(lambda planner: getattr(planner.api.Expressions, name))


def to_java(values: Sequence[object], planner: Planner) -> list[Any]:
    """Converts Python values, expressions, types and units to Java objects."""
    return [_to_java(value, planner) for value in values]


def java_type(data_type: DataType | str, planner: Planner) -> Any:
    """Converts a type to Flink's ``DataType``."""
    types = planner.jvm.org.apache.flink.table.types
    loader = planner.jvm.java.lang.Thread.currentThread().getContextClassLoader()
    parsed = types.logical.utils.LogicalTypeParser.parse(str(data_type), loader)
    return types.utils.TypeConversions.fromLogicalToDataType(parsed)


def _to_java(value: object, planner: Planner) -> Any:
    jvm = planner.jvm
    match value:
        case Expression():
            return value._make(planner)
        case DataType():
            return java_type(value, planner)
        case _JavaEnum():
            kind = jvm
            for part in value._java_class.split("."):
                kind = getattr(kind, part)
            return getattr(kind, value.name)
        case decimal.Decimal():
            return jvm.java.math.BigDecimal(str(value))
        case datetime.datetime():
            if value.tzinfo is not None:
                return jvm.java.time.Instant.parse(value.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
            return jvm.java.time.LocalDateTime.parse(value.isoformat())
        case datetime.date():
            return jvm.java.time.LocalDate.parse(value.isoformat())
        case datetime.time():
            return jvm.java.time.LocalTime.parse(value.isoformat())
        case datetime.timedelta():
            return jvm.java.time.Duration.ofMillis(value // datetime.timedelta(milliseconds=1))
        case _:
            return value


def _is_table(value: object) -> bool:
    return any(kind.__name__ == "Table" for kind in type(value).__mro__)


_PROPERTIES = """
    exp log10 log2 ln cosh sinh sin cos tan cot asin acos atan tanh degrees radians sqrt abs sign is_null is_not_null is_true is_false
    is_not_true is_not_false distinct sum sum0 min max count avg first_value last_value stddev_pop stddev_samp var_pop var_samp collect
    array_agg asc desc start end bin hex unhex char_length upper_case lower_case init_cap from_base64 to_base64 ascii chr reverse to_date
    to_time to_timestamp flatten cardinality element map_keys map_values map_entries rowtime proctime year years quarter quarters month
    months week weeks day days hour hours minute minutes second seconds milli millis md5 sha1 sha224 sha256 sha384 sha512
"""
_METHODS = """
    round concat between not_between then if_null list_agg log as_argument truncate percentile starts_with ends_with substring substr
    trim_leading trim_trailing trim replace translate like similar position lpad rpad overlay regexp regexp_count regexp_replace
    regexp_extract regexp_extract_all regexp_instr regexp_substr decode encode left right instr locate url_decode url_encode inet_aton
    inet_ntoa parse_url ltrim rtrim btrim repeat split_index str_to_map extract floor ceil get at array_append array_contains
    array_distinct array_position array_prepend array_remove array_reverse array_slice array_sort array_union array_concat array_max
    array_join array_min array_except array_intersect split map_union sha2 is_json json_exists json_quote json_unquote object_update
    bitmap_and bitmap_andnot bitmap_and_agg bitmap_and_cardinality_agg bitmap_build bitmap_build_agg bitmap_build_cardinality_agg
    bitmap_cardinality bitmap_from_bytes bitmap_or bitmap_or_agg bitmap_or_cardinality_agg bitmap_to_array bitmap_to_bytes
    bitmap_to_string bitmap_xor bitmap_xor_agg bitmap_xor_cardinality_agg
"""


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(part.capitalize() for part in others)


def _add_members() -> None:
    """Adds the properties and methods that only pass their arguments to Flink; trailing ``None`` arguments are not passed."""

    def make_property(name: str) -> property:
        java = _camel(name)

        def get(self: Expression) -> Expression:
            return self._call(java)

        get.__name__, get.__qualname__, get.__module__ = name, f"Expression.{name}", __name__
        return property(get, doc=f"Flink's ``{java}`` of this value.")

    def make_method(name: str) -> Callable[..., Expression]:
        java = _camel(name)

        def call(self: Expression, *arguments: object, **named: object) -> Expression:
            given = [*arguments, *named.values()]
            while given and given[-1] is None:
                given.pop()
            return self._call(java, *given)

        call.__name__, call.__qualname__, call.__module__ = name, f"Expression.{name}", __name__
        call.__doc__ = f"Flink's ``{java}`` of this value and the arguments."
        return call

    for name in _PROPERTIES.split():
        setattr(Expression, name, make_property(name))
    for name in _METHODS.split():
        setattr(Expression, name, make_method(name))


_add_members()
