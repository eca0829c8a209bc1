"""Statements with MATCH_RECOGNIZE, with the rows, refusals and failures of Flink 2.3 (``record.py``), also across a restore in the middle of the rows."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from tests.unit.tidegate.table._execution.plan_run import PlanRun, file_rows
from tidegate.functions.sql.scalar import EvaluationError
from tidegate.model.errors import UserError
from tidegate.plan import UnsupportedPlan
from tidegate.plan.exec_node_graph import decode_plan
from tidegate.taskmanager.harness.operators import HarnessSnapshot

RECORDED: list[dict[str, Any]] = json.loads(lzma.decompress(Path(__file__).with_name("recorded.json.xz").read_bytes()))
"""``refused``: it was not planned; ``error``: it failed when it ran; otherwise ``changes``."""
PLANNED = [case for case in RECORDED if "plan" in case]
PARTS = 6
CONFIGURATION = {"pipeline.auto-watermark-interval": "1 ms"}
"""As it was recorded."""


def files_of(case: dict[str, Any]) -> dict[str, Any]:
    return {"trades.csv": case["rows"]}


def run_of(case: dict[str, Any], restore: HarnessSnapshot | None = None) -> PlanRun:
    return PlanRun(decode_plan(json.dumps(case["plan"])), configuration=CONFIGURATION, restore=restore)


@pytest.mark.parametrize("part", range(PARTS))
def test_statements_have_the_rows_of_flink(part: int) -> None:
    for case in PLANNED[part::PARTS]:
        if "error" in case:
            with pytest.raises((EvaluationError, UserError)) as failure, run_of(case) as run:
                run.push_files(files_of(case))
            if isinstance(failure.value, UnsupportedPlan):  # Flink refuses when it runs what is refused here before
                words = case["error"].partition("Exception: ")[2].splitlines()[0].rpartition("). ")[2]
                assert words in failure.value.message, case["query"]
            continue
        with run_of(case) as run:
            run.push_files(files_of(case))
            found = run.changes()
        expected = [(kind, tuple(values)) for kind, values in case["changes"]]
        assert sorted(found, key=repr) == sorted(expected, key=repr), case["query"]
        if "PARTITION BY" not in case["query"]:  # several keys come in the order of Flink's timers
            assert found == expected, case["query"]


@pytest.mark.parametrize("cut", [3, 9])
def test_partial_matches_go_through_a_snapshot(cut: int) -> None:
    for case in [case for case in PLANNED if case.get("changes")][::5]:
        with run_of(case) as run:
            rows = list(file_rows(run.scans[0], files_of(case)))
            for row in rows[:cut]:
                run.push(0, [row])
            snapshot = run.harness.snapshot()
            found = run.changes()
        with run_of(case, snapshot) as run:
            for row in rows[cut:]:
                run.push(0, [row])
            run.finish()
            found += run.changes()
        assert sorted(found, key=repr) == sorted(((kind, tuple(row)) for kind, row in case["changes"]), key=repr), case[
            "query"
        ]


def test_the_recording_has_all_that_it_is_about() -> None:
    assert sum(bool(case.get("changes")) for case in RECORDED) > 20
    assert any("TableException" in case.get("error", "") for case in RECORDED)
    queries = " ".join(case["query"] for case in PLANNED if case.get("changes"))
    assert all(
        part in queries
        for part in ("WITHIN", "SKIP TO NEXT ROW", "SKIP TO LAST", "FIRST(", "SUM(", "+?", "MATCH_ROWTIME")
    )
