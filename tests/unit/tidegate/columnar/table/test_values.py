"""Values by slot: what was frozen reads as it was, whatever is put afterwards, and nothing is kept twice once its group is written."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tidegate.columnar.table.layout import RowLayout, Rows
from tidegate.columnar.table.reserved import InMemory
from tidegate.columnar.table.values import RowValues

SLOTS = 256
GROUPS = (np.arange(SLOTS) % 4).astype(np.intp)


def rows(values: npt.NDArray[np.int64]) -> Rows:
    return [(values, None)]


def test_frozen_rows_read_as_they_were_until_their_group_is_written() -> None:
    rng = np.random.default_rng(3)
    values = RowValues(RowLayout([np.dtype(np.int64)], [False]), SLOTS, InMemory())
    waiting = np.zeros(4, np.bool_)

    def locked() -> npt.NDArray[np.bool_] | None:
        return waiting.copy() if waiting.any() else None

    def change(count: int) -> None:
        slots = rng.permutation(SLOTS)[:count].astype(np.int32)
        new = rng.integers(0, 1 << 40, count)
        model[slots] = new
        values.put(slots, GROUPS[slots], rows(new), locked)

    model = np.zeros(SLOTS, np.int64)
    every = np.arange(SLOTS, dtype=np.int32)
    values.begin(every)
    change(SLOTS)
    for _ in range(5):
        frozen, expected = values.freeze(), model.copy()
        waiting[:] = True
        for group in range(4):
            change(90)
            left = every[waiting[GROUPS]]
            ((found, _),), epochs = frozen.read(left)
            assert found.tolist() == expected[left].tolist()
            assert epochs.max() <= frozen.epoch
            assert frozen.epochs_of(left).tolist() == epochs.tolist()
            waiting[group] = False
        ((found, _),) = values.take(every)
        assert found.tolist() == model.tolist()
    for _ in range(5):
        change(1)
    assert values.overlay_rows == 0


def test_restored_rows_count_as_not_changed_since_the_restore() -> None:
    values = RowValues(RowLayout([np.dtype(np.int64)], [False]), SLOTS, InMemory())
    slots = np.arange(100, dtype=np.int32)
    values.fill_restored(slots, rows(np.arange(100)))
    values.begin_epoch()
    values.put(slots[:7], GROUPS[:7], rows(np.full(7, -1)), lambda: None)
    values.put_restored(slots[50:60], rows(np.full(10, -2)))
    ((found, _),), epochs = values.freeze().read(slots)
    assert found.tolist() == [-1] * 7 + list(range(7, 50)) + [-2] * 10 + list(range(60, 100))
    assert np.flatnonzero(epochs).tolist() == list(range(7))


def test_only_frozen_rows_of_locked_groups_are_put_aside() -> None:
    values = RowValues(RowLayout([np.dtype(np.int64)], [False]), SLOTS, InMemory())
    old, new = np.arange(100, dtype=np.int32), np.arange(100, 200, dtype=np.int32)
    values.begin(old)
    values.put(old, GROUPS[old], rows(np.zeros(100, np.int64)), lambda: None)
    values.freeze()
    values.begin(new)
    first_two = np.array([True, True, False, False])
    for slots, aside in ((new, 0), (old, 50), (new, 50)):
        values.put(slots, GROUPS[slots], rows(np.ones(100, np.int64)), lambda: first_two)
        assert values.overlay_rows == aside
