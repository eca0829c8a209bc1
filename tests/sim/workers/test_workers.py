"""Seeded schedules of a provider of TaskManagers that keeps no promise. ``pytest tests/sim/workers --sim-seed N`` repeats one."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.sim.leadership.laws import LawBroken
from tests.sim.plant import Plant
from tests.sim.seeds import BASE_SEED
from tests.sim.workers.planted_bugs import PLANTS
from tests.sim.workers.world import World

pytestmark = pytest.mark.sim

SCHEDULES, BLOCKS, WITHIN = 200, 4, 60


def run(seed: int) -> World:
    try:
        return World(seed).run()
    except AssertionError as error:
        raise AssertionError(f"{error}\nrepeat it: pytest tests/sim/workers --sim-seed {seed}") from error


@pytest.mark.parametrize("block", range(BLOCKS))
def test_as_many_workers_as_jobs_need_whatever_the_provider_does(block: int, pytestconfig: pytest.Config) -> None:
    only = pytestconfig.getoption("--sim-seed", None)
    size = SCHEDULES // BLOCKS
    seeds = range(BASE_SEED + block * size, BASE_SEED + (block + 1) * size) if only is None else range(only, only + 1)
    worlds = [run(seed) for seed in seeds]
    if only is not None:
        return
    seen: Counter[str] = sum((world.events for world in worlds), Counter())
    assert min(seen[kind] for kind in ("comes", "fails", "hangs", "late", "twice", "dies", "cut off")) > size // 2, seen


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name.replace(" ", "-"))
def test_the_planted_bug_is_caught(plant: Plant) -> None:
    broken = caught_by(plant)
    assert broken is not None, f"nobody noticed in {WITHIN} schedules"
    if isinstance(broken, LawBroken):
        assert broken.law in plant.laws, f"caught by another law: {broken}"


def caught_by(plant: Plant) -> AssertionError | None:
    """A broken law, or what a machine says of itself."""
    with plant.plant():
        for seed in range(WITHIN):
            try:
                World(seed).run()
            except AssertionError as broken:
                return broken
    return None
