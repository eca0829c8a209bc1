"""Rows that are made of columns without decoding them are those that decoding and encoding them give."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.functions.windows import TimeWindow
from tidegate.records.canonical.forms import canonical_key
from tidegate.records.record_codec import encode_column
from tidegate.records.schema_evolution import TTL_COLUMN
from tidegate.taskmanager.keyed_state.heap.entries import KEY, VALUE, EntryFormat, time_window_columns
from tidegate.taskmanager.keyed_state.rocksdb.rows_of_columns import contents_of, starts_of
from tidegate.taskmanager.keyed_state.rocksdb.state_rows import StateRows
from tidegate.taskmanager.keyed_state.ttl import Ttl

LONGS = [-(2**63), -1, 0, 1, 2**40, 2**63 - 1]
TEXTS = ["", "a", "ü\0", "x" * 70_000, "b", "c"]


def data_of(
    key_type: TypeInformation, keys: list[Any], value_type: TypeInformation, values: list[Any]
) -> pa.RecordBatch:
    fields = [key_type.arrow_field(KEY), value_type.arrow_field(VALUE)]
    arrays = [encode_column(key_type, keys, "keys"), encode_column(value_type, values, "values")]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


@pytest.mark.parametrize(
    ("key_type", "keys", "value_type", "values"),
    [
        (Types.LONG(), LONGS, Types.LONG(), LONGS),
        (Types.STRING(), TEXTS, Types.STRING(), TEXTS),
        (Types.LONG(), LONGS, Types.DOUBLE(), [0.0, -0.0, 1.5, float("inf"), -1e300, 5e-324]),
        (Types.STRING(), TEXTS, Types.PICKLED_BYTE_ARRAY(), [None, 1, b"x", ("a", 2), {"k": [1]}, "text"]),
    ],
)
@pytest.mark.parametrize("ttl", [None, Ttl(1000)])
def test_rows_are_those_of_decoded_entries(
    key_type: TypeInformation, keys: list[Any], value_type: TypeInformation, values: list[Any], ttl: Ttl | None
) -> None:
    rows = StateRows(5, EntryFormat("op", "state", "value", key_type, value_type, ttl))
    data = data_of(key_type, keys, value_type, values)
    stored = values
    if ttl is not None:
        data = data.append_column(TTL_COLUMN, pa.array(range(len(keys)), pa.int64()))
        stored = list(zip(values, range(len(keys)), strict=True))
    prefix = rows.entry(300, (keys[0], None))[:4]
    assert starts_of(prefix, data) == [rows.entry(300, (key, None)) for key in keys]
    assert contents_of(data) == [rows.pack(value) for value in stored]
    assert starts_of(prefix, data.slice(2, 3)) == [rows.entry(300, (key, None)) for key in keys[2:5]]
    assert contents_of(data.slice(2, 3)) == [rows.pack(value) for value in stored[2:5]]


@pytest.mark.parametrize(
    "keys",
    [
        LONGS,
        [*LONGS, 2**63],
        TEXTS,
        [(number, 5) for number in LONGS],
        [(1, 2), (3,)],
        [(1, "a")],
        [(1, None), (2, 3)],
        [(), ()],
        [],
        [None, 1],
        [canonical_key(True), 1],
    ],
)
def test_rows_of_a_batch_are_those_of_its_entries(keys: list[Any]) -> None:
    rows = StateRows(5, EntryFormat("op", "state", "value", Types.PICKLED_BYTE_ARRAY(), Types.LONG(), None))
    groups = [(number * 77) % 500 for number in range(len(keys))]
    for namespace in (None, TimeWindow(0, 1)):
        entries = [(key, namespace) for key in keys]
        expected = [rows.entry(group, entry) for group, entry in zip(groups, entries, strict=True)]
        assert rows.entries(groups, entries) == expected
        assert rows.entries(groups, entries) == expected, "the same again"
    again = StateRows(5, EntryFormat("op", "state", "value", Types.LONG(), Types.LONG(), None))
    assert len(again.entries([3, 4], [(7, None), (8, None)])) == 2
    assert again.may_have_none


def test_the_same_entry_of_two_key_groups_has_two_rows() -> None:
    """The key and the name of what belongs to no key are the same objects for all key groups."""
    rows = StateRows(5, EntryFormat("op", "state", "value", Types.PICKLED_BYTE_ARRAY(), Types.LONG(), None))
    entry = ((), None)
    assert len({rows.entry(group, entry) for group in (3, 4)}) == 2
    named = ((), ("rows", 1))
    assert len(set(rows.entries([3, 4, 3], [named] * 3))) == 2


def test_what_is_not_that_plain_is_left_to_be_decoded() -> None:
    windows = time_window_columns([TimeWindow(0, 1), TimeWindow(1, 2)])
    data = data_of(Types.LONG(), [1, 2], Types.LONG(), [1, None])
    assert contents_of(data) is None
    assert starts_of(b"1234", data.append_column(*windows[0]).append_column(*windows[1])) is None
    pairs = data_of(Types.TUPLE([Types.LONG()]), [(1,), (2,)], Types.TUPLE([Types.LONG()]), [(1,), (2,)])
    assert starts_of(b"1234", pairs) is None
    assert contents_of(pairs) is None
    stamped = data_of(Types.LONG(), [1, 2], Types.LONG(), [1, 2]).append_column(
        TTL_COLUMN, pa.array([1, None], pa.int64())
    )
    assert contents_of(stamped) is None
