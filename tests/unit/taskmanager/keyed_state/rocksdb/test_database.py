"""What a walk through RocksDB costs where rows were deleted: it keeps them until it compacts, and a seek passes all that follow one another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tidegate.taskmanager.keyed_state.rocksdb.database import RocksDatabase, RocksDBSettings, View

STATE = b"\0\1"
KEYS = 1000


class CountedSeeks:
    """An iterator of the library that counts how often it is asked to seek."""

    def __init__(self, iterator: Any) -> None:
        self.seeks = 0
        self._iterator = iterator

    def seek(self, key: bytes) -> None:
        self.seeks += 1
        self._iterator.seek(key)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._iterator, name)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[RocksDatabase]:
    found = RocksDatabase(RocksDBSettings(), str(tmp_path))
    for number in range(KEYS):
        found.put(row(number, 0), b"first")
        found.put(row(number, 1), b"second")
    yield found
    found.close()


def row(number: int, part: int) -> bytes:
    return entry(number) + bytes([part])


def entry(number: int) -> bytes:
    return STATE + number.to_bytes(4, "big")


def test_entries_that_are_gone_are_passed_once(database: RocksDatabase) -> None:
    for number in range(10, KEYS):
        database.delete(row(number, 0))
        database.delete(row(number, 1))
    view, iterator = counted(database)
    assert [len(list(view.rows(entry(number)))) for number in range(KEYS)] == [2] * 10 + [0] * (KEYS - 10)
    assert iterator.seeks == 1


def test_asked_in_order_each_entry_has_its_rows_whatever_lies_between(database: RocksDatabase) -> None:
    for number in range(0, KEYS, 3):
        database.delete(row(number, 0))
        database.delete(row(number, 1))
    view, iterator = counted(database)
    for number in range(0, KEYS, 2):
        found = [key for key, _ in view.rows(entry(number))]
        assert found == ([] if number % 3 == 0 else [row(number, 0), row(number, 1)])
    assert iterator.seeks < KEYS // 2


def test_a_walk_that_was_given_up_hides_no_row(database: RocksDatabase) -> None:
    view, _ = counted(database)
    assert next(view.rows(STATE)) == (row(0, 0), b"first")
    assert next(view.rows(entry(0)))[0] == row(0, 0), "the same again"
    walk = view.rows(STATE, entry(5))
    assert [next(walk)[0], next(walk)[0]] == [row(5, 0), row(5, 1)]
    assert [key for key, _ in view.rows(entry(5))] == [row(5, 0), row(5, 1)], "backwards"
    assert len(list(view.rows(STATE))) == 2 * KEYS
    assert not list(view.rows(b"\0\2"))
    assert len(list(view.rows(STATE, entry(KEYS - 1)))) == 2, "backwards from the end"


def test_rows_end_before_the_end_that_was_asked_for(database: RocksDatabase) -> None:
    found = [key for key, _ in database.rows(STATE, row(3, 1), entry(5))]
    assert found == [row(3, 1), row(4, 0), row(4, 1)]


def counted(database: RocksDatabase) -> tuple[View, CountedSeeks]:
    iterator = CountedSeeks(database._db.iter())
    return View(iterator, {}, database.path), iterator
