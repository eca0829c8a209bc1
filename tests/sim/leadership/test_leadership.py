"""Seeded schedules of leaders that are killed, stopped, cut off and deposed. ``pytest tests/sim/leadership --sim-seed N`` repeats one."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.sim.leadership.laws import LawBroken
from tests.sim.leadership.planted_bugs import PLANTS
from tests.sim.leadership.world import World
from tests.sim.plant import Plant
from tests.sim.seeds import BASE_SEED

pytestmark = pytest.mark.sim

SCHEDULES, BLOCKS, WITHIN = 2_000, 10, 400


def run(seed: int) -> World:
    try:
        return World(seed).run()
    except AssertionError as error:
        raise AssertionError(f"{error}\nrepeat it: pytest tests/sim/leadership --sim-seed {seed}") from error


@pytest.mark.parametrize("block", range(BLOCKS))
def test_one_leader_at_a_time_commits_whatever_fails(block: int, pytestconfig: pytest.Config) -> None:
    only = pytestconfig.getoption("--sim-seed", None)
    size = SCHEDULES // BLOCKS
    seeds = range(BASE_SEED + block * size, BASE_SEED + (block + 1) * size) if only is None else range(only, only + 1)
    worlds = [run(seed) for seed in seeds]
    if only is not None:
        return
    faults = Counter(fault for world in worlds for fault in world.faults)
    assert min(faults[kind] for kind in ("kill", "stop", "cut", "blink", "expire", "impostor")) > size // 2, faults
    assert sum(len(world.leaders) for world in worlds) > 3 * size, "schedules without a failover show nothing"


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name.replace(" ", "-"))
def test_the_planted_bug_is_caught(plant: Plant) -> None:
    broken = caught_by(plant)
    assert broken is not None, f"nobody noticed in {WITHIN} schedules"
    assert broken.law in plant.laws, f"caught by another law: {broken}"


def caught_by(plant: Plant) -> LawBroken | None:
    with plant.plant():
        for seed in range(WITHIN):
            try:
                World(seed).run()
            except LawBroken as broken:
                return broken
    return None
