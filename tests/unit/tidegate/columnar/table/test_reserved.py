"""Arrays that go on in a file: the same numbers, room on the disk before they are touched, and nothing left behind."""

from __future__ import annotations

import errno
import gc
import mmap
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tidegate.columnar.table.reserved import InMemory, InMemoryAndFile, RowMemory
from tidegate.model.errors import StorageError, StorageUnusable
from tidegate.model.keygroups import KeyGroupRange
from tidegate.taskmanager.keyed_state.columns.state import ColumnarKeyedState

ITEMS = 1 << 16
INT64 = np.dtype(np.int64)


def files_of(directory: Path) -> list[str]:
    """What of the directory this process has mapped: other tests of the process may hold files of their own."""
    with Path("/proc/self/maps").open() as maps:
        return [line for line in maps if f"{directory}/aggregates-" in line]


def test_beyond_the_budget_an_array_is_in_a_file_and_holds_the_same(tmp_path: Path) -> None:
    memory = InMemoryAndFile("op", 1000, str(tmp_path))
    array = memory.zeros(ITEMS, INT64)
    memory.ensure(array, ITEMS)
    array[:] = np.arange(ITEMS)
    assert (array == np.arange(ITEMS)).all()
    in_memory = -(-8000 // mmap.PAGESIZE) * mmap.PAGESIZE
    assert memory.bytes_on_disk == 8 * ITEMS - in_memory
    assert len(files_of(tmp_path)) == 1
    assert list(tmp_path.iterdir()) == [], "the file has no name"
    del array, memory
    gc.collect()
    assert files_of(tmp_path) == []


def test_what_fits_has_no_file_and_no_budget_means_memory(tmp_path: Path) -> None:
    memory = InMemoryAndFile("op", ITEMS, str(tmp_path))
    array = memory.zeros(ITEMS, INT64)
    memory.ensure(array, ITEMS)
    array[-1] = 7
    assert memory.bytes_on_disk == 0
    assert files_of(tmp_path) == []
    assert InMemory().zeros(3, INT64).tolist() == [0, 0, 0]


def test_an_array_that_was_too_short_moves_and_the_old_one_stays_readable(tmp_path: Path) -> None:
    memory = InMemoryAndFile("op", 1000, str(tmp_path))
    array = memory.zeros(ITEMS, INT64)
    memory.ensure(array, ITEMS)
    array[:] = np.arange(ITEMS)
    larger = memory.moved(array, ITEMS, 4 * ITEMS, 1)
    memory.ensure(larger, 4 * ITEMS)
    larger[ITEMS:] = 7
    assert (larger[:ITEMS] == array).all()
    assert (array == np.arange(ITEMS)).all()
    assert memory.bytes_on_disk < 8 * 4 * ITEMS, "the old file does not count"
    assert len(files_of(tmp_path)) == 2
    del array
    gc.collect()
    assert len(files_of(tmp_path)) == 1


def test_items_of_a_slot_count_together(tmp_path: Path) -> None:
    memory = InMemoryAndFile("op", ITEMS // 5, str(tmp_path))
    table = memory.zeros(ITEMS, np.dtype(np.int32), 5)
    memory.ensure(table, ITEMS)
    table[:] = 1
    assert memory.bytes_on_disk <= mmap.PAGESIZE


def test_a_full_disk_is_an_error_before_the_place_is_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, offset: int, length: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    memory = InMemoryAndFile("totals", 0, str(tmp_path))
    array = memory.zeros(ITEMS, INT64)
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(StorageError, match=f"'totals': 524288 more bytes .* {tmp_path}: No space.*managed.size"):
        memory.ensure(array, 1)


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises((StorageError, StorageUnusable), match=f"'op': its keyed state .*{tmp_path}/none"):
        InMemoryAndFile("op", 0, f"{tmp_path}/none").zeros(ITEMS, INT64)


def test_a_state_of_many_times_its_budget_is_mostly_on_disk(tmp_path: Path) -> None:
    keys, values = [pa.field("k", pa.string())], [pa.field("n", pa.int64(), nullable=False)]
    memory = RowMemory(1 << 20, str(tmp_path), 1 << 20)
    state = ColumnarKeyedState("op", keys, values, KeyGroupRange(0, 15), 16, memory=memory)
    for first in range(0, 400_000, 50_000):
        names = [pa.array([f"customer {number}" for number in range(first, first + 50_000)])]
        located = state.rows.locate(names)
        state.put(located, [(np.arange(first, first + 50_000), None)])
    assert state.rows.bytes_on_disk > 10 << 20
    found = state.take(state.rows.locate([pa.array(["customer 7", "customer 399999", "customer 200000"])]))
    assert found[0][0].tolist() == [7, 399_999, 200_000]
