"""What aggregates of columns are made of: which partial columns there are, and how results come out of them.

    rows ──raw──▶ partial columns ──merge──▶ partial columns ──finish──▶ count · sum · min · max · avg

A partial of ``avg`` is a sum and a count; any other is of its own kind. Sketches have partials of several numbers
(``sketch_aggregates``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.connectors.operator_options import Aggregates
from tidegate.model.errors import SchemaMismatch
from tidegate.taskmanager.operators.columnar.sketch_aggregates import (
    JOINT,
    JointScatter,
    merging,
    state_type,
    timed,
    timed_type,
)

WINDOW = "__window"
"""The number of a row's window, where rows of many windows lie together."""
ROWS = "__rows"
"""How many rows a partial stands for: what the receiver counts when it has to drop it as late. ``rows_of`` finds it."""

Scatter = Literal["count", "sum", "min", "max"] | JointScatter
_TIMED = "__timed."
"""Begins the names of columns of (time, value), which ``first`` and ``last`` are made of."""


@dataclass(frozen=True, slots=True)
class PartialColumn:
    """``source`` is the column that it is made from (``None``: rows are counted); ``source_type`` is its type."""

    name: str
    scatter: Scatter
    source: str | None
    source_type: pa.DataType

    @property
    def type(self) -> pa.DataType:
        if self.scatter == "count":
            return pa.int64()
        if self.scatter in JOINT:
            return state_type(self.scatter, self.source_type)
        if self.scatter in ("min", "max"):
            return self.source_type
        if pa.types.is_floating(self.source_type):
            return pa.float64()
        return pa.uint64() if pa.types.is_unsigned_integer(self.source_type) else pa.int64()


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """``parts`` are names of partial columns: one, or the sum and the count of an average."""

    name: str
    parts: tuple[str, ...]
    function: str = ""
    """What makes the result of a joint partial (``sketch_aggregates.finished``)."""


@dataclass(frozen=True, slots=True)
class AggregatePlan:
    """Which partial columns there are and how results come out of them."""

    operator: str
    keys: tuple[str, ...]
    key_types: tuple[pa.DataType, ...]
    partials: tuple[PartialColumn, ...]
    results: tuple[ResultColumn, ...]

    @property
    def partial_schema(self) -> pa.Schema:
        """Keys, then partial columns; what is kept for one window."""
        keys = [pa.field(name, kind) for name, kind in zip(self.keys, self.key_types, strict=True)]
        return pa.schema([*keys, *(pa.field(p.name, p.type) for p in self.partials)])

    @property
    def is_joint(self) -> bool:
        """Some partial is more than a number."""
        return any(partial.scatter in JOINT for partial in self.partials)

    @property
    def inputs(self) -> list[str]:
        """The columns that it reads: keys, then what is aggregated."""
        return list(dict.fromkeys([*self.keys, *(p.source for p in self.partials if p.source)]))

    def merging(self) -> AggregatePlan:
        """The plan that merges what this one makes."""
        partials = tuple(PartialColumn(p.name, _merging(p.scatter), p.name, p.type) for p in self.partials)
        return replace(self, partials=partials)

    def by_window(self) -> AggregatePlan:
        """The plan that keeps windows apart: the column ``WINDOW`` is the first key."""
        return replace(self, keys=(WINDOW, *self.keys), key_types=(pa.int64(), *self.key_types))


"""(output name, function, column or ``None``), as in the options of the operators."""


def plan_of_rows(
    operator: str, keys: Sequence[str], aggregates: Aggregates, schema: pa.Schema, *, count_rows: bool = False
) -> AggregatePlan:
    """The plan for rows with these columns; with ``count_rows`` there is a partial column ``ROWS`` besides, unless one of the aggregates
    counts rows. Raises ``SchemaMismatch`` naming a column that is missing or unfit."""
    missing = [name for name in [*keys, *(c for _, _, c in aggregates if c)] if name not in schema.names]
    if missing:
        raise SchemaMismatch(f"operator '{operator}': no column {missing[0]!r} among {', '.join(schema.names)}")
    partials: list[PartialColumn] = []
    results: list[ResultColumn] = []
    for name, function, column in aggregates:
        kind = schema.field(column).type if column else pa.null()
        parts = _parts_of(operator, name, function, column, kind)
        partials += parts
        results.append(ResultColumn(name, tuple(p.name for p in parts), function))
    if count_rows and not any(partial.source is None for partial in partials):
        partials.append(PartialColumn(ROWS, "count", None, pa.null()))
    return AggregatePlan(operator, tuple(keys), _key_types(schema, keys), tuple(partials), tuple(results))


def plan_of_partials(operator: str, keys: Sequence[str], aggregates: Aggregates, schema: pa.Schema) -> AggregatePlan:
    """The plan for partials with these columns: each merges with itself."""
    partials: list[PartialColumn] = []
    results: list[ResultColumn] = []
    for name, function, _column in aggregates:
        parts = [name] if function != "avg" else list(_average_parts(name))
        missing = [part for part in [*keys, *parts] if part not in schema.names]
        if missing:
            raise SchemaMismatch(f"operator '{operator}': no column {missing[0]!r} among {', '.join(schema.names)}")
        scatter = _merging(_SCATTERS.get(function.partition(":")[0], "sum"))
        partials += [PartialColumn(part, scatter, part, schema.field(part).type) for part in parts]
        results.append(ResultColumn(name, tuple(parts), function))
    return AggregatePlan(operator, tuple(keys), _key_types(schema, keys), tuple(partials), tuple(results))


def combined_by(aggregates: Aggregates) -> dict[str, str] | None:
    """How two partials of a key become one, by partial column: ``sum``, ``min`` or ``max``; ``None`` when one is more than a number."""
    found: dict[str, str] = {}
    for name, function, _column in aggregates:
        if function.partition(":")[0] in JOINT_FUNCTIONS:
            return None
        parts = [name] if function != "avg" else list(_average_parts(name))
        found.update(dict.fromkeys(parts, str(_merging(_SCATTERS.get(function, "sum")))))
    return found


def rows_of(partials: pa.RecordBatch, aggregates: Aggregates) -> int:
    """How many rows these partials stand for."""
    counted = [name for name, function, column in aggregates if function == "count" and column is None]
    found = pc.sum(partials.column(counted[0] if counted else ROWS)).as_py()
    return int(found or 0)


def with_times(plan: AggregatePlan, data: pa.RecordBatch, stamps: npt.NDArray[np.int64]) -> pa.RecordBatch:
    """The batch with the columns of (time, value) that the plan reads."""
    for source in dict.fromkeys(p.source for p in plan.partials if p.source and p.source.startswith(_TIMED)):
        data = data.append_column(source, timed(data.column(source.removeprefix(_TIMED)), pa.array(stamps)))
    return data


def _parts_of(operator: str, name: str, function: str, column: str | None, kind: pa.DataType) -> list[PartialColumn]:
    if function == "count":
        return [PartialColumn(name, "count", column, kind)]
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if function in ("sum", "avg") and is_number:
        if function == "sum":
            return [PartialColumn(name, "sum", column, kind)]
        total, count = _average_parts(name)
        return [PartialColumn(total, "sum", column, kind), PartialColumn(count, "count", column, kind)]
    if function in ("min", "max") and (is_number or pa.types.is_temporal(kind) or pa.types.is_boolean(kind)):
        return [PartialColumn(name, "min" if function == "min" else "max", column, kind)]
    if function in ("first", "last"):
        scatter: Scatter = "first" if function == "first" else "last"
        return [PartialColumn(name, scatter, f"{_TIMED}{column}", timed_type(kind))]
    if function == "approx_distinct" and not pa.types.is_nested(kind):
        return [PartialColumn(name, "distinct", column, kind)]
    if function == "stddev" and is_number:
        return [PartialColumn(name, "moments", column, kind)]
    if function.startswith("quantile:") and is_number:
        return [PartialColumn(name, "buckets", column, kind)]
    raise SchemaMismatch(f"operator '{operator}': {function}({column}) of a column of type {kind} is not possible")


_SCATTERS: dict[str, Scatter] = {
    "min": "min",
    "max": "max",
    "first": "first",
    "last": "last",
    "stddev": "moments",
    "approx_distinct": "distinct",
    "quantile": "buckets",
}

JOINT_FUNCTIONS = frozenset({"first", "last", "stddev", "approx_distinct", "quantile"})


def _merging(scatter: Scatter) -> Scatter:
    if scatter in JOINT:
        return merging(scatter)  # type: ignore[return-value]
    return "sum" if scatter == "count" else scatter


def _average_parts(name: str) -> tuple[str, str]:
    return f"{name}__sum", f"{name}__count"


def _key_types(schema: pa.Schema, keys: Sequence[str]) -> tuple[pa.DataType, ...]:
    kinds = [schema.field(name).type for name in keys]
    return tuple(k.value_type if pa.types.is_dictionary(k) else k for k in kinds)
