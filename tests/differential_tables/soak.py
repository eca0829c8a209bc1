"""Random statements through Flink 2.3 and through ours for as long as wanted; prints each that differs with its seed, and exits 1 then.

python -m tests.differential_tables.soak [--cases 200] [--first-seed N]
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from tests.differential_tables.cases import case_of
from tests.differential_tables.judge import check, judged
from tests.sim.seeds import seed_of_commit


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.differential_tables.soak", description=__doc__)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--first-seed", type=int, default=seed_of_commit())
    arguments = parser.parse_args()
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.cases)
    found: Counter[str] = Counter()
    differs = 0
    for one in judged([case_of(seed) for seed in seeds]):
        try:
            found[one.case.kind if check(one) else "not compared"] += 1
        except Exception as error:  # noqa: BLE001 - whatever it is, Flink gave rows
            print(f"seed {one.case.seed}: {type(error).__name__}: {error}", file=sys.stderr)
            differs += 1
    if differs:
        print(f"{differs} of {arguments.cases} statements differ from Flink", file=sys.stderr)
        return 1
    print(f"{arguments.cases} statements from seed {arguments.first_seed}: {dict(found)}: all as in Flink")
    return 0


if __name__ == "__main__":
    sys.exit(main())
