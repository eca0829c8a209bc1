"""Random cases of columns for as long as wanted; exits 1 at the first failure, whose seed it prints.

python -m tests.differential_columns.soak [--cases 5000] [--statements 2000] [--first-seed N]
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable

from tests.differential_columns.runner import check
from tests.differential_columns.statements import check_expression, check_sql
from tests.sim.seeds import seed_of_commit


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.differential_columns.soak", description=__doc__)
    parser.add_argument("--cases", type=int, default=5_000, help="of windows and running aggregates")
    parser.add_argument("--statements", type=int, default=2_000, help="of SQL, and ten times as many of expressions")
    parser.add_argument("--first-seed", type=int, default=seed_of_commit())
    arguments = parser.parse_args()
    first = arguments.first_seed
    return (
        _checked("cases", lambda seed: check(seed).kind, first, arguments.cases)
        or _checked("expressions", lambda seed: str(check_expression(seed)), first, 10 * arguments.statements)
        or _checked("queries", lambda seed: str(check_sql(seed)), first, arguments.statements)
    )


def _checked(what: str, one: Callable[[int], str], first_seed: int, count: int) -> int:
    """Returns the exit code."""
    found: Counter[str] = Counter()
    for seed in range(first_seed, first_seed + count):
        try:
            found[one(seed)] += 1
        except AssertionError as error:
            print(f"{what}: {error}", file=sys.stderr)
            return 1
    print(f"{count} {what} from seed {first_seed}: {dict(found)}: all as expected")
    return 0


if __name__ == "__main__":
    sys.exit(main())
