"""Operators of tables emit at each step what Flink 2.3's do: when state expires, and behind a restore, also at another parallelism (``operators.json.xz``)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from tests.contract.table_state.cases import cases
from tests.contract.table_state.record import recorded
from tests.unit.taskmanager.operators.relational.subtasks import Subtasks
from tidegate.functions.sql.rows import Change
from tidegate.plan.exec_node_graph import decode_plan
from tidegate.table._execution.relational import RELATIONAL

OTHERWISE: Mapping[str, tuple[str, ...]] = {
    # Of each distinct value Flink forgets by itself that it was counted, and counts it again; here it is remembered as long as its group.
    "distinct values of rows": ("ttl",),
    "distinct values of changes": ("ttl",),
    # Rows of a top-N expire each by itself in Flink, of these behind a restore alone; here those of a partition expire together.
    "first two of counts, without ranks": ("ttl, restored",),
    "first two of counts, with ranks": ("ttl, restored",),
    "first two of changes, without ranks": ("ttl, restored",),
    "three rows of changes": ("ttl", "ttl, restored"),
}
"""What is known to differ from Flink (docs/internals/state_ttl.md), by kind."""
RECORDED = {one["name"]: one for one in recorded()}
BACKENDS = ("hashmap", "rocksdb")
ALL, FIRST = slice(None), slice(1)
"""Runs of a case: all of them, and the one that is tried at each parallelism."""
Changes = list[tuple[int, tuple[Any, ...]]]


def started(case: dict[str, Any], parallelism: int, backend: str) -> Subtasks:
    plan = decode_plan(json.dumps(case["plan"]))
    number = int(case["uid"].partition("_")[0])
    (node,) = [node for node in plan.nodes if node.id == number]
    node = replace(node, configuration={**(node.configuration or {}), **case["options"]})
    types = [given.output_type for given in plan.inputs(number)]
    return Subtasks(
        node, types, RELATIONAL[type(node)](node), parallelism, {"state.backend.type": backend}, emits_each=True
    )


def replayed(
    case: dict[str, Any], steps: Sequence[Any], parallelism: Sequence[int] = (1, 1, 1), backend: str = "hashmap"
) -> Iterator[Changes]:
    """Yields what comes out at each step. ``parallelism``: at first, and behind each restore."""
    first, *later = parallelism
    subtasks = started(case, first, backend)
    try:
        for name, *given in steps:
            came: list[Change] = []
            match name:
                case "row":
                    index, kind, row = given
                    came = subtasks.feed([(kind, tuple(row))], index)
                case "clock":
                    came = subtasks.advance(*given)
                case "watermark":
                    came = subtasks.watermark(*given)
                case "restore":
                    subtasks.rescale(later.pop(0))
            yield came
    finally:
        subtasks.close()


def check(
    case: dict[str, Any],
    parallelism: Sequence[int] = (1, 1, 1),
    backend: str = "hashmap",
    runs: slice = ALL,
) -> None:
    for steps, changes in zip(case["runs"][runs], case["changes"][runs], strict=True):
        found = replayed(case, steps, parallelism, backend)
        for at, (step, theirs, ours) in enumerate(zip(steps, changes, found, strict=True)):
            wanted: Changes = [(kind, tuple(row)) for kind, row in theirs]
            if not case["has_order"] or step[0] != "row":
                wanted, ours = sorted(wanted, key=repr), sorted(ours, key=repr)
            assert ours == wanted, f"{case['query']}, {case['options']}, step {at} of {steps[: at + 1]}"


SAME = [name for name in RECORDED if name.partition(": ")[2] not in OTHERWISE.get(name.partition(": ")[0], ())]


@pytest.mark.parametrize("name", SAME)
def test_an_operator_emits_what_that_of_flink_does(name: str) -> None:
    check(RECORDED[name])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", [name for name in SAME if "restored" in name])
def test_an_operator_at_another_parallelism_emits_what_one_subtask_of_flink_does(name: str, backend: str) -> None:
    check(RECORDED[name], (2, 3, 2), backend, FIRST)


@pytest.mark.parametrize("name", [name for name in RECORDED if name not in SAME])
def test_what_differs_from_flink_is_a_known_difference(name: str) -> None:
    with pytest.raises(AssertionError):
        check(RECORDED[name])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", [name for name in RECORDED if name not in SAME])
def test_what_differs_from_flink_is_the_same_at_every_parallelism(name: str, backend: str) -> None:
    case = RECORDED[name]
    for steps in case["runs"][FIRST]:
        if ["restore"] in steps:
            alone = [sorted(came, key=repr) for came in replayed(case, steps)]
            assert [sorted(came, key=repr) for came in replayed(case, steps, (2, 3, 2), backend)] == alone


def test_every_case_was_recorded() -> None:
    assert [one["name"] for one in cases()] == list(RECORDED)
    assert [one["runs"] for one in cases()] == [one["runs"] for one in RECORDED.values()]
