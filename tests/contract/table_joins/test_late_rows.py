"""Joins by an interval and with versions emit at each step what Flink 2.3 does: of late rows too, and when rows go (``joins.json.xz``)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.table_joins.cases import COLUMNS, both_sides, cases, moment
from tests.contract.table_joins.record import recorded, same
from tests.unit.tidegate.table._execution.plan_run import PlanRun, file_rows
from tidegate.plan import nodes
from tidegate.plan.exec_node_graph import decode_plan
from tidegate.testing import HarnessSnapshot

RECORDED = {one["name"]: one for one in recorded()}
NAMES = [column.split("`")[1] for column in COLUMNS.split(", ")]
KINDS = {"+I": 0, "-U": 1, "+U": 2, "-D": 3}
CONFIGURATION = {"pipeline.auto-watermark-interval": "1 ms"}


def texts(row: list[Any]) -> list[str | None]:
    given = zip(NAMES, row, strict=True)
    return [None if value is None else moment(value) if name in ("ts", "wm") else str(value) for name, value in given]


def changes_of(change: dict[str, Any]) -> Iterator[tuple[str, list[str | None]]]:
    before, after = change["before"], change["after"]
    if before is not None:
        yield ("-D" if after is None else "-U"), texts(before)
    if after is not None:
        yield ("+I" if before is None else "+U"), texts(after)


def push(run: PlanRun, case: dict[str, Any], step: Any) -> None:
    """Gives a step to the scans that read it."""
    brought = both_sides(step) if case["has_versions"] else {"t": {"before": None, "after": step}}
    for index, scan in enumerate(run.scans):
        assert isinstance(scan, nodes.TableSourceScan2)
        table = scan.scan_table_source.table.resolved_table
        assert table is not None
        assert table.options is not None
        folder = table.options["path"].rpartition("/")[2]
        if folder[0] not in brought:
            continue
        for kind, row in changes_of(brought[folder[0]]):
            (chosen,) = file_rows(scan, {folder: [row]})
            run.push(index, [chosen], [KINDS[kind]] if case["has_versions"] else None)


def replayed(case: dict[str, Any], cut: int | None = None) -> list[list[list[Any]]]:
    """By step what comes out; with ``cut`` by an operator that is restored from a snapshot before that step."""
    found: list[list[list[Any]]] = []
    snapshot: HarnessSnapshot | None = None
    parts = [case["steps"]] if cut is None else [case["steps"][:cut], case["steps"][cut:]]
    for number, steps in enumerate(parts):
        is_last = number == len(parts) - 1
        plan = decode_plan(json.dumps(case["plan"]))
        with PlanRun(
            plan,
            has_updates=case["has_versions"],
            configuration=CONFIGURATION,
            options=case["options"],
            restore=snapshot,
        ) as run:
            if snapshot is not None and (reached := last_watermark(case["steps"][:cut])) is not None:
                push(run, case, ["W", 0, None, 0, reached, 0])  # event time begins anew when an operator is restored
            given = len(run.changes())
            for step in [*steps, None] if is_last else steps:
                if step is None:
                    run.finish()
                else:
                    push(run, case, step)
                came = run.changes()
                found.append(sorted(([kind, numbers(row)] for kind, row in came[given:]), key=repr))
                given = len(came)
            if not is_last:
                snapshot = run.harness.snapshot()
    return found


def last_watermark(steps: list[Any]) -> float | None:
    rows = [row for step in steps for row in (step.values() if isinstance(step, dict) else [step]) if row is not None]
    return max((row[4] for row in rows if row[4] is not None), default=None)


def numbers(row: tuple[str | None, ...]) -> list[int | None]:
    return [None if value is None else int(value) for value in row]


@pytest.mark.parametrize("name", list(RECORDED))
def test_a_join_emits_what_flink_does_when_flink_does(name: str) -> None:
    case = RECORDED[name]
    came = replayed(case)
    steps = [*case["steps"], "the end of event time"]
    assert list(zip(steps, came, strict=True)) == list(zip(steps, case["changes"], strict=True))


RESTORED = [name for name in RECORDED if "random" not in name and not name.startswith("temporal, a late")]


@pytest.mark.parametrize("name", RESTORED[::6])
def test_a_join_goes_on_behind_a_snapshot(name: str) -> None:
    """Some cases alone: where a late row waits for the next watermark, that is the one with which event time begins anew."""
    case = RECORDED[name]
    assert replayed(case, cut=len(case["steps"]) // 2) == case["changes"]


def test_every_case_was_recorded() -> None:
    assert {same(one) for one in cases()} == {same(one) for one in RECORDED.values()}
    assert not [name for name, one in RECORDED.items() if "plan" not in one]
