"""Partials are merged where a key of a window is there twice, and left as they are only where that changes nothing."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

from tidegate.columnar.aggregates.names import WINDOW
from tidegate.columnar.aggregates.plan import plan_of_partials, plan_of_rows
from tidegate.columnar.grouping import Accumulators
from tidegate.columnar.panes.merging import merge

AGGREGATES = [("n", "count", None), ("s", "sum", "v")]


def partials(
    windows: list[int], keys: list[Any], kind: pa.DataType, counts: pa.DataType | None = None
) -> pa.RecordBatch:
    ones = pa.array([1] * len(keys), counts or pa.int64())
    columns = [pa.array(windows, pa.int64()), pa.array(keys, kind), ones, pa.array(range(len(keys)), pa.int64())]
    return pa.RecordBatch.from_arrays(columns, names=[WINDOW, "k", "n", "s"])


def merged(*parts: pa.RecordBatch) -> pa.RecordBatch:
    plan = plan_of_partials("w", ["k"], AGGREGATES, parts[0].select(["k", "n", "s"]).schema)
    return merge(plan.by_window(), parts)


def test_what_is_sorted_and_single_stays_as_it_is() -> None:
    one, other = partials([0, 0, 1], [3, 7, 3], pa.int64()), partials([1, 2], [5, 1], pa.int64())
    assert merged(one) is one
    assert merged(one, other).equals(pa.concat_batches([one, other]))


def test_a_key_that_is_there_twice_is_merged() -> None:
    one, other = partials([0, 0], [3, 7], pa.int64()), partials([0, 1], [7, 7], pa.int64())
    assert merged(one, other).to_pydict() == {WINDOW: [0, 0, 1], "k": [3, 7, 7], "n": [1, 2, 1], "s": [0, 1, 1]}
    assert merged(partials([0, 0], [7, 7], pa.int64())).num_rows == 1


@pytest.mark.parametrize("kind", [pa.int64(), pa.string()], ids=str)
def test_windows_are_sorted_where_no_key_is_there_twice(kind: pa.DataType) -> None:
    keys = [1, 2, 3] if kind == pa.int64() else ["a", "b", "c"]
    found = merged(partials([2**40, 0, 2**40], keys, kind), partials([-(2**40)], [keys[0]], kind))
    assert found.column(WINDOW).to_pylist() == [-(2**40), 0, 2**40, 2**40]
    assert sorted(zip(found["k"].to_pylist(), found["s"].to_pylist(), strict=True)) == [
        (keys[0], 0),
        (keys[0], 0),
        (keys[1], 1),
        (keys[2], 2),
    ]


def test_floats_are_made_one_nan() -> None:
    (zero, nan) = merged(partials([0, 0], [-0.0, -math.nan], pa.float64()))["k"].to_pylist()
    assert math.copysign(1, zero) == -1
    assert math.copysign(1, nan) == 1
    assert math.isnan(nan)


def test_partials_of_other_types_become_those_of_the_plan() -> None:
    found = merged(partials([0, 0], [3, 7], pa.int64(), counts=pa.int32()))
    assert found["n"].type == pa.int64()
    coded = partials([0, 0], ["a", "b"], pa.dictionary(pa.int32(), pa.string()))
    assert merged(coded)["k"].type == pa.string()


def test_nulls_are_counted_over_all_batches() -> None:
    rows = pa.record_batch({"k": [0, 0, 0], "v": pa.array([None, 5, 1], pa.int64())})
    plan = plan_of_rows("w", ["k"], [("n", "count", "v"), ("s", "sum", "v"), ("all", "count", None)], rows.schema)
    accumulators = Accumulators(plan, 3)
    for codes, part in (
        ([1, 1], rows.slice(1)),
        ([0, 1], rows.slice(0, 2)),
        ([0], rows.slice(0, 1)),
        ([2], rows.slice(2)),
    ):
        accumulators.add(pa.array(codes).to_numpy(), part)
    n, s, rows_of = accumulators.take(pa.array([0, 1, 2]).to_numpy())
    assert n.to_pylist() == [0, 3, 1]
    assert s.to_pylist() == [None, 11, 1]
    assert rows_of.to_pylist() == [2, 3, 1]
