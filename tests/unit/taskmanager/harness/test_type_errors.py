"""A record that does not fit its type is named, with operator, field and value, at the moment it is made: also when the next
function of the chain would have taken it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tidegate.common import Row, Types
from tidegate.datastream import DataStream, OutputTag
from tidegate.functions.interfaces import ProcessFunction
from tidegate.model.errors import InvalidJob, NotSerializable, SchemaMismatch
from tidegate.records.record_codec import codec_of
from tidegate.taskmanager.harness.operators import OperatorHarness

PERSON = Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])
NESTED = Types.TUPLE([Types.LONG(), Types.LIST(Types.LIST(Types.LONG()))])
HOUSE = Types.TUPLE([Types.LONG(), PERSON])
ASIDE = OutputTag("aside", Types.INT())

Piece = Callable[[DataStream], DataStream]


def made(value: Any, kind: Any) -> Piece:
    """A map that makes ``value``, and one behind it in the same chain that would take anything."""
    return lambda s: s.map(lambda _: value, kind).name("maker").map(repr, Types.STRING()).name("taker")


def keyed(key: Any, kind: Any = None) -> Piece:
    return lambda s: s.key_by(lambda _: key, kind).reduce(lambda a, b: a + b).name("adder")


@pytest.mark.parametrize(
    ("piece", "words"),
    [
        (made(Row(name="Ada", age="old"), PERSON), ["'maker'", "'age'", "'old'", "int32"]),
        (made(("Ada",), PERSON), ["'maker'", "('Ada',)", "1 fields, not 2 (name, age)"]),
        (made(Row(name="Ada", years=36), PERSON), ["'maker'", "['name', 'years']", "['name', 'age']"]),
        (made(None, PERSON), ["'maker'", "None", "not a row"]),
        (made(2**31, Types.INT()), ["'maker'", "2147483648", "not in range"]),
        (made("1", Types.LONG()), ["'maker'", "'1'", "Long"]),
        (made(1.5, Types.LONG()), ["'maker'", "1.5", "Long"]),
        (made((1, [[1], ["x"]]), NESTED), ["'maker'", "'f1'", "'x'"]),
        (made((1, Row(name="Ada", age="old")), HOUSE), ["'maker'", "'f1'", "'old'"]),
        (made({"a": "b"}, Types.MAP(Types.STRING(), Types.LONG())), ["'maker'", "'b'"]),
        (keyed("x", Types.LONG()), ["key selector of adder", "Long"]),
    ],
)
def test_the_operator_the_field_and_the_value_are_named(piece: Piece, words: list[str]) -> None:
    with OperatorHarness(piece, Types.LONG()) as harness, pytest.raises(SchemaMismatch) as raised:
        harness.push(1)
    missing = [word for word in words if word not in raised.value.message]
    assert not missing, raised.value.message


def test_one_wrong_value_among_many_is_found() -> None:
    def age(n: int) -> Row:
        return Row(name=str(n), age=n if n != 700 else "old")

    piece: Piece = lambda s: s.map(age, PERSON).name("maker").filter(lambda _: True)  # noqa: E731
    with OperatorHarness(piece, Types.LONG()) as harness, pytest.raises(SchemaMismatch, match="'old' of field 'age'"):
        harness.push_all(range(1000))


def test_a_null_fits_every_field_but_no_whole_row() -> None:
    with OperatorHarness(lambda s: s.map(lambda _: Row(name=None, age=None), PERSON), Types.LONG()) as harness:
        harness.push(1)
        assert harness.take() == [Row(name=None, age=None)]


def test_a_side_output_has_a_type_of_its_own() -> None:
    class Aside(ProcessFunction):
        def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
            yield ASIDE, "no number"

    piece: Piece = lambda s: s.process(Aside(), Types.LONG()).get_side_output(ASIDE).map(repr, Types.STRING())  # noqa: E731
    with OperatorHarness(piece, Types.LONG()) as harness, pytest.raises(SchemaMismatch, match="'no number'"):
        harness.push(1)


@pytest.mark.parametrize("key", [{"a": 1}, {1, 2}])
def test_a_key_that_cannot_be_told_from_others_is_refused(key: Any) -> None:
    with (
        OperatorHarness(keyed(key), Types.LONG()) as harness,
        pytest.raises(InvalidJob, match="'adder'.*cannot be a key"),
    ):
        harness.push(1)


def test_keys_of_several_types_are_several_keys() -> None:
    by_kind: Piece = lambda s: s.key_by(lambda n: n if n % 2 else str(n % 2)).reduce(lambda a, b: a + b)  # noqa: E731
    with OperatorHarness(by_kind, Types.LONG()) as harness:
        harness.push_all([1, 2, 1, 4])
        assert harness.take() == [1, 2, 2, 6]


def test_an_object_that_cannot_be_pickled_is_named_where_it_has_to_be() -> None:
    """Functions of one chain may hand it on; an exchange and state may not."""
    codec = codec_of(Types.TUPLE([Types.LONG(), Types.PICKLED_BYTE_ARRAY()]))
    with pytest.raises(NotSerializable, match="operator 'locks': field 'f1': .*of type lock cannot be pickled"):
        codec.encode([(1, threading.Lock())], "locks")
    piece: Piece = lambda s: s.map(lambda _: threading.Lock()).name("locks").key_by(lambda _: 1).reduce(max)  # noqa: E731
    with OperatorHarness(piece, Types.LONG()) as harness, pytest.raises(NotSerializable, match="of type lock"):
        harness.push(1)
