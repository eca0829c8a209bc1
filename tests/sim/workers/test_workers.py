"""Seeded schedules of a provider of TaskManagers that keeps no promise. ``pytest tests/sim/workers --sim-seed N`` repeats one."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.sim.laws import LawBroken
from tests.sim.plant import Plant
from tests.sim.sweep import caught_by, sweep
from tests.sim.workers.planted_bugs import PLANTS
from tests.sim.workers.world import World

pytestmark = pytest.mark.sim

SCHEDULES, BLOCKS, WITHIN = 200, 4, 60


def run(seed: int) -> World:
    return World(seed).run()


@pytest.mark.parametrize("block", range(BLOCKS))
def test_as_many_workers_as_jobs_need_whatever_the_provider_does(block: int, pytestconfig: pytest.Config) -> None:
    size = SCHEDULES // BLOCKS
    worlds = sweep(run, "workers", block, size, pytestconfig)
    if not worlds:
        return
    seen: Counter[str] = sum((world.events for world in worlds), Counter())
    assert min(seen[kind] for kind in ("comes", "fails", "hangs", "late", "twice", "dies", "cut off")) > size // 2, seen


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name.replace(" ", "-"))
def test_the_planted_bug_is_caught(plant: Plant) -> None:
    broken = caught_by(plant, run, WITHIN)
    assert broken is not None, f"nobody noticed in {WITHIN} schedules"
    if isinstance(broken, LawBroken):
        assert broken.law in plant.laws, f"caught by another law: {broken}"
