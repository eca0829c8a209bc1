"""Every bug that is planted in the runtime is caught within 400 schedules."""

from __future__ import annotations

import pytest

from tests.sim.laws import LawBroken
from tests.sim.plant import Plant
from tests.sim.runtime.planted_bugs import PLANTS
from tests.sim.runtime.schedule import Schedule

pytestmark = pytest.mark.sim

WITHIN = 400


def caught_by(plant: Plant) -> LawBroken | None:
    with plant.plant():
        for seed in (*range(plant.first_seed, WITHIN), *range(plant.first_seed)):
            try:
                Schedule(seed).run()
            except LawBroken as broken:
                return broken
    return None


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name.replace(" ", "-"))
def test_the_planted_bug_is_caught(plant: Plant) -> None:
    broken = caught_by(plant)
    assert broken is not None, f"nobody noticed in {WITHIN} schedules"
    assert broken.law in plant.laws, f"caught by another law: {broken}"
