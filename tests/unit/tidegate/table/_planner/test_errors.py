"""What a refusal of Flink's planner says, and where it points."""

from __future__ import annotations

import pytest

from tidegate.table._planner.errors import message_of, refusal, underlined


@pytest.mark.parametrize(
    ("sql", "message", "marks"),
    [
        ("SELECT x FROM t", "From line 1, column 8 to line 1, column 8: no x", "SELECT x FROM t\n       ^"),
        ("SELECT\n  xyz\nFROM t", "From line 2, column 3 to line 2, column 5: no xyz", "  xyz\n  ^^^"),
        ("SELECT a b c", 'Encountered "c" at line 1, column 12.', "SELECT a b c\n           ^"),
        ("SELECT f(\n1)", "From line 1, column 8 to line 2, column 2: no f", "SELECT f(\n       ^^"),
        ("\tSELECT x", "From line 1, column 9 to line 1, column 9: no x", "\tSELECT x\n\t       ^"),
        ("SELECT x", "Encountered <EOF> at line 1, column 9.", "SELECT x\n        ^"),
        ("SELECT x", "From line 7, column 1 to line 7, column 2: elsewhere", ""),
        ("SELECT x", "no place", ""),
    ],
)
def test_the_text_that_a_message_names_is_underlined(sql: str, message: str, marks: str) -> None:
    assert underlined(sql, message) == marks


def test_each_cause_is_told_once() -> None:
    chain = [
        ("a.ValidationException", "SQL validation failed. From line 1, column 1 to line 1, column 2: b"),
        ("a.CalciteContextException", "From line 1, column 1 to line 1, column 2: b"),
        ("a.SqlValidatorException", "b"),
    ]
    assert message_of(chain) == chain[0][1]
    assert message_of([("x.A", "outer"), ("x.B", ""), ("x.C", "inner")]) == "outer\ninner"
    assert message_of([("x.A", "org.x.ValidationException: inner"), ("x.ValidationException", "inner")]) == "inner"
    assert message_of([("java.lang.NullPointerException", "")]) == "java.lang.NullPointerException"


def test_a_refusal_holds_message_marks_and_trace() -> None:
    error = refusal([("a.B", "From line 1, column 1 to line 1, column 3: bad")], "abc d", "the trace")
    assert error.message == "From line 1, column 1 to line 1, column 3: bad\nabc d\n^^^"
    assert error.details == "the trace"
