"""Which restored windows stay in their files, and in what parts: every key group in one, and none too large to be combined in memory."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from tidegate.taskmanager.machines.state.restoring import (
    EAGER_BYTES,
    LARGEST_OF_LIMIT,
    PART_ROWS,
    decide_restored_parts,
)
from tidegate.taskmanager.machines.state.spilling import FAN_OUT

SIZES = st.lists(st.integers(0, 10_000), min_size=1, max_size=300)


@given(SIZES, st.integers(0, 1 << 30), st.one_of(st.none(), st.integers(1, 1 << 22)), st.integers(0, 20_000))
def test_parts_are_all_key_groups_in_order_and_each_fits(
    sizes: list[int], rows: int, limit: int | None, eager: int
) -> None:
    parts = decide_restored_parts(sizes, rows, limit, eager)
    if parts is None:
        largest = max(sizes)
        assert sum(sizes) <= eager or (limit is not None and largest * len(sizes) * LARGEST_OF_LIMIT > limit)
        return
    assert sum(sizes) > eager
    assert [group for part in parts for group in part] == list(range(len(sizes)))
    assert 1 <= len(parts) <= FAN_OUT
    if limit is not None:
        assert max(sum(sizes[group] for group in part) for part in parts) * LARGEST_OF_LIMIT <= limit


@pytest.mark.parametrize(
    ("groups", "group_bytes", "rows", "limit", "parts"),
    [
        (128, 1 << 10, 10_000, None, None),
        (128, 1 << 20, PART_ROWS // 2, None, 1),
        (128, 1 << 20, 10 * PART_ROWS, None, 10),
        (128, 1 << 20, 1000 * PART_ROWS, None, 64),
        (128, 1 << 20, 1, 128 << 20, 8),
        (2, 1 << 30, 100 * PART_ROWS, 1 << 30, None),
        (2, 1 << 30, 100 * PART_ROWS, 2 << 30, 2),
    ],
)
def test_how_many_parts(groups: int, group_bytes: int, rows: int, limit: int | None, parts: int | None) -> None:
    assert EAGER_BYTES < 64 << 20
    found = decide_restored_parts([group_bytes] * groups, rows, limit)
    assert (None if found is None else len(found)) == parts
