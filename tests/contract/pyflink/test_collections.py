"""``from_collection`` makes of every pair of declared type and value what PyFlink 2.3 makes of it (``record_collections.py``), or refuses it.

What Flink spoils without a word is refused, or kept as it was given: ``SPOILT`` says what that is.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from tests.contract.pyflink.collections import evaluated, pairs
from tests.contract.pyflink.record_collections import FOUND
from tidegate.common import Row, Types
from tidegate.connectors.base import Split, SplitState
from tidegate.connectors.collection import CollectionReader, CollectionSource
from tidegate.model.errors import SchemaMismatch
from tidegate.records.given_values import as_declared
from tidegate.records.record_codec import decode, encode

RECORDED = json.loads(FOUND.read_text())
BY_TYPE = {told: list(those) for told, those in itertools.groupby(RECORDED, key=lambda one: one[0])}
TWO_TO_THE_63 = str(2**63)
"""A float is the same number."""
LARGE = re.compile(r"128|32768|2147483648|9223372036854775807")
SPOILT: dict[str, Callable[[str, str, str], Any]] = {
    "the words of a Java object": lambda told, value, seen: re.search(r"@|GregorianCalendar|Time: |__class__=", seen),
    "the words of a Java collection": lambda told, value, seen: "STRING" in told and re.search(r"'[\[{]", seen),
    "the low bits of a number": lambda told, value, seen: re.search(r"BYTE|SHORT|INT\b", told) and LARGE.search(value),
    "a number that is not the given one": lambda told, value, seen: (
        "BIG_INT" in told and ("92233" in value or "0" in seen)
    ),
    "nothing": lambda told, value, seen: "None" in seen and "None" not in value,
    "a time of a number": lambda told, value, seen: "SQL_" in told and "date" not in value and "time" not in value,
    "the microseconds of a time": lambda told, value, seen: "SQL_TIM" in told and re.search(r"456789|678901", value),
}


def made(told: str, value: str) -> str:
    type_info = evaluated(told, "tidegate")
    try:
        given = evaluated(value, "tidegate")
    except TypeError:  # no key of a dict
        return "error"
    try:
        source = CollectionSource([given], type_info)
    except SchemaMismatch:
        return "error"
    reader = CollectionReader(source._content)
    reader.open([SplitState(Split("collection"), 0, False)])
    polled = reader.poll()
    assert polled is not None
    return repr(decode(type_info, polled.batch.data)[0])  # type: ignore[union-attr]


def test_all_pairs_were_recorded() -> None:
    assert [one[:2] for one in RECORDED] == [[told, value] for told, values in pairs().items() for value in values]
    assert sum(seen != "error" for _, _, seen in RECORDED) > 1_000


@pytest.mark.parametrize("told", BY_TYPE)
def test_makes_what_pyflink_makes_or_refuses(told: str) -> None:
    for _, value, seen in BY_TYPE[told]:
        ours = made(told, value)
        if seen == "error" or ours == seen:
            continue
        reasons = [reason for reason, is_it in SPOILT.items() if is_it(told, value, seen)]
        same = evaluated_decimal(ours) == evaluated_decimal(seen)
        assert same or reasons, f"{value}: {ours}, but PyFlink makes {seen}"
        assert same or ours == "error" or unchanged(ours, value), f"{value}: {ours} ({reasons})"


def evaluated_decimal(text: str) -> Any:
    """Numbers with a point are the same whatever their zeros."""
    return re.sub(r"Decimal\('(\d+\.\d*?)0+'\)", r"Decimal('\1')", text)


def unchanged(ours: str, value: str) -> bool:
    """The value that was given, or the date or time of a datetime."""
    if re.search(r"datetime\.(date|time)\(", ours) and "datetime(" in value:
        return True

    def plain(text: str) -> str:
        text = re.sub(r"Decimal\('([^']*)'\)", r"\1", text)
        return re.sub(r"datetime\.|Row|\w+=|[(),\s]|\.0\b|(?<=\.5)0", "", text)

    return plain(ours) == plain(value) or plain(ours) == plain(value).replace(TWO_TO_THE_63, repr(2.0**63))


@pytest.mark.parametrize(
    ("declared", "given", "expected"),
    [
        ("Types.STRING()", "1", "'1'"),
        ("Types.LIST(Types.STRING())", "[1, None, 'a', 1.5]", "['1', None, 'a', '1.5']"),
        ("Types.LIST(Types.MAP(Types.STRING(), Types.STRING()))", "[{1: 2.0}]", "[{'1': '2.0'}]"),
        ("Types.MAP(Types.STRING(), Types.TUPLE([Types.STRING()]))", "{'k': (True,)}", "{'k': ('true',)}"),
        (
            "Types.TUPLE([Types.LIST(Types.SQL_DATE())])",
            "([datetime(2026, 1, 2, 3)],)",
            "([datetime.date(2026, 1, 2)],)",
        ),
        ("Types.ROW([Types.STRING(), Types.ROW([Types.STRING()])])", "Row(1, Row(2))", "Row(f0='1', f1=Row(f0='2'))"),
        ("Types.ROW_NAMED(['a', 'b'], [Types.STRING(), Types.LONG()])", "Row(b=1, a=2)", "Row(a='2', b=1)"),
        ("Types.ROW_NAMED(['a', 'b'], [Types.STRING(), Types.LONG()])", "{'b': 1}", "Row(a=None, b=1)"),
        ("Types.ROW_NAMED(['a', 'b'], [Types.STRING(), Types.LONG()])", "{'c': 1}", "error"),
        ("Types.ROW_NAMED(['a', 'b'], [Types.STRING(), Types.LONG()])", "Row(c=1, a=2)", "error"),
        ("Types.STRING()", "[1]", "error"),
        ("Types.STRING()", "{'a': 1}", "error"),
        ("Types.STRING()", "Decimal('NaN')", "error"),
        ("Types.STRING()", "float('-inf')", "'-Infinity'"),
        ("Types.LONG()", "True", "error"),
        ("Types.LONG()", "'1'", "error"),
        ("Types.BYTE()", "128", "error"),
    ],
)
def test_texts_dates_and_rows_at_any_depth(declared: str, given: str, expected: str) -> None:
    assert made(declared, given) == expected


class Visit(NamedTuple):
    user: int
    pages: int


@dataclass
class Order:
    user: int
    pages: int


def test_objects_are_rows_whose_fields_are_turned() -> None:
    named = Types.ROW_NAMED(["pages", "user"], [Types.LONG(), Types.STRING()])
    for given, expected in [(Order(1, 2), Row(pages=2, user="1")), (Visit(2, 1), Row(pages=2, user="1"))]:
        values = decode(named, encode(named, as_declared(named, [given])))
        assert values == [expected]


def test_values_that_fit_are_not_touched() -> None:
    given = [("a", [1]), ("b", None)]
    assert as_declared(Types.TUPLE([Types.STRING(), Types.LIST(Types.LONG())]), given) is given
    pickled = [object()]
    assert as_declared(Types.PICKLED_BYTE_ARRAY(), pickled) is pickled


def test_a_refusal_names_the_field_the_value_and_the_type() -> None:
    with pytest.raises(SchemaMismatch, match=r"from_collection.*\[1\] of field .f1. does not fit type string"):
        CollectionSource([("a", [1])], Types.TUPLE([Types.STRING(), Types.STRING()]))
