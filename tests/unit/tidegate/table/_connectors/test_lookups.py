"""The tables that nodes of plans ask, made of the options of the tables."""

from __future__ import annotations

import json
from collections.abc import Iterable
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
        self.asked: set[int] = set()

    async def async_lookup(self, key_row: Row) -> Iterable[Any]:
        key = key_row["id"]
        if key not in self.asked:
            self.asked.add(key)
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
        assert run.changes() == [(kind, tuple(values)) for kind, values in recorded["changes"]]


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
