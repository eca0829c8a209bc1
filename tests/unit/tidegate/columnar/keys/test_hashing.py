"""The table of key hashes: known values of Java, and columns that agree with single keys."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import subprocess
import sys
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidegate.columnar.keys.hashing import hash_columns, key_groups, subtasks_of
from tidegate.model import keygroups
from tidegate.model.errors import NotSerializable, SchemaMismatch
from tidegate.records.keys import hash_key, hash_keys

JAVA = [
    (None, 0),
    (True, 1231),
    (False, 1237),
    (42, 42),
    (-1, 0),  # Long.hashCode(-1)
    (-(2**63), -(2**31)),
    (2**32, 1),
    (2**63, -2147483648),  # BigInteger words 0x80000000, 0: 31 * 0x80000000
    (-(2**64), -961),  # words 1, 0, 0
    (0.0, 0),
    (-0.0, 0),
    (1.0, 1072693248),
    (float("nan"), 2146959360),
    ("", 0),
    ("a", 97),
    ("hello", 99162322),
    ("flink", 97520992),
    ("😀", 1772899),  # 0xD83D * 31 + 0xDE00
    (b"", 1),
    (b"\xff", 30),
    ((), 1),
    ((1, "a"), (31 * (31 + 1)) + 97),
    (Decimal("1.0"), 1),
    (Decimal("-7"), hash_key(-7)),
    (Decimal(2**70), hash_key(2**70)),
    (Decimal("-12.50"), -31 * 125 + 1),
    (dt.date(2024, 2, 29), 2024 & 0xFFFFF800 ^ (2024 << 11) + (2 << 6) + 29),
    (dt.datetime(1970, 1, 1, 0, 0, 1, 5, tzinfo=dt.UTC), 1 + 51 * 5000),
    (dt.timedelta(seconds=3), 3),
]


@pytest.mark.parametrize(("key", "expected"), JAVA)
def test_hash_is_javas(key: Any, expected: int) -> None:
    assert hash_key(key) == expected


def test_key_groups_are_flinks() -> None:
    hashes = np.array([0, 1, 2, -1, 42, 12345, 2147483647, -2147483648, 97, 99162322, 97520992], np.int32)
    assert key_groups(hashes, 128).tolist() == [94, 86, 127, 80, 29, 1, 62, 108, 81, 35, 98]
    expected = [2526, 4054, 2943, 2896, 3613, 3585, 3262, 2156, 3025, 2723, 226]
    assert key_groups(hashes, 4096).tolist() == expected


@pytest.mark.parametrize("max_parallelism", [1, 3, 100, 128, 32767, 32768])
def test_columns_of_hashes_follow_the_scalar_formulas(max_parallelism: int) -> None:
    hashes = np.random.default_rng(7).integers(-(2**31), 2**31, 40_000).astype(np.int32)
    groups = key_groups(hashes, max_parallelism)
    sample = range(0, len(hashes), 37)
    assert [groups[i] for i in sample] == [keygroups.key_group(int(hashes[i]), max_parallelism) for i in sample]
    for parallelism in {1, max(1, max_parallelism // 3), max_parallelism}:
        owners = subtasks_of(groups, max_parallelism, parallelism)
        wanted = [keygroups.subtask_of(int(groups[i]), max_parallelism, parallelism) for i in sample]
        assert [owners[i] for i in sample] == wanted


COLUMNS = [
    pa.array([1, None, -5, 2**40, -(2**63)], pa.int64()),
    pa.array([1, None, -5, 127], pa.int8()),
    pa.array([0, None, 2**63, 2**64 - 1], pa.uint64()),
    pa.array([1.5, None, float("nan"), -0.0, float("inf"), 1e-300], pa.float64()),
    pa.array([1.5, None, 0.1], pa.float32()),
    pa.array([True, None, False], pa.bool_()),
    pa.array(["", None, "hello", "grüße", "中文😀x", "a" * 70_000, "ü" * 50_000], pa.string()),
    pa.array(["x", None, "y", "x"], pa.string()).dictionary_encode(),
    pa.array(["x", None], pa.large_string()),
    pa.array([b"", None, b"\x80\xff\x00", b"z" * 40_000], pa.binary()),
    pa.array([b"abc", None], pa.binary(3)),
    pa.array([0, None, -1, 1_700_000_000_123], pa.timestamp("ms")),
    pa.array([0, None, -1, 1_700_000_000_123], pa.timestamp("us", "Europe/Berlin")),
    pa.array([5, None, -7], pa.timestamp("s")),
    pa.array([5, None, -7], pa.duration("us")),
    pa.array([0, None, 86_399_999], pa.time32("ms")),
    pa.array([0, None, 86_399_999_999], pa.time64("us")),
    pa.array([0, None, -700_000, 20_000, 19_782], pa.date32()),
    pa.array([Decimal("1.00"), None, Decimal("-0.05"), Decimal("123456789012345678901.20")], pa.decimal128(30, 2)),
    pa.array([{"a": 1, "b": "x"}, {"a": None, "b": "y"}], pa.struct([("a", pa.int32()), ("b", pa.string())])),
    pa.array([[1, 2], None, []], pa.list_(pa.int64())),
    pa.array([None, None], pa.null()),
    pa.array([], pa.string()),
    pa.array([None, None], pa.string()),
]


@pytest.mark.parametrize("column", COLUMNS, ids=lambda c: str(c.type))
def test_columns_agree_with_keys(column: pa.Array) -> None:
    expected = [hash_key(value) for value in column.to_pylist()]
    assert hash_columns([column]).tolist() == expected
    assert hash_columns([column.slice(1)]).tolist() == expected[1:]
    assert hash_columns([pa.chunked_array([column, column])]).tolist() == expected * 2


def test_several_columns_are_a_tuple() -> None:
    numbers, texts = pa.array([1, 2, None]), pa.array(["a", None, "c"])
    pairs = list(zip(numbers.to_pylist(), texts.to_pylist(), strict=True))
    assert hash_columns([numbers, texts]).tolist() == [hash_key(pair) for pair in pairs]
    assert hash_keys(pairs).tolist() == [hash_key(pair) for pair in pairs]


def test_widths_hash_alike() -> None:
    values = [0, 1, -1, 100, -128]
    narrow, wide = pa.array(values, pa.int8()), pa.array(values, pa.int64())
    assert hash_columns([narrow]).tolist() == hash_columns([wide]).tolist()


@pytest.mark.parametrize(
    "keys",
    [
        [1, 2, 2**70],
        [1, True, None, "x", 2.0],
        ["a", "\ud800", "b"],
        [(1, "a"), (2, "b", 3)],
        [(), ()],
        [b"x", b""],
        [1.0, -0.0],
        [],
    ],
)
def test_lists_of_keys_agree_with_keys(keys: list[Any]) -> None:
    assert hash_keys(keys).tolist() == [hash_key(key) for key in keys]


class Colour(enum.Enum):
    RED = 1


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: str


class Plain:
    def __init__(self, value: Any) -> None:
        self.value = value


def test_keys_with_a_form_of_their_own() -> None:
    shared = "sh" + "ared"
    assert hash_key(Colour.RED) == hash_key("RED")
    assert hash_key(Point(1, "a")) == hash_key((1, "a"))
    assert hash_key(np.int64(7)) == hash_key(7)
    assert hash_key(frozenset({1, 2})) == 3
    assert hash_key(Plain([shared, shared])) == hash_key(Plain(["shared", "".join(["sha", "red"])]))
    assert hash_key(dt.datetime(2024, 1, 1, 12, tzinfo=dt.timezone(dt.timedelta(hours=2)))) == hash_key(
        dt.datetime(2024, 1, 1, 10, tzinfo=dt.UTC)
    )


def test_what_cannot_be_a_key_is_named() -> None:
    with pytest.raises(NotSerializable, match="function"):
        hash_key(lambda: None)
    with pytest.raises(SchemaMismatch, match="interval"):
        hash_columns([pa.array([pa.MonthDayNano([1, 1, 1])])])


def test_maps_with_the_same_pairs_have_the_same_hash() -> None:
    maps = pa.array([[("k", 1)], [("k", 2)], [("k", 1)], None], pa.map_(pa.string(), pa.int32()))
    first, second, same, _ = hash_columns([maps])
    assert first == same != second
    assert hash_columns([maps.slice(2)])[0] == first


def test_hash_is_the_same_in_another_process() -> None:
    program = "from tidegate.records.keys import hash_key; print(hash_key(('x', frozenset({'a', 'b'}), 1.5)))"
    seen = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True, text=True
        ).stdout
        for seed in ("1", "2")
    }
    assert seen == {f"{hash_key(('x', frozenset({'a', 'b'}), 1.5))}\n"}
