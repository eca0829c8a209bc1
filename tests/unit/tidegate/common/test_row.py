"""Rows, as PyFlink's."""

from __future__ import annotations

import datetime
import math
import pickle

import pytest

from tidegate.common import Row, RowKind, Types
from tidegate.records.record_text import record_text, text_of
from tidegate.records.row import PositionalNames, make_row


def test_named_row_by_name_and_position() -> None:
    row = Row(name="Ada", age=36)
    assert (row.name, row["age"], row[0], len(row), list(row)) == ("Ada", 36, "Ada", 2, ["Ada", 36])
    assert "name" in row
    assert "nope" not in row
    assert row.as_dict() == {"name": "Ada", "age": 36}
    with pytest.raises(AttributeError):
        _ = row.nope
    with pytest.raises(KeyError):
        _ = row["nope"]


def test_template_and_values() -> None:
    person = Row("name", "age")
    assert person("Ada", 36) == Row(name="Ada", age=36)
    with pytest.raises(ValueError, match="2 fields, 3 values"):
        person(1, 2, 3)
    with pytest.raises(ValueError, match="not both"):
        Row(1, a=2)


def test_assignment_changes_the_value_and_nothing_else() -> None:
    row = Row(a=1, b=2)
    row["b"] = 5
    row[0] = 4
    assert row == Row(a=4, b=5)
    with pytest.raises(AttributeError):
        row.c = 1  # type: ignore[attr-defined]


def test_equality_looks_at_names_values_and_kind() -> None:
    assert Row(a=1, b=2) == Row(b=2, a=1)
    assert Row(1, 2) != Row(a=1, b=2)
    assert Row(1, 2) == Row(1, 2)
    assert Row(1) != Row.of_kind(RowKind.DELETE, 1)
    assert hash(Row(1, 2)) == hash(Row(1, 2))


def test_a_row_of_a_stream_without_names_equals_the_positions_it_has_with_and_without_names() -> None:
    row = make_row(PositionalNames(["f0", "f1"]), [1, "a"])
    assert repr(row) == "Row(f0=1, f1='a')"
    assert (row.f0, row["f1"], row.as_dict()) == (1, "a", {"f0": 1, "f1": "a"})
    assert row == Row(1, "a") == pickle.loads(pickle.dumps(row))
    assert row == Row(f0=1, f1="a") == row == Row(f1="a", f0=1)
    assert row not in (Row(a=1, b="a"), Row(f0=1, f1="b"), Row(1, "b"))
    assert Row(1, "a") != Row(f0=1, f1="a")
    again = Row(1, "a")
    again.set_field_names(row._fields or [])
    assert again.given_names is None


def test_pickle_keeps_everything() -> None:
    for row in (Row(1, None), Row(a=1), Row.of_kind(RowKind.UPDATE_AFTER, a=Row(b=2))):
        shipped = pickle.loads(pickle.dumps(row))
        assert shipped == row
        assert shipped.get_row_kind() is row.get_row_kind()


def test_recursive_dict() -> None:
    assert Row(a=Row(b=1), c=[Row(d=2)]).as_dict(True) == {"a": {"b": 1}, "c": [{"d": 2}]}


def test_text_of_a_type_is_what_java_prints() -> None:
    moment = datetime.datetime(2021, 1, 9, 12, 0, 0, 11000)
    kind = Types.ROW([Types.BASIC_ARRAY(Types.FLOAT()), Types.SQL_TIMESTAMP(), Types.SQL_TIME(), Types.STRING()])
    row = Row([1.100000023841858, None], moment, datetime.time(11, 2, 2, 234500), None)
    assert record_text(row, kind) == "+I[[1.1, null], 2021-01-09 12:00:00.011, 11:02:02, null]"
    pair = Types.TUPLE([Types.MAP(Types.STRING(), Types.FLOAT()), Types.SQL_TIMESTAMP()])
    assert record_text(({"a": 0.5}, moment.replace(microsecond=0)), pair) == "({a=0.5},2021-01-09 12:00:00.0)"
    assert record_text((1, "a"), Types.TUPLE([Types.INT(), Types.STRING()])) == "(1,a)"
    assert record_text(Row(1), Types.PICKLED_BYTE_ARRAY()) == "<Row(1)>"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.5, "1.5"),
        (-0.001, "-0.001"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (-12345678.5, "-1.23456785E7"),
        (0.00099, "9.9E-4"),
        (2e-308, "2.0E-308"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (math.nan, "NaN"),
        (-math.inf, "-Infinity"),
    ],
)
def test_a_number_of_a_double_stream_is_printed_as_java_prints_it(value: float, text: str) -> None:
    assert record_text(value, Types.DOUBLE()) == text
    assert record_text(Row(value, None), Types.ROW([Types.DOUBLE(), Types.FLOAT()])) == f"+I[{text}, null]"


def test_a_number_of_a_float_stream_is_printed_with_the_digits_it_has() -> None:
    found = [record_text(value, Types.FLOAT()) for value in (1.100000023841858, 3e38, 1e-10, math.inf)]
    assert found == ["1.1", "3.0E38", "1.0E-10", "Infinity"]


def test_text_is_flinks() -> None:
    assert text_of(Row("a", None, True)) == "+I[a, null, true]"
    assert text_of(("a", 1, [1.5, ("x",)])) == "(a,1,[1.5, (x)])"
    assert text_of({"k": Row.of_kind(RowKind.DELETE, 1)}) == "{k=-D[1]}"
