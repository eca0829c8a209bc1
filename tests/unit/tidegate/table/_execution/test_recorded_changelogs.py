"""Flink's statements give Flink's changelogs (``recorded_changelogs``). What is not supported is refused by the name of its node, as ``not_yet.txt`` says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from tests.unit.tidegate.table._execution.plan_run import PlanRun, folded
from tests.unit.tidegate.table._execution.recorded_changelogs import Change, names, statement
from tidegate.plan import UnsupportedPlan


@cache
def _not_yet() -> Mapping[str, str]:
    lines = (Path(__file__).parent / "not_yet.txt").read_text("utf-8").splitlines()
    return dict(line.split(": ", 1) for line in lines)


@pytest.mark.parametrize("name", [name for name in names() if name not in _not_yet()])
def test_a_statement_has_the_changelog_of_flink(name: str) -> None:
    recorded = statement(name)
    if recorded.fails:
        with pytest.raises(Exception, match=r"."), PlanRun(recorded.plan, configuration={"pipeline.auto-watermark-interval": "1 ms"}) as run:
            run.push_files(recorded.files)
        return
    with PlanRun(recorded.plan, configuration={"pipeline.auto-watermark-interval": "1 ms"}) as run:
        run.push_files(recorded.files)
        found = run.changes()
    if recorded.is_exact:
        assert list(map(_comparable, found)) == list(map(_comparable, recorded.changes))
    else:
        assert folded(found) == folded(recorded.changes)


@pytest.mark.parametrize("name", _not_yet())
def test_a_statement_is_refused_by_the_name_of_its_node(name: str) -> None:
    with pytest.raises(UnsupportedPlan, match=re.escape(_not_yet()[name])):
        PlanRun(statement(name).plan)


def _comparable(change: Change) -> tuple[str, tuple[object, ...]]:
    """With the entries of maps in order: a map has none."""
    kind, row = change
    return kind, tuple(
        sorted(text[1:-1].split(", ")) if text and re.fullmatch(r"\{\w+=.*\}", text) else text for text in row
    )
