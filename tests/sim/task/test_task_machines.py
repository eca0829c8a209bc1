"""Seeded schedules over the real task-side machines. A failure prints its seed: run ``World(seed).run()`` again."""

from __future__ import annotations

import pytest

from tests.sim.task.laws import LawBroken
from tests.sim.task.world import Plants, World

pytestmark = pytest.mark.sim

SCHEDULES = 1000
BLOCK = 100
PLANTED_WITHIN = 200


def broken_law(world: World) -> LawBroken | None:
    try:
        world.run(heal_steps=20_000)
    except LawBroken as broken:
        return broken
    return None


@pytest.mark.parametrize("first", range(0, SCHEDULES, BLOCK))
def test_the_laws_hold_under_faults(first: int) -> None:
    for seed in range(first, first + BLOCK):
        world = World(seed)
        try:
            world.run()
        except (LawBroken, AssertionError) as broken:
            pytest.fail(f"seed {seed}: {broken}")
        assert world.events >= 200, seed


def test_every_schedule_has_its_faults() -> None:
    for seed in range(50):
        world = World(seed)
        world.run()
        assert world.faults >= 3, seed
        assert world.events >= 200, seed


def test_at_least_once_loses_nothing() -> None:
    for seed in range(100):
        try:
            World(seed, exactly_once=False).run()
        except LawBroken as broken:
            pytest.fail(f"seed {seed}: {broken}")


def test_the_same_seed_gives_the_same_run() -> None:
    first, second = World(17), World(17)
    first.run()
    second.run()
    assert (first.events, first.faults, first.now_ms) == (second.events, second.faults, second.now_ms)


@pytest.mark.parametrize(
    ("plants", "law"),
    [
        (Plants(alignment_off=True), "law 2"),
        (Plants(ack_twice=True), "law 3"),
        (Plants(barrier_after_data=True), "law 2"),
        (Plants(commit_with_the_ack=True), "law 5"),
        (Plants(stay_blocked_on_abort=True), "liveness"),
        (Plants(watermark_of_any_channel=True), "watermark"),
    ],
    ids=lambda value: value if isinstance(value, str) else next(k for k, v in vars(value).items() if v),
)
def test_every_planted_bug_is_caught(plants: Plants, law: str) -> None:
    for seed in range(PLANTED_WITHIN):
        caught = broken_law(World(seed, plants=plants))
        if caught is not None:
            assert caught.law == law, f"seed {seed}: {caught}"
            return
    pytest.fail(f"not caught within {PLANTED_WITHIN} schedules: {plants}")
