"""`tests/lanes.toml`: what left the merge lane exists, and what stands in for it stayed there."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache

import pytest

from tests.lanes import LANES, MERGE, OF_VERSIONS_S, TABLE, Entry, cut, lane_of, read_table
from tests.sim.test_planted_bugs import PLANTS

COLLECT_LIMIT_S = 500
PLANTED = "planted: "
pytestmark = pytest.mark.timeout(COLLECT_LIMIT_S)  # a process collects the tests, beside other tests


@cache
def collected() -> tuple[str, ...]:
    """Every test that the table could name, as node ids below `tests`; those that are `slow` are in no lane."""
    folders = sorted({f"tests/{name.partition('::')[0]}" for entry in read_table() for name in named(entry)})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-m", "not slow"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}  # of the outer run
    done = subprocess.run(
        [*command, *folders],
        cwd=TABLE.parents[1],
        env=environment,
        capture_output=True,
        text=True,
        timeout=COLLECT_LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return tuple(line.removeprefix("tests/") for line in done.stdout.splitlines() if "::" in line)


@cache
def stayed() -> tuple[str, ...]:
    return tuple(node for node in collected() if lane_of(node) == MERGE)


def named(entry: Entry) -> list[str]:
    return [entry.tests, *(name for name in entry.stand_ins if not name.startswith(PLANTED))]


@pytest.mark.parametrize("entry", read_table(), ids=lambda entry: entry.tests)
def test_what_left_exists_and_what_stands_in_for_it_stayed(entry: Entry) -> None:
    assert any(entry.names(node) for node in collected()), "no test has this name"
    assert entry.stand_ins, "nothing stands in for it"
    names = {plant.name for plant in PLANTS}
    for stand_in in entry.stand_ins:
        if stand_in.startswith(PLANTED):
            assert stand_in.removeprefix(PLANTED) in names, f"no planted bug is called so: {stand_in}"
        else:
            alike = Entry(stand_in, (), 0)
            assert any(alike.names(node) for node in stayed()), f"it is not in the merge lane: {stand_in}"


def test_no_test_is_named_twice() -> None:
    twice = {node for node in collected() if sum(entry.names(node) for entry in read_table()) > 1}
    assert twice == set()


def test_every_test_is_in_one_lane_and_the_quarters_are_alike() -> None:
    assert {lane_of(node) for node in collected()} == set(LANES)
    sums = list(OF_VERSIONS_S)
    for entry in read_table():
        sums[cut(read_table())[entry.file]] += entry.seconds
    assert max(sums) < 1.25 * min(sums), sums


def test_parameters_that_are_kept_stay() -> None:
    entry = Entry("e2e/test_a.py::test_it", ("unit",), 1, kept=("columns", "columns-*"))
    assert entry.names("e2e/test_a.py::test_it[messages-1]")
    assert not entry.names("e2e/test_a.py::test_it[columns-1]")
    assert not entry.names("e2e/test_a.py::test_it_too[messages]")
    assert lane_of("e2e/test_a.py::test_it[columns]", (entry,)) == MERGE
    assert lane_of("e2e/test_a.py::test_it[x]", (entry,)) == "quarter-3", "the quarter with the least versions"
