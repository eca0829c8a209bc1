"""A value that does not fit is named, never changed in silence."""

from __future__ import annotations

import datetime
import math
from collections import UserDict
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidegate.columnar.keys.hashing import hash_columns
from tidegate.common.row import Row, RowKind
from tidegate.common.time import Instant
from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.model.errors import NotSerializable, SchemaMismatch
from tidegate.records.arrow_type import ArrowTypeInfo
from tidegate.records.batch import RecordsBatch
from tidegate.records.keys import hash_key
from tidegate.records.record_codec import decode, encode, records_of
from tidegate.records.record_text import record_text
from tidegate.records.row_kinds import with_kinds


@pytest.mark.parametrize(
    ("type_info", "value"),
    [
        (Types.LONG(), 1.5),
        (Types.LONG(), "a"),
        (Types.LONG(), True),
        (Types.LONG(), 2**63),
        (Types.INT(), 2**31),
        (Types.DOUBLE(), "1"),
        (Types.DOUBLE(), True),
        (Types.DOUBLE(), 2**60 + 1),
        (Types.STRING(), 3),
        (Types.STRING(), b"bytes"),
        (Types.BOOLEAN(), 1),
        (Types.SQL_DATE(), datetime.datetime(2020, 1, 1, 12)),
        (Types.SQL_TIMESTAMP(), datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)),
        (Types.INSTANT(), 5),
        (Types.LIST(Types.LONG()), "abc"),
        (Types.LIST(Types.LONG()), [1.5]),
        (Types.MAP(Types.STRING(), Types.LONG()), [1]),
        (Types.TUPLE([Types.LONG(), Types.STRING()]), (1,)),
        (Types.TUPLE([Types.LONG()]), None),
        (Types.ROW_NAMED(["a"], [Types.LONG()]), Row(b=1)),
        (Types.BIG_INT(), 1.0),
    ],
)
def test_a_value_that_does_not_fit_is_named(type_info: TypeInformation, value: Any) -> None:
    with pytest.raises(SchemaMismatch, match="operator 'my map'"):
        encode(type_info, [value], "my map")


def test_the_message_tells_field_and_value() -> None:
    type_info = Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])
    with pytest.raises(SchemaMismatch) as raised:
        encode(type_info, [Row(name="Ada", age=36), Row(name="Bob", age="old")], "people")
    assert "'old'" in raised.value.message
    assert "'age'" in raised.value.message
    assert "int32" in raised.value.message


def test_names_count_not_positions() -> None:
    type_info = Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.STRING()])
    batch = encode(type_info, [Row(b="x", a=1), (2, "y"), {"b": "z", "a": 3}])
    assert batch.to_pydict() == {"a": [1, 2, 3], "b": ["x", "y", "z"]}
    assert decode(type_info, batch)[0].b == "x"


@dataclass
class Person:
    name: str
    age: int | None
    unasked: object = None


@dataclass(slots=True)
class Slotted:
    name: str
    age: Any


class Computed:
    age = 3

    @property
    def name(self) -> str:
        return "computed"


PERSON = Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])


def test_an_object_given_as_a_row_is_read_by_its_attributes() -> None:
    given = [Person("Ada", 36), Slotted("Bob", 4), SimpleNamespace(age=None, name="Cyd"), Computed()]
    rows = [Row(name="Ada", age=36), Row(name="Bob", age=4), Row(name="Cyd", age=None), Row(name="computed", age=3)]
    assert decode(PERSON, encode(PERSON, given)) == rows
    nested = Types.LIST(Types.ROW_NAMED(["of"], [PERSON]))
    assert decode(nested, encode(nested, [[SimpleNamespace(of=given[0])]])) == [[Row(of=rows[0])]]


def test_an_object_given_as_a_map_is_its_attributes() -> None:
    kind = Types.MAP(Types.STRING(), Types.INT())
    given = [{"a": 1}, UserDict(a=2), SimpleNamespace(a=3, b=4), MappingProxyType({"a": 5}), None]
    assert decode(kind, encode(kind, given)) == [{"a": 1}, {"a": 2}, {"a": 3, "b": 4}, {"a": 5}, None]
    texts = Types.MAP(Types.STRING(), Types.PICKLED_BYTE_ARRAY())
    assert decode(texts, encode(texts, [Slotted("Bob", 4)])) == [{"name": "Bob", "age": 4}]


@pytest.mark.parametrize(
    ("type_info", "value", "why"),
    [
        (PERSON, SimpleNamespace(name="Ada"), "a SimpleNamespace without the attributes .'age'."),
        (PERSON, Person, "it is a type, not a row"),
        (PERSON, "Ada", "it is a str, not a row"),
        (PERSON, Slotted("Ada", "old"), "'old' of field 'age' does not fit"),
        (Types.ROW([Types.STRING()]), Person("Ada", 1), "it is a Person, not a row"),
        (Types.TUPLE([Types.STRING()]), Person("Ada", 1), "it is a Person, not a row"),
        (Types.MAP(Types.STRING(), Types.INT()), 5, "it is a int, not a dict"),
        (Types.MAP(Types.STRING(), Types.INT()), Person, "it is a type, not a dict"),
        (Types.MAP(Types.STRING(), Types.INT()), Row(a=1), "it is a Row, not a dict"),
    ],
)
def test_an_object_that_does_not_fit_is_named(type_info: TypeInformation, value: Any, why: str) -> None:
    with pytest.raises(SchemaMismatch, match=why):
        encode(type_info, [value])


def test_a_sink_sees_records_as_their_type_makes_them() -> None:
    kind = Types.ROW_NAMED(["name", "score"], [Types.STRING(), Types.DOUBLE()])
    given: list[Any] = [("a", 1), SimpleNamespace(name="b", score=2.5), {"name": "c", "score": 3}]
    found = records_of(RecordsBatch(given), kind)
    assert [record_text(value, kind) for value in found] == ["+I[a, 1.0]", "+I[b, 2.5]", "+I[c, 3.0]"]
    kept = [object()]
    assert records_of(RecordsBatch(kept), Types.PICKLED_BYTE_ARRAY()) is kept


def test_a_change_is_sent_with_its_kind_and_never_as_an_insert() -> None:
    change = Row.of_kind(RowKind.DELETE, 1)
    for kind in (Types.ROW([Types.LONG()]), ArrowTypeInfo(with_kinds(pa.schema([("f0", pa.int64())])))):
        data = encode(kind, [change, Row(2), (3,)])
        assert data["$row_kind"].to_pylist() == [3, 0, 0]
        assert [(row.get_row_kind(), row[0]) for row in decode(kind, data)] == [
            (RowKind.DELETE, 1), (RowKind.INSERT, 2), (RowKind.INSERT, 3)
        ]  # fmt: skip
    assert encode(Types.ROW([Types.LONG()]), [Row(2)]).schema.names == ["f0"]
    inner = Types.ROW([Types.ROW([Types.LONG()])])
    for taken in (Types.TUPLE([Types.LONG()]), ArrowTypeInfo(pa.schema([("f0", pa.int64())])), inner):
        with pytest.raises(SchemaMismatch, match="-D came where only inserts are allowed"):
            encode(taken, [Row(change) if taken is inner else change])


def test_numbers_that_are_equal_fit() -> None:
    assert decode(Types.LONG(), encode(Types.LONG(), [1.0, 2, None])) == [1, 2, None]
    assert math.isnan(decode(Types.DOUBLE(), encode(Types.DOUBLE(), [math.nan]))[0])


def test_other_columns_are_refused() -> None:
    with pytest.raises(SchemaMismatch, match="value: string"):
        decode(Types.LONG(), pa.record_batch({"value": ["a"]}), "op")


def test_columnar_streams_are_rows() -> None:
    schema = pa.schema({"k": pa.string(), "s": pa.struct([("x", pa.int64())])})
    batch = pa.RecordBatch.from_pylist([{"k": "a", "s": {"x": 1}}], schema=schema)
    rows = decode(Types.SCHEMA(schema), batch)
    assert rows == [Row(k="a", s={"x": 1})]
    assert encode(Types.SCHEMA(schema), rows).equals(batch)


def test_a_row_without_names_tells_its_positions_as_in_flink() -> None:
    kind = Types.ROW([Types.INT(), Types.STRING()])
    (row,) = decode(kind, encode(kind, [Row(4, "hello")]))
    assert str(row) == "Row(f0=4, f1='hello')"
    assert row == Row(4, "hello")
    named = Types.ROW_NAMED(["number", "word"], [Types.INT(), Types.STRING()])
    assert decode(named, encode(named, [row])) == [Row(number=4, word="hello")], "it has no names of its own"


def test_a_decimal_has_the_digits_it_came_with_and_no_zeros_behind() -> None:
    texts = ["3", "1.5", "0", "-120", "1000000000000000000.05", "0.000000000000000001"]
    kind = Types.BIG_DEC()
    assert [str(v) for v in decode(kind, encode(kind, [Decimal(t) for t in texts]))][:5] == texts[:5]
    assert decode(kind, encode(kind, [Decimal("1.50"), None, Decimal(texts[5])])) == [
        Decimal("1.5"),
        None,
        Decimal(texts[5]),
    ]


def test_what_cannot_be_pickled_is_named() -> None:
    with pytest.raises(NotSerializable, match="generator"):
        encode(Types.PICKLED_BYTE_ARRAY(), [(i for i in range(3))])


def test_functions_are_pickled_by_value() -> None:
    (function,) = decode(Types.PICKLED_BYTE_ARRAY(), encode(Types.PICKLED_BYTE_ARRAY(), [lambda x: x + 1]))
    assert function(1) == 2


@pytest.mark.parametrize(
    ("type_info", "key"),
    [
        (Types.INSTANT(), Instant(-5, 7000)),
        (Types.LONG(), -(2**40)),
        (Types.STRING(), "grün"),
        (Types.DOUBLE(), -0.0),
        (Types.BOOLEAN(), True),
        (Types.BIG_DEC(), Decimal("1.50")),
        (Types.SQL_DATE(), datetime.date(1969, 12, 31)),
        (Types.SQL_TIME(), datetime.time(1, 2, 3, 4)),
        (Types.SQL_TIMESTAMP(), datetime.datetime(1960, 1, 2, 3, 4, 5, 6)),
    ],
)
def test_a_key_hashes_alike_as_a_value_and_as_a_column(type_info: TypeInformation, key: Any) -> None:
    column = encode(type_info, [key]).column(0)
    assert hash_key(key) == int(hash_columns([column])[0])
    assert hash_key(decode(type_info, encode(type_info, [key]))[0]) == hash_key(key)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.uint64(), [2**63, 2**64 - 1, None, 0]),
        (pa.uint64(), [np.uint64(2**63), 1]),
        (pa.uint64(), [2**63, 2.0]),
        (pa.list_(pa.uint64()), [[2**63], None]),
        (pa.struct([("a", pa.uint64())]), [{"a": 2**64 - 1}]),
        (pa.float64(), [2**63, 2**70, 1.5]),
    ],
    ids=str,
)
def test_whole_numbers_from_2_to_the_63_on_travel(kind: pa.DataType, values: list[Any]) -> None:
    type_info = ArrowTypeInfo(pa.schema([("v", kind)]))
    data = encode(type_info, [Row(v=value) for value in values])
    assert [row["v"] for row in decode(type_info, data)] == values


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.uint64(), [2**64]),
        (pa.uint64(), [2**63, -1]),
        (pa.uint64(), [2**63, True]),
        (pa.uint64(), [2**63, 1.5]),
        (pa.int64(), [2**63]),
        (pa.float64(), [2**70 + 1]),
        (pa.float64(), [10**400]),
    ],
    ids=str,
)
def test_numbers_that_a_column_has_not_are_refused(kind: pa.DataType, values: list[Any]) -> None:
    type_info = ArrowTypeInfo(pa.schema([("v", kind)]))
    with pytest.raises(SchemaMismatch, match="does not fit type"):
        encode(type_info, [Row(v=value) for value in values])
