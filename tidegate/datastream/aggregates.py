"""Aggregates of columns, in windows or running: ``count()``, ``sum("x")``, ``min("x")``, ``max("x")``, ``avg("x")``; in windows also
``first("x")``, ``last("x")`` (by event time), ``stddev("x")``, ``approx_distinct("x")``, ``quantile("x", 0.99)``, ``median("x")``.

Nulls are left out, as in SQL: ``count()`` counts rows, ``count("x")`` the values that are not null; the other
aggregates of no value are null. Integers sum up as int64 (unsigned: uint64) and wrap on overflow, as Arrow does;
``avg`` is a float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.columnar.aggregates.names import count_of, high_of, internal_name, sum_of
from tidegate.columnar.keys.hashing import hash_columns
from tidegate.common.typeinfo import ArrowTypeInfo, TypeInformation, Types
from tidegate.functions.expressions import Column, Expression
from tidegate.model.errors import InvalidJob, SchemaMismatch

__all__ = [
    "Aggregate", "approx_distinct", "avg", "count", "first", "last", "max", "median", "min", "quantile", "stddev", "sum",
]  # fmt: skip

AggregateFunctionName = Literal[
    "count", "sum", "min", "max", "avg", "first", "last", "stddev", "approx_distinct", "quantile", "median"
]
RUNNING = ("count", "sum", "min", "max", "avg")
"""Aggregates that are available without windows too."""


@dataclass(frozen=True)
class Aggregate:
    """An output column of a window or of a running aggregation: a function, the column that it reads, and the name of its result."""

    function: AggregateFunctionName
    column: str | None = None
    name: str = ""
    share: float | None = None
    """The share of a quantile, from 0 to 1."""

    @property
    def spec(self) -> str:
        """Returns the function as the operator's options name it."""
        return self.function if self.share is None else f"{self.function}:{self.share}"

    def alias(self, name: str) -> Aggregate:
        """Returns the same aggregate with another name for its output column."""
        return replace(self, name=name)

    @property
    def output_name(self) -> str:
        """Returns the name of the output column: ``sum_x`` unless an alias was given."""
        return self.name or (self.function if self.column is None else f"{self.function}_{self.column}")

    def output_field(self, schema: pa.Schema) -> pa.Field:
        """Returns name and type of the output column. Raises ``SchemaMismatch`` when the input has no such column or
        its type does not fit."""
        if self.column is None:
            return pa.field(self.output_name, pa.int64())
        if self.column not in schema.names:
            raise SchemaMismatch(
                f"no column {self.column!r} for {self.function}({self.column!r}): the stream has {', '.join(schema.names)}"
            )
        kind = schema.field(self.column).type
        check_moves(self.column, kind, f"{self.function}({self.column!r})")
        return pa.field(self.output_name, self._output_type(kind))

    def partial_fields(self, schema: pa.Schema) -> list[pa.Field]:
        """Returns the columns that the local aggregation sends to the global one, by internal names: ``avg`` is a sum and a count, and for 64-bit
        integers also the sum of their upper halves."""
        name = self.output_name
        found = self.output_field(schema)
        if self.function not in RUNNING:
            kind = schema.field(self.column).type
            return [pa.field(internal_name(name), _joint_type(self.function, kind))]
        if self.function != "avg":
            return [found.with_name(internal_name(name))]
        kind = schema.field(self.column).type
        total = replace(self, function="sum").output_field(schema).with_name(sum_of(name))
        is_wide = pa.types.is_integer(kind) and kind.bit_width == 64
        upper = [pa.field(high_of(name), pa.int64())] if is_wide else []
        return [total, pa.field(count_of(name), pa.int64()), *upper]

    def _output_type(self, kind: pa.DataType) -> pa.DataType:
        numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind)
        if self.function == "count":
            return pa.int64()
        is_single = not pa.types.is_nested(kind) and not pa.types.is_interval(kind)
        is_ordered = numeric or pa.types.is_temporal(kind) or pa.types.is_boolean(kind)
        if self.function in ("min", "max") and is_ordered and is_single:
            return kind
        if self.function in ("sum", "avg") and numeric:
            if self.function == "avg" or pa.types.is_floating(kind):
                return pa.float64()
            return pa.uint64() if pa.types.is_unsigned_integer(kind) else pa.int64()
        if self.function in ("first", "last"):
            return kind.value_type if pa.types.is_dictionary(kind) else kind
        if self.function == "approx_distinct" and is_single:
            return pa.int64()
        if self.function in ("stddev", "quantile", "median") and numeric:
            return pa.float64()
        allowed = {"min": "a number, a boolean or a time", "max": "a number, a boolean or a time"}.get(
            self.function, "single values" if self.function == "approx_distinct" else "a number"
        )
        raise SchemaMismatch(
            f"{self.function}({self.column!r}): the column is of type {kind}, but {self.function} needs {allowed}; "
            'select(col("...").cast("float64")) before the window converts it'
        )


def _joint_type(function: str, kind: pa.DataType) -> pa.DataType:
    """Returns the type of partial aggregates that are more than one number; ``tidegate.columnar.aggregates.sketches`` makes them."""
    match function:
        case "first" | "last":
            kind = kind.value_type if pa.types.is_dictionary(kind) else kind
            return pa.struct([("at", pa.int64()), ("value", kind)])
        case "stddev":
            return pa.struct([("n", pa.float64()), ("mean", pa.float64()), ("m2", pa.float64())])
        case "approx_distinct":
            return pa.list_(pa.uint64())
        case _:
            return pa.list_(pa.struct([("bucket", pa.int64()), ("count", pa.int64())]))


def check_running(aggregates: Sequence[Aggregate], schema: pa.Schema, keys: Sequence[str]) -> None:
    """Raises ``InvalidJob`` for aggregates that need windows; ``SchemaMismatch`` for invalid keys, and for columns that cannot be sent to their key's
    subtask."""
    for aggregate in aggregates:
        if aggregate.function not in RUNNING:
            raise InvalidJob(f"{aggregate.function} needs a window: without one there are {', '.join(RUNNING)}")
    for field in key_fields(schema, keys):
        kind = field.type
        is_fixed = pa.types.is_primitive(kind) and not pa.types.is_interval(kind)
        if not is_fixed and kind not in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()):
            raise SchemaMismatch(
                f"agg: the key {field.name!r} is of type {kind}; keys of an aggregate without windows are numbers, booleans, instants, texts or bytes: "
                f"select(col({field.name!r}).cast(...), ...) before key_by converts it"
            )
    for name, kind in zip(schema.names, schema.types, strict=True):
        check_moves(name, kind, "agg without windows")


def check_moves(name: str, kind: pa.DataType, where: str) -> None:
    """Raises ``SchemaMismatch`` for a column of which Arrow cannot select rows."""
    try:
        pa.nulls(1, kind).take(pa.array([0])).filter(pa.array([True]))
    except pa.ArrowException as error:
        raise SchemaMismatch(
            f"{where}: the column {name!r} is of type {kind}, of which Arrow cannot take single rows: "
            f"select(col({name!r}).cast(...), ...) before converts it"
        ) from error


def check_aggregates(aggregates: Sequence[Aggregate]) -> None:
    """Raises ``InvalidJob`` for an empty list, or for objects that are not aggregates."""
    if not aggregates:
        raise InvalidJob('agg needs at least one aggregate, such as count() or sum("x")')
    wrong = [aggregate for aggregate in aggregates if not isinstance(aggregate, Aggregate)]
    if wrong:
        raise InvalidJob(f"agg takes aggregates (tidegate.datastream.aggregates), not {wrong[0]!r}")


def key_fields(schema: pa.Schema, keys: Sequence[str]) -> list[pa.Field]:
    """Returns the key fields of an aggregation's result: without dictionaries. Raises ``SchemaMismatch`` for a type that cannot be a key."""
    kinds = [schema.field(name).type for name in keys]
    plain = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in kinds]
    for name, kind in zip(keys, plain, strict=True):
        _check_key(name, kind)
    return [pa.field(name, kind) for name, kind in zip(keys, plain, strict=True)]


def _check_key(name: str, kind: pa.DataType) -> None:
    check_moves(name, kind, "agg")
    nothing = pa.nulls(1, kind)
    try:
        hash_columns([nothing])
        nothing.dictionary_encode(null_encoding="encode")
        if pa.types.is_floating(kind):
            pc.add(nothing, nothing)
    except (pa.ArrowException, SchemaMismatch) as error:
        raise SchemaMismatch(
            f"agg: the key {name!r} is of type {kind}, which cannot be a key: select(col({name!r}).cast(...), ...) before key_by converts it"
        ) from error


def distinct(fields: Sequence[pa.Field]) -> pa.Schema:
    """Returns a schema of the fields. Raises ``InvalidJob`` for a duplicate name."""
    names = [field.name for field in fields]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidJob(
            f"agg would give the column {twice[0]!r} twice: rename an aggregate with alias(), or a key before"
        )
    return pa.schema(fields)


WINDOW_TIMES = ("window_start", "window_end")


def partial_and_result_types(
    schema: pa.Schema, keys: list[str], aggregates: tuple[Aggregate, ...], times: Sequence[str]
) -> tuple[TypeInformation, TypeInformation]:
    """Returns the types of partial aggregates, which begin with the columns ``times``, and of the results."""
    check_aggregates(aggregates)
    named = key_fields(schema, keys)
    start, end = (pa.field(name, pa.int64()) for name in WINDOW_TIMES)
    inside = [field.with_name(internal_name(field.name)) for field in named]
    partials = [field for aggregate in aggregates for field in aggregate.partial_fields(schema)]
    results = [aggregate.output_field(schema) for aggregate in aggregates]
    output_type = ArrowTypeInfo(distinct([start, end, *named, *results]))
    return Types.SCHEMA(pa.schema([*(pa.field(name, pa.int64()) for name in times), *inside, *partials])), output_type


def count(column: str | Expression | None = None) -> Aggregate:
    """Counts the rows, or with a column its values that are not null. The result is int64."""
    return Aggregate("count", None if column is None else _name_of(column))


def sum(column: str | Expression) -> Aggregate:
    """Sums up a column. Whole numbers give int64 (unsigned: uint64) and wrap on overflow, floats give float64."""
    return Aggregate("sum", _name_of(column))


def min(column: str | Expression) -> Aggregate:
    """Returns the smallest value of a column."""
    return Aggregate("min", _name_of(column))


def max(column: str | Expression) -> Aggregate:
    """Returns the largest value of a column."""
    return Aggregate("max", _name_of(column))


def avg(column: str | Expression) -> Aggregate:
    """Returns the mean of a column as float64."""
    return Aggregate("avg", _name_of(column))


def first(column: str | Expression) -> Aggregate:
    """Returns the value with the earliest event time; of equal times any."""
    return Aggregate("first", _name_of(column))


def last(column: str | Expression) -> Aggregate:
    """Returns the value with the latest event time; of equal times any."""
    return Aggregate("last", _name_of(column))


def stddev(column: str | Expression) -> Aggregate:
    """Returns the standard deviation of a sample (n - 1); null for fewer than two values."""
    return Aggregate("stddev", _name_of(column))


def approx_distinct(column: str | Expression) -> Aggregate:
    """Returns the number of distinct values: exact up to 1,023, then with a standard error of 3 %."""
    return Aggregate("approx_distinct", _name_of(column))


def quantile(column: str | Expression, share: float) -> Aggregate:
    """Returns the smallest value that is not exceeded by this share of the values (DuckDB's ``quantile_disc``), to 1 % of its size. NaN is ignored.
    Raises ``InvalidJob`` unless ``share`` is from 0 to 1."""
    if not 0.0 <= share <= 1.0:
        raise InvalidJob(f"quantile({column!r}, {share!r}): the share must be from 0 to 1")
    name = _name_of(column)
    return Aggregate("quantile", name, f"p{share * 100:g}_{name}".replace(".", "_"), float(share))


def median(column: str | Expression) -> Aggregate:
    """Returns the median, to 1 % of its size; of an even number of values the mean of the middle two (DuckDB's ``median``). NaN is ignored."""
    return Aggregate("median", _name_of(column))


def _name_of(column: str | Expression) -> str:
    if isinstance(column, Column):
        return column.name
    if isinstance(column, str):
        return column
    raise InvalidJob(
        f"an aggregate takes the name of a column, not {column!r}: compute it in a select before the window"
    )
