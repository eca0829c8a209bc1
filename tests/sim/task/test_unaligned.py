"""Seeded schedules with barriers that overtake. A failure prints its seed: run ``UnalignedWorld(seed).run()`` again."""

from __future__ import annotations

import pytest

from tests.sim.task.laws import LawBroken
from tests.sim.task.test_task_machines import broken_law
from tests.sim.task.unaligned_world import UnalignedPlants, UnalignedWorld

pytestmark = pytest.mark.sim

SCHEDULES = 500
BLOCK = 100
PLANTED_WITHIN = 200


@pytest.mark.parametrize("first", range(0, SCHEDULES, BLOCK))
def test_nothing_in_flight_is_lost_or_twice(first: int) -> None:
    switches = completed = 0
    for seed in range(first, first + BLOCK):
        world = UnalignedWorld(seed)
        try:
            world.run()
        except (LawBroken, AssertionError) as broken:
            pytest.fail(f"seed {seed}: {broken}")
        switches += world.switches
        completed += len(world.laws.completed_ids)
    assert switches > BLOCK
    assert completed > BLOCK


@pytest.mark.parametrize(
    ("plants", "law"),
    [
        (UnalignedPlants(not_overtaking=True), "overtaking"),
        (UnalignedPlants(output_lost=True), "law 2"),
        (UnalignedPlants(input_lost=True), "law 2"),
        (UnalignedPlants(persisted_twice=True), "twice"),
        (UnalignedPlants(persisted_past_the_barrier=True), "twice"),
        (UnalignedPlants(acknowledged_before_all_came=True), "law 2"),
        (UnalignedPlants(blocked_after_the_switch=True), "liveness"),
    ],
    ids=lambda value: value if isinstance(value, str) else next(k for k, v in vars(value).items() if v),
)
def test_every_planted_bug_is_caught(plants: UnalignedPlants, law: str) -> None:
    for seed in range(PLANTED_WITHIN):
        caught = broken_law(UnalignedWorld(seed, plants))
        if caught is not None:
            assert caught.law == law, f"seed {seed}: {caught}"
            return
    pytest.fail(f"not caught within {PLANTED_WITHIN} schedules: {plants}")
