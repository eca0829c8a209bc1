"""LIKE and SIMILAR TO find what Flink 2.3 finds, with every escape (``patterns.json.xz``)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.contract.table_patterns.cases import cases
from tests.contract.table_patterns.record import recorded
from tests.unit.tidegate.table._execution.plan_run import PlanRun, file_rows
from tidegate.functions.sql.scalar import EvaluationError
from tidegate.plan import UnsupportedPlan
from tidegate.plan.exec_node_graph import decode_plan

RECORDED = recorded()
PLANNED = [one for one in RECORDED if "plan" in one]


def evaluated(case: dict[str, Any]) -> list[str | None]:
    with PlanRun(decode_plan(json.dumps(case["plan"]))) as run:
        rows = [[str(at), *row] for at, row in enumerate(case["rows"])]
        (scan,) = run.scans
        run.push(0, file_rows(scan, {"t.csv": [["<null>" if text is None else text for text in row] for row in rows]}))
        run.finish()
        return [values[1] for _, values in run.changes()]


def ours(case: dict[str, Any]) -> list[str | None] | str:
    """The values, or the reason why there are none."""
    try:
        return evaluated(case)
    except (EvaluationError, UnsupportedPlan) as error:
        return str(error)


DIFFERING = {"s SIMILAR TO '[a&&b]'": "Java's classes know intersections, which Python's have not"}
"""Why an expression differs."""
GROUPS = 8


def agrees(case: dict[str, Any]) -> bool:
    found = ours(case)
    return isinstance(found, str) if "error" in case else found == case["values"]


@pytest.mark.parametrize("group", range(GROUPS))
def test_texts_are_found_by_the_patterns_by_which_flink_finds_them(group: int) -> None:
    part = [case for case in PLANNED if case["expression"] not in DIFFERING][group::GROUPS]
    assert [case["expression"] for case in part if not agrees(case)] == []


def test_what_is_said_to_differ_does() -> None:
    assert [case["expression"] for case in PLANNED if not agrees(case)] == list(DIFFERING)


def test_every_case_was_recorded() -> None:
    assert [(one["expression"], one["rows"]) for one in cases()] == [
        (one["expression"], one["rows"]) for one in RECORDED
    ]
    assert sum("error" in one for one in PLANNED) > 40
