"""Lookup joins give the changes that Flink 2.3 gave for the same plans and rows (``lookups.json``, by ``record.py``)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.contract.table_lookups.statements import PROBE, STATEMENTS, TABLE, TABLE_COLUMNS
from tests.unit.tidegate.table._execution.plan_run import PlanRun, column
from tidegate.plan.exec_node_graph import ExecNodeGraph, decode_plan
from tidegate.plan.logical_types import LogicalType, parse_type
from tidegate.table._lookup.join import LookupNode
from tidegate.table._lookup.port import LookupTable
from tidegate.table._lookup.whole_table import WholeTable

RECORDED = json.loads((Path(__file__).parent / "lookups.json").read_text("utf-8"))
TABLE_TYPE = parse_type(f"ROW<{TABLE_COLUMNS}>")


class HeldRows:
    """The rows of a table of the statements, in some of its columns."""

    name = "d"

    def __init__(self, type: LogicalType) -> None:
        names = [field.name for field in TABLE_TYPE.fields]
        places = [names.index(field.name) for field in type.fields]
        columns = [column(TABLE_TYPE.fields[at].type, [row[at] for row in TABLE], "UTC") for at in places]
        self._rows = pa.RecordBatch.from_arrays(columns, names=[names[at] for at in places])

    @property
    def schema(self) -> pa.Schema:
        return self._rows.schema

    def read(self) -> pa.RecordBatch:
        return self._rows


def held_table(node: LookupNode) -> LookupTable:
    type = node.temporal_table.output_type
    return WholeTable(HeldRows(type), sorted(map(int, node.lookup_keys)), None)


def plan_of(recorded: dict[str, Any]) -> ExecNodeGraph:
    return decode_plan(json.dumps(recorded["plan"]))


def probe(run: PlanRun) -> list[list[str | None]]:
    """The rows in those columns that a plan reads."""
    names = ["id", "k", "name"]
    (scan,) = run.scans
    places = [names.index(field.name) for field in scan.output_type.fields]
    return [[row[at] for at in places] for row in PROBE]


@pytest.mark.parametrize("name", STATEMENTS)
def test_rows_come_one_by_one_as_from_flink(name: str) -> None:
    with PlanRun(plan_of(RECORDED[name]), lookups=held_table) as run:
        for row in probe(run):
            run.push(0, [row])
        run.finish()
        assert run.changes() == [(kind, tuple(values)) for kind, values in RECORDED[name]["changes"]]


@pytest.mark.parametrize("name", STATEMENTS)
def test_rows_of_one_batch_are_those_of_flink(name: str) -> None:
    """What an aggregate folds within a batch is left out: rows are compared that are left."""
    with PlanRun(plan_of(RECORDED[name]), lookups=held_table) as run:
        run.push(0, probe(run))
        run.finish()
        wanted = [(kind, tuple(values)) for kind, values in RECORDED[name]["changes"]]
        assert _left(run.changes()) == _left(wanted)
        if not any(node.kind.endswith("aggregate_1") for node in plan_of(RECORDED[name]).nodes):
            assert run.changes() == wanted


def _left(changes: list[tuple[str, tuple[str | None, ...]]]) -> list[tuple[str | None, ...]]:
    left: list[tuple[str | None, ...]] = []
    for kind, row in changes:
        if kind in ("+I", "+U"):
            left.append(row)
        else:
            left.remove(row)
    return sorted(left, key=repr)
