"""What is reported of a failure, and what of the record at which it happened."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import pytest

from tidegate.common import Row
from tidegate.model.errors import UserFunctionError
from tidegate.model.options import ShownRecord
from tidegate.model.values import Record
from tidegate.taskmanager.runtime.failures import RECORD_CHARACTERS, failure_info, show_record, show_shape


class Point(NamedTuple):
    x: int
    y: int


def told(shown: ShownRecord, *records: Record) -> str:
    raised = UserFunctionError("operator 'map': ZeroDivisionError")
    raised.inputs = records
    return failure_info(raised, "map (1/1)#0", shown).message.removeprefix("operator 'map': ZeroDivisionError")


def test_the_record_stands_in_the_message_as_far_as_it_may_be_shown() -> None:
    record = Row(card="4000 1234", amount=3)
    assert told(ShownRecord.VALUE, record) == "; the input record was Row(card='4000 1234', amount=3)"
    assert told(ShownRecord.SHAPE, record) == "; the input record was Row(card: str, amount: int)"
    assert told(ShownRecord.NONE, record) == ""
    assert told(ShownRecord.VALUE) == ""
    assert told(ShownRecord.VALUE, 1, "a") == "; the input records were 1 and 'a'"


@pytest.mark.parametrize(
    ("record", "value", "shape"),
    [
        (Row(1, "a"), "Row(1, 'a')", "Row(int, str)"),
        (Point(1, 2), "Point(x=1, y=2)", "Point(int, int)"),
        ((1, None), "(1, None)", "tuple(int, NoneType)"),
        ({"a": [1]}, "{'a': [1]}", "dict('a': list)"),
        ("text", "'text'", "str"),
    ],
)
def test_how_records_are_shown(record: Record, value: str, shape: str) -> None:
    assert show_record(record) == value
    assert show_shape(record) == shape


def test_what_is_shown_is_bounded() -> None:
    large = [
        Row(**{f"field{n}": n for n in range(10_000)}),
        "x" * 1_000_000,
        ["y" * 5_000] * 5_000,
        {n: n for n in range(9_999)},
    ]
    for record in large:
        assert len(show_record(record)) <= RECORD_CHARACTERS
        assert len(show_shape(record)) <= RECORD_CHARACTERS


class Stop(BaseException):
    """No Exception."""


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        (SystemExit(3), "user code called exit (3)"),
        (KeyboardInterrupt(), "user code raised KeyboardInterrupt"),
        (KeyboardInterrupt("enough"), "user code raised KeyboardInterrupt: enough"),
        (Stop("here"), "user code raised Stop: here"),
        (asyncio.CancelledError(), "user code raised CancelledError"),
    ],
)
def test_what_is_no_exception_is_the_users(raised: BaseException, message: str) -> None:
    info = failure_info(raised, "map (1/1)#0")
    assert (info.code, info.domain, info.message) == ("user-function", "user", message)
    assert info.origin == "map (1/1)#0"


def test_a_record_that_cannot_be_shown_hides_no_failure() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise ValueError("no")

    assert "Broken" in told(ShownRecord.VALUE, Broken())
    assert "Broken" in told(ShownRecord.VALUE, Row(a=Broken()))
