"""Which keys are one key, and that the hash, the form, its bytes and what comes out of a checkpoint say the same.

``SAME`` and ``DIFFERENT`` are PyFlink 2.3's, recorded from a KeyedProcessFunction that counts (keys without a type;
between two keys a third one, since PyFlink takes a key that Python finds equal to the one before for the same). Where ours differ it is said.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import datetime as dt
import enum
import math
import pickle
import zoneinfo
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.common import Row, Types
from tidegate.model.errors import InvalidJob, NotSerializable
from tidegate.records.canonical.forms import (
    EncodedKey,
    canonical_key,
    canonical_keys,
    decode_form,
    encode_form,
    value_of,
)
from tidegate.records.keys import hash_key, hash_keys
from tidegate.records.record_codec import decode_column, encode_column

P = collections.namedtuple("P", "x y")
Q = collections.namedtuple("Q", "x y")
NAN, OTHER_NAN = math.nan, math.inf - math.inf
EAST = dt.timezone(dt.timedelta(hours=2))
MOMENT = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)


@dataclasses.dataclass(frozen=True)
class D:
    x: Any


@dataclasses.dataclass(frozen=True, slots=True)
class Slots:
    x: Any


@dataclasses.dataclass
class Mutable:
    x: Any


class Colour(enum.Enum):
    RED = 1
    GREEN = 2


class Number(enum.IntEnum):
    ONE = 1


class Bits(enum.Flag):
    A = 1
    B = 2


class MyStr(str): ...


class MyInt(int): ...


class MyFloat(float): ...


class Plain:
    def __init__(self, x: Any) -> None:
        self.x = x


class WithEq(Plain):
    def __eq__(self, other: object) -> bool:
        return isinstance(other, WithEq) and self.x == other.x

    def __hash__(self) -> int:
        return hash(self.x)


class OnlyEq(Plain):
    def __eq__(self, other: object) -> bool:
        return True


def local(x: Any) -> Any:
    @dataclasses.dataclass(frozen=True)
    class Local:
        y: Any

    return Local(x)


Local = type(local(1))


SAME: list[list[Any]] = [
    [NAN, float("nan")],
    [(NAN,), (float("nan"),)],
    [Decimal("1"), Decimal("1")],
    [MyStr("a"), MyStr("a")],
    [MyInt(1), MyInt(1)],
    [np.int64(1), np.int64(1)],
    [P(1, 2), P(1, 2)],
    [D(1), D(1)],
    [Colour.RED, Colour.RED],
    [frozenset({1, "a"}), frozenset({"a", 1})],
]
SAME_HERE: list[list[Any]] = [
    [NAN, OTHER_NAN, -NAN, np.float32("nan")],
    [(((NAN,),), 1), (((-NAN,),), 1)],
    [[NAN], (OTHER_NAN,)],
    [D((NAN,)), D((-NAN,))],
    [WithEq(NAN), WithEq(-NAN)],
    [WithEq({"b", "a"}), WithEq({"a", "b"})],
    [Decimal("1"), Decimal("1.0"), Decimal("1.00"), Decimal("0.1E+1")],
    [(Decimal("1"), 2), (Decimal("1.0"), 2)],
    [Decimal("0"), Decimal("-0.0")],
    [1, np.int64(1), np.int32(1), np.uint8(1)],
    ["a", np.str_("a")],
    [1.5, np.float64(1.5), np.float32(1.5)],
    [True, np.bool_(True)],
    [(1, 2), [1, 2], (np.int64(1), 2)],
    [(1, (2, "x")), (1, [2, "x"]), [1, [2, "x"]]],
    [MOMENT, MOMENT.astimezone(EAST), MOMENT.astimezone(zoneinfo.ZoneInfo("Asia/Tokyo"))],
    [dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, fold=1)],
]
DIFFERENT: list[list[Any]] = [
    [1, True, 1.0, Decimal(1), MyInt(1), Number.ONE, "1", b"1", Fraction(1), 1 + 0j, MyFloat(1), (1,), D(1), Row(1)],
    [0, False, 0.0, -0.0, None, "", b"", (), frozenset()],
    [(0.0,), (-0.0,), (0,), (False,), ((0.0,),)],
    ["a", b"a", MyStr("a"), ("a",), Colour.RED, "RED"],
    [(1, 2), P(1, 2), Q(1, 2), Row(1, 2), Row(x=1, y=2), frozenset({1, 2}), D((1, 2)), Slots((1, 2))],
    [(1, "a"), (True, "a"), (1.0, "a"), (Decimal(1), "a"), (MyInt(1), "a")],
    [((1,),), ((True,),), ((1.0,),)],
    [D(1), D(True), D(1.0), Slots(1), WithEq(1)],
    [frozenset({1}), frozenset({True}), frozenset({1.0})],
    [WithEq(1), WithEq(True), WithEq((1,)), WithEq([1])],
    [dt.date(2024, 1, 1), dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, tzinfo=dt.UTC), dt.time(0)],
    [dt.time(1), dt.time(1, tzinfo=dt.UTC), dt.time(1, tzinfo=EAST)],
    [Bits.A, Bits.A | Bits.B, Bits.B],
    [Local(1), Local(2), Local(True)],
    [math.inf, -math.inf, 1e300, 1.5, Decimal("1.5"), Fraction(3, 2), MyFloat(1.5)],
    [2**63, 2**64, float(2**63), Decimal(2**63)],
    [EncodedKey, D, Colour, math.sqrt],
    [b"t", True, b"i" + bytes(7) + b"\1", 1],
]


def pairs(groups: list[list[Any]]) -> list[tuple[Any, Any]]:
    return [(one, other) for group in groups for place, one in enumerate(group) for other in group[place + 1 :]]


def repeated(key: Any) -> Any:
    """As it comes out of a checkpoint."""
    return decode_column(Types.PICKLED_BYTE_ARRAY(), encode_column(Types.PICKLED_BYTE_ARRAY(), [key], ""))[0]


def is_same(one: Any, other: Any) -> bool:
    """By the form; everything else must say the same."""
    first, second = canonical_key(one), canonical_key(other)
    same = bool(first == second)
    assert (second in {first: None}) == same
    assert (encode_form(first) == encode_form(second)) == same, (one, other)
    assert ((second, None) in {(first, None)}) == same
    if same:
        assert hash_key(one) == hash_key(other), (one, other)
        assert hash_keys([one, other]).tolist() == [hash_key(one)] * 2
    return same


@pytest.mark.parametrize(("one", "other"), pairs(SAME) + pairs(SAME_HERE))
def test_these_are_one_key(one: Any, other: Any) -> None:
    assert is_same(one, other)


@pytest.mark.parametrize(("one", "other"), pairs(DIFFERENT))
def test_these_are_two_keys(one: Any, other: Any) -> None:
    assert not is_same(one, other)


EVERY = [key for group in SAME + SAME_HERE + DIFFERENT for key in group]


@pytest.mark.parametrize("key", EVERY)
def test_a_key_is_the_same_in_every_shape(key: Any) -> None:
    form = canonical_key(key)
    assert canonical_key(form) is form
    assert is_same(value_of(form), key)
    content = encode_form(form)
    found, end = decode_form(b"??" + content + b"!", 2)
    assert (found, end) == (form, 2 + len(content))
    assert is_same(value_of(found), key)
    assert type(value_of(found)) is type(value_of(form)), "it comes out of RocksDB as what it is"
    assert canonical_key(copy.deepcopy(form)) == form
    if type(key) is Local:
        return
    assert pickle.loads(pickle.dumps(form)) == form
    assert is_same(repeated(value_of(form)), key)


def test_what_python_tells_apart_is_its_own_form() -> None:
    for key in (1, "a", None, (1, "a", (None, 2)), dt.date(2024, 1, 1), 1.5, dt.datetime(2024, 1, 1)):
        assert canonical_key(key) is key
    keys = [1, "a", None]
    assert canonical_keys(keys) == keys


@pytest.mark.parametrize(
    ("key", "why"),
    [
        (Plain(1), "class Plain does not say which of its objects are equal: make it a frozen dataclass"),
        ((1, Plain(1)), "class Plain"),
        (D(Plain(1)), "class Plain"),
        (P(1, (Plain(1),)), "class Plain"),
        (frozenset({Plain(1)}), "class Plain"),
        (Row(1, Plain(1)), "class Plain"),
        (object(), "class object"),
        (OnlyEq(1), "a OnlyEq has no hash: .* frozen dataclass"),
        (Mutable(1), "a Mutable has no hash"),
        ({"a": 1}, "a dict has no hash"),
        ({1}, "a set has no hash"),
        (bytearray(b"a"), "a bytearray has no hash"),
        ((1, [{2}]), "a set has no hash"),
        (np.array([1, 2]), "a ndarray has no hash"),
    ],
)
def test_what_can_be_no_key_is_refused_with_what_to_do(key: Any, why: str) -> None:
    with pytest.raises(InvalidJob, match=why):
        canonical_key(key)


def test_keys_of_a_class_have_one_mark_in_every_version() -> None:
    """Restored rows of other keys are searched for between them."""
    for key in (
        P(1, 2),
        D(1),
        Colour.RED,
        Bits.A,
        Row(1),
        MyInt(1),
        WithEq(1),
        dt.datetime(2024, 1, 1),
        dt.time(1),
        MOMENT,
        1j,
    ):
        assert encode_form(key)[:1] == b"p"
        assert encode_form((0, key))[: len(encode_form((0, 0))) - 9 + 1].endswith(b"p")


def test_what_has_no_bytes_is_refused() -> None:
    with pytest.raises(NotSerializable, match="cannot be written by its value"):
        canonical_key(WithEq(lambda: None))


PARTS = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2), st.integers(), st.sampled_from([0.0, -0.0, 1.0, NAN, OTHER_NAN, 1.5]),
    st.floats(), st.sampled_from(["", "a", "1"]), st.text(), st.binary(max_size=2), st.dates(), st.datetimes(),
    st.decimals(allow_nan=False, allow_infinity=False), st.sampled_from(list(Colour)), st.just(Number.ONE),
    st.builds(MyInt, st.integers(-2, 2)), st.builds(MyStr, st.sampled_from(["", "a"])), st.builds(np.int64, st.integers(-2, 2)),
)  # fmt: skip
KEYS = st.recursive(
    PARTS,
    lambda parts: st.one_of(
        st.lists(parts, max_size=3).map(tuple),
        st.lists(parts, max_size=2),
        st.builds(P, parts, parts),
        st.builds(D, parts.filter(lambda part: not isinstance(part, list))),
        st.builds(lambda *values: Row(*values), parts, parts),
    ),
    max_leaves=5,
)


@settings(max_examples=300)
@given(KEYS, KEYS)
def test_forms_bytes_hashes_and_checkpoints_agree(one: Any, other: Any) -> None:
    is_same(one, other)
    for key in (one, other):
        form = canonical_key(key)
        assert is_same(repeated(value_of(form)), key)
        assert decode_form(encode_form(form))[0] == form
