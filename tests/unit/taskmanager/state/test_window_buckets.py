"""However many keys a window gets, one step merges a bounded number of rows, and nothing is lost or doubled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from taskmanager.state import window_buckets
from taskmanager.state.window_buckets import BUCKET_ROWS, INBOX_ROWS, WindowBuckets
from tidegate.model.keygroups import KeyGroupRange

OWNED = KeyGroupRange(8, 39)


class Merging:
    """Sums by key, and remembers how much it was given at once."""

    def __init__(self) -> None:
        self.rows: list[int] = []

    def __call__(self, parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        self.rows.append(sum(part.num_rows for part in parts))
        table = pa.Table.from_batches(list(parts)).group_by("k", use_threads=False).aggregate([("v", "sum")])
        return pa.record_batch({"k": table["k"].combine_chunks(), "v": table["v_sum"].combine_chunks()})


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
    window = WindowBuckets(OWNED, merge, groups_of)
    expected: dict[int, int] = {}
    rows = 40_000
    for _ in range(16):
        keys = rng.integers(0, 400_000, rows)
        for key in keys.tolist():
            expected[key] = expected.get(key, 0) + 1
        before = len(merge.rows)
        window.add(pa.record_batch({"k": keys, "v": np.ones(rows, np.int64)}))
        assert sum(merge.rows[before:]) <= 2 * INBOX_ROWS + 3 * BUCKET_ROWS
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
        window.add(pa.record_batch({"k": keys, "v": np.ones(1000, np.int64)}))
    frozen = window.freeze()
    assert len(frozen.buckets) == 1
    held = [*frozen.inbox, *frozen.buckets[0]]
    assert sum(batch.num_rows for batch in held) < INBOX_ROWS + 3 * window_buckets.MIN_MERGE_ROWS
    assert total(list(frozen.merged(Merging(), groups_of))) == dict.fromkeys(range(1000), 300)


def test_what_is_frozen_stays() -> None:
    window = WindowBuckets(OWNED, Merging(), groups_of)
    one = pa.record_batch({"k": np.arange(40_000), "v": np.ones(40_000, np.int64)})
    window.add(one)
    frozen = window.freeze()
    for _ in range(8):
        window.add(one)
    assert total(list(frozen.merged(Merging(), groups_of))) == dict.fromkeys(range(40_000), 1)
    assert total(list(window.freeze().merged(Merging(), groups_of))) == dict.fromkeys(range(40_000), 9)
