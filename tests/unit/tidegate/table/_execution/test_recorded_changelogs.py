"""Flink's statements give Flink's changelogs (``recorded_changelogs``)."""

from __future__ import annotations

import re

import pytest

from tests.unit.tidegate.table._execution.plan_run import PlanRun, folded
from tests.unit.tidegate.table._execution.recorded_changelogs import Change, names, statement
from tidegate.functions.sql.scalar import EvaluationError
from tidegate.model.errors import UserError

_CONFIGURATION = {"pipeline.auto-watermark-interval": "1 ms"}
"""As it was recorded."""
_OWN_ORDER = {
    "agg-mini-batch-two-phase": "keys of a mini-batch come in the order of Flink's hash table",
    "join-cross-cdc": "one file reaches both sides of a join through aggregates and exchanges: the order is that of Flink's buffers",
    "join-interval-left": "two files are read side by side",
    "join-nonequi": "rows that match one row come in the order of Flink's hash table",
    **dict.fromkeys(
        ("window-grouping-sets", "window-hop", "window-join", "window-legacy-tumble", "window-tumble-offset"),
        "windows of several keys that end together come in the order of Flink's timers",
    ),
}
"""Statements whose changelogs were always the same in Flink, by an order of its own: the rows that are left are compared."""
_RUNS_HERE = {"error-regular-join-rowtime"}
"""Flink refuses to sort the rows of a stream by what is no time attribute, even where they end."""


@pytest.mark.parametrize("name", names())
def test_a_statement_has_the_changelog_of_flink(name: str) -> None:
    recorded = statement(name)
    one_by_one = "table.exec.mini-batch.enabled" not in recorded.options
    with PlanRun(recorded.plan, configuration=_CONFIGURATION, zone=recorded.zone) as run:
        if name in _RUNS_HERE:
            run.push_files(recorded.files)
            times = [row[1] for _, row in run.changes()]
            assert times == sorted(times, key=str)
            assert len(times) == 12
            return
        if recorded.fails:
            with pytest.raises((EvaluationError, UserError)):
                run.push_files(recorded.files, one_by_one=one_by_one)
            return
        run.push_files(recorded.files, one_by_one=one_by_one)
        found = run.changes()
    if recorded.is_exact and name not in _OWN_ORDER:
        assert list(map(_comparable, found)) == list(map(_comparable, recorded.changes))
    else:
        assert folded(found) == folded(recorded.changes)


def _comparable(change: Change) -> tuple[str, tuple[object, ...]]:
    """With the entries of maps in order: a map has none."""
    kind, row = change
    return kind, tuple(
        sorted(text[1:-1].split(", ")) if text and re.fullmatch(r"\{\w+=.*\}", text) else text for text in row
    )
