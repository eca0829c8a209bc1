"""The plan of an aggregation: its partial columns, and how results are computed from them.

    rows ──raw──▶ partial columns ──merge──▶ partial columns ──finish──▶ count · sum · min · max · avg

A partial of ``avg`` is a sum and a count; of integers of 64 bits, whose sum may leave them, also the sum of their upper halves. Any other is of its
own kind. Sketches have partials of several numbers (``sketches``).

Columns have names inside (``aggregates.names``), so that none of ours can be one of the user's: ``input_rows`` gives rows these names, results have
the user's again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.columnar.aggregates.names import ROWS, TIMED, UPPER, WINDOW, count_of, high_of, internal_name, sum_of
from tidegate.columnar.aggregates.sketches import (
    JOINT,
    JointScatter,
    finished,
    merging,
    state_type,
    timed,
    timed_type,
)
from tidegate.columnar.keys.codes import as_numpy
from tidegate.model.errors import SchemaMismatch

Aggregates = Sequence[tuple[str, str, str | None]]
"""Aggregates: name of the result, function, and column (``None``: rows are counted)."""
Scatter = Literal["count", "sum", "min", "max"] | JointScatter


@dataclass(frozen=True, slots=True)
class PartialColumn:
    """A partial column. ``source``: the internal column that it is made from (``None``: rows are counted); ``source_type``: its type."""

    name: str
    scatter: Scatter
    source: str | None
    source_type: pa.DataType
    type: pa.DataType = field(init=False, repr=False, compare=False)
    """The Arrow type of the column: int64 for counts, the source's type for minima and maxima, the widest of the source's kind (int64, uint64, float64)
    for sums, and that of ``sketches.state_type`` for the others."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", _partial_type(self.scatter, self.source_type))


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """A result column. ``parts``: names of partial columns: one, or for an average sum and count, and the sum of the upper halves if needed."""

    name: str
    parts: tuple[str, ...]
    function: str = ""
    """The function that computes the result of a joint partial (``sketches.finished``)."""


@dataclass(frozen=True, slots=True)
class AggregatePlan:
    """The partial columns of an aggregation, and how results are computed from them. ``keys``: internal names, ``key_names``: the user's; ``columns``:
    the user's column for each internal column that is read from rows."""

    operator: str
    keys: tuple[str, ...]
    key_names: tuple[str, ...]
    key_types: tuple[pa.DataType, ...]
    partials: tuple[PartialColumn, ...]
    results: tuple[ResultColumn, ...]
    columns: Mapping[str, str] = field(default_factory=dict)

    partial_schema: pa.Schema = field(init=False, repr=False, compare=False)
    """The schema of partials: keys, then partial columns."""
    inputs: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """The internal columns that are read: keys, then what is aggregated."""
    is_joint: bool = field(init=False, repr=False, compare=False)
    """Whether a partial is more than one number."""

    def __post_init__(self) -> None:
        keys = [pa.field(name, kind) for name, kind in zip(self.keys, self.key_types, strict=True)]
        schema = pa.schema([*keys, *(pa.field(p.name, p.type) for p in self.partials)])
        object.__setattr__(self, "partial_schema", schema)
        inputs = dict.fromkeys([*self.keys, *(p.source for p in self.partials if p.source)])
        object.__setattr__(self, "inputs", tuple(inputs))
        object.__setattr__(self, "is_joint", any(partial.scatter in JOINT for partial in self.partials))

    def merging(self) -> AggregatePlan:
        """Returns the plan that merges this one's partials."""
        partials = tuple(PartialColumn(p.name, _merging(p.scatter), p.name, p.type) for p in self.partials)
        return replace(self, partials=partials)

    def by_window(self) -> AggregatePlan:
        """Returns the plan that keeps windows apart: the column ``WINDOW`` is the first key."""
        return replace(
            self,
            keys=(WINDOW, *self.keys),
            key_names=(WINDOW, *self.key_names),
            key_types=(pa.int64(), *self.key_types),
        )


def plan_of_rows(
    operator: str, keys: Sequence[str], aggregates: Aggregates, schema: pa.Schema, *, count_rows: bool = False
) -> AggregatePlan:
    """Plans the aggregation of rows with these columns; ``count_rows`` adds a partial column ``ROWS``, unless one of the aggregates counts rows. Raises
    ``SchemaMismatch`` naming a column that is missing or has an unsupported type."""
    read = [*keys, *(c for _, _, c in aggregates if c)]
    missing = [name for name in read if name not in schema.names]
    if missing:
        raise SchemaMismatch(
            f"operator '{operator}': the input has no column {missing[0]!r}; it has {', '.join(schema.names)}"
        )
    partials: list[PartialColumn] = []
    results: list[ResultColumn] = []
    for name, function, column in aggregates:
        kind = schema.field(column).type if column else pa.null()
        parts = _parts_of(operator, name, function, column, kind)
        partials += parts
        results.append(ResultColumn(name, tuple(p.name for p in parts), function))
    if count_rows and not any(partial.source is None for partial in partials):
        partials.append(PartialColumn(ROWS, "count", None, pa.null()))
    columns = {internal_name(name): name for name in read}
    inside = tuple(map(internal_name, keys))
    return AggregatePlan(
        operator, inside, tuple(keys), _key_types(schema, keys), tuple(partials), tuple(results), columns
    )


def plan_of_partials(operator: str, keys: Sequence[str], aggregates: Aggregates, schema: pa.Schema) -> AggregatePlan:
    """Plans the merging of partials with these columns."""
    partials: list[PartialColumn] = []
    results: list[ResultColumn] = []
    inside = tuple(map(internal_name, keys))
    for name, function, _column in aggregates:
        parts = _parts_named(name, function, schema.names)
        missing = [part for part in [*inside, *parts] if part not in schema.names]
        if missing:
            raise SchemaMismatch(
                f"operator '{operator}': the input has no column {missing[0]!r}; it has {', '.join(schema.names)}"
            )
        scatter = _merging(_SCATTERS.get(function.partition(":")[0], "sum"))
        partials += [PartialColumn(part, scatter, part, schema.field(part).type) for part in parts]
        results.append(ResultColumn(name, tuple(parts), function))
    return AggregatePlan(operator, inside, tuple(keys), _key_types(schema, inside), tuple(partials), tuple(results))


def combined_by(aggregates: Aggregates) -> dict[str, str] | None:
    """Returns how two partials of a key are merged, by partial column: ``sum``, ``min`` or ``max``; ``None`` when one is more than a number."""
    found: dict[str, str] = {}
    for name, function, _column in aggregates:
        if function.partition(":")[0] in JOINT_FUNCTIONS:
            return None
        parts = _parts_named(name, function, [high_of(name)])
        found.update(dict.fromkeys(parts, str(_merging(_SCATTERS.get(function, "sum")))))
    return found


def rows_of(partials: pa.RecordBatch, aggregates: Aggregates) -> int:
    """Returns how many rows some partials aggregate."""
    counted = [internal_name(name) for name, function, column in aggregates if function == "count" and column is None]
    found = pc.sum(partials.column(counted[0] if counted else ROWS)).as_py()
    return int(found or 0)


def input_rows(
    plan: AggregatePlan, data: pa.RecordBatch, stamps: npt.NDArray[np.int64] | None = None
) -> pa.RecordBatch:
    """Returns the internal columns that the plan reads from a user's batch. ``stamps``: event times."""
    names = plan.inputs
    return pa.RecordBatch.from_arrays([_input(plan, data, name, stamps) for name in names], names=names)


def result_of(result: ResultColumn, partials: Mapping[str, pa.Array]) -> pa.Array:
    """Computes the values of a result. ``partials``: the partial columns by name."""
    parts = [partials[part] for part in result.parts]
    if result.function.partition(":")[0] in JOINT_FUNCTIONS:
        return finished(result.function, parts[0])
    if result.function != "avg":
        return parts[0]
    total, count, *high = parts
    exact = _total(total, high[0]) if high else total.cast(pa.float64(), safe=False)
    return pc.divide(exact, count.cast(pa.float64(), safe=False))  # the sum of no value is null, and so is its average


def _input(plan: AggregatePlan, data: pa.RecordBatch, name: str, stamps: npt.NDArray[np.int64] | None) -> pa.Array:
    if name in plan.columns:
        return data.column(plan.columns[name])
    if name.endswith(UPPER):
        column = data.column(name.removesuffix(UPPER))
        column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        return pc.shift_right(column, pa.scalar(32, column.type)).cast(pa.int64())
    return timed(data.column(name.removesuffix(TIMED)), pa.array(stamps))


def _total(low: pa.Array, high: pa.Array) -> pa.Array:
    """Returns sums of 64-bit integers as the nearest float64. ``low``: modulo 2**64; ``high``: sums of the values' upper 32 bits. The lower halves add
    up to less than 2**64 for any possible number of rows."""
    tops = as_numpy(high.fill_null(0)).astype(np.int64, copy=False)
    rest = as_numpy(low.fill_null(0)).astype(np.uint64) - (tops.view(np.uint64) << np.uint64(32))
    carried = tops + (rest >> np.uint64(32)).astype(np.int64)
    found = carried * 2.0**32 + (rest & np.uint64(0xFFFFFFFF))
    return pa.array(found, mask=np.asarray(low.is_null()) if low.null_count else None)


def _parts_named(name: str, function: str, there: Sequence[str]) -> list[str]:
    if function != "avg":
        return [internal_name(name)]
    return [sum_of(name), count_of(name), *(part for part in [high_of(name)] if part in there)]


def _parts_of(operator: str, name: str, function: str, column: str | None, kind: pa.DataType) -> list[PartialColumn]:
    inside = internal_name(name)
    source = None if column is None else internal_name(column)
    if function == "count":
        return [PartialColumn(inside, "count", source, kind)]
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if function == "sum" and is_number:
        return [PartialColumn(inside, "sum", source, kind)]
    if function == "avg" and is_number:
        parts = [PartialColumn(sum_of(name), "sum", source, kind), PartialColumn(count_of(name), "count", source, kind)]
        if pa.types.is_integer(kind) and kind.bit_width == 64:
            parts.append(PartialColumn(high_of(name), "sum", f"{column}{UPPER}", pa.int64()))
        return parts
    is_ordered = is_number or pa.types.is_temporal(kind) or pa.types.is_boolean(kind)
    if function in ("min", "max") and is_ordered and not pa.types.is_interval(kind):
        return [PartialColumn(inside, "min" if function == "min" else "max", source, kind)]
    if function in ("first", "last"):
        scatter: Scatter = "first" if function == "first" else "last"
        return [PartialColumn(inside, scatter, f"{column}{TIMED}", timed_type(kind))]
    if function == "approx_distinct" and not pa.types.is_nested(kind) and not pa.types.is_interval(kind):
        return [PartialColumn(inside, "distinct", source, kind)]
    if function == "stddev" and is_number:
        return [PartialColumn(inside, "moments", source, kind)]
    if function.startswith(("quantile:", "median")) and is_number:
        return [PartialColumn(inside, "buckets", source, kind)]
    raise SchemaMismatch(
        f"operator '{operator}': {function}({column}) is not defined for a column of type {kind}: convert the column in a select before, or "
        "take another aggregate"
    )


_SCATTERS: dict[str, Scatter] = {
    "min": "min",
    "max": "max",
    "first": "first",
    "last": "last",
    "stddev": "moments",
    "approx_distinct": "distinct",
    "quantile": "buckets",
    "median": "buckets",
}

JOINT_FUNCTIONS = frozenset({"first", "last", "stddev", "approx_distinct", "quantile", "median"})


def _partial_type(scatter: Scatter, source_type: pa.DataType) -> pa.DataType:
    if scatter == "count":
        return pa.int64()
    if scatter in JOINT:
        return state_type(scatter, source_type)
    if scatter in ("min", "max"):
        return source_type
    if pa.types.is_floating(source_type):
        return pa.float64()
    return pa.uint64() if pa.types.is_unsigned_integer(source_type) else pa.int64()


def _merging(scatter: Scatter) -> Scatter:
    if scatter in JOINT:
        return merging(scatter)  # type: ignore[return-value]
    return "sum" if scatter == "count" else scatter


def _key_types(schema: pa.Schema, keys: Sequence[str]) -> tuple[pa.DataType, ...]:
    kinds = [schema.field(name).type for name in keys]
    return tuple(k.value_type if pa.types.is_dictionary(k) else k for k in kinds)
