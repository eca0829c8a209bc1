"""Row keys of RocksDB: they come back as they were, equal keys are equal bytes, and none begins with another one."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tidegate.common.typeinfo import Types
from tidegate.datastream.window import CountWindow, TimeWindow
from tidegate.records.canonical.forms import value_of
from tidegate.taskmanager.keyed_state.rocksdb.keys import after, decode_key, encode_key
from tidegate.taskmanager.keyed_state.rocksdb.values import decode, encoder_of, stamp, stamp_of

INT64 = st.integers(-(2**63), 2**63 - 1)
PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
    st.dates(),
    st.datetimes(),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.builds(TimeWindow, INT64, INT64),
    st.builds(CountWindow, INT64),
)
KEYS = st.recursive(
    PLAIN, lambda parts: st.one_of(st.tuples(parts, parts), st.frozensets(parts, max_size=3)), max_leaves=6
)


@given(KEYS, st.binary())
def test_a_key_comes_back_and_tells_where_it_ends(key: Any, behind: bytes) -> None:
    content = encode_key(key)
    found, end = decode_key(b"??" + content + behind, 2)
    assert (value_of(found), end) == (key, 2 + len(content))
    assert encode_key(found) == content


@given(KEYS, KEYS)
def test_no_key_begins_with_another_one(one: Any, other: Any) -> None:
    first, second = encode_key(one), encode_key(other)
    assert first == second or not second.startswith(first)


@given(st.decimals(allow_nan=False, allow_infinity=False), st.integers(0, 5))
def test_equal_decimals_have_equal_bytes(number: decimal.Decimal, zeros: int) -> None:
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    same = decimal.Decimal((sign, (*digits, *[0] * zeros), exponent - zeros))
    assert same == number
    assert encode_key(same) == encode_key(number)


@given(st.datetimes(timezones=st.just(datetime.UTC)), st.integers(-14, 14))
def test_the_same_moment_has_the_same_bytes_in_every_zone(moment: datetime.datetime, hours: int) -> None:
    try:
        elsewhere = moment.astimezone(datetime.timezone(datetime.timedelta(hours=hours)))
    except OverflowError:
        return
    assert encode_key(elsewhere) == encode_key(moment)


@given(st.text(), st.text())
def test_equal_parts_that_are_one_object_or_two_have_equal_bytes(one: str, other: str) -> None:
    assert encode_key((one, one)) == encode_key((one, "".join([one[:1], one[1:]])))
    assert encode_key(frozenset({one, other})) == encode_key(frozenset({other, one}))


@given(st.binary(min_size=1, max_size=4).filter(lambda prefix: prefix.strip(b"\xff")), st.binary(max_size=4))
def test_what_begins_with_a_prefix_lies_before_its_end(prefix: bytes, rest: bytes) -> None:
    assert prefix <= prefix + rest < after(prefix)


VALUES: list[Any] = [
    (Types.LONG(), INT64),
    (Types.INT(), st.integers()),
    (Types.DOUBLE(), st.floats(allow_nan=False)),
    (Types.STRING(), st.text()),
    (Types.PICKLED_BYTE_ARRAY(), st.lists(st.integers())),
]


@given(st.sampled_from(VALUES).flatmap(lambda pair: st.tuples(st.just(pair[0]), st.one_of(pair[1], PLAIN))), INT64)
def test_a_value_comes_back_whether_it_fits_its_type_or_not(typed: tuple[Any, Any], ms: int) -> None:
    type_info, value = typed
    content = encoder_of(type_info)(value)
    found = decode(content)
    assert found == value
    assert type(found) is type(value)
    assert stamp_of(stamp(content, ms)) == ms
