"""Statements with MATCH_RECOGNIZE, with the rows, refusals and failures of Flink 2.3 (``record.py``), also across a restore in the middle of the rows."""

from __future__ import annotations

import json
import lzma
import re
from pathlib import Path
from typing import Any

import pytest

from tests.contract.match_recognize.cases import chosen, grouped
from tests.unit.tidegate.table._execution.plan_run import PlanRun, file_rows
from tidegate.functions.sql.scalar import EvaluationError
from tidegate.model.errors import UserError
from tidegate.plan import UnsupportedPlan
from tidegate.plan.exec_node_graph import decode_plan
from tidegate.taskmanager.harness.operators import HarnessSnapshot

RECORDED, CHOSEN, GROUPED = (
    json.loads(lzma.decompress(Path(__file__).with_name(f"{name}.json.xz").read_bytes()))
    for name in ("recorded", "chosen", "grouped")
)
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
    for case in [*PLANNED, *(case for case in [*CHOSEN, *GROUPED] if "plan" in case)][part::PARTS]:
        if "error" in case:
            with pytest.raises((EvaluationError, UserError)) as failure, run_of(case) as run:
                run.push_files(files_of(case))
            if isinstance(failure.value, UnsupportedPlan):  # Flink refuses when it runs what is refused here before
                words = case["error"].partition("Exception: ")[2].splitlines()[0]
                words = re.sub(r"^Expression not supported: .*\)\.? ", "", words).strip()
                assert words in failure.value.message, case["query"]
            continue
        with run_of(case) as run:
            run.push_files(files_of(case))
            found = run.changes()
        expected = [(kind, tuple(values)) for kind, values in case["changes"]]
        assert sorted(found, key=repr) == sorted(expected, key=repr), case["query"]
        if "PARTITION BY" not in case["query"]:  # several keys come in the order of Flink's timers
            assert found == expected, case["query"]


def test_the_chosen_statements_are_those_that_flink_ran() -> None:
    assert [(case["query"], case["tables"][0]["rows"]) for case in chosen()] == [
        (case["query"], case["rows"]) for case in CHOSEN
    ]
    assert [(case["query"], case["tables"][0]["rows"]) for case in grouped()] == [
        (case["query"], case["rows"]) for case in GROUPED
    ]


def test_a_subset_has_no_rows_as_in_flink_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    case = next(case for case in GROUPED if "SUM(U.price) AS s, SUM(V.price) AS t" in case["query"])
    assert case["changes"] == [["+I", ["p", None, None, "0"]]]
    with run_of(case):
        (line,) = [record.getMessage() for record in caplog.records if "subset" in record.getMessage()]
    assert "stream-exec-match_1: the subsets U, V have no rows in MEASURES, as in Flink 2.3" in line


def test_running_is_refused_as_flink_does_and_final_changes_nothing() -> None:
    running, final = (
        [case for case in GROUPED if word in case["query"] and "plan" in case] for word in ("RUNNING ", "FINAL ")
    )
    for case in running:
        assert "Unsupported call: RUNNING(" in case["error"]
        with pytest.raises(UnsupportedPlan, match=r"Unsupported call: RUNNING\("):
            run_of(case)
    assert len(running) > 6
    assert len([case for case in final if "changes" in case]) > 6


@pytest.mark.parametrize(
    ("measures", "expected"),
    [
        ("A.id AS a, SUM(A.price * 2) AS s, SUM(B.price + B.id) AS t", ("1", "18", "4")),
        ("SUM(CASE WHEN B.price > 3 THEN B.price ELSE 0 END) AS s, COUNT(B.id) AS c", ("8", "3")),
        ("SUM(B.price * 2 + 1) / COUNT(B.price) AS s", ("7",)),
    ],
)
def test_a_measure_aggregates_an_expression_over_the_rows_of_its_variable(
    measures: str, expected: tuple[str, ...]
) -> None:
    case = next(case for case in CHOSEN if f"MEASURES {measures} ONE" in case["query"])
    prices = [5, 4, 2, 4, 5]  # A and three of B, which are below A, or with A+ two and one; then C
    rows = [
        [str(number), "p", str(price), "1.00", "x", f"2024-01-01 00:00:{number:02}.000"]
        for number, price in enumerate(prices)
    ]
    with run_of(case) as run:
        run.push_files({"trades.csv": rows})
        assert run.changes() == [("+I", ("p", *expected))]


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
