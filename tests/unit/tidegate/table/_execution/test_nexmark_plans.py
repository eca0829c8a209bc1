"""The statements of Nexmark that run through kills (``e2e/jobs/nexmark.py``) have the plans that Flink made of the official ones."""

from __future__ import annotations

import json

import pytest

from tests.e2e.jobs.nexmark import COLUMNS, QUERIES, TIME, WATERMARK, insert, make_views
from tests.unit.tidegate.plan.recorded import plan_names, plan_text
from tidegate.table import EnvironmentSettings, TableEnvironment

pytestmark = pytest.mark.timeout(300)
_OFFICIAL = [name for name in QUERIES if f"nexmark/{name}.json" in plan_names()]
_COMPARED = (
    "projection", "condition", "grouping", "windowing", "window", "joinSpec", "rankRange", "partition", "orderBy", "watermarkExpr", "inputProperties"
)  # fmt: skip
"""What a node does, but for what its names are in."""


@pytest.fixture(scope="module")
def tables() -> TableEnvironment:
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    columns = [f"{name} {type}" for name, type in COLUMNS.items()]
    columns += [f"`dateTime` AS {TIME}", f"WATERMARK FOR `dateTime` AS {WATERMARK}"]
    made.execute_sql(f"CREATE TABLE datagen ({', '.join(columns)}) WITH ('connector' = 'datagen')")
    make_views(made)
    return made


def test_all_that_flink_compiles_are_there() -> None:
    """Flink 2.3 can neither read the text of q23 that Nexmark has nor make the table that q13 looks up."""
    assert set(QUERIES) - set(_OFFICIAL) == {"q13", "q23"}
    assert {f"nexmark/{name}.json" for name in _OFFICIAL} == {n for n in plan_names() if n.startswith("nexmark/q")}


@pytest.mark.parametrize("name", _OFFICIAL)
def test_a_statement_has_the_plan_of_the_official_one(name: str, tables: TableEnvironment) -> None:
    plan = tables.compile_plan_sql(insert(tables, name, "/out")).as_json_string()
    assert _steps(plan) == _steps(plan_text(f"nexmark/{name}.json"))


def _steps(plan: str | bytes) -> list[dict[str, object]]:
    """What each node does, in order."""
    nodes = json.loads(plan)["nodes"]
    return [{"type": node["type"]} | {key: node[key] for key in _COMPARED if key in node} for node in nodes]
