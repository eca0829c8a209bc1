"""Random statements that Flink 2.3.0 ran give the same changes here; ``make soak`` runs new ones through Flink."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.differential_tables.cases import case_of
from tests.differential_tables.judge import check
from tests.differential_tables.recording import recorded, recorded_chosen, recorded_families

pytestmark = pytest.mark.timeout(300)

PIECES = 10


@pytest.mark.parametrize("piece", range(PIECES))
def test_statements_have_the_changes_of_flink(piece: int) -> None:
    assert sum(check(one) for one in recorded()[piece::PIECES]) >= 15


@pytest.mark.parametrize("piece", range(PIECES))
def test_chosen_statements_have_the_changes_of_flink(piece: int) -> None:
    for one in recorded_chosen()[piece::PIECES]:
        check(one)


@pytest.mark.parametrize("piece", range(PIECES))
def test_statements_of_families_have_the_changes_of_flink(piece: int) -> None:
    assert sum(check(one) for one in recorded_families()[piece::PIECES]) >= 40


def test_the_recorded_statements_are_of_every_kind() -> None:
    assert len({one.case.kind for one in recorded()}) >= 16
    assert len({one.case.query for one in recorded()}) >= 200


def test_a_case_is_made_of_its_seed_alone() -> None:
    assert str(case_of(7)) == str(case_of(7))
    assert len({str(case_of(seed)) for seed in range(50)}) == 50


@pytest.mark.parametrize("name", ["a row is missing", "a value", "an error"])
def test_a_difference_is_found(name: str) -> None:
    one = next(one for one in recorded() if one.error is None and len(one.changes) > 1)
    kind, row = one.changes[0]
    planted = {
        "a row is missing": replace(one, changes=one.changes[1:]),
        "a value": replace(one, changes=[(kind, ("planted", *row[1:])), *one.changes[1:]]),
        "an error": replace(one, error="planted"),
    }
    with pytest.raises(AssertionError, match=f"seed {one.case.seed}"):
        check(planted[name])
