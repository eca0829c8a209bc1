"""Statements that Flink 2.3.0 ran, with their tables, plans and changelogs: random ones (``recorded.json.xz``), those of ``chosen.py``
and ``found.py`` (``recorded_chosen.json.xz``), and those of ``families.py`` (``recorded_families.json.xz``).

python -m tests.differential_tables.recording [--cases 200] [--first-seed N]     records them anew, which takes some seconds for each
python -m tests.differential_tables.recording --chosen                           those of ``chosen.py`` and ``found.py``
python -m tests.differential_tables.recording --families                         those of ``families.py``
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
from tests.differential_tables.chosen import chosen
from tests.differential_tables.families import families
from tests.differential_tables.found import found
from tests.differential_tables.judge import Judged, judged
from tests.sim.seeds import BASE_SEED

_RANDOM = Path(__file__).with_name("recorded.json.xz")
_CHOSEN = Path(__file__).with_name("recorded_chosen.json.xz")
_FAMILIES = Path(__file__).with_name("recorded_families.json.xz")


def recorded() -> Sequence[Judged]:
    """The random ones."""
    return _read(_RANDOM)


def recorded_chosen() -> Sequence[Judged]:
    """Those of ``chosen.py``."""
    return _read(_CHOSEN)


def recorded_families() -> Sequence[Judged]:
    """Those of ``families.py``."""
    return _read(_FAMILIES)


@cache
def _read(file: Path) -> Sequence[Judged]:
    return msgspec.json.decode(lzma.decompress(file.read_bytes()), type=list[Judged])


def write(cases: Sequence[Judged], file: Path) -> None:
    """Keeps those that Flink planned."""
    lines = [asdict(one) for one in cases if one.plan is not None]
    file.write_bytes(lzma.compress(json.dumps(lines, ensure_ascii=False).encode(), preset=9 | lzma.PRESET_EXTREME))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.differential_tables.recording", description=__doc__)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--first-seed", type=int, default=BASE_SEED)
    parser.add_argument("--chosen", action="store_true")
    parser.add_argument("--families", action="store_true")
    arguments = parser.parse_args()
    if arguments.families:
        write(judged(families()), _FAMILIES)
    elif arguments.chosen:
        write(judged([*chosen(), *found()]), _CHOSEN)
    else:
        write(judged([case_of(arguments.first_seed + number) for number in range(arguments.cases)]), _RANDOM)


if __name__ == "__main__":
    main()
