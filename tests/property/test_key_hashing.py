"""Columns, lists and single keys hash alike, whatever the values."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tidegate.columnar.keys.hashing import hash_columns
from tidegate.records.keys import hash_key, hash_keys

INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
KINDS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int64(), INT64),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.float64(), st.floats()),
    (pa.float32(), st.floats(width=32)),
    (pa.bool_(), st.booleans()),
    (pa.string(), TEXT),
    (pa.binary(), st.binary()),
    (pa.timestamp("us"), st.integers(-(10**15), 10**15)),
    (pa.date32(), st.integers(-700_000, 2_900_000)),
    (pa.duration("ms"), st.integers(-(10**12), 10**12)),
]
COLUMNS = st.sampled_from(KINDS).flatmap(
    lambda kind: st.lists(st.none() | kind[1], max_size=40).map(lambda values: pa.array(values, kind[0]))
)


@given(column=COLUMNS, start=st.integers(0, 40))
def test_column_equals_keys(column: pa.Array, start: int) -> None:
    column = column.slice(min(start, len(column)))
    keys = column.to_pylist()
    expected = [hash_key(key) for key in keys]
    assert hash_columns([column]).tolist() == expected
    assert hash_keys(keys).tolist() == expected


KEY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=6,
)


@given(keys=st.lists(KEY, max_size=20))
def test_lists_equal_keys(keys: list[Any]) -> None:
    assert hash_keys(keys).tolist() == [hash_key(key) for key in keys]


@given(first=KEY, second=KEY)
def test_equal_keys_of_one_type_hash_alike(first: Any, second: Any) -> None:
    if type(first) is type(second) and repr(first) == repr(second):
        assert hash_key(first) == hash_key(second)
