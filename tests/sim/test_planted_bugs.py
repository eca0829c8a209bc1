"""Every checker catches the bug that was planted for it, within 200 schedules: a checker that cannot fail shows nothing."""

from __future__ import annotations

import pytest

from tests.sim.laws import Law, LawBroken
from tests.sim.plant import Plant
from tests.sim.planted_adoption_bugs import OF_ADOPTION
from tests.sim.planted_bugs import OF_THE_LAWS
from tests.sim.planted_file_bugs import OF_FILES
from tests.sim.planted_shape_bugs import OF_SHAPES
from tests.sim.planted_split_bugs import OF_DISCOVERED_SPLITS, OF_SPLITS
from tests.sim.schedule import Schedule

pytestmark = pytest.mark.sim

PLANTS = (*OF_THE_LAWS, *OF_FILES, *OF_ADOPTION, *OF_SPLITS, *OF_DISCOVERED_SPLITS, *OF_SHAPES)
WITHIN = 200


def caught_by(plant: Plant) -> LawBroken | None:
    with plant.plant():
        for seed in range(plant.first_seed, plant.first_seed + WITHIN):
            try:
                Schedule(seed, plant.mix).run()
            except LawBroken as broken:
                return broken
    return None


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name.replace(" ", "-"))
def test_the_planted_bug_is_caught(plant: Plant) -> None:
    broken = caught_by(plant)
    assert broken is not None, f"nobody noticed in {WITHIN} schedules"
    assert broken.law in plant.laws, f"caught by another law: {broken}"


def test_every_law_has_its_planted_bug() -> None:
    assert {law for plant in PLANTS for law in plant.laws} >= {
        *list(Law)[1:8],
        Law.SHARED,
        Law.ENDING,
        Law.ADOPTION,
        Law.SPLITS,
        Law.SHAPE,
    }
