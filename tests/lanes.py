"""A pytest plugin: the lane in which a test runs.

- The *merge lane* (``--lane merge``) is what ``make test`` runs: every test that ``tests/lanes.toml`` does not name.
- The *rest* is what the table names, each entry with the tests of the merge lane that stand in for it. It is cut into four *quarters*
  (``--lane quarter-0`` to ``quarter-3``) of about the same processor time; ``.ci/run`` adds the one that the hash of its commit chooses.
- Tests with the mark ``slow`` run in ``make soak`` alone.

Without ``--lane`` every test that was asked for runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from xdist.scheduler import LoadFileScheduling

TABLE = Path(__file__).with_name("lanes.toml")
QUARTERS = 4
OF_VERSIONS_S = (480.0, 80.0, 80.0, 0.0)
"""Processor time of the versions that a quarter runs beside its tests (``.ci/quarter``): the lowest, 3.12, 3.13, and the one of every other test."""
MERGE = "merge"
LANES = (MERGE, *(f"quarter-{number}" for number in range(QUARTERS)))


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Tests that left the merge lane."""

    tests: str
    """A folder, a file, or a node id without its parameters, below ``tests``."""
    stand_ins: tuple[str, ...]
    """Tests of the merge lane (files or node ids), or ``planted: NAME`` for a planted bug of the simulators."""
    seconds: float
    """Processor time, as measured or estimated: the quarters are balanced by it."""
    kept: tuple[str, ...] = ()
    """Patterns of parameters that stay in the merge lane."""
    quarter: int | None = None
    """Its quarter, where that is not to be chosen by time."""

    def names(self, node: str) -> bool:
        """Whether a node id (below ``tests``) is among them."""
        name, _, parameters = node.partition("[")
        if not (name == self.tests or name.startswith((f"{self.tests}::", f"{self.tests}/"))):
            return False
        return not any(fnmatchcase(parameters.removesuffix("]"), pattern) for pattern in self.kept)

    @property
    def file(self) -> str:
        return self.tests.partition("::")[0]


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    left: tuple[Entry, ...]


@cache
def read_table(path: Path = TABLE) -> tuple[Entry, ...]:
    """Raises ``msgspec.ValidationError`` for a field that is not known, missing or of another type."""
    return msgspec.toml.decode(path.read_bytes(), type=_Table).left


@cache
def cut(entries: tuple[Entry, ...]) -> Mapping[str, int]:
    """File -> its quarter: the longest first, each to the quarter with the least so far, its versions counted. A file stays whole, since its tests
    share servers."""
    seconds: dict[str, float] = {}
    quarters = {}
    for entry in entries:
        if entry.quarter is not None:
            quarters[entry.file] = entry.quarter
        else:
            seconds[entry.file] = seconds.get(entry.file, 0.0) + entry.seconds
    sums = list(OF_VERSIONS_S)
    for file in sorted(seconds, key=lambda name: (-seconds[name], name)):
        quarters[file] = sums.index(min(sums))
        sums[quarters[file]] += seconds[file]
    return quarters


@cache
def lanes_of_file(file: str) -> tuple[str, ...]:
    """The lanes in which tests of a file below ``tests`` run."""
    entries = read_table()
    ours = [entry for entry in entries if entry.file == file or file.startswith(f"{entry.file}/")]
    whole = any("::" not in entry.tests and not entry.kept for entry in ours)
    left = sorted({f"quarter-{cut(entries)[entry.file]}" for entry in ours})
    return tuple(left) if whole else (MERGE, *left)


def lane_of(node: str, entries: tuple[Entry, ...] | None = None) -> str:
    """The lane of a test by its node id below ``tests``."""
    entries = read_table() if entries is None else entries
    found = next((entry for entry in entries if entry.names(node)), None)
    return MERGE if found is None else f"quarter-{cut(entries)[found.file]}"


def below_tests(item: pytest.Item) -> str:
    """Its node id, from the folder ``tests`` on."""
    file = item.path.relative_to(TABLE.parent).as_posix() if item.path.is_relative_to(TABLE.parent) else item.path.name
    _, separator, rest = item.nodeid.partition("::")
    return file + separator + rest


class ByConfiguration(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """Hands out whole files, and in one piece those that share a cluster beside the usual one (``tests/e2e/pool.py``)."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return _shared_cluster(file) or file


@cache
def _shared_cluster(file: str) -> str | None:
    """Returns the name of the fixture of the cluster that its tests share, beside the usual one."""
    path = TABLE.parents[1] / file
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return next((name for name in ("surviving_cluster", "spread_cluster") if f"{name}: Cluster" in text), None)


@pytest.hookimpl(tryfirst=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByConfiguration | None:
    """``--dist loadfile``."""
    return ByConfiguration(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--lane", choices=LANES, help="only the tests of this lane (tests/lanes.py)")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A file without a test of the lane is not imported: collecting all of them takes each worker half a minute."""
    lane = config.getoption("--lane")
    if (
        lane is None
        or not fnmatchcase(collection_path.name, "test_*.py")
        or not collection_path.is_relative_to(TABLE.parent)
    ):
        return None
    return lane not in lanes_of_file(collection_path.relative_to(TABLE.parent).as_posix()) or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    lane = config.getoption("--lane")
    if lane is None:
        return
    quarters = cut(read_table())
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        node = below_tests(item)
        entry = next((entry for entry in read_table() if entry.names(node)), None)
        (kept if lane == (MERGE if entry is None else f"quarter-{quarters[entry.file]}") else left).append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = kept
