"""Seeded schedules of leaders that are killed, stopped, cut off and deposed. ``pytest tests/sim/leadership --sim-seed N`` repeats one."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.sim.laws import LawBroken
from tests.sim.leadership.history import Call, is_linearizable
from tests.sim.leadership.planted_bugs import PLANTS
from tests.sim.leadership.world import World
from tests.sim.plant import Plant
from tests.sim.planted_adoption_bugs import OF_ADOPTION
from tests.sim.sweep import sweep

pytestmark = pytest.mark.sim

SCHEDULES, BLOCKS, WITHIN = 2_000, 10, 400


def run(seed: int) -> World:
    return World(seed).run()


@pytest.mark.parametrize("block", range(BLOCKS))
def test_one_leader_at_a_time_commits_whatever_fails(block: int, pytestconfig: pytest.Config) -> None:
    size = SCHEDULES // BLOCKS
    worlds = sweep(run, "leadership", block, size, pytestconfig)
    if not worlds:
        return
    faults = Counter(fault for world in worlds for fault in world.faults)
    assert min(faults[kind] for kind in ("kill", "stop", "cut", "blink", "expire", "impostor")) > size // 2, faults
    assert sum(len(world.leaders) for world in worlds) > 3 * size, "schedules without a failover show nothing"


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name.replace(" ", "-"))
def test_the_planted_bug_is_caught(plant: Plant) -> None:
    broken = caught_by(plant)
    assert broken is not None, f"nobody noticed in {WITHIN} schedules"
    assert broken.law in plant.laws, f"caught by another law: {broken}"


def test_each_bug_that_a_leader_must_not_have_is_planted() -> None:
    """Those with which others were found wrong, and which every change of leadership is measured by."""
    assert {plant.name for plant in (*PLANTS, *OF_ADOPTION)} >= {
        "confirmed before the pointer is swapped",
        "the pointer is read before the lock",
        "a suspended connection is ignored",
        "the old leader repeats a confirm after it lost",
        "an equal term of another leader is obeyed",
        "a result is written after the clean-up",
        "the last checkpoints are removed before the result is written",
        "a checkpoint is removed before the pointer moved",
        "what had failed meanwhile is adopted",
        "two clients submit one id at a failover",
    }


WRITTEN = [Call(1, True, 0, 10), Call(2, True, 20, 30)]


@pytest.mark.parametrize(
    ("more", "has_an_order"),
    [
        (Call(2, False, 40, 50), True),
        (Call(1, False, 40, 50), False),
        (Call(1, False, 25, 50), True),
        (Call(3, False, 40, 50), False),
        (Call(3, True, 35), True),
        (Call(1, True, 40, 50), False),
    ],
    ids=["newest", "old", "while-written", "never-written", "unanswered", "backwards"],
)
def test_a_history_has_an_order_or_not(more: Call, has_an_order: bool) -> None:
    assert is_linearizable([*WRITTEN, more]) is has_an_order


def test_a_write_without_an_answer_may_have_happened_or_not() -> None:
    unanswered = Call(3, True, 35)
    for seen in (2, 3):
        assert is_linearizable([*WRITTEN, unanswered, Call(seen, False, 40, 50)])
    assert not is_linearizable([*WRITTEN, unanswered, Call(3, False, 40, 50), Call(2, False, 60, 70)])


def caught_by(plant: Plant) -> LawBroken | None:
    with plant.plant():
        for seed in range(WITHIN):
            try:
                World(seed).run()
            except LawBroken as broken:
                return broken
    return None
