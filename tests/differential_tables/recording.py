"""Statements that Flink 2.3.0 ran, with their tables, plans and changelogs (``recorded.json.xz``).

python -m tests.differential_tables.recording [--cases 200] [--first-seed N]     records them anew, which takes some seconds for each
"""

from __future__ import annotations

import argparse
import json
import lzma
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path

import msgspec

from tests.differential_tables.cases import case_of
from tests.differential_tables.judge import Judged, judged
from tests.sim.seeds import BASE_SEED

_FILE = Path(__file__).with_name("recorded.json.xz")


@cache
def recorded() -> Sequence[Judged]:
    """All of them."""
    return msgspec.json.decode(lzma.decompress(_FILE.read_bytes()), type=list[Judged])


def write(cases: Sequence[Judged]) -> None:
    """Keeps those that Flink planned."""
    lines = [asdict(one) for one in cases if one.plan is not None]
    _FILE.write_bytes(lzma.compress(json.dumps(lines, ensure_ascii=False).encode(), preset=9 | lzma.PRESET_EXTREME))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.differential_tables.recording", description=__doc__)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--first-seed", type=int, default=BASE_SEED)
    arguments = parser.parse_args()
    write(judged([case_of(arguments.first_seed + number) for number in range(arguments.cases)]))


if __name__ == "__main__":
    main()
