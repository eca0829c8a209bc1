"""Keys that are sorted have the codes that a dictionary would give them, up to their names."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.columnar.keys import codes as key_codes
from tidegate.columnar.keys import sorted_codes
from tidegate.columnar.keys.codes import encode_keys, share_of_keys
from tidegate.columnar.keys.mixing import Words, mix
from tidegate.columnar.keys.sorted_codes import sort_keys
from tidegate.columnar.keys.words import MAX_BYTES, words_of

ROWS = 20_000


def columns_of(kind: str) -> list[pa.Array]:
    """Some 10,000 different keys, each about twice, and the rare ones of the type."""
    rng = np.random.default_rng(3)
    numbers = rng.integers(0, 10_000, ROWS)
    scattered = pa.array(numbers * 0x9E3779B97F4A7C1 - 2**62)
    text = pa.array([f"{'x' * (n % 41)}{n}" for n in numbers.tolist()])
    match kind:
        case "int64":
            return [scattered]
        case "uint64":
            return [pa.array(numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))]
        case "with nulls":
            return [pa.array(scattered.to_numpy(), mask=numbers % 7 == 0)]
        case "text":
            return [text]
        case "text with nulls, and empty ones":
            return [pa.array([None if n % 7 == 0 else "" if n % 11 == 0 else f"k{n}" for n in numbers.tolist()])]
        case "bytes that end with zeros":
            return [pa.array([b"k" + bytes([n % 100, n // 100]) + b"\0" * (n % 3) for n in numbers.tolist()])]
        case "floats":
            found = numbers * 1e300
            found[::50] = np.nan
            found[1::50] = -0.0
            return [pa.array(found)]
        case "float32":
            return [pa.array((numbers * 1.1).astype(np.float32))]
        case "instants":
            return [pa.array(numbers * 1_000_000_007).view(pa.timestamp("us"))]
        case "slices":
            return [
                pa.concat_arrays([pa.array([7]), scattered]).slice(1),
                pa.concat_arrays([pa.array(["y"]), text]).slice(1),
            ]
        case "dictionary":
            return [text.dictionary_encode()]
        case _:
            return [scattered, text, pa.array(numbers % 2 == 0)]


KINDS = [
    "int64",
    "uint64",
    "with nulls",
    "text",
    "text with nulls, and empty ones",
    "bytes that end with zeros",
    "floats",
    "float32",
    "instants",
    "slices",
    "dictionary",
    "three columns",
]


@pytest.mark.parametrize("kind", KINDS)
def test_equal_keys_and_only_they_share_a_code(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = columns_of(kind)
    found = encode_keys(columns, ROWS, "w")
    monkeypatch.setattr(key_codes, "MANY_KEYS", 2.0)
    expected = encode_keys(columns, ROWS, "w")
    assert found.rows_by_key is not None
    assert expected.rows_by_key is None
    pairs = set(zip(found.codes.tolist(), expected.codes.tolist(), strict=True))
    assert len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs}) == found.cardinality
    of_rows = [column.to_pylist() for column in found.decode(found.codes)]
    assert list(map(str, of_rows)) == list(map(str, [c.to_pylist() for c in expected.decode(expected.codes)]))


def test_few_keys_have_a_dictionary() -> None:
    few = pa.array(np.random.default_rng(4).integers(0, 500, ROWS) * 2**40)
    assert encode_keys([few], ROWS, "w").rows_by_key is None


def test_each_key_several_times_in_a_row_is_no_sign_of_many_keys() -> None:
    numbers = np.arange(200_000) // 10 * 2**40
    share = share_of_keys([pa.array(numbers)], len(numbers))
    assert share is not None
    assert share < 0.12


def test_texts_that_are_too_long_have_no_words() -> None:
    assert words_of([pa.array(["x" * MAX_BYTES])]) is not None
    assert words_of([pa.array(["x" * (MAX_BYTES + 1)])]) is None
    assert words_of([pa.array([{"a": 1}])]) is None
    many = pa.array([f"{n}{'x' * MAX_BYTES}" for n in range(ROWS)])
    assert encode_keys([many], ROWS, "w").cardinality == ROWS


def test_dates_and_nulls_of_every_type_have_words() -> None:
    for column in (
        pa.array([date(2026, 1, 1), None]),
        pa.array([True, None]),
        pa.array([1.5, None], pa.float32()),
        pa.array([1, None], pa.int8()),
        pa.array([1, None], pa.time32("s")),
        pa.array([1, None], pa.duration("us")),
    ):
        words = words_of([column])
        assert words is not None
        assert len(words) == 2
        assert words[1].tolist() == [0, 1]


def test_keys_whose_hashes_look_alike_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The low bits of a hash give way to the number of the row; here nothing else differs."""
    words = [np.arange(100, dtype=np.uint64)]
    monkeypatch.setattr(sorted_codes, "mix", lambda words: words[0].copy())
    found = sort_keys([np.concatenate([words[0], words[0]])])
    assert found is not None
    assert len(found.leaders) == 100
    codes = found.codes()
    assert (codes[:100] == codes[100:]).all()


def test_keys_with_the_same_hash_are_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_codes, "mix", lambda words: np.zeros(len(words[0]), np.uint64))
    assert sort_keys([np.arange(100, dtype=np.uint64)]) is None


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=300))
def test_one_word_is_mixed_without_loss(words: list[int]) -> None:
    mixed = mix([np.array(words, np.uint64)])
    assert len(set(mixed.tolist())) == len(set(words))


@given(st.lists(st.tuples(st.text(max_size=20), st.integers(-2, 2)), min_size=1, max_size=300))
def test_any_keys_lie_together(keys: list[tuple[str, int]]) -> None:
    words: list[Words] | None = words_of(
        [pa.array([text for text, _ in keys]), pa.array([number for _, number in keys])]
    )
    if words is None:
        assert any(len(text.encode()) > MAX_BYTES for text, _ in keys)
        return
    found: Any = sort_keys(words)
    by_code: dict[int, set[tuple[str, int]]] = {}
    for key, code in zip(keys, found.codes().tolist(), strict=True):
        by_code.setdefault(code, set()).add(key)
    assert all(len(same) == 1 for same in by_code.values())
    assert len(by_code) == len(set(keys))
