"""Aggregate functions of users in windows give what PyFlink 2.3 gives (``aggregates.json``, by ``record.py``)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.contract.table_aggregates.cases import CHANGES, DELAY_S, ROWS, api, functions, programs
from tests.unit.tidegate.table._execution.plan_run import KINDS, PlanRun, file_rows
from tidegate.model.errors import TidegateError
from tidegate.plan import decode_plan
from tidegate.table import EnvironmentSettings, TableEnvironment
from tidegate.table._connectors.registry import COLLECT
from tidegate.table._planner.plans import plan_text
from tidegate.testing import HarnessSnapshot

pytestmark = pytest.mark.timeout(300)

RECORDED: dict[str, Any] = json.loads((Path(__file__).parent / "aggregates.json").read_text("utf-8"))
A = api("tidegate")
PROGRAMS = programs()
_CLASS = re.compile(r"^(?:[\w.$]+(?:Error|Exception): )+")
RUNS_HERE = {
    name
    for name, found in RECORDED.items()
    if name.startswith("mean with count ") or "Window SessionGroupWindow(" in str(found) or "hangs" in found
} - {"mean with count session"} | {"in_order with first_value slide"}
"""Programs that Flink does not run: functions of pandas with Flink's own (there a NullPointerException), in sessions in batch mode, and in windows with gaps
between them in batch mode, where its operator loops; and FIRST_VALUE beside a function of rows in windows that overlap."""
DIFFERS = {
    "distinct tumble": [
        ["+I", "a", "0 1 2"],
        ["+I", "a", "0 1 2"],
        ["+I", "a", "None"],
        ["+I", "b", "0"],
        ["+I", "b", "1"],
        ["+I", "b", "2 None"],
        ["+I", None, "1"],
        ["+I", None, "None"],
    ],
    "distinct slide": None,
    "distinct session": None,
    "distinct pandas tumble": None,
    "distinct pandas slide": None,
    "filter pandas tumble": [["+I", key, "0"] for key in ("a", "a", "a", "b", "b", "b", None, None)],
    "filter pandas slide": None,
    "filter pandas tumble batch": None,
    "filter pandas slide batch": None,
    "mean tumble changes": [
        ["+I", "a", "3.0", "2020-01-01 00:00:00.000", "2020-01-01 00:00:10.000"],
        ["+I", "a", "3.0", "2020-01-01 00:00:10.000", "2020-01-01 00:00:20.000"],
        ["+I", "b", "6.0", "2020-01-01 00:00:10.000", "2020-01-01 00:00:20.000"],
    ],
    "mean slide changes": [
        ["+I", "a", "2.5", "2019-12-31 23:59:55.000", "2020-01-01 00:00:05.000"],
        ["+I", "a", "3.0", "2020-01-01 00:00:00.000", "2020-01-01 00:00:10.000"],
        ["+I", "a", "3.0", "2020-01-01 00:00:05.000", "2020-01-01 00:00:15.000"],
        ["+I", "a", "3.0", "2020-01-01 00:00:10.000", "2020-01-01 00:00:20.000"],
        ["+I", "b", "6.0", "2020-01-01 00:00:05.000", "2020-01-01 00:00:15.000"],
        ["+I", "b", "6.0", "2020-01-01 00:00:10.000", "2020-01-01 00:00:20.000"],
    ],
    "mean two changes": [["+I", "a", "2.0"], ["+I", "a", "3.5"]],
    "mean three_two changes": [["+I", "a", mean] for mean in ("2.5", "3.0", "4.0", "4.0")] + [["+I", "b", "6.0"]],
}
"""Our results, or ``None``: they are shown by other tests. Flink counts the values of DISTINCT of a function of rows over all windows of all keys, and looks at
neither DISTINCT nor FILTER of one of pandas, for which it takes rows that go for rows that come."""
OUR_WORDS = {
    "/ by zero": "a window of rows needs a size and a slide of at least one row",
    "integer division or modulo by zero": "a window of rows needs a size and a slide of at least one row",
}


def environment(mode: str) -> TableEnvironment:
    made = TableEnvironment.create(
        EnvironmentSettings.in_batch_mode() if mode == "batch" else EnvironmentSettings.in_streaming_mode()
    )
    made.get_config().set("table.local-time-zone", "UTC")
    watermark = "" if mode == "batch" else f", WATERMARK FOR ts AS ts - INTERVAL '{DELAY_S}' SECOND"
    form = "'debezium-json'" if mode == "changes" else "'csv', 'csv.null-literal' = 'null'"
    made.execute_sql(
        f"CREATE TABLE v (k STRING, n BIGINT, x DOUBLE, ts TIMESTAMP(3), pt AS PROCTIME(){watermark}) "
        f"WITH ('connector' = 'filesystem', 'path' = '/in/v', 'format' = {form})"
    )
    for name, function in functions(A).items():
        made.create_temporary_system_function(name, function)
    return made


@pytest.fixture(scope="module")
def environments() -> dict[str, TableEnvironment]:
    return {mode: environment(mode) for mode in ("stream", "changes", "batch")}


def started(
    tables: TableEnvironment, name: str, restore: HarnessSnapshot | None = None, backend: str = "hashmap"
) -> PlanRun:
    program = PROGRAMS[name]
    table = program.make(A, tables)
    with tables.planner.errors():
        target = tables.planner.api.TableDescriptor.forConnector(COLLECT).build()
        text = plan_text(table._j_table.insertInto(target).compilePlan(), tables.planner)
    return PlanRun(
        decode_plan(text),
        has_updates=program.mode == "changes",
        functions=tables._known.by_plan_name(),
        restore=restore,
        configuration={"state.backend.type": backend},
    )


def push(run: PlanRun, mode: str, start: int = 0, stop: int | None = None) -> None:
    """Rows of the input one by one."""
    given = CHANGES if mode == "changes" else [("+I", row) for row in ROWS]
    for kind, row in given[start:stop]:
        run.push(0, file_rows(run.scans[0], {"v": [row]}), [KINDS.index(kind)])


def emitted(*runs: list[tuple[str, tuple[str | None, ...]]]) -> list[list[Any]]:
    return sorted(([kind, *row] for changes in runs for kind, row in changes), key=repr)


def ran(tables: TableEnvironment, name: str) -> list[list[Any]]:
    with started(tables, name) as run:
        push(run, PROGRAMS[name].mode)
        run.finish()
        return emitted(run.changes())


@pytest.mark.parametrize("name", [name for name, found in RECORDED.items() if isinstance(found, list)])
def test_windows_have_flinks_results(name: str, environments: dict[str, TableEnvironment]) -> None:
    found = ran(environments[PROGRAMS[name].mode], name)
    if name in DIFFERS:
        assert found != RECORDED[name]
        assert DIFFERS[name] in (None, found)
    else:
        assert found == RECORDED[name]


@pytest.mark.parametrize("name", [name for name, found in RECORDED.items() if isinstance(found, dict)])
def test_what_flink_refuses_is_refused_in_its_words(name: str, environments: dict[str, TableEnvironment]) -> None:
    if name in RUNS_HERE:
        assert ran(environments[PROGRAMS[name].mode], name)
        return
    (reason,) = RECORDED[name].values()
    words = _CLASS.sub("", reason).removesuffix(":")
    with pytest.raises((TidegateError, AttributeError), match=re.escape(OUR_WORDS.get(words, words))):
        ran(environments[PROGRAMS[name].mode], name)


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize(
    "name",
    [
        "texts slide",
        "in_order slide_panes",
        "views slide",
        "ordered slide",
        "ordered tumble",
        "in_order session",
        "views three_two",
        "ordered three_two",
        "built in three_two",
        "ordered two_three",
    ],
)
def test_windows_go_on_from_a_snapshot_in_their_middle(
    name: str, backend: str, environments: dict[str, TableEnvironment]
) -> None:
    tables = environments["stream"]
    for middle in (3, 10):
        with started(tables, name, backend=backend) as run:
            push(run, "stream", 0, middle)
            before, snapshot = run.changes(), run.harness.snapshot()
        with started(tables, name, snapshot, backend) as run:
            push(run, "stream", middle)
            run.finish()
            assert emitted(before, run.changes()) == RECORDED[name]
