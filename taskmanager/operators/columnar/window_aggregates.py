"""Aggregates of columnar windows in two steps: rows to partials, partials to results.

    rows ──raw──▶ partial columns ──merge──▶ partial columns ──finish──▶ count · sum · min · max · avg

A partial of ``avg`` is a sum and a count; any other is of its own kind. All work is one scatter for each column over
dense key codes (``key_codes``). Integers sum as int64 (uint64 when unsigned) and wrap like Arrow's; ``avg`` is that sum
divided by the count, a float64. Others have partials of several numbers (``sketch_aggregates``). Nulls are left out; an aggregate of no value is null, but a count is 0. NaN is left out
by min and max, unless there is nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.common.records.batch import MIN_TIMESTAMP, ArrowBatch
from tidegate.common.records.numpy_column import NumpyColumn
from tidegate.connectors.operator_options import Aggregates
from tidegate.model.channel_events import END_OF_TIME
from tidegate.model.errors import SchemaMismatch
from tidegate.taskmanager.operators.columnar.sketch_aggregates import (
    JOINT,
    JointScatter,
    finished,
    joint_accumulator,
    merging,
    state_type,
    timed,
    timed_type,
)
from tidegate.taskmanager.operators.keys.key_codes import Codes, KeyCodes, as_numpy, encode_keys, integer_view

WINDOW = "__window"
"""The number of a row's window, where rows of many windows lie together."""
WINDOW_START = "window_start"
WINDOW_END = "window_end"
ROWS = "__rows"
"""How many rows a partial stands for: what the receiver counts when it has to drop it as late."""

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
    """The plan for rows with these columns; with ``count_rows`` there is a partial column ``ROWS`` besides. Raises
    ``SchemaMismatch`` naming a column that is missing or unfit."""
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
    if count_rows:
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


class Accumulators:
    """One partial for each code below ``cardinality``. Rows are added any number of times."""

    def __init__(self, plan: AggregatePlan, cardinality: int) -> None:
        self._plan = plan
        self.rows: npt.NDArray[np.intp] = np.zeros(cardinality, np.intp)
        self._nulls: dict[str | None, npt.NDArray[np.intp]] = {}
        """How many of the rows have a null in a column, if any has."""
        self._values = [np.zeros(0) if p.scatter in JOINT else _identity(p, cardinality) for p in plan.partials]
        self._joint = {
            p.name: joint_accumulator(p.scatter, p.type, cardinality) for p in plan.partials if p.scatter in JOINT
        }

    def add(self, codes: Codes, data: pa.RecordBatch) -> None:
        """Row i of ``data`` belongs to ``codes[i]``."""
        counts = np.bincount(codes, minlength=len(self.rows))
        columns: dict[str, tuple[Codes, NumpyColumn]] = {}
        for partial, values in zip(self._plan.partials, self._values, strict=True):
            if partial.source is None:
                continue
            if partial.scatter in JOINT:
                self._add_joint(partial.name, partial.source, codes, data)
                continue
            if partial.source not in columns:
                columns[partial.source] = self._valid_rows(partial.source, codes, data)
            if partial.scatter != "count":
                _scatter(partial, values, *columns[partial.source])
        self.rows += counts

    def take(self, present: Codes) -> list[pa.Array]:
        """The partial columns of some codes."""
        return [self._column(p, v, present) for p, v in zip(self._plan.partials, self._values, strict=True)]

    def _add_joint(self, name: str, source: str, codes: Codes, data: pa.RecordBatch) -> None:
        column = data.column(source)
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if column.null_count:
            codes, column = codes[as_numpy(column.is_valid())], column.drop_null()
        self._joint[name].add(codes, column)

    def _valid_rows(self, source: str, codes: Codes, data: pa.RecordBatch) -> tuple[Codes, NumpyColumn]:
        """Codes and values of the rows where the column is not null; the others are counted."""
        column = data.column(source)
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if column.null_count:
            is_valid = as_numpy(column.is_valid())
            self._nulls[source] = self._nulls.get(source, 0) + np.bincount(codes[~is_valid], minlength=len(self.rows))
            codes, column = codes[is_valid], column.drop_null()
        integers = integer_view(column)
        return codes, as_numpy(column if integers is None else integers)

    def _column(self, partial: PartialColumn, values: NumpyColumn, present: Codes) -> pa.Array:
        if partial.scatter in JOINT:
            return self._joint[partial.name].take(present)
        nulls = self._nulls.get(partial.source)
        if partial.scatter == "count":
            rows = self.rows if nulls is None else self.rows - nulls
            return pa.array(rows[present], pa.int64())
        is_null = None if nulls is None else nulls[present] == self.rows[present]
        found = pa.array(values[present], mask=is_null)
        if found.type == partial.type:
            return found
        return found.view(partial.type) if pa.types.is_temporal(partial.type) else found.cast(partial.type)


def group(plan: AggregatePlan, data: pa.RecordBatch, coded: KeyCodes | None = None) -> pa.RecordBatch:
    """One row for each key of ``data``: ``plan.partial_schema``. ``coded``: the keys, where they were encoded before."""
    coded = coded or encoded(plan, data)
    accumulators = Accumulators(plan, coded.cardinality)
    accumulators.add(coded.codes, data)
    return collect(plan, accumulators, coded, np.flatnonzero(accumulators.rows))


def group_windows(plan: AggregatePlan, data: pa.RecordBatch) -> pa.RecordBatch:
    """As ``group``, sorted by window. ``plan`` is one ``by_window``."""
    return by_time(group(plan, data))


def ungrouped(plan: AggregatePlan, data: pa.RecordBatch) -> pa.RecordBatch:
    """Each row as a partial of its own, for keys that hardly ever repeat."""
    arrays = [data.column(name) for name in plan.keys]
    arrays = [a.dictionary_decode() if pa.types.is_dictionary(a.type) else a for a in arrays]
    for partial in plan.partials:
        if partial.source is None:
            arrays.append(pa.repeat(pa.scalar(1, pa.int64()), data.num_rows))
        elif partial.scatter == "count":
            arrays.append(data.column(partial.source).is_valid().cast(pa.int64()))
        else:
            arrays.append(data.column(partial.source).cast(partial.type))
    return pa.RecordBatch.from_arrays(arrays, schema=plan.partial_schema)


def collect(plan: AggregatePlan, accumulators: Accumulators, coded: KeyCodes, present: Codes) -> pa.RecordBatch:
    """The partials of the codes ``present``, with their keys."""
    arrays = [*coded.decode(present), *accumulators.take(present)]
    return pa.RecordBatch.from_arrays(arrays, schema=plan.partial_schema)


def finish(
    plan: AggregatePlan, partials: pa.RecordBatch, size_ms: int, slide_ms: int, offset_ms: int
) -> pa.RecordBatch:
    """The results of windows: ``window_start``, ``window_end``, keys, aggregates. ``plan`` is one ``by_window``."""
    starts = as_numpy(partials.column(WINDOW)) * slide_ms + offset_ms
    ends = np.where(starts > END_OF_TIME - size_ms, END_OF_TIME, starts + size_ms)
    keys = plan.keys[1:]
    names = [WINDOW_START, WINDOW_END, *keys]
    arrays = [pa.array(starts), pa.array(ends), *(partials.column(name) for name in keys)]
    for result in plan.results:
        names.append(result.name)
        if result.function.partition(":")[0] in _JOINT_FUNCTIONS:
            arrays.append(finished(result.function, partials.column(result.parts[0])))
        elif len(result.parts) == 1:
            arrays.append(partials.column(result.parts[0]))
        else:
            total, count = (partials.column(part).cast(pa.float64(), safe=False) for part in result.parts)
            arrays.append(pc.divide(total, count))  # the sum of no value is null, and so is its average
    return pa.RecordBatch.from_arrays(arrays, names=names)


def timestamps_of(batch: ArrowBatch, operator: str) -> npt.NDArray[np.int64]:
    """Raises ``SchemaMismatch`` when a row has no timestamp."""
    if batch.timestamps is None or batch.timestamps.null_count:
        raise SchemaMismatch(
            f"operator '{operator}': a row without a timestamp came to an event-time window: give the stream a "
            "WatermarkStrategy with a timestamp column or assigner before the window"
        )
    return as_numpy(batch.timestamps)


def with_times(plan: AggregatePlan, data: pa.RecordBatch, stamps: npt.NDArray[np.int64]) -> pa.RecordBatch:
    """The batch with the columns of (time, value) that the plan reads."""
    for source in dict.fromkeys(p.source for p in plan.partials if p.source and p.source.startswith(_TIMED)):
        data = data.append_column(source, timed(data.column(source.removeprefix(_TIMED)), pa.array(stamps)))
    return data


def last_ended(watermark: int, size_ms: int, slide_ms: int, offset_ms: int) -> int:
    """Number of the last window that ``watermark`` ends, as an int64. One begins every ``slide_ms``."""
    number = (watermark + 1 - offset_ms - size_ms) // slide_ms
    return max(MIN_TIMESTAMP, min(number, END_OF_TIME))


def with_windows(windows: pa.Array, data: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([windows, *(data.column(name) for name in names)], names=[WINDOW, *names])


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
_JOINT_FUNCTIONS = frozenset({"first", "last", "stddev", "approx_distinct", "quantile"})


def encoded(plan: AggregatePlan, data: pa.RecordBatch) -> KeyCodes:
    """The keys of the plan as codes."""
    return encode_keys([data.column(name) for name in plan.keys], data.num_rows, plan.operator)


def _merging(scatter: Scatter) -> Scatter:
    if scatter in JOINT:
        return merging(scatter)  # type: ignore[return-value]
    return "sum" if scatter == "count" else scatter


def _average_parts(name: str) -> tuple[str, str]:
    return f"{name}__sum", f"{name}__count"


def by_time(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Sorted by window, which is column 0."""
    windows = as_numpy(rows.column(0))
    if bool((windows[1:] >= windows[:-1]).all()):
        return rows  # always so, unless windows lie so far apart that a dictionary holds them
    return rows.take(pa.array(np.argsort(windows, kind="stable")))


def _key_types(schema: pa.Schema, keys: Sequence[str]) -> tuple[pa.DataType, ...]:
    kinds = [schema.field(name).type for name in keys]
    return tuple(k.value_type if pa.types.is_dictionary(k) else k for k in kinds)


def _identity(partial: PartialColumn, cardinality: int) -> NumpyColumn:
    """What a scatter starts from."""
    if partial.scatter == "count":
        return np.zeros(0, np.int64)  # counts are taken from the numbers of valid rows
    kind = partial.type
    dtype = np.dtype(kind.to_pandas_dtype()) if not pa.types.is_temporal(kind) else np.dtype(f"i{kind.bit_width // 8}")
    if partial.scatter == "sum":
        return np.zeros(cardinality, dtype)
    if dtype == np.bool_:
        return np.full(cardinality, partial.scatter == "min", np.bool_)
    if np.issubdtype(dtype, np.floating):
        return np.full(cardinality, np.nan, dtype)
    limits = np.iinfo(dtype)
    return np.full(cardinality, limits.max if partial.scatter == "min" else limits.min, dtype)


def _scatter(partial: PartialColumn, into: NumpyColumn, codes: Codes, values: NumpyColumn) -> None:
    if partial.scatter == "sum":
        np.add.at(into, codes, values.astype(into.dtype, copy=False))
    elif np.issubdtype(into.dtype, np.floating):
        (np.fmin if partial.scatter == "min" else np.fmax).at(into, codes, values)  # they pass over NaN
    else:
        (np.minimum if partial.scatter == "min" else np.maximum).at(into, codes, values)
