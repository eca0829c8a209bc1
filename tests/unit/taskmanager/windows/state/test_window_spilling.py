"""Windows with little memory give what windows with unbounded memory give; what cannot be is said once, and nothing is lost by it."""

from __future__ import annotations

import gc
import resource
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidegate.columnar.aggregates.names import WINDOW
from tidegate.columnar.aggregates.plan import combined_by, plan_of_partials
from tidegate.columnar.panes.merging import merge
from tidegate.columnar.runs.disk import SpillFiles
from tidegate.model.errors import ConfigurationError, StorageError
from tidegate.model.keygroups import KeyGroupRange
from tidegate.taskmanager.windows.state.buckets import Spilling, WindowBuckets
from tidegate.taskmanager.windows.state.files import WindowFormat, WindowTimes
from tidegate.taskmanager.windows.state.windows import ColumnarWindowState, WindowMemory

OWNED = KeyGroupRange(8, 39)
AGGREGATES = (("n", "count", None), ("total", "sum", "v"))
LIMIT = 40_000
Content = dict[tuple[int, str | int], tuple[int, int]]


def rows_of(windows: Any, keys: Any) -> pa.RecordBatch:
    ones = np.ones(len(keys), np.int64)
    columns = {WINDOW: np.asarray(windows, np.int64), "k": pa.array(keys), "n": ones, "total": np.arange(len(keys))}
    return pa.record_batch(columns)


def buckets(spilling: Spilling | None, example: pa.RecordBatch) -> WindowBuckets:
    plan = plan_of_partials("sums", ["k"], AGGREGATES, example.schema).by_window()

    def merged(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        return merge(plan, parts)

    return WindowBuckets(OWNED, merged, groups_of, 1 << 12, 1 << 10, spilling)


def groups_of(batch: pa.RecordBatch) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    keys = np.array([int(str(key).strip("k")) for key in batch["k"].to_pylist()], np.int32)
    found: np.ndarray[tuple[int], np.dtype[np.int32]] = keys % OWNED.size + OWNED.start
    return found


def content_of(parts: Sequence[pa.RecordBatch]) -> Content:
    found: Content = {}
    for part in parts:
        assert (np.diff(part[WINDOW].to_numpy()) >= 0).all()
        columns = (part[name].to_pylist() for name in (WINDOW, "k", "n", "total"))
        for window, key, rows, total in zip(*columns, strict=True):
            assert (window, key) not in found, "each once"
            found[window, key] = (rows, total)
    return found


@pytest.mark.parametrize("is_text", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_any_sequence_gives_what_it_gives_in_memory(seed: int, is_text: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    example = rows_of([0], ["k1" if is_text else 1])
    bounded = buckets(Spilling(LIMIT, SpillFiles("sums", str(tmp_path)).write), example)
    unbounded = buckets(None, example)
    ended, most_on_disk, files = -1, 0, 0
    frozen = kept = None
    for _ in range(60):
        size = int(rng.integers(1, 700))
        windows = rng.integers(ended + 1, ended + 9, size)
        if rng.random() < 0.3:
            keys = np.minimum(rng.zipf(1.3, size), 5000)
        else:
            keys = rng.integers(0, 3000, size)
        batch = rows_of(windows, [f"k{key}" for key in keys] if is_text else keys)
        bounded.add(batch)
        unbounded.add(batch)
        assert bounded.bytes_held - bounded.bytes_on_disk <= LIMIT
        most_on_disk = max(most_on_disk, bounded.bytes_on_disk)
        files = max(files, len(list(tmp_path.iterdir())))
        chance = rng.random()
        if chance < 0.15:
            ended += int(rng.integers(0, 4))
            assert bounded.holds_up_to(ended) == unbounded.holds_up_to(ended)
            assert content_of([*bounded.take(ended)]) == content_of([*unbounded.take(ended)])
        elif chance < 0.25:
            kept = (bounded.freeze(), unbounded.freeze())
        elif (
            chance < 0.35 and kept is not None
        ):  # as the snapshot thread does it, whatever has come, fired and been combined since
            frozen, expected = kept
            merged = content_of([*frozen.merged(bounded._merge, groups_of)])
            assert merged == content_of([*expected.merged(unbounded._merge, groups_of)])
            assert frozen.rows >= len(merged)
    assert most_on_disk > 3 * LIMIT
    assert files > 32, "partitions have files of their own"
    assert content_of([*bounded.take(10**6)]) == content_of([*unbounded.take(10**6)])
    assert bounded.bytes_held == bounded.rows == 0
    frozen = kept = None
    del bounded
    gc.collect()
    assert not list(tmp_path.iterdir())


def test_keys_that_repeat_stay_in_memory(tmp_path: Path) -> None:
    """What merging makes fit is never written."""
    some = rows_of([0] * 500, range(500))
    state = buckets(Spilling(LIMIT, SpillFiles("sums", str(tmp_path)).write), some)
    for _ in range(50):
        state.add(some)
    assert not list(tmp_path.iterdir())
    assert content_of([*state.take(0)]) == {(0, key): (50, 50 * key) for key in range(500)}


def test_pieces_of_a_window_that_goes_on_become_one(tmp_path: Path) -> None:
    """Keys that come again and again: the disk holds them a few times, not as often as they came."""
    rng, counts = np.random.default_rng(5), np.zeros(4000, np.int64)
    state = buckets(Spilling(LIMIT, SpillFiles("sums", str(tmp_path)).write), rows_of([0], [1]))
    for _ in range(150):
        keys = rng.integers(0, 4000, 1000)
        counts += np.bincount(keys, minlength=4000)
        state.add(rows_of([0] * 1000, keys))
    assert state.rows < 60_000, "of 150,000 that came"
    assert {key[1]: value[0] for key, value in content_of([*state.take(0)]).items()} == dict(enumerate(counts.tolist()))


def windows_with(budget: int, directory: Path, example: pa.RecordBatch) -> ColumnarWindowState:
    plan = plan_of_partials("sums", ["k"], AGGREGATES, example.schema).by_window()

    def merged(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        return merge(plan, parts)

    form = WindowFormat("sums", WINDOW, ("k",), WindowTimes(10, 0), combined_by(AGGREGATES))
    return ColumnarWindowState(form, merged, KeyGroupRange(0, 1), 128, WindowMemory(budget, str(directory)))


def test_a_subtask_with_few_key_groups_is_cut_finely_too(tmp_path: Path) -> None:
    """Each of 64 partitions takes a 64th, and key groups stay in their order: files of a checkpoint need that."""
    every = rows_of([0] * 600_000, range(600_000))
    state = windows_with(100_000, tmp_path, every)
    groups = state._groups_of(every)
    mine = every.filter(pa.array(groups < 2))
    for at in range(0, mine.num_rows, 1000):
        state.add(mine.slice(at, 1000))
    parts = [*state.take(0)]
    assert len(parts) == 64
    assert max(part.num_rows for part in parts) < 2 * mine.num_rows / 64
    in_order = np.concatenate([np.sort(state._groups_of(part)) for part in parts])
    assert (np.diff(in_order) >= 0).all()
    assert sum(part.num_rows for part in parts) == mine.num_rows


def test_memory_for_less_than_a_batch_is_refused(tmp_path: Path) -> None:
    batch = rows_of([0] * 1000, range(1000))
    state = windows_with(32_000, tmp_path, batch)
    with pytest.raises(
        ConfigurationError,
        match=r"operator 'sums': a batch of 32000 bytes .* the 24000 bytes .*set taskmanager.memory.managed.size to more",
    ) as caught:
        state.add(batch)
    assert not caught.value.retriable
    assert state.rows == 0


def test_a_file_that_cannot_be_written_whole_loses_nothing(tmp_path: Path) -> None:
    """The operating system ends the file while it is being written, as on a full disk."""
    rng = np.random.default_rng(3)
    batches = [rows_of([0] * 500, rng.integers(0, 10**6, 500)) for _ in range(4)]
    state = buckets(Spilling(LIMIT, SpillFiles("sums", str(tmp_path)).write), batches[0])
    for batch in batches[:2]:
        state.add(batch)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(
            StorageError,
            match=rf"operator 'sums': \d+ bytes of its windows cannot be written to {tmp_path}: .*free space",
        ):
            state.add(batches[2])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list(tmp_path.iterdir())
    state.add(batches[3])
    assert list(tmp_path.iterdir())
    unbounded = buckets(None, batches[0])
    for batch in batches:
        unbounded.add(batch)
    assert content_of([*state.take(0)]) == content_of([*unbounded.take(0)])


def test_a_file_that_somebody_removed_is_named(tmp_path: Path) -> None:
    batch = rows_of([0] * 2000, range(2000))
    state = buckets(Spilling(LIMIT, SpillFiles("sums", str(tmp_path)).write), batch)
    state.add(batch)
    next(tmp_path.iterdir()).unlink()
    with pytest.raises(StorageError, match=rf"operator 'sums': cannot read .*{tmp_path}/windows-.*No such file"):
        list(state.take(0))
