"""Grouping of rows to partials, one for each key: one scatter for each column over dense key codes (``keys.codes``), or one sum over runs of rows
sorted by key (``keys.sorted_codes``).

Integers sum as int64 (uint64 when unsigned) and wrap like Arrow's; ``avg`` is that sum divided by the count, a float64. Nulls are left
out; an aggregate of no value is null, but a count is 0. NaN is left out by min and max, unless there is nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.columnar.aggregates.plan import AggregatePlan, PartialColumn
from tidegate.columnar.aggregates.sketches import JOINT, joint_accumulator
from tidegate.columnar.keys.codes import Codes, KeyCodes, as_numpy, encode_keys, numbers_of
from tidegate.columnar.keys.sorted_codes import SortedKeys
from tidegate.columnar.numpy_column import NumpyColumn
from tidegate.columnar.runs.memory import gathered


class Accumulators:
    """Partials of the codes below ``cardinality``, to which rows are added any number of times."""

    def __init__(self, plan: AggregatePlan, cardinality: int) -> None:
        self._plan = plan
        self.rows: npt.NDArray[np.intp] = np.zeros(cardinality, np.intp)
        self._nulls: dict[str | None, npt.NDArray[np.intp]] = {}
        """How many of the rows have a null in a column, if any has."""
        self._values = [np.zeros(0) if p.scatter in JOINT else identity(p, cardinality) for p in plan.partials]
        self._joint = {
            p.name: joint_accumulator(p.scatter, p.type, cardinality) for p in plan.partials if p.scatter in JOINT
        }

    def add(self, codes: Codes, data: pa.RecordBatch) -> None:
        """Adds rows: row i of ``data`` belongs to ``codes[i]``."""
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
                scatter(partial, values, *columns[partial.source])
        self.rows += counts

    def take(self, present: Codes) -> list[pa.Array]:
        """Returns the partial columns of some codes."""
        return [self._column(p, v, present) for p, v in zip(self._plan.partials, self._values, strict=True)]

    def _add_joint(self, name: str, source: str, codes: Codes, data: pa.RecordBatch) -> None:
        column = data.column(source)
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if column.null_count:
            codes, column = codes[as_numpy(column.is_valid())], column.drop_null()
        self._joint[name].add(codes, column)

    def _valid_rows(self, source: str, codes: Codes, data: pa.RecordBatch) -> tuple[Codes, NumpyColumn]:
        """Returns codes and values of the rows where a column is not null, and counts these."""
        column = data.column(source)
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if column.null_count:
            is_valid = as_numpy(column.is_valid())
            self._nulls[source] = self._nulls.get(source, 0) + np.bincount(codes[~is_valid], minlength=len(self.rows))
            codes, column = codes[is_valid], column.drop_null()
        return codes, numbers_of(column)

    def _column(self, partial: PartialColumn, values: NumpyColumn, present: Codes) -> pa.Array:
        if partial.scatter in JOINT:
            return self._joint[partial.name].take(present)
        nulls = self._nulls.get(partial.source)
        if partial.scatter == "count":
            rows = self.rows if nulls is None else self.rows - nulls
            return pa.array(rows[present], pa.int64())
        is_null = None if nulls is None else nulls[present] == self.rows[present]
        return typed(values[present], partial.type, is_null)


def group(plan: AggregatePlan, data: pa.RecordBatch, coded: KeyCodes | None = None) -> pa.RecordBatch:
    """Aggregates ``data`` to one row for each key, with ``plan.partial_schema``. ``coded``: the keys, where they were encoded before."""
    coded = coded or encoded(plan, data)
    if coded.rows_by_key is not None and not plan.is_joint:
        reduced = reduce_sorted(plan.partials, coded.rows_by_key, data)
        if reduced is not None:
            every = np.arange(coded.cardinality)
            return pa.RecordBatch.from_arrays([*coded.decode(every), *reduced], schema=plan.partial_schema)
    accumulators = Accumulators(plan, coded.cardinality)
    accumulators.add(coded.codes, data)
    return collect(plan, accumulators, coded, np.flatnonzero(accumulators.rows))


def reduce_sorted(partials: Sequence[PartialColumn], rows: SortedKeys, data: pa.RecordBatch) -> list[pa.Array] | None:
    """Aggregates rows that are sorted by key; returns ``None`` where a column has nulls, which only ``Accumulators`` support. It gathers each column
    once and scatters nothing."""
    found: list[pa.Array] = []
    sorted_columns: dict[str, NumpyColumn] = {}
    for partial in partials:
        column = None if partial.source is None else data.column(partial.source)
        if column is not None and column.null_count:
            return None
        if partial.scatter == "count":
            values: NumpyColumn = np.diff(rows.starts, append=len(rows.order))
        else:
            assert partial.source is not None
            assert column is not None
            if partial.source not in sorted_columns:
                column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
                sorted_columns[partial.source] = numbers_of(column).take(rows.order)
            values = _reduced(partial, sorted_columns[partial.source], rows.starts)
        found.append(typed(values, partial.type))
    return found


def group_windows(plan: AggregatePlan, data: pa.RecordBatch) -> pa.RecordBatch:
    """Aggregates ``data`` to one row for each window and key, sorted by window. ``plan`` is one ``by_window``."""
    return gathered([group(plan, data)])


def ungrouped(plan: AggregatePlan, data: pa.RecordBatch) -> pa.RecordBatch:
    """Makes a partial of each row, for keys that hardly ever repeat."""
    arrays = [data.column(name) for name in plan.keys]
    arrays = [a.dictionary_decode() if pa.types.is_dictionary(a.type) else a for a in arrays]
    ones = pa.array(np.ones(data.num_rows, np.int64))
    for partial in plan.partials:
        if partial.source is None or (partial.scatter == "count" and not data.column(partial.source).null_count):
            arrays.append(ones)
        elif partial.scatter == "count":
            arrays.append(data.column(partial.source).is_valid().cast(pa.int64()))
        else:
            arrays.append(data.column(partial.source).cast(partial.type))
    return pa.RecordBatch.from_arrays(arrays, schema=plan.partial_schema)


def collect(plan: AggregatePlan, accumulators: Accumulators, coded: KeyCodes, present: Codes) -> pa.RecordBatch:
    """Returns the partials of the codes ``present``, with their keys."""
    arrays = [*coded.decode(present), *accumulators.take(present)]
    return pa.RecordBatch.from_arrays(arrays, schema=plan.partial_schema)


def encoded(plan: AggregatePlan, data: pa.RecordBatch) -> KeyCodes:
    """Encodes the key columns of a plan."""
    return encode_keys([data.column(name) for name in plan.keys], data.num_rows, plan.operator)


def _reduced(partial: PartialColumn, values: NumpyColumn, starts: Codes) -> NumpyColumn:
    dtype = identity(partial, 0).dtype
    values = values.astype(dtype, copy=False)
    found: NumpyColumn
    if partial.scatter == "sum" and np.issubdtype(dtype, np.integer):
        found = np.cumsum(values, dtype=dtype)[np.append(starts[1:], len(values)) - 1]  # wraps around, as the sums do
        found[1:] -= found[:-1].copy()
    elif partial.scatter == "sum":
        found = np.add.reduceat(values, starts)
    elif np.issubdtype(dtype, np.floating):  # these pass over NaN
        found = (np.fmin if partial.scatter == "min" else np.fmax).reduceat(values, starts)
    else:
        found = (np.minimum if partial.scatter == "min" else np.maximum).reduceat(values, starts)
    return found


def typed(values: NumpyColumn, kind: pa.DataType, mask: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Returns ``values`` as a column of type ``kind``, of the same length; null where ``mask`` is true. Integers stand for times in the unit of ``kind``."""
    found = pa.array(values, mask=mask)
    if found.type == kind:
        return found
    return found.view(kind) if pa.types.is_temporal(kind) else found.cast(kind)


def identity(partial: PartialColumn, cardinality: int) -> NumpyColumn:
    """Returns what a scatter starts from, one item for each code below ``cardinality``; none for a count, which is taken from the numbers of valid rows."""
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


def combine(partial: PartialColumn, into: NumpyColumn, values: NumpyColumn) -> None:
    """Combines ``values[i]`` with ``into[i]``, in place; where one of them is what ``identity`` gives, the other one stays."""
    if partial.scatter == "sum":
        np.add(into, values, out=into)
    elif np.issubdtype(into.dtype, np.floating):
        (np.fmin if partial.scatter == "min" else np.fmax)(into, values, out=into)
    else:
        (np.minimum if partial.scatter == "min" else np.maximum)(into, values, out=into)


def scatter(partial: PartialColumn, into: NumpyColumn, codes: Codes, values: NumpyColumn) -> None:
    """Combines ``values[i]`` with ``into[codes[i]]``, in place. ``codes`` and ``values`` are of one length, one entry for each row, without nulls; a code may
    be there several times."""
    if partial.scatter == "sum":
        np.add.at(into, codes, values.astype(into.dtype, copy=False))
    elif np.issubdtype(into.dtype, np.floating):
        (np.fmin if partial.scatter == "min" else np.fmax).at(into, codes, values)  # they pass over NaN
    else:
        (np.minimum if partial.scatter == "min" else np.maximum).at(into, codes, values)
