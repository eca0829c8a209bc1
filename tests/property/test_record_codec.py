"""Any values of any type survive the way through Arrow, also when the batch is a slice of another."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.common.row import Row
from tidegate.common.time import Instant
from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.records.record_codec import codec_of

Case = tuple[TypeInformation, st.SearchStrategy[Any]]

_NAIVE = st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2200, 1, 1))
_LEAVES: list[Case] = [
    (Types.LONG(), st.integers(-(2**63), 2**63 - 1)),
    (Types.INT(), st.integers(-(2**31), 2**31 - 1)),
    (Types.BYTE(), st.integers(-128, 127)),
    (Types.DOUBLE(), st.floats(allow_nan=False)),
    (Types.FLOAT(), st.floats(allow_nan=False, width=32)),
    (Types.STRING(), st.text()),
    (Types.BOOLEAN(), st.booleans()),
    (Types.SQL_DATE(), st.dates()),
    (Types.SQL_TIME(), st.times()),
    (Types.SQL_TIMESTAMP(), _NAIVE),
    (
        Types.INSTANT(),
        st.builds(lambda s, u: Instant(s, u * 1000), st.integers(-(10**9), 10**10), st.integers(0, 999999)),
    ),
    (Types.BIG_INT(), st.integers(-(10**70), 10**70)),
    (Types.BIG_DEC(), st.integers(-(10**30), 10**30).map(lambda i: Decimal(i).scaleb(-15))),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), st.binary()),
    (Types.PICKLED_BYTE_ARRAY(), st.dictionaries(st.text(), st.lists(st.integers()))),
]


def _nullable(case: Case) -> st.SearchStrategy[Any]:
    return st.none() | case[1]


def _wrap(inner: st.SearchStrategy[Case]) -> st.SearchStrategy[Case]:
    lists = inner.map(lambda c: (Types.LIST(c[0]), st.lists(_nullable(c), max_size=4)))
    arrays = inner.map(lambda c: (Types.OBJECT_ARRAY(c[0]), st.lists(_nullable(c), max_size=4)))
    maps = st.tuples(st.sampled_from(_LEAVES[:6]), inner).map(
        lambda cs: (Types.MAP(cs[0][0], cs[1][0]), st.dictionaries(cs[0][1], _nullable(cs[1]), max_size=3))
    )
    tuples = st.lists(inner, min_size=1, max_size=3).map(
        lambda cs: (Types.TUPLE([c[0] for c in cs]), st.tuples(*map(_nullable, cs)))
    )
    rows = st.lists(inner, min_size=1, max_size=3).map(
        lambda cs: (Types.ROW([c[0] for c in cs]), st.tuples(*map(_nullable, cs)).map(lambda vs: Row(*vs)))
    )
    named = st.lists(inner, min_size=1, max_size=3).map(
        lambda cs: (
            Types.ROW_NAMED([f"n{i}" for i in range(len(cs))], [c[0] for c in cs]),
            st.tuples(*map(_nullable, cs)).map(lambda vs: Row(**{f"n{i}": v for i, v in enumerate(vs)})),
        )
    )
    return lists | arrays | maps | tuples | rows | named


CASES = st.recursive(st.sampled_from(_LEAVES), _wrap, max_leaves=4)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_what_is_decoded_is_what_was_encoded(data: st.DataObject) -> None:
    type_info, values_of = data.draw(CASES)
    values = data.draw(st.lists(values_of, max_size=6))
    codec = codec_of(type_info)
    batch = codec.encode(values)
    batch.validate(full=True)
    assert batch.schema.equals(type_info.arrow_schema())
    assert codec.decode(batch) == values
    start = data.draw(st.integers(0, len(values)))
    assert codec.decode(batch.slice(start)) == values[start:]
