"""Terms order: a later leader has a higher one."""

from __future__ import annotations

import pytest

from tidegate.model.fencing import fenced_off, highest_of, make_generation, term_of
from tidegate.model.ids import Generation

LOW, HIGH, RIVAL = make_generation(7, "a"), make_generation(12, "a"), make_generation(7, "b")
WITHOUT = make_generation(0, "abc")


@pytest.mark.parametrize(
    ("generation", "highest", "told"),
    [
        (LOW, None, None),
        (LOW, LOW, None),
        (HIGH, LOW, None),
        (LOW, WITHOUT, None),
        (WITHOUT, make_generation(0, "other"), None),
        (LOW, HIGH, "its term is 7, and a JobManager of term 12 has led since"),
        (RIVAL, LOW, "it claims term 7, which another JobManager has"),
        (
            WITHOUT,
            LOW,
            "it has no term (high-availability.type NONE), and this process has already obeyed a JobManager of term 7",
        ),
    ],
)
def test_who_is_obeyed(generation: Generation, highest: Generation | None, told: str | None) -> None:
    assert fenced_off(generation, highest) == told


def test_terms_are_in_the_order_of_their_texts_and_only_grow() -> None:
    assert LOW < HIGH
    assert [term_of(one) for one in (WITHOUT, LOW, HIGH, Generation("short"), Generation("z" * 20))] == [0, 7, 12, 0, 0]
    assert highest_of(LOW, None) == LOW
    assert highest_of(HIGH, LOW) == HIGH
    assert highest_of(LOW, HIGH) == HIGH
