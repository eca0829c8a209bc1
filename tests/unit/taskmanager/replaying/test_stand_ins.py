"""Stand-ins of values and of columns: kind, length and equality stay, the values do not."""

from __future__ import annotations

import datetime
import uuid
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.model.errors import InvalidJob
from tidegate.records.column_codec import pickle_column, unpickle_column
from tidegate.records.row import Row
from tidegate.taskmanager.replaying.stand_in_columns import replace_batch
from tidegate.taskmanager.replaying.stand_ins import StandIns
from tidegate.taskmanager.state.files.segments import PICKLED


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Person:
    name: str
    colour: Colour
    born: datetime.date


class Pair(NamedTuple):
    city: str
    number: int


class Slotted:
    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


def shape(text: str) -> list[str]:
    return ["a" if c.islower() else "A" if c.isupper() else "0" if c.isdigit() else c for c in text]


@given(st.lists(st.text(st.characters(codec="ascii"), max_size=12), unique=True))
def test_texts_keep_their_shape_and_stay_different(texts: list[str]) -> None:
    stand_ins = StandIns(chance=Random(1))
    found = [stand_ins.text(text) for text in texts]
    assert [shape(text) for text in found] == [shape(text) for text in texts]
    assert len(set(found)) == len(texts)
    assert found == [stand_ins.text(text) for text in texts]
    assert all(new != old for new, old in zip(found, texts, strict=True) if sum(map(str.isalnum, old)) > 1)


@given(st.text(max_size=8))
def test_letters_of_all_scripts_are_replaced_by_letters(text: str) -> None:
    found = StandIns(chance=Random(1)).text(text)
    assert [c.isalpha() for c in found] == [c.isalpha() for c in text]


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@given(st.data())
def test_numbers_keep_sign_and_digits_and_fit_their_type(bits: int, data: Any) -> None:
    numbers = data.draw(st.lists(st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1), unique=True))
    stand_ins = StandIns(chance=Random(1))
    found = [stand_ins.integer(number) for number in numbers]
    assert [len(str(number)) for number in found] == [len(str(number)) for number in numbers]
    assert [number < 0 for number in found] == [number < 0 for number in numbers]
    assert len(set(found)) == len(numbers)
    assert all(-(2 ** (bits - 1)) <= number < 2 ** (bits - 1) for number in found)


def test_all_numbers_of_a_length_stay_different() -> None:
    stand_ins = StandIns()
    assert len({stand_ins.integer(number) for number in range(-300, 1000)}) == 1300
    assert stand_ins.merged == 0


@given(st.floats(allow_infinity=False, allow_nan=False), st.decimals(allow_nan=False, allow_infinity=False))
def test_fractions_stay_fractions(real: float, exact: Decimal) -> None:
    stand_ins = StandIns(chance=Random(1))
    found = stand_ins.real(real)
    assert (found == 0, found.is_integer(), found < 0) == (real == 0, real.is_integer(), real < 0)
    assert len(str(stand_ins.decimal(exact))) == len(str(exact))


def test_the_inside_of_objects_is_replaced_in_a_copy() -> None:
    stand_ins = StandIns(keep={"city"}, is_name={"name"}.__contains__)
    ann = Person("Ann", Colour.RED, datetime.date(1980, 2, 3))
    row = Row(name="Ann", city="Bonn")
    found = stand_ins.value([ann, row, Pair("Bonn", 12), {"name": "Ann", "Ann": [True, None]}, Slotted("Ann")])
    other = stand_ins.text("Ann")
    assert other != "Ann"
    assert (found[0].name, found[0].colour) == (other, Colour.RED)
    assert found[0].born != ann.born
    assert found[1] == Row(name=other, city="Bonn")
    assert (found[2].city, found[2].number != 12) == ("Bonn", True)
    assert found[3] == {"name": other, other: [True, None]}
    assert found[4].name == other
    assert (ann.name, row.name) == ("Ann", "Ann")


def test_times_and_identifiers_are_replaced() -> None:
    now = datetime.datetime(2026, 11, 30, 6, 7, 8, 900_000, tzinfo=datetime.UTC)
    values = [
        now,
        now.replace(tzinfo=None),
        now.time(),
        datetime.timedelta(days=3),
        uuid.UUID(int=7),
        b"Ann",
        b"\xff\x01",
    ]
    found = StandIns().value(values)
    assert [type(value) for value in found] == [type(value) for value in values]
    assert all(new != old for new, old in zip(found, values, strict=True))
    assert found[0].microsecond % 100_000 == 0


def test_an_object_that_shows_nothing_is_refused_by_name() -> None:
    with pytest.raises(InvalidJob, match=r"the field 'x' holds an object of builtins\.memoryview.*--keep x"):
        StandIns().value({"x": memoryview(b"Ann")})


def columns() -> pa.RecordBatch:
    found = {
        "name": pa.array(["Ann-7", "Bo", "Ann-7", None]),
        "small": pa.array([100, 127, -128, None], pa.int8()),
        "real": pa.array([12.5, float("nan"), 1e-7, 0.0], pa.float32()),
        "price": pa.array([Decimal("1.50"), Decimal("9.99"), None, Decimal("0.00")]),
        "at": pa.array([datetime.datetime(2026, 1, 2, 3, 4, 5)] * 4, pa.timestamp("ms")),
        "day": pa.array([datetime.date(1980, 1, 1)] * 4),
        "clock": pa.array([datetime.time(3, 4)] * 4),
        "names": pa.array([["Bo"], None, [], ["Ann-7", None]]),
        "map": pa.array([[("Bo", 1)], [], None, [("Ann-7", 2)]], pa.map_(pa.string(), pa.int64())),
        "struct": pa.array(
            [{"name": "Bo", "city": "Bonn"}, None, {"name": None, "city": "Ulm"}, {"name": "Bo", "city": ""}]
        ),
        "bytes": pa.array([b"Bo", b"\xff\x00", None, b""]),
        "coded": pa.array(["Bo", "Ann-7", "Bo", None]).dictionary_encode(),
        "flag": pa.array([True, False, None, True]),
        "object": pickle_column(["Bo", ("Ann-7", 1), None, {"name": "Bo"}]),
        "__timestamp": pa.array([1, 2, 3, 4]),
    }
    fields = [
        pa.field(name, column.type, metadata=PICKLED if name == "object" else None) for name, column in found.items()
    ]
    return pa.RecordBatch.from_arrays(list(found.values()), schema=pa.schema(fields))


@pytest.mark.parametrize(("start", "length"), [(0, 4), (1, 2), (3, 1), (2, 0)])
def test_columns_keep_types_nulls_and_lengths(start: int, length: int) -> None:
    batch = columns().slice(start, length)
    found = replace_batch(batch, StandIns(keep={"city"}))
    found.validate(full=True)
    assert found.schema.equals(batch.schema, check_metadata=True)
    for name in ("flag", "__timestamp"):
        assert found.column(name).equals(batch.column(name))
    for new, old in zip(found.columns, batch.columns, strict=True):
        assert new.is_null().equals(old.is_null())
    for new, old in zip(found.column("struct").to_pylist(), batch.column("struct").to_pylist(), strict=True):
        assert (new or {}).get("city") == (old or {}).get("city")


def test_equal_texts_are_equal_in_all_columns() -> None:
    stand_ins = StandIns(is_name={"name"}.__contains__)
    found = replace_batch(columns(), stand_ins)
    ann, bo = stand_ins.text("Ann-7"), stand_ins.text("Bo")
    assert {ann, bo}.isdisjoint({"Ann-7", "Bo"})
    assert found.column("name").to_pylist() == [ann, bo, ann, None]
    assert found.column("names").to_pylist() == [[bo], None, [], [ann, None]]
    assert [pair[0][0] for pair in found.column("map").to_pylist() if pair] == [bo, ann]
    assert found.column("bytes")[0].as_py() == bo.encode()
    assert found.column("coded").to_pylist() == [bo, ann, bo, None]
    objects = unpickle_column(found.column("object"))
    assert (objects[0], objects[1][0], objects[3]) == (bo, ann, {"name": bo})


def test_a_type_without_stand_ins_is_refused_unless_it_is_kept() -> None:
    column = pa.array([(1, 2, 3)], pa.month_day_nano_interval())
    batch = pa.RecordBatch.from_arrays([column], names=["span"])
    with pytest.raises(InvalidJob, match="the field 'span' is of type month_day_nano_interval"):
        replace_batch(batch, StandIns())
    assert replace_batch(batch, StandIns(keep={"span"})).equals(batch)
