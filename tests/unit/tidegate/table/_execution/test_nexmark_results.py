"""Nexmark's queries (``e2e/jobs/nexmark.py``) give the rows of DuckDB, in jobs of this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.jobs.nexmark import QUERIES, build
from tests.e2e.nexmark_answers import answers, found_rows, rows_of_answer
from tests.unit.docs.test_guides import InThisProcess
from tests.unit.taskmanager.runtime import in_process
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream._graph.executor import installed

pytestmark = pytest.mark.timeout(600)
COUNT, RATE = 3_000, 100_000
GROUPS = ("q0,q1,q2,q10,q13,q14,q21,q22", "q5,q7,q8,q11,q12", "q3,q4,q9,q20,q23", "q15,q16,q17,q18,q19")


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole queries take longer than single operators, and a busy machine more so."""
    monkeypatch.setattr(in_process, "TIMEOUT_S", 200.0)


def test_each_query_is_in_a_group() -> None:
    assert sorted(QUERIES) == sorted(name for group in GROUPS for name in group.split(","))


@pytest.mark.parametrize("group", GROUPS)
def test_queries_give_the_rows_of_duckdb(group: str, tmp_path: Path) -> None:
    env = StreamExecutionEnvironment()
    env.set_parallelism(2)
    build(env, group.split(","), COUNT, 0, RATE, str(tmp_path / "out")).attach_as_datastream()
    executor: Any = InThisProcess(tmp_path)  # jobs that are waited for are all that it takes
    with installed(executor):
        env.execute()
    database = answers(COUNT)
    for name in group.split(","):
        place, wanted = tmp_path / "out" / name, rows_of_answer(database, name)
        found = found_rows(name, place, next(iter(wanted)))
        if name == "q12":  # windows that are open at the end give nothing
            most: dict[Any, Any] = {bidder: bids for bidder, bids in wanted}  # noqa: C416  (rows of two, which a type does not say)
            assert all(bids <= most[bidder] for bidder, bids in found)
        else:
            assert found == wanted, (name, list((found - wanted).items())[:3], list((wanted - found).items())[:3])
