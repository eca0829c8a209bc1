"""However many keys a window gets, one step merges a bounded number of rows, and nothing is lost or doubled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.model.keygroups import KeyGroupRange
from tidegate.taskmanager.windows.state import buckets as window_buckets
from tidegate.taskmanager.windows.state.buckets import INBOX_ROWS, WindowBuckets

OWNED = KeyGroupRange(8, 39)
SMALL: dict[str, Any] = {"bucket_rows": 1 << 16, "min_merge_rows": 1 << 14}
"""Sizes at which a test need not have millions of keys."""


class Merging:
    """Sums by key, and remembers how much it was given at once."""

    def __init__(self) -> None:
        self.rows: list[int] = []

    def __call__(self, parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        self.rows.append(sum(part.num_rows for part in parts))
        table = pa.Table.from_batches(list(parts)).group_by(["w", "k"], use_threads=False).aggregate([("v", "sum")])
        table = table.sort_by("w").combine_chunks()
        return pa.record_batch({"w": table["w"].chunk(0), "k": table["k"].chunk(0), "v": table["v_sum"].chunk(0)})


def rows_of(keys: Any, windows: Any = 0) -> pa.RecordBatch:
    windows = np.broadcast_to(np.asarray(windows, np.int64), len(keys))
    return pa.record_batch({"w": windows, "k": keys, "v": np.ones(len(keys), np.int64)})


def groups_of(batch: pa.RecordBatch) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    found: np.ndarray[tuple[int], np.dtype[np.int32]] = (batch["k"].to_numpy() % OWNED.size + OWNED.start).astype(
        np.int32
    )
    return found


def total(parts: Sequence[pa.RecordBatch]) -> dict[int, int]:
    return {k: v for part in parts for k, v in zip(part["k"].to_pylist(), part["v"].to_pylist(), strict=True)}


def test_steps_stay_small_and_keys_stay_single() -> None:
    rng = np.random.default_rng(1)
    merge = Merging()
    window = WindowBuckets(OWNED, merge, groups_of, **SMALL)
    expected: dict[int, int] = {}
    rows = 40_000
    for _ in range(16):
        keys = rng.integers(0, 400_000, rows)
        for key in keys.tolist():
            expected[key] = expected.get(key, 0) + 1
        before = len(merge.rows)
        window.add(rows_of(keys))
        assert sum(merge.rows[before:]) <= 3 * SMALL["bucket_rows"]
    frozen = window.freeze()
    assert len(frozen.buckets) > 2
    parts = list(frozen.merged(merge, groups_of))
    assert sum(part.num_rows for part in parts) == len(expected)
    assert total(parts) == expected
    seen = [set(groups_of(part).tolist()) for part in parts]
    assert sum(map(len, seen)) == len(set().union(*seen)), "a key group lies in one bucket"


def test_few_keys_stay_in_one_bucket() -> None:
    window = WindowBuckets(OWNED, Merging(), groups_of)
    keys = np.arange(1000)
    for _ in range(300):
        window.add(rows_of(keys))
    frozen = window.freeze()
    assert len(frozen.buckets) == 1
    held = [*frozen.inbox, *frozen.buckets[0]]
    assert sum(batch.num_rows for batch in held) < INBOX_ROWS + 3 * window_buckets.MIN_MERGE_ROWS
    assert total(list(frozen.merged(Merging(), groups_of))) == dict.fromkeys(range(1000), 300)


def test_what_is_frozen_of_one_bucket_is_merged_once() -> None:
    window, merge = WindowBuckets(OWNED, Merging(), groups_of), Merging()
    assert list(window.freeze().merged(merge, groups_of)) == []
    window.add(rows_of(np.arange(INBOX_ROWS)))
    window.add(rows_of(np.arange(1000)))
    frozen = window.freeze()
    assert frozen.inbox
    assert frozen.buckets[0]
    assert total(list(frozen.merged(merge, groups_of))) == {key: 1 + (key < 1000) for key in range(INBOX_ROWS)}
    assert merge.rows == [INBOX_ROWS + 1000]


def test_what_is_frozen_stays() -> None:
    window = WindowBuckets(OWNED, Merging(), groups_of)
    one = rows_of(np.arange(40_000))
    window.add(one)
    frozen = window.freeze()
    for _ in range(8):
        window.add(one)
    assert total(list(frozen.merged(Merging(), groups_of))) == dict.fromkeys(range(40_000), 1)
    assert total(list(window.freeze().merged(Merging(), groups_of))) == dict.fromkeys(range(40_000), 9)


def test_what_is_taken_is_every_window_up_to_the_last_and_no_other() -> None:
    rng = np.random.default_rng(2)
    buckets = WindowBuckets(OWNED, Merging(), groups_of)
    expected: dict[tuple[int, int], int] = {}
    for step in range(30):
        windows = rng.integers(step * 50, step * 50 + 200, 12_000)
        keys = rng.integers(0, 1000, 12_000)
        for window, key in zip(windows.tolist(), keys.tolist(), strict=True):
            expected[window, key] = expected.get((window, key), 0) + 1
        buckets.add(rows_of(keys, windows))
        last = step * 50 + 10
        due = {at: expected.pop(at) for at in list(expected) if at[0] <= last}
        taken = list(buckets.take(last))
        assert by_window(taken) == due
        assert all((np.diff(part["w"].to_numpy()) >= 0).all() for part in taken)
    frozen = buckets.freeze()
    assert by_window(list(buckets.take(10**6))) == expected
    assert by_window(list(frozen.merged(Merging(), groups_of))) == expected
    assert list(buckets.take(10**6)) == []


def test_buckets_become_one_again_when_a_large_window_has_gone() -> None:
    buckets = WindowBuckets(OWNED, Merging(), groups_of, **SMALL)
    for _ in range(8):
        buckets.add(rows_of(np.arange(200_000), np.arange(200_000) < 199_000))
    assert len(buckets.freeze().buckets) > 2
    assert sum(part.num_rows for part in buckets.take(0)) == 1000
    assert len(buckets.freeze().buckets) > 2, "much is left"
    assert sum(part.num_rows for part in buckets.take(1)) == 199_000
    assert len(buckets.freeze().buckets) == 1


def test_many_windows_are_merged_at_once() -> None:
    merge = Merging()
    buckets = WindowBuckets(OWNED, merge, groups_of)
    windows = np.repeat(np.arange(8000), 3)
    for _ in range(4):
        buckets.add(rows_of(np.tile(np.arange(3), 8000), windows))
    assert sum(part.num_rows for part in buckets.take(8000)) == 24_000
    assert len(merge.rows) <= 3


def test_windows_of_an_inbox_need_not_be_in_order() -> None:
    """The earliest window that is left decides what the next watermark takes."""
    buckets = WindowBuckets(OWNED, Merging(), groups_of)
    buckets.add(rows_of(np.arange(2), [0, 7]))
    assert sum(part.num_rows for part in buckets.take(0)) == 1
    buckets.add(rows_of(np.arange(3), [9, 8, 3]))
    assert by_window(list(buckets.take(5))) == {(3, 2): 1}
    assert by_window(list(buckets.take(9))) == {(7, 1): 1, (8, 1): 1, (9, 0): 1}


def by_window(parts: Sequence[pa.RecordBatch]) -> dict[tuple[int, int], int]:
    found: dict[tuple[int, int], int] = {}
    for part in parts:
        rows = zip(part["w"].to_pylist(), part["k"].to_pylist(), part["v"].to_pylist(), strict=True)
        for window, key, value in rows:
            assert (window, key) not in found, "each once"
            found[window, key] = value
    return found
