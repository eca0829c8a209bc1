"""Schedules of leaders, and of the whole protocol and whole jobs for as long as wanted; exits 1 at the first failure.

python -m tests.sim.soak [--leaders 10000] [--minutes 10] [--runtime-minutes 5] [--replay-minutes 2] [--replays 500] [--first-seed N]
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections import Counter

from tests.invariants import checked
from tests.sim.leadership.world import World
from tests.sim.runtime import schedule as runtime_schedule
from tests.sim.runtime.recorded_failures import fail_and_replay
from tests.sim.schedule import Schedule
from tests.sim.seeds import seed_of_commit


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.soak", description=__doc__)
    parser.add_argument("--leaders", type=int, default=10_000, help="schedules of leaders alone")
    parser.add_argument("--minutes", type=float, default=10.0, help="of schedules of the whole protocol")
    parser.add_argument("--runtime-minutes", type=float, default=5.0, help="of schedules of whole jobs in the runtime")
    parser.add_argument("--replay-minutes", type=float, default=2.0, help="of failures that are replayed")
    parser.add_argument(
        "--replays", type=int, default=500, help="failures that are replayed at least, however long it takes"
    )
    parser.add_argument("--first-seed", type=int, default=seed_of_commit())
    arguments = parser.parse_args()
    first = arguments.first_seed
    return (
        leaders(first, arguments.leaders)
        or protocol(first, arguments.minutes)
        or runtime(first, arguments.runtime_minutes)
        or replays(first, arguments.replay_minutes, arguments.replays)
    )


def leaders(first_seed: int, count: int) -> int:
    """Returns the exit code."""
    faults: Counter[str] = Counter()
    terms = calls = 0
    for seed in range(first_seed, first_seed + count):
        world = World(seed)
        try:
            world.run()
        except AssertionError as error:
            print(f"seed {seed}: {error}", file=sys.stderr)
            return 1
        faults.update(world.faults)
        terms, calls = terms + len(world.leaders), calls + len(world.history.calls)
    told = ", ".join(f"{number} {kind}" for kind, number in sorted(faults.items()))
    print(
        f"{count} schedules of leaders from seed {first_seed}: {terms} terms, {calls} calls of the pointer, {told}: every law held"
    )
    return 0


def protocol(first_seed: int, minutes: float) -> int:
    """Returns the exit code."""
    ends_at, events, faults, checkpoints = time.monotonic() + 60 * minutes, 0, 0, 0
    for seed in itertools.count(first_seed):
        try:
            outcome = Schedule(seed).run()
        except AssertionError as error:
            print(f"seed {seed}: {error}", file=sys.stderr)
            return 1
        events, faults = events + outcome.events, faults + outcome.faults
        checkpoints += outcome.checkpoints
        if time.monotonic() > ends_at:
            break
    count = seed - first_seed + 1
    print(f"{count} schedules, {events} events, {faults} faults, {checkpoints} checkpoints: every law held")
    return 0


def runtime(first_seed: int, minutes: float) -> int:
    """Returns the exit code."""
    ends_at, executions, checkpoints = time.monotonic() + 60 * minutes, 0, 0
    for seed in itertools.count(first_seed):
        try:
            with checked():
                outcome = runtime_schedule.Schedule(seed).run()
        except AssertionError as error:
            print(f"seed {seed} of tests/sim/runtime: {error}", file=sys.stderr)
            return 1
        executions, checkpoints = executions + outcome.executions, checkpoints + outcome.counts.checkpoints
        if time.monotonic() > ends_at:
            break
    count = seed - first_seed + 1
    print(f"{count} schedules of jobs, {executions} executions, {checkpoints} checkpoints: every result is exact")
    return 0


def replays(first_seed: int, minutes: float, least: int) -> int:
    """Returns the exit code."""
    ends_at, records = time.monotonic() + 60 * minutes, 0
    for seed in itertools.count(first_seed):
        try:
            records += fail_and_replay(seed)[1].records
        except AssertionError as error:
            print(f"seed {seed} of failures: {error}", file=sys.stderr)
            return 1
        if time.monotonic() > ends_at and seed - first_seed + 1 >= least:
            break
    print(f"{seed - first_seed + 1} failures came again, after {records} records")
    return 0


if __name__ == "__main__":
    sys.exit(main())
