"""The tables that nodes of plans ask, made of the options of the tables."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest
from msgspec.structs import replace

from tests.contract.table_lookups.statements import TABLE
from tests.contract.table_lookups.test_lookups import RECORDED, plan_of
from tidegate.functions.base import RuntimeContext
from tidegate.model.errors import InvalidJob
from tidegate.plan.nodes import LookupJoin1
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
