from __future__ import annotations

import itertools
from collections import Counter

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tidegate.columnar.aggregates.names import WINDOW
from tidegate.columnar.aggregates.plan import plan_of_partials
from tidegate.columnar.grouping import group_windows
from tidegate.columnar.panes.merging import MOST_PARTS, merge, stretches

Row = tuple[int, int, int]
SCHEMA = pa.schema([(WINDOW, pa.int64()), ("key", pa.int64()), ("total", pa.int64())])
PLAN = plan_of_partials("w", ["key"], [("total", "sum", "value")], SCHEMA).by_window()

rows = st.lists(st.tuples(st.integers(-3, 6), st.integers(0, 4), st.integers(-9, 9)), min_size=1, max_size=12)
batches = st.lists(st.tuples(rows, st.booleans()), min_size=1, max_size=6)


def batch(found: list[Row]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(c, pa.int64()) for c in zip(*found, strict=True)], schema=SCHEMA)


def rows_of(data: pa.RecordBatch) -> list[Row]:
    return list(zip(*(column.to_pylist() for column in data.columns), strict=True))


def windows_of(stretch: list[pa.RecordBatch]) -> list[list[int]]:
    return [part.column(0).to_pylist() for part in stretch]


@given(batches)
def test_merging_stretch_by_stretch_gives_what_merging_all_at_once_gives(
    given_batches: list[tuple[list[Row], bool]],
) -> None:
    parts = [batch(sorted(found) if in_order else found) for found, in_order in given_batches]
    assert merge(PLAN, parts).equals(group_windows(PLAN, pa.concat_batches(parts)))


@given(batches)
def test_each_row_is_in_one_stretch_and_windows_are_cut_between_stretches(
    given_batches: list[tuple[list[Row], bool]],
) -> None:
    parts = [batch(sorted(found)) for found, _ in given_batches]
    found = stretches(parts)
    assert Counter(row for stretch in found for part in stretch for row in rows_of(part)) == Counter(
        row for part in parts for row in rows_of(part)
    )
    ends = [(min(map(min, windows_of(s))), max(map(max, windows_of(s)))) for s in found]
    assert all(left[1] < right[0] for left, right in itertools.pairwise(ends))


def test_windows_of_one_batch_lie_together_between_those_that_are_shared() -> None:
    ahead = batch([(1, 0, 1), (2, 0, 1), (3, 0, 1)])
    behind, next_one, later = batch([(1, 0, 1)]), batch([(4, 0, 1)]), batch([(6, 0, 1)])
    again = batch([(6, 1, 1)])
    found = [windows_of(stretch) for stretch in stretches([ahead, behind, next_one, later, again])]
    assert found == [[[1], [1]], [[2, 3], [4]], [[6], [6]]]


def test_a_batch_that_is_not_in_order_is_merged_with_all_others() -> None:
    parts = [batch([(2, 0, 1), (1, 0, 1)]), batch([(5, 0, 1)])]
    assert stretches(parts) == [parts]


def test_many_batches_are_merged_at_once() -> None:
    parts = [batch([(number, 0, 1)]) for number in range(MOST_PARTS + 1)]
    assert stretches(parts) == [parts]
    assert len(stretches(parts[:-1])) == 1  # each window is in one of them only
    assert stretches([*parts[1:], batch([(1, 0, 1)])]) == [[*parts[1:], batch([(1, 0, 1)])]]


def test_a_key_that_is_twice_in_one_batch_is_merged() -> None:
    parts = [batch([(1, 7, 1), (1, 7, 2)]), batch([(2, 7, 3)])]
    assert rows_of(merge(PLAN, parts)) == [(1, 7, 3), (2, 7, 3)]
