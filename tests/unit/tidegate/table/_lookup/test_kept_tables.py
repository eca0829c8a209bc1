"""What a lookup join keeps of a table: all of it, or the answers to some keys; and when it asks again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import cast

import numpy as np
import pyarrow as pa
import pytest

from tidegate.functions.base import RuntimeContext
from tidegate.model.errors import InvalidJob, StorageError
from tidegate.plan.specs import RetryOptions
from tidegate.table._lookup.partial_cache import CachedTable, CacheLimits, PartialCache
from tidegate.table._lookup.port import FoundRows
from tidegate.table._lookup.reloads import Reloads, reloads_of
from tidegate.table._lookup.retries import RetriedTable, Retries
from tidegate.table._lookup.whole_table import IndexedRows, WholeTable

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
CONTEXT = cast("RuntimeContext", None)
"""No table here asks it for anything."""
PERIODIC = "lookup.full-cache.periodic-reload"
TIMED = "lookup.full-cache.timed-reload"
DAY_S = 86_400.0


def rows(*values: tuple[int | None, str | None]) -> pa.RecordBatch:
    columns = zip(*values, strict=True) if values else ((), ())
    return pa.RecordBatch.from_arrays(
        [pa.array(one, field.type) for one, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def keys(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(values, pa.int64())})


def found_in(found: FoundRows) -> list[tuple[int, str | None]]:
    return list(zip(found.keys.tolist(), found.rows.column("name").to_pylist(), strict=True))


class Asked:
    """A table that remembers what it was asked."""

    schema = SCHEMA

    def __init__(self, **names: str) -> None:
        self.names = {int(key[1:]): name for key, name in names.items()}
        self.questions: list[list[int]] = []

    def open(self, context: RuntimeContext) -> None: ...

    def look_up(self, keys: pa.RecordBatch) -> FoundRows:
        asked = keys.column("id").to_pylist()
        self.questions.append(asked)
        known = [(at, key) for at, key in enumerate(asked) if key in self.names]
        return FoundRows(
            np.array([at for at, _ in known], np.int64), rows(*[(key, self.names[key]) for _, key in known])
        )

    def close(self) -> None: ...


def test_rows_are_found_by_several_columns_also_where_hashes_are_equal() -> None:
    held = IndexedRows(rows((1, "a"), (1, "b"), (None, "c"), (2, None), (1, "a"), (1 << 32, "a")), [0, 1])
    asked = pa.record_batch({"id": pa.array([1, 2, 1 << 32, 5], pa.int64()), "name": ["a", "b", "a", "a"]})
    assert found_in(held.look_up(asked)) == [(0, "a"), (0, "a"), (2, "a")]


def test_a_table_without_rows_has_none() -> None:
    assert found_in(IndexedRows(rows(), [0]).look_up(keys(1, 2))) == []


def test_answers_are_kept_also_that_there_is_none() -> None:
    table = Asked(k1="a", k2="b")
    cached = CachedTable(table, CacheLimits(max_keys=10))
    cached.open(CONTEXT)
    assert found_in(cached.look_up(keys(2, 7))) == [(0, "b")]
    assert found_in(cached.look_up(keys(7, 1, 2))) == [(1, "a"), (2, "b")]
    assert table.questions == [[2, 7], [1]]


def test_keys_without_a_row_are_asked_for_again_where_they_are_not_kept() -> None:
    table = Asked()
    cached = CachedTable(table, CacheLimits(max_keys=10, keeps_missing_keys=False))
    cached.open(CONTEXT)
    cached.look_up(keys(7))
    table.names[7] = "new"
    assert found_in(cached.look_up(keys(7))) == [(0, "new")]


def test_answers_expire_behind_their_writing_and_behind_their_last_reading() -> None:
    now = [0]
    table = Asked(k1="a")
    written = CachedTable(table, CacheLimits(after_write_ms=10), lambda: now[0])
    written.open(CONTEXT)
    for now[0] in (0, 9, 10, 19):
        written.look_up(keys(1))
    assert len(table.questions) == 2
    read = CachedTable(table, CacheLimits(after_access_ms=10), lambda: now[0])
    read.open(CONTEXT)
    for now[0] in (20, 29, 38, 47, 57):
        read.look_up(keys(1))
    assert len(table.questions) == 4


def test_the_key_that_was_asked_for_longest_ago_goes_first() -> None:
    cache = PartialCache(CacheLimits(max_keys=2))
    cache.put((1,), [(1, "a")], 0)
    cache.put((2,), [(2, "b")], 0)
    assert cache.get((1,), 0) == [(1, "a")]
    cache.put((3,), [], 0)
    assert [cache.get((key,), 0) for key in (1, 2, 3)] == [[(1, "a")], None, []]
    assert len(cache) == 2


def test_keys_without_a_row_are_asked_for_again() -> None:
    table = Asked(k1="a")
    waited: list[float] = []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 2:
            table.names[3] = "c"

    retried = RetriedTable(table, Retries(0.5, 3), wait)
    assert found_in(retried.look_up(keys(3, 1, 2))) == [(0, "c"), (1, "a")]
    assert table.questions == [[3, 1, 2], [3, 2], [3, 2], [2]]
    assert waited == [0.5] * 3


def test_retries_are_those_of_the_hint() -> None:
    assert Retries.of(None) is None
    assert Retries.of(RetryOptions("lookup_miss", "FIXED_DELAY", 1500, 3)) == Retries(1.5, 3)


class Read:
    """A table that is read whole, as often as it is asked to."""

    name, schema = "t", SCHEMA

    def __init__(self, *readings: pa.RecordBatch | Exception) -> None:
        self.readings = list(readings)
        self.is_read = threading.Event()

    def read(self) -> pa.RecordBatch:
        reading = self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]
        if len(self.readings) == 1:
            self.is_read.set()
        if isinstance(reading, Exception):
            raise reading
        return reading


def until(happened: Callable[[], bool]) -> None:
    lasting = threading.Event()
    while not happened():
        lasting.wait(0.001)


def test_a_table_is_read_again() -> None:
    table = WholeTable(Read(rows((1, "a")), rows((1, "b"))), [0], Reloads(0.001))
    table.open(CONTEXT)
    until(lambda: found_in(table.look_up(keys(1))) == [(0, "b")])
    table.close()


def test_a_reading_that_fails_fails_the_next_question() -> None:
    table = WholeTable(Read(rows((1, "a")), StorageError("the disk is gone")), [0], Reloads(0.001))
    table.open(CONTEXT)

    def fails() -> bool:
        try:
            table.look_up(keys(1))
        except StorageError as error:
            return "the table t cannot be read again for its lookup join: the disk is gone" in error.message
        return False

    until(fails)
    table.close()


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, None),
        ({f"{PERIODIC}.interval": "5 s"}, Reloads(5.0)),
        ({f"{PERIODIC}.interval": "5 s", f"{PERIODIC}.schedule-mode": "FIXED_RATE"}, Reloads(5.0, True)),
        (
            {"lookup.full-cache.reload-strategy": "TIMED", f"{TIMED}.iso-time": "10:15Z"},
            Reloads(DAY_S, second_of_day=36_900.0),
        ),
        (
            {"lookup.full-cache.reload-strategy": "TIMED", f"{TIMED}.iso-time": "00:30:00+01:00", f"{TIMED}.interval-in-days": "2"},
            Reloads(2 * DAY_S, second_of_day=84_600.0),
        ),
    ],
)  # fmt: skip
def test_reloads_are_those_of_the_options(options: dict[str, str], wanted: Reloads | None) -> None:
    assert reloads_of(options) == wanted


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"lookup.full-cache.reload-strategy": "NEVER"}, "'NEVER' is not one of PERIODIC and TIMED"),
        ({"lookup.full-cache.reload-strategy": "PERIODIC"}, "It must be specified for PERIODIC reload strategy"),
        ({"lookup.full-cache.reload-strategy": "TIMED"}, "It must be specified for TIMED reload strategy"),
        ({f"{PERIODIC}.interval": "soon"}, "'soon' is not a duration from 1 ms"),
        ({f"{PERIODIC}.interval": "1 s", f"{PERIODIC}.schedule-mode": "X"}, "not one of FIXED_DELAY and FIXED_RATE"),
        ({f"{TIMED}.iso-time": "10:15"}, "needs 'lookup.full-cache.reload-strategy' = 'TIMED'"),
        (
            {"lookup.full-cache.reload-strategy": "TIMED", f"{TIMED}.iso-time": "25:00"},
            "'25:00' is not a time such as 10:15",
        ),
    ],
)
def test_reloads_that_cannot_be_are_named(options: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidJob, match="(?s)" + said):
        reloads_of(options)


def test_readings_are_so_far_apart_as_their_options_say() -> None:
    now = [DAY_S + 10.0]
    wait = Reloads(5.0).waits(lambda: now[0])
    assert [wait(), wait()] == [5.0, 5.0]
    wait = Reloads(5.0, is_fixed_rate=True).waits(lambda: now[0])
    assert wait() == 5.0
    now[0] += 7.0
    assert wait() == 3.0
    now[0] += 30.0
    assert wait() == 0.0
    now[0] = DAY_S + 10.0
    wait = Reloads(DAY_S, second_of_day=30.0).waits(lambda: now[0])
    assert wait() == 20.0
    now[0] = DAY_S + 31.0
    assert wait() == DAY_S - 1.0
    assert Reloads(DAY_S, second_of_day=5.0).waits(lambda: DAY_S + 10.0)() == DAY_S - 5.0
