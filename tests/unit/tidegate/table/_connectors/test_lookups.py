"""The tables that nodes of plans ask, made of the options of the tables."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from msgspec.structs import replace

from tests.contract.table_lookups.statements import TABLE
from tests.contract.table_lookups.test_lookups import RECORDED, plan_of, probe
from tests.unit.tidegate.table._execution.plan_run import PlanRun
from tidegate.common.row import Row
from tidegate.functions.base import RuntimeContext
from tidegate.model.errors import InvalidJob
from tidegate.plan.nodes import LookupJoin1
from tidegate.table import AsyncLookupFunction
from tidegate.table._connectors.lookups import table_of_lookup
from tidegate.table._lookup.async_join import AsyncLookup
from tidegate.testing import HarnessSnapshot

CONTEXT = cast("RuntimeContext", None)
"""No table here asks it for anything."""


def node_with(name: str, **options: str) -> LookupJoin1:
    """The node of a recorded statement, whose table has other options."""
    (node,) = [found for found in plan_of(RECORDED[name]).nodes if isinstance(found, LookupJoin1)]
    source = node.temporal_table.lookup_table_source
    resolved = source.table.resolved_table
    assert resolved is not None
    table = replace(source.table, resolved_table=replace(resolved, options=options))
    return replace(node, temporal_table=replace(node.temporal_table, lookup_table_source=replace(source, table=table)))


def test_the_files_that_are_there_now_are_read_in_the_columns_that_are_asked_for(tmp_path: Path) -> None:
    lines = [",".join(text or "" for text in row) for row in TABLE]
    (tmp_path / "a.csv").write_text("\n".join(lines[:3]) + "\n")
    (tmp_path / "b.csv").write_text("\n".join(lines[3:]) + "\n")
    options = {"connector": "filesystem", "path": str(tmp_path), "format": "csv", "csv.null-literal": ""}
    table = table_of_lookup(node_with("left", **options))
    assert not isinstance(table, AsyncLookup)
    table.open(CONTEXT)
    found = table.look_up(pa.record_batch({"id": pa.array([4, 2, 7], pa.int64())}))
    table.close()
    assert found.keys.tolist() == [0, 1, 1, 1]
    wanted = {"y": [None, "b", "b", "b"], "id": [4, 2, 2, 2], "x": [4.5, None, 2.5, -1.0]}
    by_key = sorted(zip(*found.rows.to_pydict().values(), strict=True), key=repr)
    assert by_key == sorted(zip(*wanted.values(), strict=True), key=repr)
    assert found.rows.schema.names == list(wanted)


class Answers(AsyncLookupFunction):
    """The rows of the statements, to the second question for a key."""

    def __init__(self) -> None:
        self.requests: set[int] = set()

    async def async_lookup(self, key_row: Row) -> Iterable[Any]:
        key = key_row["id"]
        if key not in self.requests:
            self.requests.add(key)
            return []
        rows = [(*row[:2], None, None, row[4]) for row in TABLE if row[1] == str(key)]
        return [(y, key, price, z, None if x is None else float(x)) for y, _, price, z, x in rows]


def test_a_class_is_asked_again_and_at_the_same_time_as_the_hint_says() -> None:
    """The options are those that Flink 2.3's planner wrote for hints."""
    recorded = json.loads(json.dumps(RECORDED["left"]))
    (node,) = [one for one in recorded["plan"]["nodes"] if one["type"] == "stream-exec-lookup-join_1"]
    node["asyncOptions"] = {"capacity ": 10, "timeout": 60000, "output-mode": "UNORDERED"}
    node["retryOptions"] = {
        "retry-predicate": "lookup_miss", "retry-strategy": "FIXED_DELAY", "fixed-delay": 1, "max-attempts": 3,
    }  # fmt: skip
    table = node["temporalTable"]["lookupTableSource"]["table"]["resolvedTable"]
    table["options"] = {"connector": "python", "class": f"{__name__}.Answers"}
    with PlanRun(plan_of(recorded), lookups=table_of_lookup) as run:
        run.push(0, probe(run))
        run.finish()
        found, wanted = run.changes(), [(kind, tuple(values)) for kind, values in recorded["changes"]]
        assert sorted(found, key=repr) == sorted(wanted, key=repr)


class Gated(AsyncLookupFunction):
    """Answers when ``GATE`` is open, and key 2 at once. ``ASKED``: the keys, in their order."""

    async def async_lookup(self, key_row: Row) -> Iterable[Any]:
        ASKED.append(key_row["id"])
        SOME_ASKED.release()
        if key_row["id"] != 2:
            await asyncio.to_thread(GATE.wait)
        return [(f"of {key_row['id']}", key_row["id"], None, None, None)]


GATE, SOME_ASKED, ASKED = threading.Event(), threading.Semaphore(0), list[int]()
Changes = list[tuple[str, tuple[str | None, ...]]]


def gated(mode: str, cache: dict[str, str] | None = None, restore: HarnessSnapshot | None = None) -> PlanRun:
    """A run of ``SELECT o.id, d.y, d.x FROM o LEFT JOIN d``."""
    recorded = json.loads(json.dumps(RECORDED["left"]))
    (node,) = [one for one in recorded["plan"]["nodes"] if one["type"] == "stream-exec-lookup-join_1"]
    node["asyncOptions"] = {"capacity ": 4, "timeout": 60000, "output-mode": mode}
    table = node["temporalTable"]["lookupTableSource"]["table"]["resolvedTable"]
    table["options"] = {"connector": "python", "class": f"{__name__}.Gated", **(cache or {})}
    return PlanRun(plan_of(recorded), lookups=table_of_lookup, restore=restore)


def wait_for_questions(count: int) -> None:
    for _ in range(count):
        assert SOME_ASKED.acquire(timeout=60)


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    GATE.clear()
    ASKED.clear()
    while SOME_ASKED.acquire(blocking=False):
        pass
    yield GATE
    GATE.set()


@pytest.mark.parametrize("mode", ["ORDERED", "UNORDERED"])
def test_lookups_of_the_next_batch_begin_while_those_of_the_first_run(mode: str, gate: threading.Event) -> None:
    first: Changes = [("+I", ("1", "of 1", None)), ("+I", ("2", None, None))]
    second: Changes = [("+I", ("3", "of 2", None)), ("+I", ("4", "of 3", None))]
    with gated(mode) as run:
        run.push(0, [("1", "1"), ("2", None)])
        run.push(0, [("3", "2"), ("4", "3")])
        wait_for_questions(3)
        assert sorted(ASKED) == [1, 2, 3]
        assert run.changes() == ([] if mode == "ORDERED" else [first[1]])
        if mode == "UNORDERED":
            run.wait_for_changes(2)
            assert run.changes() == [first[1], second[0]]
        gate.set()
        run.finish()
        if mode == "ORDERED":
            assert run.changes() == [*first, *second]
        assert sorted(run.changes()) == sorted([*first, *second])


@pytest.mark.parametrize("mode", ["ORDERED", "UNORDERED"])
def test_rows_in_flight_are_in_a_snapshot_and_asked_for_again(mode: str, gate: threading.Event) -> None:
    with gated(mode) as run:
        run.push(0, [("1", "1"), ("2", None)])
        run.push(0, [("4", "3")])
        wait_for_questions(2)
        snapshot = run.harness.snapshot()
        before = run.changes()
    gate.set()
    ASKED.clear()
    with gated(mode, restore=snapshot) as run:
        run.push(0, [("5", "4")])
        run.finish()
        after: Changes = [("+I", ("1", "of 1", None)), ("+I", ("4", "of 3", None)), ("+I", ("5", "of 4", None))]
        if mode == "ORDERED":
            assert (before, run.changes()) == ([], [after[0], ("+I", ("2", None, None)), *after[1:]])
        assert before == ([] if mode == "ORDERED" else [("+I", ("2", None, None))])
        assert sorted([*before, *run.changes()]) == sorted([*after, ("+I", ("2", None, None))])
    assert sorted(ASKED) == [1, 3, 4]


def test_answers_are_kept_in_the_cache_when_they_come(gate: threading.Event) -> None:
    gate.set()
    with gated("ORDERED", {"lookup.cache": "PARTIAL", "lookup.partial-cache.max-rows": "9"}) as run:
        run.push(0, [("1", "1"), ("2", "1")])
        run.wait_for_changes(2)
        run.push(0, [("3", "1"), ("4", "3")])
        run.finish()
        assert [row for _, row in run.changes()] == [
            ("1", "of 1", None), ("2", "of 1", None), ("3", "of 1", None), ("4", "of 3", None),
        ]  # fmt: skip
    assert ASKED == [1, 3]


def test_files_of_changes_are_refused(tmp_path: Path) -> None:
    options = {"connector": "filesystem", "path": str(tmp_path), "format": "debezium-json"}
    with pytest.raises(InvalidJob, match=r"have changes \(debezium-json\), and a lookup join reads rows"):
        table_of_lookup(node_with("left", **options))


def test_a_connector_without_lookups_is_refused() -> None:
    with pytest.raises(InvalidJob, match="the connector 'datagen' of the table .* has no lookups"):
        table_of_lookup(node_with("left", connector="datagen"))


def test_a_url_that_cannot_be_read_is_refused() -> None:
    options = {"connector": "jdbc", "url": "jdbc:postgresql://h/d?sslmod=require", "table-name": "t"}
    with pytest.raises(
        InvalidJob, match="the option 'url' of the table .* is not one of PostgreSQL: invalid URI query"
    ):
        table_of_lookup(node_with("left", **options))
