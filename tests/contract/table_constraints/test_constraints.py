"""What becomes of rows that do not fit the columns of a sink's table, as in Flink 2.3 (``constraints.json.xz``, by ``record.py``)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.contract.table_constraints.record import recorded
from tests.unit.tidegate.table._execution.plan_run import PlanRun
from tidegate.functions.sql.constraints import Enforcers
from tidegate.functions.sql.scalar import EvaluationError
from tidegate.plan import UnsupportedPlan
from tidegate.plan.exec_node_graph import decode_plan
from tidegate.table._execution.rows import rows_of, value_text

RECORDED = recorded()
FLINKS_OWN = ("ClassCastException", "IndexOutOfBoundsException", "NullPointerException")
"""It fails with these where values of maps are nested: it reads them as keys."""


def lines(run: PlanRun) -> list[str]:
    found = []
    for batch in run.batches:
        for row in rows_of(batch, run.row_type):
            texts = [value_text(value, field.type) for value, field in zip(row, run.row_type.fields, strict=True)]
            found.append(f"{row.get_row_kind()}[{', '.join(texts)}]")
    return found


def printed(case: dict[str, Any], *, one_by_one: bool) -> list[str]:
    with PlanRun(decode_plan(json.dumps(case["plan"])), options=case["options"]) as run:
        run.push_files({}, one_by_one=one_by_one)
        return lines(run)


@pytest.mark.parametrize("one_by_one", [True, False])
def test_rows_are_written_dropped_or_refused_as_by_flink(one_by_one: bool) -> None:
    for case in RECORDED:
        label = f"{case['columns']} {case['options']} {case['query']}"
        if "refused" in case:
            with pytest.raises(UnsupportedPlan) as refused:
                Enforcers.of(case["options"])
            assert case["refused"].endswith(refused.value.message), label
        elif "error" in case and not any(name in case["error"] for name in FLINKS_OWN):
            with pytest.raises(EvaluationError) as failed:
                printed(case, one_by_one=one_by_one)
            assert case["error"].endswith(failed.value.message), label
        elif "error" not in case:
            assert sorted(printed(case, one_by_one=one_by_one)) == sorted(case["lines"]), label


def test_maps_with_nested_values_are_checked_where_flink_fails() -> None:
    own = [case for case in RECORDED if any(name in case.get("error", "") for name in FLINKS_OWN)]
    assert own
    for case in own:
        if case["options"]["table.exec.sink.not-null-enforcer"] == "DROP":
            kept = printed(case, one_by_one=False)
            assert not any("null" in line for line in kept)


def test_a_value_that_an_option_does_not_have_is_refused() -> None:
    with pytest.raises(UnsupportedPlan, match="Could not parse value 'no' for key 'table.exec.sink.not-null-enforcer'"):
        Enforcers.of({"table.exec.sink.not-null-enforcer": "no"})
