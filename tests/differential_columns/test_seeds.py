"""Some hundred random cases of columns; ``make soak`` has thousands. A failure begins with the seed that ``check`` takes."""

from __future__ import annotations

import pytest

from tests.differential_columns.cases import KINDS, case_of
from tests.differential_columns.planted import PLANTED, planted
from tests.differential_columns.runner import check
from tests.differential_columns.statements import check_expression, check_sql

PIECES, CASES = 10, 30
STATEMENTS = 60
FOUND_WITHIN = 40
"""Every mistake that is planted is found by one of so many cases."""


@pytest.mark.parametrize("piece", range(PIECES))
def test_windows_and_running_aggregates_give_what_python_and_duckdb_give(piece: int) -> None:
    kinds = {check(seed).kind for seed in range(piece * CASES, (piece + 1) * CASES)}
    assert kinds == set(KINDS)


def test_a_case_is_made_of_its_seed_alone() -> None:
    assert str(case_of(7)) == str(case_of(7))
    assert len({str(case_of(seed)) for seed in range(50)}) == 50


def test_expressions_are_refused_or_right_however_rows_are_cut() -> None:
    assert sum(check_expression(seed) for seed in range(20 * STATEMENTS)) > 3 * STATEMENTS


def test_queries_give_what_duckdb_gives() -> None:
    assert sum(check_sql(seed) for seed in range(STATEMENTS)) > STATEMENTS // 10


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_mistake_is_found(name: str) -> None:
    with planted(name):
        assert any(_fails(seed) for seed in range(FOUND_WITHIN))


def _fails(seed: int) -> bool:
    try:
        check(seed)
    except (AssertionError, KeyError):
        return True
    return False
