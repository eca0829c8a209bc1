"""The page of tests: for each promise of the status page the lane of the test that shows it, and what left the merge lane."""

from __future__ import annotations

import re
from pathlib import Path

from tests.lanes import QUARTERS, cut, lanes_of_file, read_table

_ROOT = Path(__file__).resolve().parents[2]
_TEST = re.compile(r"`((?:[a-z0-9_]+/)+test_[a-z0-9_]+\.py)`")
_INTRODUCTION = """# Tests, and when they run

Two lanes, so that a change is judged within half an hour and nothing is lost:

| lane | command | is | takes, on two processors |
|---|---|---|---|
| merge | `make test` | lint and types, units, planted bugs and a sample of the simulators' schedules, one end-to-end test for each mechanism and connector, the page, the site, the wheel | some 35 minutes |
| a quarter of the rest | `.ci/quarter [0-3]` | further kills, schedules, connectors and clusters, and one of the promised versions; without a number, the one that the hash of the commit chooses | 12 minutes |
| with security | `.ci/secured` | tests of the main job, of the page, of kills and of Kafka again, with TLS on every connection, users and tokens; quarter 1 runs it | 3 minutes |
| both | `.ci/run` | what CI runs for each commit, in a clean clone on a new machine | 40 minutes |
| all | `make test-all` | the merge lane, all four quarters, all versions, schedules with the seeds of the commit; what failed first and passed when it was repeated fails it | 90 minutes |
| beyond | `make soak` | what takes hours: stops of 90 seconds, millions of records, new examples of properties, Spark 4.2 | hours |

Each run ends with its processor seconds by the kernel's accounting, and with the number of processes that it started. A test that fails beside others runs
once more alone; when it passes then, it is listed as flaky at the end.

**A new test** belongs to the merge lane. One that takes more than a few seconds of processor time leaves it by an entry in `tests/lanes.toml`, which names the
tests of the merge lane, or the planted bugs, that find the same defect; a test checks that these exist and stayed.

One folder: `.venv/bin/python -m pytest tests/unit/tidegate/connectors`. One end-to-end test: `.venv/bin/python -m pytest tests/e2e/test_kills.py`. What a
file costs: `--processor-seconds FILE` writes the seconds of each test.
"""


def lanes_page() -> list[str]:
    """Its lines."""
    return [
        *_INTRODUCTION.rstrip().splitlines(),
        "",
        "## Which test shows what, and when it runs",
        "",
        "The features are those of [the status page](../status.md).",
        "",
        "| feature | test | lane |",
        "|---|---|---|",
        *_promises(),
        "",
        "## What left the merge lane, and what stands in for it",
        "",
        "`tests/lanes.toml`, as a table. A planted bug is one that the simulators have to catch.",
        "",
        "| tests | stay in the merge lane | quarter | stand in for it |",
        "|---|---|---|---|",
        *_left(),
    ]


def _promises() -> list[str]:
    lines = []
    for row in (_ROOT / "docs" / "status.md").read_text(encoding="utf-8").splitlines():
        cells = row.split("|")
        tests = _TEST.findall(row)
        if not row.startswith("| ") or not tests:
            continue
        feature = re.sub(r" ?\((\[[^]]*\]\([^)]*\)(, )?)+\)", "", cells[1].strip())
        feature = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", feature)
        for test in tests:
            lines.append(f"| {feature} | `{test}` | {', '.join(_lanes(test))} |")
            feature = "〃"
    return lines


def _lanes(file: str) -> list[str]:
    text = (_ROOT / "tests" / file).read_text(encoding="utf-8")
    slow = re.search(r"^pytestmark = .*mark\.slow", text, re.MULTILINE)
    names = ["`make soak`"] if slow else [lane.replace("-", " ") for lane in lanes_of_file(file)]
    return names if slow or "mark.slow" not in text else [*names, "`make soak`"]


def _left() -> list[str]:
    quarters = cut(read_table())
    assert set(quarters.values()) <= set(range(QUARTERS))
    return [
        f"| `{entry.tests}` | {_code(entry.kept)} | {quarters[entry.file]} | {_code(entry.stand_ins)} |"
        for entry in read_table()
    ]


def _code(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name or 'without parameters'}`" for name in names)
