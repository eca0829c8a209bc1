"""``OVER``, ranks and windows in batch mode have the rows of Flink's batch mode, in its order where the plan has one (``recorded_batch``)."""

from __future__ import annotations

import pytest

from tests.unit.tidegate.table._execution.plan_run import PlanRun
from tests.unit.tidegate.table._execution.recorded_changelogs import names, statement
from tidegate.plan import UnsupportedPlan

_RECORDING = "recorded_batch"
_NO_ORDER = ("w-tumble-key", "w-hop", "w-cumulate", "w-join", "w-grouping-sets", "join-interval", "listagg-ordered")
"""Statements whose rows come in the order of Flink's hash tables."""


@pytest.mark.parametrize("name", [name for name in names(_RECORDING) if not statement(name, _RECORDING).fails])
def test_a_statement_has_the_rows_of_flink(name: str) -> None:
    recorded = statement(name, _RECORDING)
    with PlanRun(recorded.plan) as run:
        run.push_files(recorded.files)
        found = run.changes()
    wanted = list(recorded.changes)
    if name in _NO_ORDER:
        assert sorted(found, key=repr) == sorted(wanted, key=repr)
    else:
        assert found == wanted


@pytest.mark.parametrize("name", [name for name in names(_RECORDING) if statement(name, _RECORDING).fails])
def test_what_flink_refuses_is_refused_in_its_words(name: str) -> None:
    recorded = statement(name, _RECORDING)
    assert recorded.error is not None
    with pytest.raises(UnsupportedPlan) as raised:
        PlanRun(recorded.plan)
    assert recorded.error.partition(": ")[2].rstrip(".") in str(raised.value)
