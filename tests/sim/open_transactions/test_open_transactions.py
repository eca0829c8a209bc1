"""The Kafka sink that keeps transactions open, on seeded schedules against a simulated Kafka; and bugs planted in it, each caught."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sim.laws import Law, LawBroken
from tests.sim.open_transactions.world import World
from tests.sim.plant import Plant, patched
from tests.sim.seeds import BASE_SEED
from tidegate.connectors.kafka.open_transactions import subtask_transactions
from tidegate.connectors.kafka.open_transactions.naming import Numbers, Ownership, TransactionNamingStrategy
from tidegate.connectors.kafka.open_transactions.subtask_transactions import SubtaskTransactions

pytestmark = pytest.mark.sim

SCHEDULES, WITHIN = 600, 400


def run(seed: int, *, times_out: bool = False) -> World:
    world = World(seed, times_out)
    try:
        world.run()
    except LawBroken as error:
        raise AssertionError(f"{error}\nrepeat it: World({seed}, {times_out}).run()") from error
    return world


def test_every_value_is_committed_once_whatever_fails() -> None:
    worlds = [run(BASE_SEED + i) for i in range(SCHEDULES)]
    assert sum(world.restarts for world in worlds) > 4 * SCHEDULES
    assert sum(len(world.kafka.committed) for world in worlds) > 10 * SCHEDULES


def test_what_the_broker_timed_out_is_told_and_nothing_else_is_missing() -> None:
    worlds = [run(BASE_SEED + i, times_out=True) for i in range(SCHEDULES)]
    told = sum(world.told_lost for world in worlds)
    assert SCHEDULES / 10 < told < SCHEDULES


def _always_the_first(numbers: Numbers, taken: Any) -> int:
    return numbers.last_checkpoint if numbers.strategy is TransactionNamingStrategy.INCREMENTING else 0


PLANTS = (
    Plant(
        "a pending id is used again", frozenset({Law.OUTPUT, Law.REPORTED}), patched(Numbers, "next", _always_the_first)
    ),
    Plant(
        "every subtask aborts what others restored",
        frozenset({Law.OUTPUT, Law.REPORTED}),
        patched(Ownership, "owns", lambda self, subtask: True),
    ),
    Plant(
        "nobody aborts what is left",
        frozenset({Law.NOTHING_OPEN}),
        patched(subtask_transactions, "lingering", lambda *_: []),
    ),
    Plant(
        "an id is used again and nobody noted its commit",
        frozenset({Law.REPORTED}),
        patched(SubtaskTransactions, "note_commit", lambda self, prepared: None),
    ),
    Plant(
        "attempts have their ids in common",
        frozenset({Law.OUTPUT, Law.REPORTED, Law.NOTHING_OPEN}),
        patched(subtask_transactions, "branch_of", lambda context: "0" * 16),
    ),
    Plant(
        "a refused commit is taken for one that was made",
        frozenset({Law.OUTPUT}),
        patched(SubtaskTransactions, "look_up", lambda self, prepared: None),
    ),
)


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name.replace(" ", "-"))
def test_the_planted_bug_is_caught(plant: Plant) -> None:
    broken = _caught_by(plant)
    assert broken is not None, f"nobody noticed in {WITHIN} schedules"
    assert broken.law in plant.laws, f"caught by another law: {broken}"


def _caught_by(plant: Plant) -> LawBroken | None:
    with plant.plant():
        for seed in range(WITHIN):
            try:
                World(BASE_SEED + seed, times_out=seed % 2 == 1).run()
            except LawBroken as broken:
                return broken
    return None
