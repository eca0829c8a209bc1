"""Numbers of different rows: in the order in which they come, equal for equal rows only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidegate.functions.sql.distinct_rows import codes_of, number_rows, order_of


@pytest.mark.parametrize("width", [1, 2, 3])
def test_rows_are_numbered_in_the_order_in_which_they_come(width: int) -> None:
    rng = np.random.default_rng(width)
    columns = [
        pa.array([None if value == 3 else value for value in rng.integers(-9, 9, 500).tolist()], pa.int64()),
        pa.array([("a", None, "", "ä")[value] for value in rng.integers(0, 4, 500).tolist()]),
        pa.array(rng.integers(0, 3, 500), pa.int32()).cast(pa.date32()),
    ][:width]
    rows = list(zip(*[column.to_pylist() for column in columns], strict=True))
    number_of: dict[tuple[Any, ...], int] = {}
    for row in rows:
        number_of.setdefault(row, len(number_of))
    firsts, numbers = number_rows(columns, len(rows))
    assert numbers.tolist() == [number_of[row] for row in rows]
    assert [rows[at] for at in firsts.tolist()] == list(number_of)
    assert firsts.tolist() == [rows.index(row) for row in number_of]


def test_there_may_be_no_rows_and_no_columns() -> None:
    firsts, numbers = number_rows([pa.array([], pa.int64())], 0)
    assert (firsts.tolist(), numbers.tolist()) == ([], [])
    firsts, numbers = number_rows([], 3)
    assert (firsts.tolist(), numbers.tolist()) == ([0], [0, 0, 0])


def test_many_columns_with_many_values_have_codes_of_64_bits() -> None:
    """The product of their sizes is more than 2^63, so codes are numbered anew on the way."""
    rng = np.random.default_rng(1)
    half = [rng.permutation(10_000) for _ in range(5)]
    columns = [pa.array(np.concatenate([values, values])) for values in half]
    codes = codes_of(columns, 20_000)
    assert len(np.unique(codes)) == 10_000
    assert (codes[:10_000] == codes[10_000:]).all()


@pytest.mark.parametrize("count", [100, 70_000])
def test_rows_of_a_number_stay_as_they_come(count: int) -> None:
    numbers = np.random.default_rng(count).integers(0, count, 3 * count).astype(np.intp)
    assert order_of(numbers, count).tolist() == sorted(range(3 * count), key=numbers.tolist().__getitem__)
