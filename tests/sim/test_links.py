"""A connection that breaks and comes back in time costs no restart and no record, at whichever step it breaks."""

from __future__ import annotations

import pytest

from tests.sim.laws import LawBroken
from tests.sim.links import outcomes
from tests.sim.plant import Plant
from tests.sim.planted_link_bugs import OF_LINKS
from tests.sim.seeds import BASE_SEED

pytestmark = pytest.mark.sim

SEEDS = 12


@pytest.mark.parametrize("seed", range(BASE_SEED, BASE_SEED + SEEDS))
def test_a_connection_that_breaks_at_any_step_and_comes_back_costs_nothing(seed: int) -> None:
    ends = [outcome.ends[-1] for outcome in outcomes(seed)]
    assert ends == ["finished"] * len(ends)
    assert ends


def caught_by(plant: Plant) -> LawBroken | None:
    with plant.plant():
        for seed in range(BASE_SEED, BASE_SEED + SEEDS):
            try:
                list(outcomes(seed))
            except LawBroken as broken:
                return broken
    return None


@pytest.mark.parametrize("plant", OF_LINKS, ids=lambda plant: plant.name.replace(" ", "-"))
def test_the_planted_bug_is_caught(plant: Plant) -> None:
    broken = caught_by(plant)
    assert broken is not None, f"nobody noticed in {SEEDS} schedules"
    assert broken.law in plant.laws, f"caught by another law: {broken}"
