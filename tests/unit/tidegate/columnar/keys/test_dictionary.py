"""Codes of a key dictionary stand for the same keys in every batch."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from tidegate.columnar.keys import dictionary as dictionary_module
from tidegate.columnar.keys.dictionary import KeyDictionary

BATCHES = {
    "strings": [[pa.array(["a", None, "b", "a"])], [pa.array(["c", "b", None])]],
    "sparse": [[pa.array([2**60, -(2**60), 0])], [pa.array([0, 7 * 2**50])]],
    "floats": [[pa.array([0.0, -0.0, math.nan, None])], [pa.array([math.nan, 1.5])]],
    "dictionary": [[pa.array(["x", "y", "x"]).dictionary_encode()], [pa.array(["z", "y"]).dictionary_encode()]],
    "two": [
        [pa.array([5, 6, 5]), pa.array(["a", "b", None])],
        [pa.array([6, 7]), pa.array(["a", "c"])],
    ],
    "dates": [
        [pa.array([3, -4], pa.date32()), pa.array([True, None])],
        [pa.array([0, 3], pa.date32()), pa.array([False, None])],
    ],
    "range, then not": [[pa.array([1, 2]), pa.array([1, 2])], [pa.array([1, 2**40]), pa.array([None, 2])]],
}


def rows(columns: list[pa.Array]) -> list[str]:
    """As text, where NaN is NaN."""
    return [repr(row) for row in zip(*(c.to_pylist() for c in columns), strict=True)]


@pytest.mark.parametrize("name", BATCHES)
def test_codes_decode_to_their_keys_and_stay(name: str) -> None:
    first, second = BATCHES[name]
    dictionary = KeyDictionary.of(first)
    assert dictionary is not None
    codes = dictionary.encode(first)
    assert codes is not None
    assert rows(first) == rows(dictionary.decode(codes))
    kept, more = dictionary, dictionary.encode(second)
    if more is None:
        grown = dictionary.grown(second)
        assert grown is not None
        dictionary, more = grown, grown.encode(second)
        assert more is not None
        assert name == "range, then not" or grown.encode(first) is not None, "it has room for what came before"
    assert rows(dictionary.decode(more)) == rows(second)
    assert rows(kept.decode(codes)) == rows(first)
    assert int(max(codes.max(), more.max())) < max(kept.cardinality, dictionary.cardinality)


def test_equal_keys_have_one_code() -> None:
    dictionary = KeyDictionary.of([pa.array([0.0, -0.0, math.nan])])
    assert dictionary is not None
    codes = dictionary.encode([pa.array([0.0, -0.0, math.nan, float("-nan")])])
    assert codes is not None
    assert codes[0] != codes[1]
    assert codes[2] == codes[3]


def test_too_many_keys_and_types_without_order_have_no_dictionary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dictionary_module, "MAX_CODES", 64)
    assert KeyDictionary.of([pa.array([f"{i}" for i in range(100)])]) is None
    assert KeyDictionary.of([pa.array(np.arange(10)), pa.array(np.arange(10))]) is None
    assert KeyDictionary.of([pa.array([{"a": 1}])]) is None
    assert KeyDictionary.of([]) is None
    dictionary = KeyDictionary.of([pa.array(["a"])])
    assert dictionary is not None
    assert dictionary.grown([pa.array([f"{i}" for i in range(100)])]) is None
