"""Memory got ready beside who fills it: what is written stays, and no thread does."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from tidegate.columnar.table import prefault as populated_module
from tidegate.columnar.table.prefault import populated

PATIENCE_S = 30.0


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setattr(populated_module, "_MIN_BYTES", 1 << 20)
    yield
    assert not [thread for thread in threading.enumerate() if thread.name == "state-memory"]


def test_what_is_written_meanwhile_stays() -> None:
    array = np.zeros(4 << 20, np.int64)
    with populated(array, len(array)):
        array[:] = np.arange(len(array))
    assert np.array_equal(array, np.arange(len(array)))


def test_whole_pages_of_the_items_are_asked_for_and_nothing_behind_them() -> None:
    array, asked, is_done = np.zeros(4 << 20, np.int64), list[tuple[int, int]](), threading.Event()
    first, items = array.ctypes.data, 3 << 20

    def populate(address: int, size_bytes: int) -> bool:
        asked.append((address, size_bytes))
        if address + size_bytes + 4096 > first + items * 8:
            is_done.set()
        return True

    with populated(array, items, populate):
        assert is_done.wait(PATIENCE_S)
    assert all(address % 4096 == 0 and size % 4096 == 0 for address, size in asked)
    assert first <= asked[0][0] < first + 4096
    assert [left + size for left, size in asked[:-1]] == [address for address, _ in asked[1:]]
    assert sum(asked[-1]) <= first + items * 8


def test_a_kernel_that_refuses_is_asked_once() -> None:
    array, asked, refused = np.zeros(4 << 20, np.int64), list[int](), threading.Event()

    def populate(address: int, size_bytes: int) -> bool:
        asked.append(address)
        refused.set()
        return False

    with populated(array, len(array), populate):
        assert refused.wait(PATIENCE_S)
    assert len(asked) == 1


def test_it_ends_with_the_block() -> None:
    array, asked, may_go_on = np.zeros(4 << 20, np.int64), list[int](), threading.Event()

    def populate(address: int, size_bytes: int) -> bool:
        asked.append(address)
        return may_go_on.wait(PATIENCE_S)

    def fail() -> None:
        with populated(array, len(array), populate):
            threading.Thread(target=may_go_on.set).start()
            raise ValueError("of the restore")

    with pytest.raises(ValueError, match="of the restore"):
        fail()


def test_little_memory_needs_no_thread() -> None:
    with populated(np.zeros(1000), 1000, lambda address, size_bytes: pytest.fail("asked")):
        assert not [thread for thread in threading.enumerate() if thread.name == "state-memory"]
