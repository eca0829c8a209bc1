"""Splits that one reader finds while the job runs: whatever dies, each is read exactly once, and every checkpoint holds it once.

The JobManager dies more often in half of the schedules, and what it had heard of and no checkpoint holds goes on with those that it leaves.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.invariants import checked
from tests.sim.laws import LawBroken
from tests.sim.planted_split_bugs import DISCOVERED, DISCOVERED_AND_ADOPTED
from tests.sim.schedule import Mix, Outcome, Schedule

pytestmark = pytest.mark.sim

SCHEDULES, BLOCKS = 600, 6
CHECKED_EVERY = 10
"""As in ``test_schedules``."""


def run(seed: int, mix: Mix) -> Outcome:
    try:
        if seed % CHECKED_EVERY:
            return Schedule(seed, mix).run()
        with checked():
            return Schedule(seed, mix).run()
    except (LawBroken, AssertionError) as error:
        raise AssertionError(f"{error}\nrepeat it: Schedule({seed}, {mix})") from error


@pytest.mark.parametrize("mix", [DISCOVERED, DISCOVERED_AND_ADOPTED], ids=["everything", "the JobManager"])
@pytest.mark.parametrize("block", range(BLOCKS))
def test_what_is_found_later_is_read_once_whatever_fails(block: int, mix: Mix) -> None:
    size = SCHEDULES // BLOCKS // 2
    outcomes = [run(block * size + i, mix) for i in range(size)]
    ends = Counter(end for outcome in outcomes for end in outcome.ends)
    assert ends["stopped when everything was read"] == size
    assert sum(o.checkpoints for o in outcomes) > 3 * size, "schedules in which nothing is checkpointed show nothing"
    assert sum(o.restarts for o in outcomes) > size
    assert mix is DISCOVERED or sum(o.adopted for o in outcomes) > size // 2
