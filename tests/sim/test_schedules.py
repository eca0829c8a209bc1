"""Seeded fault schedules over the whole protocol: the JobManager's machine, the task-side machines, and everything that can go
wrong between them. ``pytest tests/sim --sim-seed N`` repeats one.

Each schedule mixes periodic, user's, full and incremental checkpoints, savepoints, stops and drains, restarts at another
parallelism from what was left, storage that is slow, full, forbidden, torn or of unknown outcome, and a JobManager that dies.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.invariants import checked
from tests.sim.laws import LawBroken
from tests.sim.schedule import Mix, Outcome, Schedule
from tests.sim.seeds import BASE_SEED

pytestmark = pytest.mark.sim

SCHEDULES, BLOCKS = 2000, 20
"""Five times as many as it takes to catch any planted bug; `make soak` runs others for ten minutes."""
LEAST_EVENTS, LEAST_FAULTS = 200, 3
CHECKED_EVERY = 10
"""In so many schedules machines check their invariants after each event: that takes three times as long."""


def run(seed: int) -> Outcome:
    try:
        if seed % CHECKED_EVERY:
            return Schedule(seed).run()
        with checked():
            return Schedule(seed).run()
    except (LawBroken, AssertionError) as error:
        raise AssertionError(f"{error}\nrepeat it: pytest tests/sim/test_schedules.py --sim-seed {seed}") from error


@pytest.mark.parametrize("block", range(BLOCKS))
def test_every_law_holds_whatever_fails_and_the_output_is_exact(block: int, pytestconfig: pytest.Config) -> None:
    only = pytestconfig.getoption("--sim-seed", None)
    if only is not None:
        if block == 0:
            print(run(only))
        return
    size = -(-(pytestconfig.getoption("--sim-schedules", None) or SCHEDULES) // BLOCKS)
    outcomes = [run(BASE_SEED + block * size + i) for i in range(size)]
    assert min(o.events for o in outcomes) >= LEAST_EVENTS
    assert min(o.faults for o in outcomes) >= LEAST_FAULTS
    if size < SCHEDULES // BLOCKS:
        return
    # Far below what any hundred schedules show.
    assert sum(o.checkpoints for o in outcomes) > 3 * size, "schedules in which nothing is checkpointed show nothing"
    assert sum(o.restarts for o in outcomes) > size
    assert sum(o.rescales for o in outcomes) > size // 20, "and in which no job takes another shape while it runs"
    assert sum(o.shared_files for o in outcomes) > 3 * size, "nor do those in which no file is shared"
    assert sum(o.in_flight for o in outcomes) > size // 10, "and in which no barrier overtakes anything"
    ends = Counter(end for outcome in outcomes for end in outcome.ends)
    assert ends["finished"] == size
    for end in ("stopped", "canceled", "lost its JobManager"):
        assert ends[end] > 0, ends


def test_a_schedule_is_its_seed() -> None:
    assert Schedule(BASE_SEED).run() == Schedule(BASE_SEED).run()


def test_an_attempt_that_another_has_followed_is_not_adopted() -> None:
    """It was cut off, and its successor had aborted its transactions before the JobManager died."""
    assert Schedule(1892, Mix(assigned=1.0, parallel=0.5, rescales=0, adaptive=0.0)).run().seed == 1892
