"""Random statements through Flink 2.3 and through ours for as long as wanted; prints each that differs with its seed, and exits 1 then.

python -m tests.differential_tables.soak [--cases 200] [--first-seed N] [--several-streams]
"""

from __future__ import annotations

import argparse
import itertools
import re
import sys
from collections import Counter

from tests.differential_tables.cases import Case, case_of
from tests.differential_tables.judge import check, judged
from tests.sim.seeds import seed_of_commit


def streams_of(case: Case) -> int:
    """How many tables a statement reads in streaming mode, each as often as it is named; 0 in batch mode."""
    read = r"(?:tt|uu|vv) AS" if case.query.startswith("WITH") else r"[tuv]\b"
    return len(re.findall(rf"\b(?:FROM|JOIN|TABLE) {read}", case.query)) if case.is_streaming else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.differential_tables.soak", description=__doc__)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--first-seed", type=int, default=seed_of_commit())
    parser.add_argument("--several-streams", action="store_true", help="only statements that read two streams or more")
    arguments = parser.parse_args()
    made = map(case_of, itertools.count(arguments.first_seed))
    least = 2 if arguments.several_streams else 0
    cases = list(itertools.islice((case for case in made if streams_of(case) >= least), arguments.cases))
    found: Counter[str] = Counter()
    differs = 0
    for one in judged(cases):
        try:
            found[one.case.kind if check(one) else "not compared"] += 1
        except Exception as error:  # noqa: BLE001 - whatever it is, Flink gave rows
            print(f"seed {one.case.seed}: {type(error).__name__}: {error}", file=sys.stderr)
            differs += 1
    if differs:
        print(f"{differs} of {arguments.cases} statements differ from Flink", file=sys.stderr)
        return 1
    print(f"{len(cases)} statements, seeds {cases[0].seed} to {cases[-1].seed}: {dict(found)}: all as in Flink")
    return 0


if __name__ == "__main__":
    sys.exit(main())
