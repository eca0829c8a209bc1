"""Rows, as PyFlink's."""

from __future__ import annotations

import pickle

import pytest

from tidegate.common import Row, RowKind
from tidegate.common.record_text import text_of


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


def test_pickle_keeps_everything() -> None:
    for row in (Row(1, None), Row(a=1), Row.of_kind(RowKind.UPDATE_AFTER, a=Row(b=2))):
        shipped = pickle.loads(pickle.dumps(row))
        assert shipped == row
        assert shipped.get_row_kind() is row.get_row_kind()


def test_recursive_dict() -> None:
    assert Row(a=Row(b=1), c=[Row(d=2)]).as_dict(True) == {"a": {"b": 1}, "c": [{"d": 2}]}


def test_text_is_flinks() -> None:
    assert text_of(Row("a", None, True)) == "+I[a, null, true]"
    assert text_of(("a", 1, [1.5, ("x",)])) == "(a,1,[1.5, (x)])"
    assert text_of({"k": Row.of_kind(RowKind.DELETE, 1)}) == "{k=-D[1]}"
