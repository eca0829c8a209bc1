"""Top-N statements whose last rank is a field give the changes of Flink 2.3 (``ranks.json``, by ``record.py``), also across a restore."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.contract.table_ranks.cases import ROWS, queries
from tests.unit.tidegate.table._execution.plan_run import PlanRun, file_rows
from tidegate.plan.exec_node_graph import decode_plan
from tidegate.plan.nodes import Rank1
from tidegate.plan.specs import VariableRange
from tidegate.testing import HarnessSnapshot

RECORDED = json.loads(Path(__file__).with_name("ranks.json").read_text("utf-8"))
FILES = {"t.csv": [list(map(str, row)) for row in ROWS]}
CONFIGURATION = {"execution.runtime-mode": "STREAMING"}


def run_of(case: dict[str, Any], restore: HarnessSnapshot | None = None) -> PlanRun:
    return PlanRun(decode_plan(json.dumps(case["plan"])), configuration=CONFIGURATION, restore=restore)


def expected(case: dict[str, Any]) -> list[tuple[str, tuple[str, ...]]]:
    return [(kind, tuple(values)) for kind, values in case["changes"]]


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: case["query"])
def test_changes_are_those_of_flink(case: dict[str, Any]) -> None:
    with run_of(case) as run:
        run.push_files(FILES)
        assert run.changes() == expected(case)


@pytest.mark.parametrize("cut", [1, 5])
def test_the_last_rank_of_a_partition_goes_through_a_snapshot(cut: int) -> None:
    for case in RECORDED:
        with run_of(case) as run:
            rows = file_rows(run.scans[0], FILES)
            for row in rows[:cut]:
                run.push(0, [row])
            snapshot = run.harness.snapshot()
            found = run.changes()
        with run_of(case, snapshot) as run:
            for row in rows[cut:]:
                run.push(0, [row])
            run.finish()
            assert found + run.changes() == expected(case), case["query"]


def test_the_recording_has_last_ranks_outside_of_the_partition() -> None:
    assert [case["query"] for case in RECORDED] == list(queries())
    ranks = [
        node for case in RECORDED for node in decode_plan(json.dumps(case["plan"])).nodes if isinstance(node, Rank1)
    ]
    ends = [node.rank_range.end_index for node in ranks if isinstance(node.rank_range, VariableRange)]
    assert len(ends) == len(RECORDED)
    assert sum(end not in node.partition.fields for end, node in zip(ends, ranks, strict=True)) == 7
