"""Runs a query whose plan is a line of functions of batches, in this process: each operator is opened, called and closed as a subtask does it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from tidegate.common.row import Row
from tidegate.datastream._graph.transformation import OperatorTransformation
from tidegate.datastream.data_stream import DataStream
from tidegate.functions.base import Function
from tidegate.plan import decode_plan
from tidegate.plan.nodes import BatchTableSourceScan1, TableSourceScan2
from tidegate.table import Table, TableEnvironment
from tidegate.table._connectors.registry import COLLECT
from tidegate.table._execution.rows import rows_of
from tidegate.table._planner.plans import plan_text


class _Context:
    def __init__(self, parameters: Mapping[str, str]) -> None:
        self._parameters = parameters

    def get_job_parameter(self, key: str, default_value: str) -> str:
        return self._parameters.get(key, default_value)


def run(
    tables: TableEnvironment, table: Table, job_parameters: Mapping[str, str] | None = None
) -> list[tuple[Any, ...]]:
    """The rows of a table that reads the rows of the program."""
    with tables.planner.errors():
        target = tables.planner.api.TableDescriptor.forConnector(COLLECT).build()
        plan = decode_plan(plan_text(table._j_table.insertInto(target).compilePlan(), tables.planner))
    ends: list[DataStream] = []
    tables._translate(plan, tables._new_environment(), lambda node, stream: ends.append(stream), "UTC")
    functions: list[Any] = []
    at = ends[0]._transformation
    assert isinstance(at, OperatorTransformation)
    while at.inputs:
        functions.insert(0, at.options["func"])
        (at,) = at.inputs
        assert isinstance(at, OperatorTransformation)
    (scan,) = (node for node in plan.nodes if isinstance(node, TableSourceScan2 | BatchTableSourceScan1))
    read = scan.scan_table_source.table.resolved_table
    assert read is not None
    assert read.options is not None
    rows_of_program = tables._given[read.options["number"]]
    assert isinstance(rows_of_program, pa.Table)
    (batch,) = rows_of_program.combine_chunks().to_batches()
    for function in functions:
        if isinstance(function, Function):
            function.open(_Context(job_parameters or {}))  # type: ignore[arg-type]
        batch = function(batch)
        if isinstance(function, Function):
            function.close()
    kind = tables.row_type(table._j_table.getResolvedSchema())
    return [tuple(row) for row in rows_of(batch, kind) if isinstance(row, Row)]
