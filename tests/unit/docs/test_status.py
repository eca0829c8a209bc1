"""docs/status.md: every feature stands beside tests that exist, and every table says what is not there."""

from __future__ import annotations

import re

import pytest

from tests.architecture.source import ROOT

PAGE = (ROOT / "docs" / "status.md").read_text(encoding="utf-8")
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| feature")]
_TEST = re.compile(r"`((?:[a-z0-9_]+/)+test_[a-z0-9_]+\.py)`")


def test_there_are_features_and_what_is_missing() -> None:
    assert len(ROWS) > 50
    assert PAGE.count("| *not yet:* ") == PAGE.count("| feature | shown by |") > 4


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip()[:40])
def test_a_feature_names_tests_that_exist(row: str) -> None:
    _, feature, shown_by, _ = row.split("|")
    named = _TEST.findall(shown_by)
    assert bool(named) != feature.strip().startswith("*not yet:*")
    assert shown_by.count(".py") == len(named), "a name that is not read as one"
    assert [name for name in named if not (ROOT / "tests" / name).is_file()] == []
