"""docs/scenarios.md: all 25 scenarios, each with tests that exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "scenarios.md").read_text(encoding="utf-8")
ROWS = [line for line in PAGE.splitlines() if line.startswith("|") and "::" in line]
_TEST = re.compile(r"`([a-z_/]+\.py)::(test_[a-z0-9_]+)`")


@cache
def names_in(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def test_all_scenarios_are_there_once() -> None:
    numbers = [int(found[1]) for row in ROWS if (found := re.match(r"\| (\d+) \|", row))]
    assert numbers == list(range(1, 26))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip(" `"))
def test_every_test_that_is_named_exists(row: str) -> None:
    named = _TEST.findall(row)
    assert named
    assert row.count("::") == len(named), "a name that is not read as one"
    for file, test in named:
        assert test in names_in(ROOT / "tests" / "unit" / file), f"{file} has no {test}"
