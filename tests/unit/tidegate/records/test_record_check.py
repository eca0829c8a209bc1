"""The quick check and the codec agree: what looks fit is never refused, and what does not fit never looks fit."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pytest

from tidegate.common.row import Row
from tidegate.common.time import Instant
from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.model.errors import SchemaMismatch
from tidegate.records.record_check import looks_fit
from tidegate.records.record_codec import encode

PERSON = Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])
PAIR = Types.TUPLE([Types.STRING(), Types.LIST(Types.LONG())])

FITS: list[tuple[TypeInformation, Any]] = [
    (Types.BYTE(), -128),
    (Types.SHORT(), 2**15 - 1),
    (Types.INT(), -(2**31)),
    (Types.LONG(), 2**63 - 1),
    (Types.LONG(), None),
    (Types.DOUBLE(), 1),
    (Types.DOUBLE(), float("nan")),
    (Types.FLOAT(), 1.5),
    (Types.STRING(), "text"),
    (Types.CHAR(), "c"),
    (Types.BOOLEAN(), True),
    (Types.BIG_INT(), 10**17),
    (Types.BIG_DEC(), Decimal("1.25")),
    (Types.SQL_DATE(), datetime.date(2020, 1, 1)),
    (Types.SQL_TIME(), datetime.time(12)),
    (Types.SQL_TIMESTAMP(), datetime.datetime(2020, 1, 1)),
    (Types.INSTANT(), Instant(1, 5000)),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"bytes"),
    (Types.LIST(Types.LONG()), [1, None]),
    (Types.MAP(Types.STRING(), Types.LONG()), {"a": 1}),
    (PERSON, Row(name="Ada", age=36)),
    (PERSON, Row("Ada", 36)),
    (PERSON, ("Ada", None)),
    (PAIR, ("a", [1])),
]
DOES_NOT: list[tuple[TypeInformation, Any]] = [
    (Types.BYTE(), 128),
    (Types.SHORT(), 2**15),
    (Types.INT(), 2**31),
    (Types.LONG(), 2**63),
    (Types.LONG(), "1"),
    (Types.LONG(), True),
    (Types.DOUBLE(), 2**60 + 1),
    (Types.STRING(), 3),
    (Types.BOOLEAN(), 1),
    (Types.BIG_INT(), 10**80),
    (Types.BIG_DEC(), Decimal("1e-30")),
    (Types.SQL_DATE(), datetime.datetime(2020, 1, 1, 12)),
    (Types.SQL_TIMESTAMP(), datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)),
    (Types.INSTANT(), 5),
    (Types.LIST(Types.LONG()), ["a"]),
    (Types.LIST(Types.LONG()), "abc"),
    (Types.MAP(Types.STRING(), Types.LONG()), {"a": "b"}),
    (PERSON, Row(name="Ada", age="old")),
    (PERSON, Row(name="Ada", years=36)),
    (PERSON, ("Ada",)),
    (PERSON, None),
    (PAIR, ("a", [1.5])),
]


@pytest.mark.parametrize(("type_info", "value"), FITS)
def test_what_fits_looks_fit(type_info: TypeInformation, value: Any) -> None:
    check = looks_fit(type_info)
    assert check is not None
    assert check([value])
    assert encode(type_info, [value]).num_rows == 1


@pytest.mark.parametrize(("type_info", "value"), DOES_NOT)
def test_what_does_not_fit_does_not_look_fit(type_info: TypeInformation, value: Any) -> None:
    check = looks_fit(type_info)
    assert check is not None
    assert not check([value])
    with pytest.raises(SchemaMismatch):
        encode(type_info, [value])


def test_pickled_objects_are_not_looked_at() -> None:
    assert looks_fit(Types.PICKLED_BYTE_ARRAY()) is None
