"""Schedules for as long as wanted: ``python -m tests.sim.soak [--minutes 10] [--first-seed N]``; exits 1 at the first failure."""

from __future__ import annotations

import argparse
import itertools
import sys
import time

from tests.sim.schedule import Schedule
from tests.sim.seeds import seed_of_commit


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--first-seed", type=int, default=seed_of_commit())
    arguments = parser.parse_args()
    ends_at, events, faults, checkpoints = time.monotonic() + 60 * arguments.minutes, 0, 0, 0
    for seed in itertools.count(arguments.first_seed):
        try:
            outcome = Schedule(seed).run()
        except AssertionError as error:
            print(f"seed {seed}: {error}", file=sys.stderr)
            return 1
        events, faults = events + outcome.events, faults + outcome.faults
        checkpoints += outcome.checkpoints
        if time.monotonic() > ends_at:
            break
    count = seed - arguments.first_seed + 1
    print(f"{count} schedules, {events} events, {faults} faults, {checkpoints} checkpoints: every law held")
    return 0


if __name__ == "__main__":
    sys.exit(main())
