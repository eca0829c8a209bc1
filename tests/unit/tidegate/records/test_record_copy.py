"""Copies of records: of what can be changed, and of nothing else."""

from __future__ import annotations

import datetime
import decimal
import enum
import threading
import uuid
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest

from tidegate.common import Types
from tidegate.common.row import Row, RowKind
from tidegate.common.time import Instant
from tidegate.model.errors import ConfigurationError, NotSerializable
from tidegate.records.batch import RecordsBatch
from tidegate.records.record_copy import record_copy, reuses_objects, value_copy

PAIR = Types.TUPLE([Types.LONG(), Types.STRING()])


class Colour(enum.Enum):
    RED = 1


@dataclass(frozen=True)
class Point:
    x: int
    at: datetime.date | None = None


@dataclass(frozen=True)
class Tags:
    """Frozen, with something in it that is not."""

    names: list[str]


@dataclass(frozen=True)
class Boxed:
    inside: Any


@dataclass
class Open:
    x: int
    tags: list[str] = field(default_factory=list)


class Named(NamedTuple):
    a: int
    b: str


class Loose(NamedTuple):
    a: int
    b: list[int]


class Thing:
    def __init__(self, x: int) -> None:
        self.x = [x]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Thing) and self.x == other.x

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    "value",
    [
        1, "a", b"x", None, 1.5, True, decimal.Decimal(1), datetime.date(2026, 1, 1), Instant(1, 2), uuid.UUID(int=1), Colour.RED,
        np.int64(3), (), (1, "a"), (1, (2, ("b", None))), frozenset({1}), Point(1), (1, Point(2)), Named(1, "b"), Loose,
        Boxed(1), Boxed((1, Point(3))), range(3),
    ],
)  # fmt: skip
def test_what_nobody_can_change_is_handed_on_as_it_is(value: Any) -> None:
    assert value_copy(value) is value
    assert value_copy(value) is value  # known by its class by now


@pytest.mark.parametrize(
    "value",
    [
        [1], {"a": 1}, {1}, bytearray(b"x"), (1, [2]), Row(1, "a"), Row(a=1), Row.of_kind(RowKind.DELETE, 1), Tags(["a"]),
        Boxed([1]), Boxed(Open(1)), Open(1), Thing(1), Loose(1, [2]), {1: {2: [3]}}, [Row(a=[1])],
    ],
)  # fmt: skip
def test_what_can_be_changed_is_copied(value: Any) -> None:
    found = value_copy(value)
    assert found == value
    assert type(found) is type(value)
    assert found is not value


def test_a_class_that_was_met_with_values_that_cannot_change_is_looked_at_again() -> None:
    """Its annotation says nothing: what it holds counts each time."""
    fixed, loose = Boxed("a"), Boxed(["a"])
    assert value_copy(fixed) is fixed
    copied = value_copy(loose)
    assert copied.inside == ["a"]
    assert copied.inside is not loose.inside


@pytest.mark.parametrize("inner", [[1], {"a": 1}, Row(1), bytearray(b"x"), Thing(1)])
def test_what_is_inside_of_a_copy_is_a_copy_too(inner: Any) -> None:
    for value in ([inner], {"a": inner}, Row(inner), Row(a=inner), (inner,), ([inner],), {"a": [inner]}, Boxed(inner)):
        found: Any = value_copy(value)
        assert found == value
        while found != inner:
            found = found.inside if isinstance(found, Boxed) else found["a"] if isinstance(found, dict) else found[0]
        assert found is not inner


def test_a_row_keeps_its_kind_and_names() -> None:
    row = Row.of_kind(RowKind.UPDATE_AFTER, a=1, b=[2])
    found = value_copy(row)
    assert found == row
    assert (found.get_row_kind(), found.a, found.b) == (RowKind.UPDATE_AFTER, 1, [2])
    found.b.append(3)
    found["a"] = 7
    assert row == Row.of_kind(RowKind.UPDATE_AFTER, a=1, b=[2])


def test_what_a_record_has_twice_is_one_object_in_its_copy_too() -> None:
    shared = [1]
    found = value_copy({"a": shared, "b": shared, "c": Thing(1)})
    assert found["a"] is found["b"]
    assert found["a"] is not shared


def test_a_record_may_hold_itself() -> None:
    ring: list[Any] = [1]
    ring.append(ring)
    found = value_copy(ring)
    assert found[1] is found
    assert found is not ring


def test_what_cannot_be_copied_is_refused_with_place_and_way_out() -> None:
    with pytest.raises(NotSerializable, match="operator 'f': .*lock.*cannot be copied.*pipeline.object-reuse: true"):
        record_copy(None, "operator 'f'").copy({"lock": threading.Lock()})


def test_the_declared_type_says_what_is_looked_at() -> None:
    """Tuples of declared numbers and texts are handed on by their class; of unknown types they are looked into."""
    assert tuple in record_copy(PAIR, "f").shared
    assert tuple not in record_copy(Types.PICKLED_BYTE_ARRAY(), "f").shared
    assert tuple not in record_copy(Types.TUPLE([Types.LONG(), Types.LIST(Types.LONG())]), "f").shared
    assert tuple not in record_copy(Types.TUPLE([Types.PRIMITIVE_ARRAY(Types.BYTE())]), "f").shared  # a bytearray fits
    value_copy(Point(1))
    assert Point in record_copy(None, "f").shared  # by its class, once it was met


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (PAIR, [1, "a"]),
        (Types.ROW([Types.LONG()]), Row(1)),
        (Types.ROW_NAMED(["a"], [Types.LONG()]), Row(a=1)),
        (Types.ROW_NAMED(["a"], [Types.LONG()]), {"a": 1}),
        (Types.ROW_NAMED(["a"], [Types.LONG()]), Open(1)),
        (Types.ROW([Types.LIST(Types.LONG())]), Row([1])),
        (Types.LIST(Types.LONG()), [1]),
        (Types.LIST(Types.LIST(Types.LONG())), [[1]]),
        (Types.BASIC_ARRAY(Types.STRING()), ["a"]),
        (Types.MAP(Types.STRING(), Types.LONG()), {"a": 1}),
        (Types.MAP(Types.STRING(), Types.LIST(Types.LONG())), {"a": [1]}),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), bytearray(b"x")),
        (Types.LONG(), [1]),
        (None, [1]),
    ],
)
def test_whatever_is_declared_what_can_be_changed_is_copied(kind: Any, value: Any) -> None:
    copies = record_copy(kind, "f")
    assert value.__class__ not in copies.shared
    assert copies.copy(value) == value
    assert copies.copy(value) is not value


def test_a_batch_without_anything_to_copy_is_the_same_batch() -> None:
    numbers = RecordsBatch([1, 2], [10, 11])
    assert record_copy(Types.LONG(), "f").batch(numbers) is numbers
    lists = RecordsBatch([[1], 2], [10, None])
    found = record_copy(None, "f").batch(lists)
    assert (found.values, found.timestamps) == ([[1], 2], [10, None])
    assert found.values[0] is not lists.values[0]


def test_with_object_reuse_nothing_is_copied() -> None:
    value = {"a": [1]}
    assert record_copy(None, "f", reuses_objects=True).copy(value) is value
    assert not record_copy(None, "f", reuses_objects=True).keeps_apart
    assert reuses_objects({"pipeline.object-reuse": "true"})
    assert not reuses_objects({"pipeline.object-reuse": "false"})
    assert not reuses_objects({})
    with pytest.raises(ConfigurationError, match=r"pipeline\.object-reuse"):
        reuses_objects({"pipeline.object-reuse": "perhaps"})
