"""Numbers of attempts by region: what is noted is there for ever, and is read as it was written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.model.errors import CorruptData
from tidegate.model.leadership.noted_attempts import NotedAttempts, parse_noted_attempts

NOTES = st.lists(st.dictionaries(st.none() | st.integers(0, 3), st.integers(0, 9), min_size=1), min_size=1)


@given(NOTES)
def test_what_was_noted_is_covered_and_survives_the_store(notes: list[dict[int | None, int]]) -> None:
    noted = NotedAttempts()
    for attempts in notes:
        noted = noted.noting(attempts)
    assert all(noted.covers(region, attempt) for attempts in notes for region, attempt in attempts.items())
    assert noted.highest == max(attempt for attempts in notes for attempt in attempts.values())
    for region in range(4):
        own = [attempts[key] for attempts in notes for key in (None, region) if key in attempts]
        assert noted.of(region) == max(own, default=-1), "that of another region says nothing"
    if noted.of_all >= 0:
        assert parse_noted_attempts(str(noted)) == noted


def test_a_region_that_restarts_more_often_is_noted_beside_the_others() -> None:
    noted = NotedAttempts().noting({None: 0}).noting({1: 1}).noting({1: 2, 3: 1})
    assert str(noted) == "0 1:2 3:1"
    assert [noted.of(region) for region in range(4)] == [0, 2, 0, 1]
    assert not noted.covers(0, 1)
    assert str(noted.noting({None: 3})) == "3", "the whole job began again"


@pytest.mark.parametrize("text", ["", "a", "1 ", "1 2", "1 2:", "1 2:3:4", "-1"])
def test_another_form_is_refused(text: str) -> None:
    with pytest.raises(CorruptData, match="numbers of attempts"):
        parse_noted_attempts(text)
