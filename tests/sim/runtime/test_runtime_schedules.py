"""Whole jobs on seeded schedules through the real runtime: mailbox loop, exchange, snapshots, restore and replay.

``pytest tests/sim/runtime --sim-seed N`` repeats one.
"""

from __future__ import annotations

import gc

import pytest

from tests.invariants import checked
from tests.sim.runtime import job
from tests.sim.runtime.schedule import Outcome, Schedule
from tests.sim.seeds import BASE_SEED
from tests.sim.watch import LawBroken

pytestmark = pytest.mark.sim

SCHEDULES, BLOCK, AT_LEAST_ONCE = 500, 50, 50
"""More than it takes to catch any planted bug; `make soak` runs others for five minutes."""
_OVERTAKEN_BARRIER = 609173449001587
"""Seed of a schedule in which a barrier comes behind that of a newer checkpoint."""
_KILLS_A_SINK_FUNCTION = BASE_SEED + 12
"""Seed of a schedule in which a subtask is killed while a transaction of its sink function is open."""


def run(seed: int, *, exactly_once: bool = True) -> Outcome:
    try:
        with checked():
            return Schedule(seed, exactly_once=exactly_once).run()
    except (LawBroken, AssertionError) as error:
        raise AssertionError(f"{error}\nrepeat it: pytest tests/sim/runtime --sim-seed {seed}") from error


@pytest.mark.parametrize("first", range(0, SCHEDULES, BLOCK))
def test_jobs_are_exact_whatever_fails(first: int, pytestconfig: pytest.Config) -> None:
    only = pytestconfig.getoption("--sim-seed", None)
    if only is not None:
        if first == 0:
            print(run(only))
        return
    outcomes = [run(BASE_SEED + first + i) for i in range(BLOCK)]
    # Far below what any block shows.
    assert sum(o.executions for o in outcomes) > 1.2 * BLOCK, "jobs that never restart show nothing"
    assert sum(o.counts.checkpoints for o in outcomes) > 2 * BLOCK, "nor do those without checkpoints"
    assert sum(o.counts.aborted for o in outcomes) > BLOCK
    assert sum(o.counts.in_flight for o in outcomes) > 1000 * BLOCK, "and where nothing is in flight of one"


def test_at_least_once_loses_nothing() -> None:
    outcomes = [run(BASE_SEED + i, exactly_once=False) for i in range(AT_LEAST_ONCE)]
    assert sum(o.executions for o in outcomes) > 1.2 * AT_LEAST_ONCE


def test_a_barrier_behind_a_newer_one_doubles_nothing() -> None:
    """An aborted checkpoint's barrier came behind the one that had overtaken it, and was taken for its place."""
    assert run(_OVERTAKEN_BARRIER).executions == 4


def test_a_schedule_is_its_seed() -> None:
    assert Schedule(BASE_SEED).run() == Schedule(BASE_SEED).run()


def test_what_was_killed_in_one_world_aborts_nothing_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    late: list[list[object]] = []
    following = job.Outside()
    monkeypatch.setattr(following.bank, "abort", late.append)
    gc.disable()  # nothing that is left is collected before the next world is there
    try:
        outcome = Schedule(_KILLS_A_SINK_FUNCTION).run()
        job.enter(following)
        gc.collect()
    finally:
        gc.enable()
    assert outcome.executions > 1
    assert late == []
