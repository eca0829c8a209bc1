"""Joins of two inputs on seeded schedules through the real runtime: they leave what Flink left, whatever fails, and planted bugs are caught.

``pytest tests/sim/runtime/joins --sim-seed N`` repeats one.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.invariants import checked
from tests.sim.laws import LawBroken
from tests.sim.plant import Plant
from tests.sim.runtime.joins.planted_bugs import PLANTS, PLANTS_OF_STATEMENTS
from tests.sim.runtime.joins.schedule import JoinSchedule
from tests.sim.runtime.joins.statements import STATEMENTS, recorded
from tests.sim.runtime.schedule import Outcome
from tests.sim.seeds import BASE_SEED

pytestmark = pytest.mark.sim

SCHEDULES, BLOCK = 100, 25
WITHIN = 200


def run(seed: int, name: str | None = None, *, is_disturbed: bool = True) -> tuple[str, Outcome]:
    schedule = JoinSchedule(seed, name, is_disturbed=is_disturbed)
    try:
        with checked():
            return schedule.name, schedule.run()
    except (LawBroken, AssertionError) as error:
        raise AssertionError(
            f"{schedule.name}: {error}\nrepeat it: pytest tests/sim/runtime/joins --sim-seed {seed}"
        ) from error


def test_the_statements_are_those_that_flink_ran() -> None:
    assert {name: one.case.query for name, one in recorded().items()} == STATEMENTS


@pytest.mark.parametrize("name", STATEMENTS)
def test_an_undisturbed_run_leaves_what_flink_left(name: str) -> None:
    _, outcome = run(BASE_SEED, name, is_disturbed=False)
    assert outcome.executions == 1


@pytest.mark.parametrize("first", range(0, SCHEDULES, BLOCK))
def test_joins_leave_what_flink_left_whatever_fails(first: int, pytestconfig: pytest.Config) -> None:
    only = pytestconfig.getoption("--sim-seed", None)
    if only is not None:
        if first == 0:
            print(run(only))
        return
    found = [run(seed) for seed in range(BASE_SEED + first, BASE_SEED + first + BLOCK)]
    # Far below what any block shows.
    assert sum(outcome.executions for _, outcome in found) > 1.2 * BLOCK, "jobs that never restart show nothing"
    assert sum(outcome.counts.checkpoints for _, outcome in found) > 2 * BLOCK, "nor do those without checkpoints"
    assert sum(outcome.counts.aborted for _, outcome in found) > 0
    assert sum(outcome.counts.in_flight for _, outcome in found) > 100 * BLOCK, "and where nothing is in flight of one"
    assert len(Counter(name for name, _ in found)) >= 8


def caught_by(plant: Plant, name: str | None = None) -> LawBroken | None:
    with plant.plant():
        for seed in (*range(plant.first_seed, WITHIN), *range(plant.first_seed)):
            try:
                JoinSchedule(seed, name).run()
            except LawBroken as broken:
                return broken
    return None


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name.replace(" ", "-"))
def test_the_planted_bug_is_caught(plant: Plant) -> None:
    broken = caught_by(plant)
    assert broken is not None, f"not found in {WITHIN} schedules"
    assert broken.law in plant.laws, f"caught by another law: {broken}"


@pytest.mark.parametrize(("name", "plant"), PLANTS_OF_STATEMENTS, ids=lambda one: getattr(one, "name", one))
def test_the_planted_bug_of_one_operator_is_caught(name: str, plant: Plant) -> None:
    broken = caught_by(plant, name)
    assert broken is not None, f"not found in {WITHIN} schedules"
    assert broken.law in plant.laws, f"caught by another law: {broken}"
