from __future__ import annotations

import datetime
import decimal
import math
import pickle

import pyarrow as pa
import pytest

from tidegate.model.errors import Misuse
from tidegate.state_reader import Pickled
from tidegate.state_reader.rows import of_key, readable_rows, shown_times, time_text, to_json, to_text

PICKLED = {b"tidegate.pickled": b"1"}
DATE = pickle.dumps(datetime.date(2024, 1, 2))


def pickled(name: str, values: list[object]) -> tuple[pa.Field, pa.Array]:
    field = pa.field(name, pa.binary(), metadata=PICKLED)
    return field, pa.array([pickle.dumps(value) for value in values], pa.binary())


def table(*columns: tuple[pa.Field, pa.Array]) -> pa.Table:
    return pa.table([array for _, array in columns], schema=pa.schema([field for field, _ in columns]))


def test_pickled_values_are_read_where_they_are_plain_at_any_depth() -> None:
    item = pa.field("item", pa.binary(), metadata=PICKLED)
    nested = pa.array([[pickle.dumps((1, "a")), DATE]], pa.list_(item))
    rows = list(readable_rows(table(pickled("key", ["k"]), (pa.field("value", nested.type), nested))))
    assert rows == [{"key": "k", "value": [(1, "a"), Pickled("datetime.date", DATE)]}]


def test_what_json_cannot_say_has_a_form() -> None:
    value = [math.nan, b"ab", decimal.Decimal("1.50"), {1: "a"}, {2, 1}, datetime.date(2024, 1, 2), Pickled("T", b"x")]
    expected = ["nan", "YWI=", "1.50", [[1, "a"]], [1, 2], "2024-01-02", {"type": "T", "pickle": "eA=="}]
    assert to_json(value) == expected
    assert to_text([Pickled("T", b"x"), 1]) == '["<T, 1 bytes>", 1]'


@pytest.mark.parametrize(
    ("keys", "text", "found"),
    [
        (pa.array([1, 2, 12]), "2", [1]),
        (pa.array(["1", "a b", "{"]), "{", [2]),
        (pa.array([True, False, True]), "true", [0, 2]),
        (pa.array([{"f0": "UA", "f1": 1}, {"f0": "AA", "f1": 1}, None]), '["AA", 1]', [1]),
        (pa.array([{"f0": "UA", "f1": 1}, {"f0": "AA", "f1": 1}, None]), '{"f0": "UA", "f1": 1}', [0]),
    ],
)
def test_rows_of_a_key(keys: pa.Array, text: str, found: list[int]) -> None:
    assert of_key(pa.table({"key": keys, "value": [0, 1, 2]}), text)["value"].to_pylist() == found


def test_rows_of_a_pickled_key_and_of_several_columns() -> None:
    untyped = table(pickled("key", [5, "5", ("a", 1)]), (pa.field("value", pa.int64()), pa.array([0, 1, 2])))
    assert of_key(untyped, '["a", 1]')["value"].to_pylist() == [2]
    assert of_key(untyped, "5")["value"].to_pylist() == [0, 1]
    columnar = pa.table({"key.carrier": ["UA", "AA"], "key.hour": [1, 1], "value.n": [0, 1]})
    assert of_key(columnar, '["AA", 1]')["value.n"].to_pylist() == [1]
    assert of_key(columnar, '{"carrier": "UA", "hour": 1}')["value.n"].to_pylist() == [0]


def test_a_key_that_cannot_be_is_misuse() -> None:
    with pytest.raises(Misuse, match="no key can be 'abc': keys of this state are of type int64"):
        of_key(pa.table({"key": [1]}), "abc")


@pytest.mark.parametrize(
    ("epoch_ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1767268800500, "2026-01-01T12:00:00.500Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (2**63 - 1, "9223372036854775807"),
    ],
)
def test_milliseconds_are_times_to_people(epoch_ms: int, text: str) -> None:
    assert time_text(epoch_ms) == text


def test_bounds_of_windows_and_timers_are_times_and_what_users_store_is_not_touched() -> None:
    row = {"key": 5, "window_start": 0, "window_end": 60_000, "timestamp": 1, "value.window_end": 7}
    times = {"window_start": "1970-01-01T00:00:00.000Z", "window_end": "1970-01-01T00:01:00.000Z"}
    assert shown_times("windows", row) == {**row, **times}
    assert shown_times("_timers.event", row) == {**row, **times, "timestamp": "1970-01-01T00:00:00.001Z"}
